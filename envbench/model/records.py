"""The lines of a results file except plans: blocks, the facts that they share, published figures.

They have raw facts only.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from envbench.model.measured import Failure, Run, TrialResult, Verification, Windows
from envbench.model.plan import Plan
from envbench.model.values import SCHEMA, Count, Family, Int, Strict

LARGEST_FPS, LARGEST_SKIP = 1e12, 1000  # larger values are refused


class TrialRecord(TrialResult, frozen=True, kw_only=True):
    """A trial as its block stores it.

    ``stopped_ns``: the part of each of its ``times`` in which it was stopped while another trial of
    the block started. ``by_products`` are large files by kind (``trace``), named by the hash of
    their content.
    """

    trial_id: str
    arm: str = ""
    cpus: list[Int] = []
    stopped_ns: dict[str, Int] = {}
    resets: Windows = Windows()  # slices in which all environments were reset repeatedly
    before: dict[str, Any] = {}  # the machine just before
    facts: str = ""  # hash of a FactsRecord
    environment: dict[str, str] = {}  # variables that were set for it
    by_products: dict[str, str] = {}


class BlockRecord(Strict, frozen=True, kw_only=True, tag="block"):
    """One block, complete or not. ``turns`` lists the trial of each slice of steps, as executed."""

    schema: Int = SCHEMA
    block_id: str
    plan_id: str
    stage: Int = 1
    round: Int = 0
    started_utc: str
    seconds: float = 0.0  # how long the whole block took, by the monotonic clock
    turns: list[Int] = []
    trials: Annotated[list[TrialRecord], msgspec.Meta(min_length=1)]

    @property
    def identity(self) -> tuple[int, int, tuple[str, ...]]:
        """Its place in the plan. Two blocks with the same identity are copies."""
        return self.stage, self.round, tuple(f"{e.arm}/{e.cell.key}" for e in self.trials)

    @property
    def failure(self) -> Failure | None:
        """The first of its trials' failures."""
        return next((each.failure for each in self.trials if each.failure), None)

    @property
    def killed(self) -> Failure | None:
        """The failure of a trial that was killed from outside, if any."""
        failures = [each.failure for each in self.trials if each.failure]
        return next((failure for failure in failures if failure.killed), None)

    @property
    def interrupted(self) -> bool:
        """Was it stopped from outside, by a person or the system? Then it is ignored."""
        failures = [each.failure for each in self.trials if each.failure]
        return any(failure.reason == "interrupted" for failure in failures)


class ProgressRecord(Strict, frozen=True, kw_only=True, tag="progress"):
    """A step of a long trial, saved before the block ends, so that a crash loses little."""

    schema: Int = SCHEMA
    block_id: str
    plan_id: str
    trial: Int  # its index in the block
    number: Int  # from 0
    values: dict[str, Any]
    by_products: dict[str, str] = {}


class EndedRecord(Strict, frozen=True, kw_only=True, tag="ended"):
    """Marks a plan that cannot be resumed: its result was shown or saved, or it was abandoned."""

    schema: Int = SCHEMA
    plan_id: str
    how: Literal["concluded", "abandoned"]
    ended_utc: str


class Fingerprint(Strict, frozen=True, kw_only=True):
    """What identifies the hardware and system. Excludes what changes from minute to minute."""

    cpu: str
    logical_cpus: Int
    physical_cores: Int | None
    usable_cpus: Int  # after affinity masks and cgroup quotas
    memory_gib: Int
    gpus: list[str] = []
    system: str = ""
    kernel: str = ""
    architecture: str = ""


class MachineFact(Strict, frozen=True, kw_only=True, tag="machine"):
    """The facts of a machine. Referred to by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    fingerprint: Fingerprint


class RuntimeFact(Strict, frozen=True, kw_only=True, tag="runtime"):
    """The interpreter of a worker, and its packages. Referred to by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    python: str
    implementation: str
    packages: dict[str, str]


class FactsRecord(Strict, frozen=True, kw_only=True, tag="facts"):
    """What an adapter reports about what ran (observation shape, autoreset, threads, the work of
    a step). Referred to by ``hash``, because most trials of a cell report the same."""

    schema: Int = SCHEMA
    hash: str
    facts: dict[str, Any]


class Published(Strict, frozen=True, kw_only=True, tag="published"):
    """A figure that others published. It was not measured here and is never part of a comparison.

    ``fps`` includes frame_skip. ``source`` says who published it, and where.
    """

    schema: Int = SCHEMA
    machine: str
    env: Family
    task: str
    backend: str
    numenv: Count
    fps: Annotated[float, msgspec.Meta(gt=0, le=LARGEST_FPS)]
    frame_skip: (
        Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SKIP)]
        | Annotated[float, msgspec.Meta(gt=0, le=LARGEST_SKIP)]
    )
    source: str

    @property
    def identity(self) -> tuple[str, str, str, str, int, str]:
        """Of two figures with the same identity, the later one replaces the earlier one."""
        return self.machine, self.env, self.task, self.backend, self.numenv, self.source


Shared = MachineFact | RuntimeFact | FactsRecord
Stored = Plan | BlockRecord | ProgressRecord | EndedRecord | Shared | Published
# What a report reads: runs and verifications instead of blocks (``envbench.results.reading``).
Record = Run | Plan | MachineFact | RuntimeFact | Verification | Published
