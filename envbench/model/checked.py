"""Pairs of processes that stepped by turns, and what they were to tell."""

from __future__ import annotations

import msgspec

from envbench.model.asked import Cell
from envbench.model.measured import Failure, Load, Times, Windows
from envbench.model.values import SCHEMA, Int


class Side(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One arm's process of a pair: what ``Run`` has of a process, and its resets."""

    runtime: str  # hash of a RuntimeFact, "" where the worker never came up
    times: Times | None = None
    stood_still_ns: dict[str, Int] = {}  # of these times, by their names, while the other started
    measured: Windows = Windows()  # its slices, one entry a slice
    resets: Windows = Windows()  # slices in which all environments were reset, again and again
    peak_memory_bytes: Int | None = None
    load: Load = Load()
    failure: Failure | None = None


class Pair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="pair"):
    """Two fresh processes that made equal slices by turns (``envbench check``). Raw facts only.

    ``turns`` says whose slice each was: 0 is the baseline, 1 the candidate.
    """

    schema: Int = SCHEMA
    pair_id: str
    check_id: str
    stage: Int  # 1, or 2 where an alarm was tried again
    number: Int  # of the pair in its stage, from 0
    cell: Cell
    seed: Int
    turns: list[Int]
    cpus: list[Int] = []  # the cores that both kept to; empty: all
    started_utc: str
    baseline: Side
    candidate: Side


class Gauge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gauge"):
    """A cell and the reference kernel, two fresh processes that stepped by turns: what a stored
    baseline is made of. ``turns``: 0 is the kernel, 1 the cell."""

    schema: Int = SCHEMA
    gauge_id: str
    cell: Cell
    number: Int
    seed: Int
    turns: list[Int]
    cpus: list[Int] = []
    started_utc: str
    fingerprint: str
    worker: str
    kernel: Side
    measured: Side


class ArmFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an arm came from, as it was asked for, and the hash of its worker's code.

    ``place`` is the hash of its interpreters' paths: another commit or requirement, another place.
    """

    source: str
    worker: str
    place: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="check"):
    """What a check set out to compare, and by what rule; its pairs name it."""

    schema: Int = SCHEMA
    check_id: str
    cells: list[Cell]
    baseline: ArmFact
    candidate: ArmFact
    pairs: Int  # of a stage
    blocks: Int  # of four slices, two an arm
    slice_s: float
    margin: float
    tolerance: float
    cost_tolerance: float
    false_alarm: float
    seed: Int
    fingerprint: str
    started_utc: str
    command: list[str]
    envbench_version: str
    git_commit: str | None = None
    git_dirty: bool | None = None
