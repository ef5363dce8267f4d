"""The parts of a trial's record: windows, times, the load beside it, its failure."""

from __future__ import annotations

from typing import Literal

import msgspec

from envbench.model.values import Int


class Windows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Windows or slices in order, one entry each in every column.

    ``start_ns`` is the offset from the first window's start on the monotonic clock.
    ``invalid`` maps a window's index (as a string) to the outside signal that made it invalid.
    """

    start_ns: list[Int] = []
    ns: list[Int] = []
    calls: list[Int] = []
    steps: list[Int] = []
    resets: list[Int] = []
    invalid: dict[str, str] = {}

    @property
    def whole(self) -> bool:
        """Do all columns have the same length?"""
        columns = (self.start_ns, self.ns, self.calls, self.steps, self.resets)
        return len({len(column) for column in columns}) == 1


class Times(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a trial's time went, in nanoseconds."""

    import_ns: Int
    build_ns: Int
    first_step_ns: Int
    warmup_ns: Int
    measured_ns: Int


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine and the worker's process tree did while windows were open.

    ``None``: this system has no such sensor.
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


# Signals sent from outside. They say nothing about the process that they end.
FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a trial gave no figure. ``reason`` is one word of a fixed list."""

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

    @property
    def killed(self) -> bool:
        """Was the worker, or one of its environments, killed from outside?"""
        return self.reason == "signal" and self.signal in FROM_OUTSIDE
