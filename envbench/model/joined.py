"""Values joined from a plan and its blocks, for reports. They are never stored."""

from __future__ import annotations

from typing import Any

import msgspec

from envbench.model.plan import Cell
from envbench.model.records import Agreement, Audit, Failure, Load, Times, Windows
from envbench.model.values import Int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a ``run`` plan, with the data of its plan and block."""

    run_id: str
    plan_id: str
    round: Int  # from 0
    cell: Cell
    seed: Int
    started_utc: str
    fingerprint: str  # hash of a MachineFact
    runtime: str  # hash of a RuntimeFact; "" if the worker never started
    quick: bool = False
    times: Times | None = None
    warmup: Windows = Windows()
    measured: Windows = Windows()
    steady: bool | None = None
    peak_memory_bytes: Int | None = None
    peak_gpu_memory_bytes: Int | None = None
    load: Load = Load()
    facts: dict[str, Any] = {}  # observation shape and dtype, autoreset, threads, physics …
    failure: Failure | None = None


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a ``verify`` block found out about one backend's work.

    ``agreement`` is None if there is nothing to compare with: another engine, or a library whose
    start cannot be set. ``responds``: observations are numbers that change from step to step, are
    the same in all environments while their actions are the same, and differ once the actions
    differ. It is None if that was not checked, and for a user's own task, which need not change.
    """

    verification_id: str
    cell: Cell
    started_utc: str
    fingerprint: str
    runtime: str
    worker: str  # hash of the code that a measuring worker of this backend loads
    seed: Int
    audit: Audit | None = None
    agreement: Agreement | None = None
    responds: bool | None = None
    work: dict[str, Any] = {}
    failure: Failure | None = None
