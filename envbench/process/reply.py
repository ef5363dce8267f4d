"""What a worker sends: events while it runs, and its reply, with the checks that it must pass.

Events are JSON lines on a pipe; the field ``"event"`` names the type of a line.

The worker's code is not trusted. So only a plain file of limited size is read, not a folder, pipe
or link. It is decoded strictly, and facts that are too large and impossible figures are refused.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from envbench.model import (
    LARGEST,
    Audit,
    Failure,
    Histogram,
    Int,
    Job,
    Load,
    Returns,
    Times,
    Windows,
    out_of_bounds,
)

REPLY = "reply.json"
TRACE = "trace.npz"
REPLY_BYTES = 6 * 1024 * 1024  # a little less than the longest line of a results file
TRACE_BYTES = 64 * 1024 * 1024
_NOT_A_NUMBER = re.compile(rb"[:,\[]\s*-?(NaN|Infinity)\b")
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="event"):
    """The guardian has started the worker. Both are process ids."""

    pid: int
    guardian: int = 0


class PhaseBegan(msgspec.Struct, frozen=True, kw_only=True, tag="phase", tag_field="event"):
    """The worker has begun this phase."""

    phase: Literal["import", "build", "first_step", "warmup", "measure", "close"]


class WindowEnded(msgspec.Struct, frozen=True, kw_only=True, tag="window", tag_field="event"):
    """The worker has completed a window of ``ns`` nanoseconds.

    ``calls`` are vector steps, ``steps`` transitions of single environments, ``resets`` resets of
    single environments.
    """

    phase: Literal["warmup", "measure"]
    ns: Count
    calls: Count
    steps: Count
    resets: Count


Event = Started | PhaseBegan | WindowEnded
OnEvent = Callable[[Event], None]


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker answered in ``reply.json``, or the failure that is reported instead."""

    ok: bool
    python: str = ""
    implementation: str = ""
    packages: dict[str, str] = {}
    times: Times | None = None
    began_ns: dict[str, Int] = {}  # the worker's clock at the start of some of these times
    stopped_ns: dict[str, Int] = {}  # time stopped during these times, if workers alternate
    warmup: Windows = Windows()
    measured: Windows = Windows()
    resets: Windows = Windows()  # resets of all environments at once
    short_calls: Windows = Windows()  # slices of steps in calls of one or a few each
    calls_ns: Int | None = None  # what these cost besides their steps
    latency: Histogram | None = None
    returns: Returns | None = None
    results: list[list[Int]] = []  # checksums per measured slice, or none
    steady: bool | None = None
    peak_memory_bytes: Int | None = None
    peak_gpu_memory_bytes: Int | None = None
    load: Load = Load()
    facts: dict[str, Any] = {}
    audit: Audit | None = None  # verify only
    trace: bytes | None = None  # the bytes of an .npz file: of lock-steps, or of a spot check
    failure: Failure | None = None
    known_tasks: list[str] | None = None  # a probe's answer to an unknown task


