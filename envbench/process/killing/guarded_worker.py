"""A worker and its guardian on the controller's side: start them, stop them, hold their pipes.

The guardian ends the worker and all that it started. If the guardian is killed, the kernel kills
its worker, and ``GuardedWorker`` ends the rest of the worker's *process tree*. A process that loses
its parent gets the nearest child subreaper above as its parent: this process, while a worker is
open. So the tree is found below this process, beside others that must not be ended: other
guardians, uv, git. A process belongs to it if one of these is true:

1. Its environment contains the mark: the tree's number, from which this process can be found.
2. It has inherited that number as its limit of file locks. Linux does not use this limit
   (getrlimit(2)), so hardly any program changes it.
3. It is in the session of the worker, or of another process of the tree.
4. Its parent belongs to the tree.

A process survives its guardian's death if none is true: it has left its session and its parent, was
started without the mark, and has changed that limit (or the guardian could not set it, because the
system allows fewer locks). Nothing then distinguishes it from the daemons of git or uv.

If this process is killed, too, the next envbench process ends the rest (``leftovers``), by 1, 2 and
4. A process's environment is the one that it was started with, as /proc shows it. All this is for
Linux. On other systems only the worker's process group is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from envbench.process.killing import guardian
from envbench.process.killing.leftovers import MARK, end, numbers, this_process
from envbench.process.signals import signals_held

GUARDIAN = Path(__file__).with_name("guardian.py")
PIPE_BYTES, SMALL_PIPE_BYTES = 1024 * 1024, 16 * 1024  # the second: macOS
STOP_PATIENCE_S = 10.0  # after the grace period; the guardian gives up earlier
_trees = itertools.count()
_lock = threading.Lock()  # held while guardians are started, and while process trees are searched


class GuardedWorker:
    """A guardian with its worker, and the controller's ends of their pipes.

    No other process holds this end of the control pipe. If this process dies, the guardian reads
    an end of file and ends everything.
    """

    worker = 0  # its process id, once the guardian has reported it
    _open: list[GuardedWorker] = []  # of this process, in all its threads

    def __init__(
        self, command: tuple[str, Path, Path], variables: Mapping[str, str], grace_s: float
    ) -> None:
        self._grace_s = grace_s
        self._number = this_process().number(next(_trees))
        self._members: dict[int, int] = {}  # the start times of the process tree, by process
        (control, self._control), *others = _pipes(4)
        (self.report, report), (self.events, events), (self.output, output) = others
        self.output_bytes = SMALL_PIPE_BYTES  # that the pipe holds, at least
        with contextlib.suppress(AttributeError, OSError):  # the worker never waits to print
            self.output_bytes = fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        for fd in (self.report, self.events, self.output):
            os.set_blocking(fd, False)
        arguments = (GUARDIAN, control, report, events, grace_s, self._number, *command)
        try:
            with _lock:  # so no other worker's tree claims the guardian
                guardian.prctl(guardian.PR_SET_CHILD_SUBREAPER, 1)
                self._guardian = subprocess.Popen(
                    [sys.executable, "-I", "-S", *map(str, arguments)],
                    env={**variables, MARK: f"{self._number:016x}"},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(control, report, events),
                    start_new_session=True,  # Ctrl-C in the terminal is for the controller alone
                )
                self._open.append(self)
        except OSError:
            self._release()
            raise
        finally:
            for fd in (control, report, events, output):
                os.close(fd)

    def stop(self) -> None:
        """Ask the guardian to end everything; it answers on ``report``."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, b"!")

    def close(self) -> None:
        """Return when everything has ended, by force if necessary. Safe to call at any time."""
        try:
            self.stop()
            self._guardian.wait(self._grace_s + STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        finally:
            try:
                if self._guardian.poll():  # it was killed, or crashed
                    with signals_held():
                        self._end_tree()
            finally:
                self._release()

    def _release(self) -> None:
        """Close the pipes, and stop adopting unless another worker is open."""
        for fd in (self._control, self.report, self.events, self.output):
            os.close(fd)
        with _lock:
            if self in self._open:  # its guardian has started
                self._open.remove(self)
            guardian.prctl(guardian.PR_SET_CHILD_SUBREAPER, int(bool(self._open)))

    # ------------------------------------------------------------ what a dead guardian left

    def _end_tree(self) -> None:
        """Kill the processes that are left, stopped ones too."""
        if guardian.LINUX:
            end(self._tree)
        elif self.worker:
            with contextlib.suppress(OSError):
                os.killpg(self.worker, signal.SIGKILL)

    def _tree(self) -> list[int]:
        """Reap the known members that have ended, and find the present ones."""
        for pid in self._members:
            with contextlib.suppress(OSError):  # its parent, a member too, has not ended yet
                os.waitpid(pid, os.WNOHANG)
        with _lock:
            table = guardian.all_processes()
            guardians = {each._guardian.pid for each in self._open}
        own = guardian.below(os.getpid(), table, guardians)
        same = {pid for pid, process in table.items() if self._members.get(pid) == process.start}
        members = same | {p for p in table if p != os.getpid() and self._number in numbers(p)}
        new = own
        while new:
            sessions = {self.worker, *(table[p].session for p in members)} - {0, os.getsid(0)}
            new = {
                pid
                for pid in own - members
                if table[pid].parent in members or table[pid].session in sessions
            }
            members |= new
        self._members = {pid: table[pid].start for pid in members}
        return sorted(members)


def _pipes(count: int) -> list[tuple[int, int]]:
    """Make pipes: all, or none if there are too many open files."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(os.pipe())
            for end in made[-1]:
                stack.callback(os.close, end)
        stack.pop_all()
    return made
