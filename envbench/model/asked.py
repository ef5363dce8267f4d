"""What is asked for: cells, how their runs measure, a worker's order, a plan of many."""

from __future__ import annotations

from typing import Literal

import msgspec

from envbench.model.values import SCHEMA, Family, Int, Kind, Section, Settings


def other_frames(family: Family, frame_skip: float) -> Settings:
    """``{"frame_skip": 4}`` where a task of one's own is told to have other frames than steps.

    Part of a row's label there: figures of different frames do not compare.
    """
    whole = int(frame_skip) if frame_skip == int(frame_skip) else frame_skip
    return {"frame_skip": whole} if family == "gym" and frame_skip != 1 else {}


def section(kind: Kind, *, accelerator: bool) -> Section:
    """The table that a kind belongs to; what runs whole batches on a device has its own."""
    if kind == "env":
        return "accelerators" if accelerator else ""
    return kind


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a table, made of several runs.

    ``settings`` holds every setting of the backend, defaults filled in, so that two cells are
    the same cell exactly when they are equal. ``variant`` holds those that differ from the
    backend's stated default: what the row's label shows.
    """

    machine: str
    env: Family
    task: str
    backend: str
    numenv: Int
    env_instances: Int
    frame_skip: Int | float
    settings: Settings
    variant: Settings = {}
    kind: Kind = "env"
    accelerator: bool = False

    @property
    def shown(self) -> Settings:
        """What a row's label tells besides the backend's name."""
        return self.variant | other_frames(self.env, self.frame_skip)

    @property
    def section(self) -> Section:
        """Which of its family's tables it belongs to: "" is the family's own."""
        return section(self.kind, accelerator=self.accelerator)

    @property
    def key(self) -> str:
        """A stable readable identifier: ``atari/Pong-v5/envpool-async/8`` and any variant."""
        tail = "".join(f",{k}={v}" for k, v in sorted(self.shown.items()))
        return f"{self.env}/{self.task}/{self.backend}/{self.numenv}{tail}"


class Protocol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How each run of a plan measures (seconds; MEASUREMENT: warm-up, then windows).

    ``measured_s`` is the measured time of *one run*. ``calls``, where not None, replaces it: in
    a job the run's vector steps, in a plan those of a cell over all its runs (``--total-step``).
    """

    window_s: float = 0.25
    warmup_min_s: float = 1.0
    warmup_max_s: float = 4.0
    measured_s: float = 8.0
    calls: Int | None = None


class Verify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a verifying worker does: vector steps in lock-step, and vector steps audited."""

    lock_steps: Int = 200
    audit_calls: Int = 1000


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run's order: the controller writes it as ``job.json``, the worker reads it."""

    schema: Int = SCHEMA
    mode: Literal["measure", "probe", "verify"] = "measure"
    run_id: str
    adapter: str  # "module:attribute", imported by the worker only
    family: Family
    task: str
    numenv: Int
    env_instances: Int
    frame_skip: Int | float
    settings: Settings
    seed: Int
    protocol: Protocol
    verify: Verify = Verify()
    cpus: list[Int] = []  # the cores that the worker keeps to; empty: all that it may use
    together: Int = 0  # verify: steps in which every environment gets the first one's action
    turns: str = ""  # a named pipe that orders slices one by one; empty: windows back to back


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="plan"):
    """What a results file set out to measure; first line of the file.

    A plan is complete when each (cell, round) has a run that was not interrupted, or its cell
    has failed. ``worker`` and ``runtimes`` are hashes: a resume needs them unchanged.
    """

    schema: Int = SCHEMA
    plan_id: str
    spec: str  # hash of cells, repeats, protocol and seed choice: what was asked for
    cells: list[Cell]
    repeats: dict[str, Int]  # rounds a backend takes part in
    protocol: dict[str, Protocol]  # by backend
    quick: bool
    seed: Int
    fingerprint: str
    worker: str  # hash of the worker's source
    runtimes: dict[str, str]  # backend -> RuntimeFact hash
    started_utc: str
    command: list[str]
    envbench_version: str
    git_commit: str | None = None
    git_dirty: bool | None = None
