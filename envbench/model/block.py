"""The results of a block of trials: one line of a results file. Raw facts only."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from envbench.model.cell import Cell
from envbench.model.measured import Failure, Load, Times, Windows
from envbench.model.values import SCHEMA, Int


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same vector steps counted twice: by the adapter, and by the environments.

    ``frames`` (of transitions only) is None if nothing counts them in a second way.
    """

    calls: Int
    steps: Int
    resets: Int
    frames: float | None


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a backend is from the reference, from the same start and with the same actions.

    A distance is the largest difference in the compared part of an observation
    (``equal_work.traces``), over all environments, per step. Its unit is grey levels per pixel, or
    the engine's own unit.
    """

    reference: str  # the backend it was compared with
    distances: list[float]
    reward_distances: list[float]
    same_ends: bool  # episodes ended in the same steps
    first_other_end: Int | None = None  # the first step (from 0) with a difference
    ends: Int | None = None  # episodes that ended in the steps compared
    reference_ends: Int | None = None
    # movement of its least active environment in the second half, divided by the reference's
    late_movement: float | None = None
    # of whole episodes as two samples (Kolmogorov-Smirnov), by what is compared of an episode
    p_values: dict[str, float] = {}


class FactsRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="facts"
):
    """What an adapter reports about what ran (observation shape, autoreset, threads, the work of
    a step). Referred to by ``hash``, because most trials of a cell report the same."""

    schema: Int = SCHEMA
    hash: str
    facts: dict[str, Any]


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The results of one fresh worker process.

    ``stopped_ns``: the part of each of its ``times`` in which it was stopped while another trial of
    the block started. ``by_products`` are large files by kind (``trace``), named by the hash of
    their content.
    """

    trial_id: str
    cell: Cell
    arm: str = ""
    seed: Int
    cpus: list[Int] = []
    runtime: str = ""  # hash of a RuntimeFact; "": the worker never came up
    times: Times | None = None
    stopped_ns: dict[str, Int] = {}
    warmup: Windows = Windows()
    measured: Windows = Windows()  # slices or windows, one entry each
    resets: Windows = Windows()  # slices in which all environments were reset repeatedly
    steady: bool | None = None
    peak_memory_bytes: Int | None = None
    peak_gpu_memory_bytes: Int | None = None
    load: Load = Load()
    before: dict[str, Any] = {}  # the machine just before
    facts: str = ""  # hash of a FactsRecord
    environment: dict[str, str] = {}  # variables that were set for it
    audit: Audit | None = None
    agreement: Agreement | None = None
    # Do observations follow the actions? None: not checked.
    responds: bool | None = None
    by_products: dict[str, str] = {}
    failure: Failure | None = None


class BlockRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="block"
):
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


class ProgressRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="progress"
):
    """A step of a long trial, saved before the block ends, so that a crash loses little."""

    schema: Int = SCHEMA
    block_id: str
    plan_id: str
    trial: Int  # its index in the block
    number: Int  # from 0
    values: dict[str, Any]
    by_products: dict[str, str] = {}


class EndedRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ended"
):
    """Marks a plan that cannot be resumed: its result was shown or saved, or it was abandoned."""

    schema: Int = SCHEMA
    plan_id: str
    how: Literal["concluded", "abandoned"]
    ended_utc: str