class Unusable(Exception):
    """A reply that is refused; ``failure`` says why."""

    def __init__(
        self, reason: Literal["exit", "invalid-figure"], message: str, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.failure = Failure(reason=reason, message=message, hint=hint)


def read_reply(folder: Path, job: Job) -> Reply | None:
    """Read the reply to ``job`` in its folder; None if there is none. Raises ``Unusable``."""
    raw = _read(folder / REPLY, REPLY_BYTES)
    if raw is None:
        return None
    reply = _decode(raw)
    if reply.ok == (reply.failure is not None):
        raise Unusable("exit", "the reply contradicts itself: ok and a failure, or neither")
    for why in _impossible(reply, job):
        raise Unusable("invalid-figure", why)
    if reply.ok and job.mode == "verify":
        return msgspec.structs.replace(reply, trace=_read(folder / TRACE, TRACE_BYTES))
    if reply.ok and job.spot:
        with contextlib.suppress(Unusable):  # then it shows no steps
            return msgspec.structs.replace(reply, trace=_read(folder / TRACE, TRACE_BYTES))
    return reply


def _read(path: Path, most: int) -> bytes | None:
    """The plain file's bytes; None if there is no such file. A link is not followed."""
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            what = "a link" if stat.S_ISLNK(mode) else "not a plain file"
            raise Unusable("exit", f"the worker's {path.name} is {what}")
        with path.open("rb") as file:  # nothing of the worker is left that could replace it
            raw = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as trouble:
        message = f"the worker's {path.name} cannot be read: {trouble.strerror}"
        raise Unusable("exit", message) from trouble
    if len(raw) > most:
        what, hint = f"the worker's {path.name} is larger than {most >> 20} MiB", ""
        if path.name == TRACE:
            hint = "Its observations are large: verify it with fewer environments (--numenv)."
        raise Unusable("exit", what, hint)
    return raw


def _decode(raw: bytes) -> Reply:
    try:
        return msgspec.json.decode(raw, type=Reply)
    except RecursionError as trouble:
        raise Unusable("invalid-figure", "the worker's reply is nested too deeply") from trouble
    except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
        if _NOT_A_NUMBER.search(raw):
            raise Unusable("invalid-figure", "a figure in the reply is not a number") from trouble
        raise Unusable("exit", f"the worker's reply cannot be read: {trouble}") from trouble


def _impossible(reply: Reply, job: Job) -> Iterator[str]:
    """Why the reply cannot be recorded or cannot be true."""
    if why := out_of_bounds(reply.facts):
        yield f"the facts in the reply cannot be recorded: {why}"
    for name in ("work", "before"):
        if not isinstance(reply.facts.get(name) or {}, dict):
            yield f"{name!r} in the reply's facts is not a JSON object"
    parts = len(reply.measured.ns) + len(reply.short_calls.ns)
    if reply.results and len(reply.results) != parts:
        yield "it has another number of results than of slices"
    windows = (reply.warmup, reply.measured, reply.resets, reply.short_calls)
    if not all(each.whole for each in windows):
        yield "the columns of its windows differ in length"
    if reply.ok and job.mode == "measure":
        yield from _impossible_figures(reply, job.numenv)
        if reply.returns is not None and not reply.returns.fits(job.numenv, job.env_instances):
            yield "its counts of returns do not fit its environments and calls"


def _impossible_figures(reply: Reply, numenv: int) -> Iterator[str]:
    """Why the figures cannot be true or give no rate."""
    windows, costs = reply.measured, reply.resets
    columns = zip(windows.ns, windows.calls, windows.steps, windows.resets, strict=True)
    for index, (ns, calls, steps, resets) in enumerate(columns):
        window = f"measured window {index}"
        most = calls * numenv
        if ns <= 0:
            yield f"{window} lasted {ns} ns"
        # one call of a slow environment may only reset: such a window has no steps
        if calls <= 0 or resets < 0 or steps < 0 or (steps == 0 and resets == 0):
            yield f"{window} has {steps} steps and {resets} resets in {calls} calls"
        next_step = reply.facts.get("autoreset") == "next-step"  # a reset takes the place of a step
        if (steps + resets if next_step else max(steps, resets)) > most:
            yield (
                f"{window} claims {steps} steps and {resets} resets, but {calls} calls of {numenv} "
                f"environments give at most {most}"
            )
    if sum(windows.steps) == 0:
        yield "no step was made in the measured windows"
    if len(costs.ns) != len(costs.resets) or min((*costs.ns, *costs.resets), default=0) < 0:
        yield "its reset slices are incomplete or negative"
    if reply.latency is not None and not reply.latency.whole:
        yield "its latencies are incomplete or negative"
    if reply.times is not None and min(msgspec.structs.astuple(reply.times)) < 0:
        yield "the time of a phase is negative"
