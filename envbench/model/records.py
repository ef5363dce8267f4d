"""A measured trial, and the lines of a results file except plans.

They have raw facts only. ``Run`` and ``Verification`` join a trial with its plan and block, for
reports. They are never stored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from envbench.model.measurements import (
    Agreement,
    Audit,
    Failure,
    Histogram,
    Load,
    Returns,
    Times,
    Windows,
)
from envbench.model.plan import Cell, Plan
from envbench.model.values import SCHEMA, Count, Family, Int, Strict

LARGEST_FPS, LARGEST_SKIP = 1e12, 1000  # larger values are refused


class TrialResult(Strict, frozen=True, kw_only=True):
    """What one fresh worker process measured.

    ``stopped_ns``: the part of each of its ``times`` in which it was stopped while another trial of
    the block started. ``latency``: the nanoseconds of single vector steps, to three significant
    digits. ``returns``: of an asynchronous backend. ``resets``: slices in which all environments
    were reset repeatedly. ``short_calls``, of a plugin or an arm of ``check``: steps in short calls
    of ``run``. ``calls_ns``, of a plugin: what these cost besides their steps, if known.

    ``results``, of an arm of ``check``: checksums of what the last step of each slice returned
    (observations, rewards, terminated, truncated), and of what each step of its ``short_calls``
    did; empty if that is not comparable. Older records have one for all four.

    ``agreement`` is None if there is nothing to compare with: another engine, or a library whose
    start cannot be set. A measured trial has one if it had a spot check. ``responds``:
    observations are numbers that change from step to step, are the same in all environments while
    their actions are the same, and differ once the actions differ. It is None if that was not
    checked, and for a user's own task, which need not change.
    """

    cell: Cell
    seed: Int
    runtime: str = ""  # hash of a RuntimeFact; "": the worker never came up
    times: Times | None = None
    stopped_ns: dict[str, Int] = {}
    warmup: Windows = Windows()
    measured: Windows = Windows()  # slices or windows, one entry each
    latency: Histogram | None = None
    returns: Returns | None = None
    results: list[list[Int] | Int] = []
    resets: Windows = Windows()
    short_calls: Windows = Windows()
    calls_ns: Int | None = None
    steady: bool | None = None
    peak_memory_bytes: Int | None = None
    peak_gpu_memory_bytes: Int | None = None
    load: Load = Load()
    audit: Audit | None = None
    spot: Int = 0  # vector steps of its spot check
    agreement: Agreement | None = None
    responds: bool | None = None
    failure: Failure | None = None


class Run(TrialResult, frozen=True, kw_only=True):
    """One trial of a ``run`` plan.

    ``alternated``: it shared its block with another trial, perhaps the reference kernel's.
    ``without_others``: its plan lets cells alternate, but no other cell and no reference kernel did
    so with it.
    """

    run_id: str
    plan_id: str
    round: Int  # from 0
    started_utc: str
    fingerprint: str  # hash of a MachineFact
    block: str = ""  # its id; trials of one block alternated
    arm: str = ""  # not empty: it is the reference kernel
    quick: bool = False
    alternated: bool = False
    without_others: bool = False
    facts: dict[str, Any] = {}  # observation shape and dtype, autoreset, threads, physics …


class Verification(TrialResult, frozen=True, kw_only=True):
    """What a ``verify`` block found out about one backend's work."""

    verification_id: str
    started_utc: str
    fingerprint: str
    worker: str  # hash of the code that a measuring worker of this backend loads
    verifier: str = ""  # envbench's version, and a hash of the code that a verifying worker loads
    work: dict[str, Any] = {}


# ---------------------------------------------------------------- lines of a results file


class TrialRecord(TrialResult, frozen=True, kw_only=True):
    """A trial as its block stores it.

    ``by_products`` are large files by kind (``trace``), named by the hash of their content.
    """

    trial_id: str
    arm: str = ""
    cpus: list[Int] = []
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
    def interrupted(self) -> bool:
        """Was it stopped from outside, by a person or the system? Then it is ignored."""
        return any(e.failure is not None and e.failure.reason == "interrupted" for e in self.trials)


class EndedRecord(Strict, frozen=True, kw_only=True, tag="ended"):
    """Marks a plan that cannot be resumed: its result was shown or saved, or it was abandoned."""

    schema: Int = SCHEMA
    plan_id: str
    how: Literal["concluded", "abandoned"]
    ended_utc: str


class Fingerprint(Strict, frozen=True, kw_only=True):
    """What identifies the computer and its system. Excludes what changes from minute to minute.

    ``host`` distinguishes computers of the same hardware (``envbench.machine.host.host_id``). It is
    "" in older records: such a host is unknown, and never this one.
    """

    cpu: str
    logical_cpus: Int
    physical_cores: Int | None
    usable_cpus: Int  # after affinity masks and cgroup quotas
    memory_gib: Int
    gpus: list[str] = []
    system: str = ""
    kernel: str = ""
    architecture: str = ""
    host: str = ""

    @property
    def hardware(self) -> Fingerprint:
        """The fingerprint without the host: equal for computers of one model and system."""
        return msgspec.structs.replace(self, host="")


class MachineFact(Strict, frozen=True, kw_only=True, tag="machine"):
    """Holds the facts of a machine. Other lines refer to it by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    fingerprint: Fingerprint


class RuntimeFact(Strict, frozen=True, kw_only=True, tag="runtime"):
    """Holds a worker's interpreter and packages. Other lines refer to it by ``hash``."""

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
Stored = Plan | BlockRecord | EndedRecord | Shared | Published
# What a report reads: runs and verifications instead of blocks (``envbench.results.joining``).
Record = Run | Plan | EndedRecord | MachineFact | RuntimeFact | Verification | Published
