"""One job -> one fresh process -> one ``Reply``.

``execute`` never raises for a worker's trouble: a worker that crashes, hangs, runs out of memory,
replies nonsense or deletes its job folder gives ``Reply(ok=False, failure=Failure(...))``. When
it returns, or when an exception passes through it (``Interrupted``, from a signal handler),
nothing that the worker started is left running and the job's folder is gone.

``envbench.process.supervisor`` starts, watches and ends the processes, and
``envbench.process.reply`` reads the reply and decides whether it can be believed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec

from envbench.errors import MORE_FILES
from envbench.model import Failure, Job
from envbench.process.events import OnEvent
from envbench.process.job_folder import job_folder, no_room
from envbench.process.memory_kills import MemoryKills
from envbench.process.reply import Reply, Unusable, read_reply
from envbench.process.supervisor import Ending, Limits, supervise

WORKER = Path(__file__).parents[1] / "worker_path" / "envbench_worker" / "__main__.py"
DEFAULT_LIMITS = Limits()
_NO_FILES = os.strerror(errno.EMFILE)  # in a worker's message
REPLY_ROOM = 1024 * 1024  # with less, a worker without a reply could not write it


def execute(
    job: Job,
    *,
    python: str,
    environment: Mapping[str, str],
    limits: Limits = DEFAULT_LIMITS,
    on_event: OnEvent = lambda _: None,
    worker: Path = WORKER,
    files: Mapping[str, bytes] = {},
) -> Reply:
    """Run ``job`` in a fresh process of the interpreter ``python``.

    ``environment`` is all that the worker sees, with one more variable by which its processes are
    found (``orphans.MARK``). ``on_event`` gets every well-formed event, in
    the caller's thread. ``worker`` is the file to run: tests have faulty ones. ``files`` are put
    into the job's folder.
    """
    with job_folder() as folder:
        _write_files({**files, "job.json": msgspec.json.encode(job)}, folder)
        before = MemoryKills.now()
        ending = supervise(
            (python, worker, folder),
            environment=environment,
            limits=_with_windows(limits, job.protocol.window_s),
            on_event=on_event,
        )
        return _judge(job, ending, folder, before)


def _write_files(files: Mapping[str, bytes], folder: Path) -> None:
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as trouble:
        raise no_room(folder.parent, trouble) from trouble


def _with_windows(limits: Limits, window_s: float) -> Limits:
    """A window may be as silent as it is long."""
    return msgspec.structs.replace(
        limits, warmup_s=limits.warmup_s + window_s, measure_s=limits.measure_s + window_s
    )


# ---------------------------------------------------------------- the verdict


def _judge(job: Job, ending: Ending, folder: Path, before: MemoryKills) -> Reply:
    """What the run gave. A whole, sound reply counts even if the process then ended badly."""
    try:
        reply = read_reply(folder, job)
    except Unusable as unusable:
        return Reply(ok=False, failure=_located(unusable.failure, ending))
    if reply is not None:
        return _passed_on(reply, ending, before)
    if ending.status == 1 and _is_full(folder.parent):
        raise no_room(folder.parent, "no space left")
    return Reply(ok=False, failure=_located(_died(ending, before, folder), ending))


def _is_full(place: Path) -> bool:
    with contextlib.suppress(OSError):  # the worker may have removed even that
        return shutil.disk_usage(place).free < REPLY_ROOM
    return False


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
        hint=failure.hint or (MORE_FILES if _NO_FILES in failure.message else ""),
        phase=failure.phase or ending.phase,
        step=ending.steps if failure.step is None else failure.step,
        stderr_tail=failure.stderr_tail or ending.tail,
    )


_FEWER = "Use fewer environments (--numenv, or a smaller overcommit), or allow it more memory."


def _died(ending: Ending, before: MemoryKills, folder: Path) -> Failure:
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
            message="the kernel ended the worker or one of its processes: memory ran out",
            signal=_signal_name(ending.status),
            hint=_FEWER,
        )
    if ending.stalled_s is not None:
        plural = "" if ending.survivors == 1 else "es"
        left = (
            f"; {ending.survivors} process{plural} could not be ended" if ending.survivors else ""
        )
        return Failure(
            reason="stalled",
            message=f"no progress for {ending.stalled_s:.3g} s in phase {ending.phase!r}: "
            f"ended{left}",
            hint="It hangs, or one vector step takes longer than that: try fewer environments.",
        )
    return _died_by_itself(ending, folder)


def _died_by_itself(ending: Ending, folder: Path) -> Failure:
    name = _signal_name(ending.status)
    if name is not None:
        return Failure(
            reason="signal",
            message=f"the worker died of {name}",
            signal=name,
            hint="A native library crashed, or somebody ended it: its last output may say which.",
        )
    if ending.unguarded:
        return Failure(
            reason="signal",
            message="the worker's guardian died, and the worker with it",
            signal="SIGKILL",  # what the kernel sends a worker whose guardian dies
            hint="Something ended it from outside. Run the command again.",
        )
    if folder.is_symlink() or not folder.is_dir():
        return Failure(
            reason="exit",
            message="the worker gave no reply: its job folder was deleted while it ran",
            exit_code=ending.status,
            hint="The environment deleted it, or a cleaner of temporary files did: look at what "
            "the environment removes, or name another temporary folder with TMPDIR.",
        )
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
