"""Run one job in one fresh process, and return one ``Reply``.

A worker that crashes, hangs, runs out of memory, replies nonsense or deletes its job folder gives
``Reply(ok=False, failure=Failure(...))``. When ``execute`` returns or raises (``Interrupted``), all
processes of the worker have ended and the job's folder is deleted. A fault of the machine (a full
disk, too many open files) is raised as an ``EnvbenchError``.
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
from msgspec.structs import replace

from envbench.errors import MORE_FILES, EnvbenchError
from envbench.machine.host import control_groups, counter
from envbench.model import Failure, Job
from envbench.process.killing.leftovers import job_folder, no_room
from envbench.process.reply import OnEvent, Reply, Unusable, read_reply
from envbench.process.supervisor import Ending, Limits, supervise

WORKER = Path(__file__).parents[1] / "worker" / "envbench_worker" / "__main__.py"
DEFAULT_LIMITS = Limits()
_NO_FILES = os.strerror(errno.EMFILE)  # in a worker's message
REPLY_ROOM = 1024 * 1024  # bytes; with less free space, a worker may fail to write its reply
_FEWER = "Use fewer environments (--numenv, or a smaller overcommit), or allow it more memory."
_MISCOUNTS = (
    "The backend's adapter miscounts, or the clock is wrong. If you wrote the adapter, check the "
    "counts that `run` returns. Otherwise report this to its author."
)


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

    The worker sees the variables of ``environment``, and one more by which its processes are found
    (``leftovers.MARK``). ``on_event`` gets every well-formed event, in the caller's thread.
    ``worker`` is the file to run. ``files`` are put into the job's folder.
    """
    silent_s = job.protocol.window_s  # a window reports nothing until it ends
    limits = replace(
        limits, warmup_s=limits.warmup_s + silent_s, measure_s=limits.measure_s + silent_s
    )
    with job_folder() as folder:
        try:
            for name, content in {**files, "job.json": msgspec.json.encode(job)}.items():
                (folder / name).write_bytes(content)
        except OSError as trouble:
            raise no_room(folder.parent, trouble) from trouble
        before = MemoryKills.now()
        ending = supervise(
            (python, worker, folder), environment=environment, limits=limits, on_event=on_event
        )
        return _judge(job, ending, folder, before)


def _judge(job: Job, ending: Ending, folder: Path, before: MemoryKills) -> Reply:
    """The reply of a worker that has ended. A valid reply counts even if the worker then failed."""
    try:
        reply = read_reply(folder, job)
    except Unusable as unusable:
        return Reply(ok=False, failure=_located(unusable.failure, ending))
    if reply is None:
        with contextlib.suppress(OSError):  # the worker may have removed even that
            if ending.status == 1 and shutil.disk_usage(folder.parent).free < REPLY_ROOM:
                raise no_room(folder.parent, OSError(errno.ENOSPC, "no space left"))
        return Reply(ok=False, failure=_located(_died(ending, before, folder), ending))
    failure = reply.failure
    if failure is not None:
        if failure.reason == "exception" and before.rose_in_cgroup():  # because a child was killed
            failure = replace(failure, reason="out-of-memory", hint=failure.hint or _FEWER)
        return replace(reply, failure=_located(failure, ending))
    if ending.status == 0:
        return reply
    how = _signal_name(ending.status) or f"exit code {ending.status}"
    if ending.stalled_s is not None:
        how = f"stalled for {ending.stalled_s:.3g} s"
    return replace(reply, facts={**reply.facts, "ended_after_reply": how})


def _located(failure: Failure, ending: Ending) -> Failure:
    """Add where it happened and what was printed, unless the failure has that already."""
    in_reply = failure.reason == "invalid-figure"  # found after the last phase
    hint = _MISCOUNTS if in_reply else MORE_FILES if _NO_FILES in failure.message else ""
    return replace(
        failure,
        hint=failure.hint or hint,
        phase=failure.phase or ("" if in_reply else ending.phase),
        step=ending.steps if failure.step is None and not in_reply else failure.step,
        stderr_tail=failure.stderr_tail or ending.tail,
    )


