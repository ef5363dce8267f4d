"""A worker's reply: its shape, how it is read, and the checks that it must pass.

The worker's code is not trusted. Instead of its reply there may be nothing, a folder, a named pipe
or a link to a device. So only a plain file of limited size is read, without waiting. It is decoded
strictly, its free-form facts are limited, and impossible figures are refused. ``Unusable`` says why
a reply is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Any, Literal

import msgspec

from envbench.model import Audit, Failure, Int, Job, Load, Times, Windows, out_of_bounds

REPLY = "reply.json"
TRACE = "trace.npz"
REPLY_BYTES = 6 * 1024 * 1024  # a little less than the longest line of a results file
TRACE_BYTES = 64 * 1024 * 1024
_NOT_A_NUMBER = re.compile(rb"[:,\[]\s*-?(NaN|Infinity)\b")


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
    resets: Windows = Windows()  # resets of all environments at once, if workers alternate
    steady: bool | None = None
    peak_memory_bytes: Int | None = None
    peak_gpu_memory_bytes: Int | None = None
    load: Load = Load()
    facts: dict[str, Any] = {}
    audit: Audit | None = None  # verify only, as is ``trace``: the bytes of an .npz file
    trace: bytes | None = None
    failure: Failure | None = None
    known_tasks: list[str] | None = None  # a probe's answer to an unknown task


class Unusable(Exception):
    """A reply that is refused; ``failure`` says why."""

    def __init__(self, reason: Literal["exit", "invalid-figure"], message: str) -> None:
        super().__init__(message)
        self.failure = Failure(reason=reason, message=message)


def read_reply(folder: Path, job: Job) -> Reply | None:
    """The reply to ``job`` in its folder; None if there is none. Raises ``Unusable``."""
    raw = _read(folder / REPLY, REPLY_BYTES)
    if raw is None:
        return None
    reply = _decode(raw)
    _check_facts(reply.facts)
    if not (reply.warmup.whole and reply.measured.whole):
        raise Unusable("invalid-figure", "the columns of its windows differ in length")
    if reply.ok == (reply.failure is not None):
        raise Unusable("exit", "the worker's reply contradicts itself: ok with a failure, or none")
    if reply.ok and job.mode == "measure":
        _check_figures(reply, job.numenv)
    if reply.ok and job.mode == "verify":
        return msgspec.structs.replace(reply, trace=_trace(folder))
    return reply


def _trace(folder: Path) -> bytes | None:
    """The trace of the environments' behaviour, an .npz file; None if there is no usable one."""
    with contextlib.suppress(Unusable):
        return _read(folder / TRACE, TRACE_BYTES)
    return None


def _read(path: Path, most: int) -> bytes | None:
    """The plain file's bytes; None if there is no such file. A link is not followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as trouble:
        why = "is a link" if path.is_symlink() else f"cannot be opened: {trouble.strerror}"
        raise Unusable("exit", f"the worker's {path.name} {why}") from trouble
    try:
        return _read_plain(descriptor, path.name, most)
    except OSError as trouble:
        message = f"the worker's {path.name} cannot be read: {trouble.strerror}"
        raise Unusable("exit", message) from trouble
    finally:
        os.close(descriptor)


def _read_plain(descriptor: int, name: str, most: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Unusable("exit", f"the worker's {name} is not a plain file")
    with open(descriptor, "rb", closefd=False) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise Unusable("exit", f"the worker's {name} is larger than {most >> 20} MiB")
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


def _check_facts(facts: dict[str, Any]) -> None:
    if why := out_of_bounds(facts):
        raise Unusable("invalid-figure", f"the facts in the reply cannot be recorded: {why}")
    for name in ("work", "before"):
        if not isinstance(facts.get(name) or {}, dict):
            what = f"{name!r} in the reply's facts is not a table of names"
            raise Unusable("invalid-figure", what)


def _check_figures(reply: Reply, numenv: int) -> None:
    """Refuse impossible figures, and figures without a rate."""
    windows = reply.measured
    columns = (windows.ns, windows.calls, windows.steps, windows.resets)
    if not windows.ns:
        raise Unusable("invalid-figure", "there are no measured windows")
    for index, (ns, calls, steps, resets) in enumerate(zip(*columns, strict=True)):
        _check_window(f"measured window {index}", ns, calls, steps, resets, numenv)
        if reply.facts.get("autoreset") == "next-step" and steps + resets > calls * numenv:
            raise Unusable(
                "invalid-figure",
                f"measured window {index} claims {steps} steps and {resets} resets in the "
                f"{calls * numenv} results of its calls",
            )
    if sum(windows.steps) == 0:
        raise Unusable("invalid-figure", "no step was made in the measured windows")
    costs = reply.resets
    if len(costs.ns) != len(costs.resets) or min((*costs.ns, *costs.resets), default=0) < 0:
        raise Unusable("invalid-figure", "its reset slices are incomplete or negative")
    if reply.times is not None and min(msgspec.structs.astuple(reply.times)) < 0:
        raise Unusable("invalid-figure", "the time of a phase is negative")


def _check_window(name: str, ns: int, calls: int, steps: int, resets: int, numenv: int) -> None:
    if ns <= 0:
        raise Unusable("invalid-figure", f"{name} lasted {ns} ns")
    # one call of a slow environment may only reset: such a window has no steps
    if calls <= 0 or resets < 0 or steps < 0 or (steps == 0 and resets == 0):
        raise Unusable(
            "invalid-figure", f"{name} has {steps} steps and {resets} resets in {calls} calls"
        )
    if max(steps, resets) > calls * numenv:
        raise Unusable(
            "invalid-figure",
            f"{name} claims {steps} steps and {resets} resets, but {calls} calls of {numenv} "
            f"environments give at most {calls * numenv}",
        )
