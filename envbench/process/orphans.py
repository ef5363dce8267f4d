"""End the processes of a worker whose guardian was killed, or whose controller was killed too.

A guardian ends its worker's processes, but it can be killed itself. Then the kernel kills the
worker. Every other process that loses its parent gets the nearest child subreaper above as its
parent: this process, while a ``ProcessFamily`` is open. So all of them are found below this
process, beside others that must not be ended: other guardians, uv, git. A process belongs to a
family if one of these is true:

1. It has inherited the family's mark in its environment: the owner, which is this process, and a
   random number.
2. It is in the session of the worker, or of another process of the family.
3. Its parent belongs to the family.
4. It is a running child without a trace of its origin. It started after the guardian, it has left
   this process's session, and its environment is neither ours nor another family's. The processes
   that this process starts itself stay in its session or have its environment.

If this process is killed, its guardians end the workers. If they were killed or stopped as well,
the next envbench process does it (``end_processes_of_dead_owners``). It finds processes by the
owner in their mark, so it misses one that was started without the mark.

A process's environment is the one that it was started with, as /proc shows it. All this is for
Linux. On other systems only the worker's process group is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator

from envbench.process.owner import PATTERN, Owner, this_process
from envbench.process.process_table import (
    Process,
    all_processes,
    below,
    environment,
    start_time,
    user,
)

MARK = "ENVBENCH_TRIAL"
PATIENCE_S = 5.0  # a process that is left then is stuck in the kernel
POLL_S = 0.01
GUARDIAN_S = 3.0  # a guardian may need this long to end its worker
LINUX = sys.platform == "linux"
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37

_MARK = re.compile(rf"{MARK}=({PATTERN})-[0-9a-f]{{32}}")
_lock = threading.Lock()  # held while guardians are started, and while families are searched


class ProcessFamily:
    """A worker, its guardian and all that they start. Open it before the start."""

    _open: list[ProcessFamily] = []  # of this process, in all its threads
    _was_subreaper = False

    def __init__(self) -> None:
        # Its length is fixed, because it shifts the worker's stack.
        self.mark = f"{this_process()}-{secrets.token_hex(16)}"
        self.guardian = 0
        self._guardian_start = 0
        self._members: dict[int, int] = {}  # their start times, by process
        with _lock:
            if not ProcessFamily._open:
                ProcessFamily._was_subreaper = _is_subreaper()
                _set_subreaper(True)
            ProcessFamily._open.append(self)

    def close(self) -> None:
        """Stop adopting, unless another family is open."""
        with _lock:
            ProcessFamily._open.remove(self)
            if not ProcessFamily._open:
                _set_subreaper(ProcessFamily._was_subreaper)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Start the guardian in here and set ``guardian``: no other family will claim it."""
        with _lock:
            yield
            self._guardian_start = start_time(self.guardian) or 0

    def end(self, worker: int) -> int:
        """Kill the remaining processes after the guardian's death; returns how many survive.

        ``worker`` is the worker's process, or 0 if it is not known.
        """
        if not LINUX:
            with contextlib.suppress(OSError):
                if worker:
                    os.killpg(worker, signal.SIGKILL)
            return 0
        until = time.monotonic() + PATIENCE_S
        while (left := self._kill(worker)) and time.monotonic() < until:
            time.sleep(POLL_S)
        return left

    def _kill(self, worker: int) -> int:
        """Kill the present members, stopped ones too, and reap the dead among them."""
        with _lock:
            members = self._find(worker)
            for pid in members:
                with contextlib.suppress(OSError):  # it has ended, or is another user's
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):  # its parent, a member too, has not ended yet
                    os.waitpid(pid, os.WNOHANG)
        return len(members)

    def _find(self, worker: int) -> list[int]:
        """The present members. Known ones remain members."""
        table = all_processes()
        own = below(os.getpid(), table, {each.guardian for each in ProcessFamily._open} - {0})
        members = {
            pid
            for pid, start in self._members.items()
            if pid in table and table[pid].start == start
        }
        members |= {pid for pid in table if self._is_marked(pid)}
        members |= {pid for pid in own if self._has_no_origin(pid, table[pid])}
        grew = True
        while grew:
            sessions = {table[pid].session for pid in members} | {worker}
            sessions -= {0, os.getsid(0)}
            new = {
                pid
                for pid in own - members
                if table[pid].parent in members or table[pid].session in sessions
            }
            members |= new
            grew = bool(new)
        self._members = {pid: table[pid].start for pid in members}
        return sorted(members)

    def _is_marked(self, pid: int) -> bool:
        return pid != os.getpid() and f"{MARK}={self.mark}".encode() in environment(pid)

    def _has_no_origin(self, pid: int, process: Process) -> bool:
        """Is it a child that can only be a worker's, by rule 4 above?"""
        if (
            process.parent != os.getpid()
            or process.state in "ZX"  # it shows no environment, and this process may wait for it
            or process.start < self._guardian_start
            or process.session == os.getsid(0)
        ):
            return False
        names = {entry.partition(b"=")[0] for entry in environment(pid)}
        return MARK.encode() not in names and not names >= _own_names()


def _own_names() -> set[bytes]:
    """Variables of every process that this process starts with its own environment.

    Between fork and exec a process shows the environment that this process was started with.
    """
    at_start = {entry.partition(b"=")[0] for entry in environment(os.getpid())}
    return at_start & {os.fsencode(name) for name in os.environ}


def end_processes_of_dead_owners() -> None:
    """Kill the processes that dead envbench processes of this user left, stopped ones too.

    A guardian whose controller has just died gets ``GUARDIAN_S`` to end its worker. This process
    may itself have the mark of a dead owner, if a worker started it. Processes of that owner stay.
    """
    if not LINUX:
        return
    start = time.monotonic()
    while (left := _of_dead_owners()) and time.monotonic() < start + GUARDIAN_S + PATIENCE_S:
        if time.monotonic() >= start + GUARDIAN_S:
            for pid in left:
                with contextlib.suppress(OSError):  # it has ended
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def _of_dead_owners() -> list[int]:
    with contextlib.suppress(OSError):
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        owners = {pid: _owner(pid) for pid in numbers if user(pid) == os.getuid()}
        dead = {each for each in owners.values() if each and each.is_dead}
        dead -= {owners.get(os.getpid())}
        return [pid for pid, owner in owners.items() if owner in dead]
    return []


def _owner(pid: int) -> Owner | None:
    """The owner that the process's mark names; None if it has no valid mark."""
    marks = [each for each in environment(pid) if each.startswith(f"{MARK}=".encode())]
    match = _MARK.fullmatch(os.fsdecode(marks[0])) if len(marks) == 1 else None
    return Owner.parse(match[1]) if match else None


def _is_subreaper() -> bool:
    import ctypes

    value = ctypes.c_int(0)
    return LINUX and _prctl(PR_GET_CHILD_SUBREAPER, ctypes.addressof(value)) and bool(value.value)


def _set_subreaper(wanted: bool) -> None:
    if LINUX:
        _prctl(PR_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> bool:
    import ctypes

    words = (ctypes.c_ulong(each) for each in (value, 0, 0, 0))
    return int(ctypes.CDLL(None).prctl(option, *words)) == 0
