"""One job -> one fresh process -> one ``Reply``.

``execute`` never raises for a worker's trouble: a worker that crashes, hangs, runs out of memory
or answers nonsense gives ``Reply(ok=False, failure=Failure(...))``. When it returns, or when an
exception passes through it (``Interrupted``, from a signal handler), nothing that the worker
started is left running and the job's folder is gone.

A reply is not believed blindly: it is bounded, strictly decoded, and its figures are checked.
How processes are started, watched and ended is ``envbench.process.supervisor``'s.
"""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from envbench.errors import StorageError
from envbench.model import Audit, Failure, Job, Load, Times, Windows, bounded
from envbench.process.memory_kills import MemoryKills
from envbench.process.supervisor import Ending, Limits, OnEvent, supervise

WORKER = Path(__file__).parents[1] / "worker_path" / "envbench_worker" / "__main__.py"
DEFAULT_LIMITS = Limits()
TRACE = "trace.npz"
REPLY_BYTES = 6 * 1024 * 1024  # what a line of results has room for, and a little less
TRACE_BYTES = 64 * 1024 * 1024
REPLY_ROOM = 1024 * 1024  # with less, a worker without a reply could not write it
_NOT_A_NUMBER = re.compile(rb"[:,\[]\s*-?(NaN|Infinity)\b")


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker answered in ``reply.json``, or what is told in its stead."""

    ok: bool
    python: str = ""
    implementation: str = ""
    packages: dict[str, str] = {}
    times: Times | None = None
    began_ns: dict[str, int] = {}  # the worker's clock at the start of some of these times
    stood_still_ns: dict[str, int] = {}  # where turns are taken: of these times, by their names
    warmup: Windows = Windows()
    measured: Windows = Windows()
    resets: Windows = Windows()  # where turns are taken: of all environments at once
    steady: bool | None = None
    peak_memory_bytes: int | None = None
    peak_gpu_memory_bytes: int | None = None
    load: Load = Load()
    facts: dict[str, Any] = {}
    audit: Audit | None = None  # verify only, as is ``trace``: the bytes of an .npz file
    trace: bytes | None = None
    failure: Failure | None = None
    known_tasks: list[str] | None = None  # a probe's answer to an unknown task


class _Unusable(Exception):
    """A reply that cannot be believed; ``failure`` says why."""

    def __init__(self, reason: Any, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(reason=reason, message=message)


def execute(
    job: Job,
    *,
    python: str,
    environment: Mapping[str, str],
    limits: Limits = DEFAULT_LIMITS,
    on_event: OnEvent = lambda _: None,
    worker: Path = WORKER,
) -> Reply:
    """Run ``job`` in a fresh process of the interpreter ``python``.

    ``environment`` is all that the worker sees. ``on_event`` gets every well-formed event, in
    the caller's thread. ``worker`` is the file to run: tests have faulty ones.
    """
    with _job_folder() as folder:
        _write_job(job, Path(folder))
        before = MemoryKills.now()
        ending = supervise(
            (python, worker, Path(folder)),
            environment=environment,
            limits=_with_windows(limits, job.protocol.window_s),
            on_event=on_event,
        )
        return _judge(job, ending, Path(folder) / "reply.json", before)


def _job_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="envbench-", ignore_cleanup_errors=True)
    except OSError as trouble:
        place = Path(tempfile.tempdir or "of this system")
        raise _no_room(place, trouble.strerror or str(trouble)) from trouble


def _write_job(job: Job, folder: Path) -> None:
    try:
        (folder / "job.json").write_bytes(msgspec.json.encode(job))
    except OSError as trouble:
        raise _no_room(folder.parent, trouble.strerror or str(trouble)) from trouble


def _no_room(place: Path, why: str) -> StorageError:
    return StorageError(
        f"the temporary folder {place} cannot be written: {why}.",
        hint="Make room there, or name another with TMPDIR; what was measured is kept.",
    )


def _with_windows(limits: Limits, window_s: float) -> Limits:
    """A window may be as silent as it is long."""
    return msgspec.structs.replace(
        limits, warmup_s=limits.warmup_s + window_s, measure_s=limits.measure_s + window_s
    )


# ---------------------------------------------------------------- the verdict


def _judge(job: Job, ending: Ending, path: Path, before: MemoryKills) -> Reply:
    """What the run gave. A whole, sound reply counts even if the process then ended badly."""
    try:
        reply = _read(path)
        if reply is None:
            if ending.status == 1 and shutil.disk_usage(path.parent).free < REPLY_ROOM:
                raise _no_room(path.parent.parent, "no space left")
            failure = _died(ending, before)
            return Reply(ok=False, failure=_located(failure, ending))
        if reply.ok and job.mode == "measure":
            _check_figures(reply, job.numenv)
    except _Unusable as unusable:
        return Reply(ok=False, failure=_located(unusable.failure, ending))
    if job.mode == "verify" and reply.ok:
        reply = msgspec.structs.replace(reply, trace=_trace(path.parent / TRACE))
    return _passed_on(reply, ending, before)


def _trace(path: Path) -> bytes | None:
    """What the environments did in lock-step, where the adapter could be led."""
    if not path.is_file() or path.stat().st_size > TRACE_BYTES:
        return None
    return path.read_bytes()


def _passed_on(reply: Reply, ending: Ending, before: MemoryKills) -> Reply:
    if reply.failure is not None:
        failure = reply.failure
        if failure.reason == "exception" and before.rose_in_cgroup():  # a child's death behind it
            failure = msgspec.structs.replace(
                failure, reason="out-of-memory", hint=failure.hint or _FEWER
            )
        return msgspec.structs.replace(reply, failure=_located(failure, ending))
    if ending.status != 0:
        facts = {**reply.facts, "ended_after_reply": _how(ending)}
        return msgspec.structs.replace(reply, facts=facts)
    return reply


def _located(failure: Failure, ending: Ending) -> Failure:
    """Say where it happened and what was printed, where the failure itself does not."""
    return msgspec.structs.replace(
        failure,
        phase=failure.phase or ending.phase,
        step=ending.steps if failure.step is None else failure.step,
        stderr_tail=failure.stderr_tail or ending.tail,
    )


_FEWER = "Use fewer environments (--numenv, or a smaller overcommit), or allow it more memory."


def _died(ending: Ending, before: MemoryKills) -> Failure:
    """Why there is no reply."""
    if ending.unstartable:
        return Failure(
            reason="setup",
            message=f"the worker's interpreter did not start: {ending.unstartable}",
            hint="See `envbench backends` for what is ready, or name another with --python.",
        )
    by_us = ending.stalled_s is not None  # then a SIGKILL says nothing about memory
    killed = ending.status == -signal.SIGKILL and not by_us
    if before.rose_in_cgroup() or (killed and before.rose_anywhere()):
        return Failure(
            reason="out-of-memory",
            message="the kernel ended the worker, or a process of its, for want of memory",
            signal=_signal_name(ending.status),
            hint=_FEWER,
        )
    if ending.stalled_s is not None:
        left = f"; {ending.survivors} processes could not be ended" if ending.survivors else ""
        return Failure(
            reason="stalled",
            message=f"no progress for {ending.stalled_s:.3g} s in phase {ending.phase!r}: "
            f"ended{left}",
            hint="It hangs, or one vector step takes longer than that: try fewer environments.",
        )
    return _died_by_itself(ending)


def _died_by_itself(ending: Ending) -> Failure:
    name = _signal_name(ending.status)
    if name is not None:
        return Failure(
            reason="signal",
            message=f"the worker died of {name}",
            signal=name,
            hint="A native library crashed, or somebody ended it: its last output may say which.",
        )
    if ending.unguarded:
        return Failure(reason="exit", message="the worker's guardian died, and the worker with it")
    return Failure(
        reason="exit",
        message=f"the worker ended with exit code {ending.status} and gave no reply",
        exit_code=ending.status,
        hint="Its last output may say why.",
    )


def _how(ending: Ending) -> str:
    if ending.stalled_s is not None:
        return f"stalled for {ending.stalled_s:.3g} s"
    return _signal_name(ending.status) or f"exit code {ending.status}"


def _signal_name(status: int | None) -> str | None:
    if status is None or status >= 0:
        return None
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


# ---------------------------------------------------------------- the reply


def _read(path: Path) -> Reply | None:
    """The reply; None where there is none. ``_Unusable`` where it cannot be read as one."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        raw = file.read(REPLY_BYTES + 1)
    if len(raw) > REPLY_BYTES:
        raise _Unusable("exit", f"the worker's reply is larger than {REPLY_BYTES >> 20} MiB")
    try:
        reply = msgspec.json.decode(raw, type=Reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        if _NOT_A_NUMBER.search(raw):
            raise _Unusable("invalid-figure", "a figure in the reply is not a number") from trouble
        raise _Unusable("exit", f"the worker's reply cannot be read: {trouble}") from trouble
    if not bounded(reply.facts):
        raise _Unusable("invalid-figure", "a number in the reply's facts is beyond 64 bits")
    if reply.ok == (reply.failure is not None):
        raise _Unusable("exit", "the worker's reply contradicts itself: ok with a failure, or none")
    return reply


def _check_figures(reply: Reply, numenv: int) -> None:
    """Refuse what cannot have happened, and what no rate can be made of."""
    windows = reply.measured
    columns = (windows.start_ns, windows.ns, windows.calls, windows.steps, windows.resets)
    if not windows.ns or len({len(column) for column in columns}) != 1:
        raise _Unusable("invalid-figure", "there are no measured windows, or parts of them only")
    for index, (ns, calls, steps, resets) in enumerate(zip(*columns[1:], strict=True)):
        _check_window(f"measured window {index}", ns, calls, steps, resets, numenv)
        if reply.facts.get("autoreset") == "next-step" and steps + resets > calls * numenv:
            raise _Unusable(
                "invalid-figure",
                f"measured window {index} claims {steps} steps and {resets} resets in the "
                f"{calls * numenv} results of its calls",
            )
    if sum(windows.steps) == 0:
        raise _Unusable("invalid-figure", "no step was made in the measured windows")
    _check_costs(reply)


def _check_costs(reply: Reply) -> None:
    resets = reply.resets
    if len(resets.ns) != len(resets.resets) or min((*resets.ns, *resets.resets), default=0) < 0:
        raise _Unusable("invalid-figure", "its reset slices are incomplete, or less than nothing")
    if reply.times is not None and min(msgspec.structs.astuple(reply.times)) < 0:
        raise _Unusable("invalid-figure", "a phase took less than no time")


def _check_window(name: str, ns: int, calls: int, steps: int, resets: int, numenv: int) -> None:
    if ns <= 0:
        raise _Unusable("invalid-figure", f"{name} lasted {ns} ns")
    # a slow environment's window may be one call that only resets: no steps, and that is told
    if calls <= 0 or resets < 0 or steps < 0 or (steps == 0 and resets == 0):
        raise _Unusable(
            "invalid-figure", f"{name} has {steps} steps and {resets} resets in {calls} calls"
        )
    if max(steps, resets) > calls * numenv:
        raise _Unusable(
            "invalid-figure",
            f"{name} claims {steps} steps and {resets} resets, but {calls} calls of {numenv} "
            f"environments make {calls * numenv} at most",
        )
