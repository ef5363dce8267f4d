"""What came back of a process: its windows, its times, the load beside it, its failure."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from envbench.model.asked import Cell
from envbench.model.values import SCHEMA, Int


class Windows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consecutive windows, one entry a window in every column.

    ``start_ns`` is the offset from the first window's start on the monotonic clock.
    ``invalid`` maps a window's index (as a string) to the outside signal that spoilt it.
    """

    start_ns: list[Int] = []
    ns: list[Int] = []
    calls: list[Int] = []
    steps: list[Int] = []
    resets: list[Int] = []
    invalid: dict[str, str] = {}


class Times(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the run's time went, in nanoseconds."""

    import_ns: Int
    build_ns: Int
    first_step_ns: Int
    warmup_ns: Int
    measured_ns: Int


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine and the worker's process tree did while windows were open.

    ``None`` where this system has no such sensor.
    """

    cpu_s: float | None = None  # CPU seconds of the worker's process tree
    other_cpu_s: float | None = None  # CPU seconds of everything else on the machine
    steal_s: float | None = None
    throttled_s: float | None = None
    throttled_periods: Int | None = None
    pressure_s: float | None = None  # time in which some task waited for a CPU (PSI)
    switches_voluntary: Int | None = None
    switches_involuntary: Int | None = None
    load_before: float | None = None  # 1-minute load average before the start


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run gave no figure. ``reason`` is one word of a fixed list."""

    reason: Literal[
        "import",  # the backend's library is missing or broken
        "exception",  # the environment or library raised
        "signal",  # the worker died of a signal
        "exit",  # the worker ended without a reply
        "out-of-memory",
        "stalled",  # no progress within the phase's limit
        "invalid-figure",  # zero, negative, or more steps than calls allow
        "setup",  # the runtime could not be made
        "interrupted",
    ]
    message: str
    phase: str = ""  # start, import, build, first_step, warmup, measure, close
    step: Int | None = None  # transitions made when it happened
    signal: str | None = None  # e.g. SIGSEGV
    exit_code: Int | None = None
    stderr_tail: str = ""
    hint: str = ""  # what to do next


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="run"):
    """One fresh worker process: a line of a results file, whatever its end."""

    schema: Int = SCHEMA
    run_id: str
    plan_id: str
    round: Int  # from 0
    cell: Cell
    seed: Int
    started_utc: str
    fingerprint: str  # hash of a MachineFact
    runtime: str  # hash of a RuntimeFact, "" where the worker never came up
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
