"""End the processes of a worker whose guardian was killed, or whose controller was killed too.

If a guardian is killed, the kernel kills its worker. Every other process that loses its parent gets
the nearest child subreaper above as its parent: this process, while a ``ProcessFamily`` is open. So
all of them are found below this process, beside others that must not be ended: other guardians, uv,
git. A process belongs to a family if one of these is true:

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
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from envbench.process.guardian import (
    LINUX,
    PATIENCE_S,
    PR_SET_CHILD_SUBREAPER,
    Process,
    all_processes,
    below,
    prctl,
    read_process,
)

MARK = "ENVBENCH_TRIAL"
POLL_S = 0.01
GUARDIAN_S = 3.0  # a guardian may need this long to end its worker
_OWNER = r"([0-9a-f]{8})-([0-9a-f]{8})-([0-7][0-9a-f]{7})-([0-9a-f]{16})"
_lock = threading.Lock()  # held while guardians are started, and while families are searched


# ---------------------------------------------------------------- owners


class Owner(NamedTuple):
    """The envbench process that a temporary folder or a worker's process belongs to.

    Its number is valid in its own process namespace only. 0 is an unknown namespace or start.
    """

    user: int
    namespace: int
    pid: int
    start: int

    def __str__(self) -> str:
        """``user-namespace-pid-start``, of a fixed length, because it shifts the worker's stack."""
        return f"{self.user:08x}-{self.namespace:08x}-{self.pid:08x}-{self.start:016x}"

    @classmethod
    def parse(cls, text: str, before: str = "", after: str = "") -> Owner | None:
        """The inverse of ``str``, between two patterns; None for any other text."""
        match = re.fullmatch(before + _OWNER + after, text)
        return cls(*(int(number, 16) for number in match.groups())) if match else None

    @property
    def is_dead(self) -> bool:
        """Is it certain that this process has ended? A zombie has.

        It is never certain for other users and other namespaces (containers).
        """
        here = (self.user, self.namespace) == (os.getuid(), _namespace())
        if not here or 0 in (self.namespace, self.start):
            return False
        try:
            process = read_process(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:  # for example because no file descriptor is free
            return False
        return process.start != self.start or process.state in "ZX"


def this_process() -> Owner:
    """This process, as an owner."""
    start = 0
    with contextlib.suppress(OSError):
        start = read_process(os.getpid()).start
    return Owner(user=os.getuid(), namespace=_namespace(), pid=os.getpid(), start=start)


def _namespace() -> int:
    """The process namespace; unknown if /proc shows the processes of another one."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            return os.stat("/proc/self/ns/pid").st_ino
    return 0


def end_processes_of_dead_owners() -> None:
    """Kill the processes that dead envbench processes of this user left, stopped ones too.

    A guardian whose controller has just died gets ``GUARDIAN_S`` to end its worker. This process
    may itself have the mark of a dead owner, if a worker started it. Processes of that owner stay.
    """
    _end(_of_dead_owners, GUARDIAN_S)


def _of_dead_owners() -> list[int]:
    if not LINUX:
        return []
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    owners = {pid: owner for pid in pids if (owner := _owner(pid))}
    dead = {each for each in owners.values() if each.is_dead} - {owners.get(os.getpid())}
    return [pid for pid, owner in owners.items() if owner in dead]


def _owner(pid: int) -> Owner | None:
    """The owner that the process's mark names; None if it has no valid mark."""
    marks = [each for each in environment(pid) if each.startswith(f"{MARK}=".encode())]
    return Owner.parse(os.fsdecode(b"".join(marks)), f"{MARK}=", "-[0-9a-f]{32}")


def environment(pid: int) -> set[bytes]:
    """The variables that a process was started with; none if it has ended or hides them.

    (psutil's ``environ`` stops at an empty entry.)
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return set(file.read().split(b"\0"))
    return set()


def _end(find: Callable[[], Iterable[int]], grace_s: float = 0.0) -> None:
    """After the grace period, kill what ``find`` finds until it finds nothing."""
    deadline = time.monotonic() + grace_s
    while (left := find()) and time.monotonic() < deadline + PATIENCE_S:
        if time.monotonic() >= deadline:
            for pid in left:
                with contextlib.suppress(OSError):  # it has ended, or is another user's
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


# ---------------------------------------------------------------- the family of one worker


class ProcessFamily:
    """A worker, its guardian and all that they start. Open it before the start."""

    _open: list[ProcessFamily] = []  # of this process, in all its threads

    def __init__(self) -> None:
        self.mark = f"{this_process()}-{secrets.token_hex(16)}"
        self.guardian = 0
        self._guardian_start = 0
        self._members: dict[int, int] = {}  # their start times, by process
        with _lock:
            ProcessFamily._open.append(self)
            prctl(PR_SET_CHILD_SUBREAPER, 1)

    def close(self) -> None:
        """Stop adopting, unless another family is open."""
        with _lock:
            ProcessFamily._open.remove(self)
            prctl(PR_SET_CHILD_SUBREAPER, int(bool(ProcessFamily._open)))

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Start the guardian in here and set ``guardian``: no other family will claim it."""
        with _lock:
            yield
            with contextlib.suppress(OSError):
                self._guardian_start = read_process(self.guardian).start

    def end(self, worker: int) -> None:
        """Kill the remaining processes after the guardian's death, stopped ones too.

        ``worker`` is the worker's process, or 0 if it is not known.
        """
        if LINUX:
            _end(lambda: self._find(worker))
        elif worker:
            with contextlib.suppress(OSError):
                os.killpg(worker, signal.SIGKILL)

    def _find(self, worker: int) -> list[int]:
        """Reap the known members that have ended, and find the present ones."""
        for pid in self._members:
            with contextlib.suppress(OSError):  # its parent, a member too, has not ended yet
                os.waitpid(pid, os.WNOHANG)
        with _lock:
            table = all_processes()
            guardians = {each.guardian for each in ProcessFamily._open} - {0}
        own = below(os.getpid(), table, guardians)
        members = {
            pid
            for pid, process in table.items()
            if self._members.get(pid) == process.start
            or self._is_marked(pid)
            or (pid in own and self._has_no_origin(pid, process))
        }
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