def _died(ending: Ending, before: MemoryKills, folder: Path) -> Failure:
    """Why there is no reply."""
    if _NO_FILES in ending.unstartable:  # a fault of the machine, not of the worker
        raise EnvbenchError(f"a worker did not start: {ending.unstartable}.", hint=MORE_FILES)
    if ending.unstartable:
        return Failure(
            reason="setup",
            message=f"the worker's interpreter did not start: {ending.unstartable}",
            hint="See `envbench backends` for what is ready, or name another with --python.",
        )
    # the SIGKILL that ends a stall says nothing about memory
    killed = ending.status == -signal.SIGKILL and ending.stalled_s is None
    if before.rose_in_cgroup() or (killed and before.rose_anywhere()):
        return Failure(
            reason="out-of-memory",
            message="the kernel ended the worker or one of its processes: memory ran out",
            signal=_signal_name(ending.status),
            hint=_FEWER,
        )
    if ending.stalled_s is not None:
        count = ending.survivors
        left = f"; {count} of its processes could not be ended" if count else ""
        return Failure(
            reason="stalled",
            message=f"no progress for {ending.stalled_s:.3g} s in phase {ending.phase!r}: "
            f"envbench ended the worker{left}",
            hint="It hangs. Or a vector step takes longer than that: then use fewer environments.",
        )
    return _died_by_itself(ending, folder)


def _died_by_itself(ending: Ending, folder: Path) -> Failure:
    name = _signal_name(ending.status)
    if name is not None:
        return Failure(
            reason="signal",
            message=f"the worker died of {name}",
            signal=name,
            hint="A native library crashed, or it was killed. Its last output may say which.",
        )
    if ending.unguarded:
        return Failure(
            reason="signal",
            message="the worker's guardian died, and the worker with it",
            signal="SIGKILL",  # from the kernel, when the guardian dies
            hint="Another program ended it on every try. Look for it, for example in `dmesg`.",
        )
    if folder.is_symlink() or not folder.is_dir():
        return Failure(
            reason="exit",
            message="the worker gave no reply: its job folder was deleted while it ran",
            exit_code=ending.status,
            hint="The environment or a cleaner of temporary files deleted it. Check what the "
            "environment removes, or name another temporary folder with TMPDIR.",
        )
    return Failure(
        reason="exit",
        message=f"the worker ended with exit code {ending.status} and gave no reply",
        exit_code=ending.status,
        hint="Its last output may say why.",
    )


def _signal_name(status: int | None) -> str | None:
    if status is None or status >= 0:
        return None
    names = {each.value: each.name for each in signal.Signals}
    return names.get(-status, f"signal {-status}")  # a real-time signal has no name


class MemoryKills(msgspec.Struct, frozen=True, kw_only=True):
    """Processes killed for lack of memory so far, in this control group and on the whole system;
    None if nothing counts them."""

    cgroup: int | None
    system: int | None

    @classmethod
    def now(cls) -> MemoryKills:
        """Read the counters (v2: memory.events, v1: memory.oom_control; /proc/vmstat)."""
        counts = (counter(path, "oom_kill") for path in cgroup_files())
        return cls(
            cgroup=next((count for count in counts if count is not None), None),
            system=counter(Path("/proc/vmstat"), "oom_kill"),
        )

    def rose_in_cgroup(self) -> bool:
        """Was a process of this control group killed since then? It is almost surely a worker."""
        return _rose(self.cgroup, MemoryKills.now().cgroup)

    def rose_anywhere(self) -> bool:
        """Was any process of the machine killed since then?"""
        return self.rose_in_cgroup() or _rose(self.system, MemoryKills.now().system)


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before


def cgroup_files() -> list[Path]:
    """Where the counter may be (v2, v1): the files of this process's own group come first."""
    groups = reversed(control_groups("memory"))
    return [group / name for group in groups for name in ("memory.events", "memory.oom_control")]
