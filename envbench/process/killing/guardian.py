"""Guards one worker: starts it, and ends every process that it has started.

A script that uses only the standard library, so that it starts in tens of milliseconds. The
controller also uses its functions that list processes.

    python -I -S guardian.py CONTROL REPORT EVENTS GRACE_S NUMBER PYTHON WORKER_MAIN JOB_DIR

CONTROL, REPORT and EVENTS are inherited pipe ends. On REPORT it writes JSON lines:

    {"event": "started", "pid": 123, "guardian": 122}
    {"event": "failed", "message": "…"}                          the interpreter cannot be started
    {"event": "ended", "status": 0, "survivors": 0}             the last line, always

``status`` is the result of ``os.waitstatus_to_exitcode`` (minus the signal's number), or null if
the worker never ended. A byte on CONTROL asks to stop. Its end of file means that the controller
died: then the guardian also removes the job's folder.

On Linux the guardian is a child subreaper. Every process that the worker starts, in any session and
after any number of forks, keeps the guardian as an ancestor, and so is found. If the guardian
itself is killed, the kernel kills the worker (PDEATHSIG). The controller or the next envbench
process then ends the others. It finds them by NUMBER, which they inherit. On other systems the
guardian uses ``ps``, and ends the worker's process group, too.

It sleeps in ``poll`` while the worker runs, so it takes no time from a measurement.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Collection
from typing import NamedTuple

PATIENCE_S = 5.0  # after the first SIGKILL; a process that is left then is stuck in the kernel
LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
RLIMIT_LOCKS = 10


class Process(NamedTuple):
    """A process at one moment. ``start`` is in ticks since the system started.

    Numbers are reused, so a process is identified by its number and its start. psutil does not
    replace this: its start times move with the system's clock, and it reports no session.
    """

    state: str
    parent: int
    session: int
    start: int


def read_process(pid: int) -> Process:
    """Read one process from proc(5). Raise ``OSError`` if it has ended or cannot be read."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # the command's name may contain spaces and brackets: count from its last bracket
        fields = file.read().rpartition(b")")[2].split()
    return Process(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def all_processes() -> dict[int, Process]:
    """Return every process, by its number. A system without /proc shows only their parents."""
    if not LINUX:
        import subprocess

        with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE) as ps:
            rows = [map(int, line.split()) for line in ps.communicate()[0].splitlines()]
        return {pid: Process("", parent, 0, 0) for pid, parent in rows if pid != ps.pid}
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                table[int(name)] = read_process(int(name))
    return table


def below(top: int, table: dict[int, Process], without: Collection[int] = ()) -> set[int]:
    """Return all descendants of ``top``, zombies too, but not ``without`` and their descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    descendants: set[int] = set()
    waiting = [top]
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), []) if pid not in without]
        descendants.update(new)
        waiting += new
    return descendants


def prctl(option: int, value: int) -> None:
    """Change an attribute of this process (prctl(2)). On other systems, do nothing."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Guardian:
    """Starts one worker, watches it, and ends it with all its descendants."""

    def __init__(self, control: int, report: int, grace_s: float) -> None:
        self._control = control
        self._report = report
        self._grace_s = grace_s
        self._wake = _wake_on_signals()
        self._worker = 0
        self._status: int | None = None
        self.orphaned = False

    def start(self, command: list[str], events: int) -> None:
        """Fork the worker: own session, default signals, killed when the guardian dies."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        guardian = os.getpid()
        begun, closed_by_exec = os.pipe()
        self._worker = os.fork()
        if self._worker == 0:
            try:
                _become_worker(guardian, command)
            except OSError as trouble:
                self._say(event="failed", message=f"cannot start {command[0]}: {trouble.strerror}")
            finally:
                os._exit(127)
        os.close(events)
        os.close(closed_by_exec)
        os.read(begun, 1)  # returns at the worker's exec: now it dies with this process
        os.close(begun)
        self._say(event="started", pid=self._worker, guardian=guardian)

    def watch(self) -> None:
        """Sleep until the worker ends, or until someone asks to stop."""
        both = _poll(self._control, self._wake)
        while self._status is None:
            if self._control in dict(both.poll()):
                self.orphaned = not os.read(self._control, 64)
                return
            if self._got_signal():
                return
            self._reap()

    def end(self) -> None:
        """End every descendant: SIGTERM, grace, SIGKILL, until none is left. Then report."""
        soft_until = time.monotonic() + self._grace_s
        asked: set[int] = set()
        left = self._left()
        while left and time.monotonic() < soft_until + PATIENCE_S:
            if time.monotonic() < soft_until:
                _send([pid for pid in left if pid not in asked], signal.SIGTERM, signal.SIGCONT)
                asked.update(left)
            else:
                _send([*left, *([] if LINUX else [-self._worker])], signal.SIGKILL)
            _poll(self._wake).poll(20)  # ms; nothing is measured any more
            left = self._left()
        self._say(event="ended", status=self._status, survivors=len(left))

    def _left(self) -> list[int]:
        self._got_signal()  # empties the pipe
        self._reap()
        return sorted(below(os.getpid(), all_processes()))

    def _got_signal(self) -> bool:
        """Did a signal ask to stop?"""
        try:
            numbers = os.read(self._wake, 4096)
        except BlockingIOError:
            return False
        return any(number in numbers for number in (signal.SIGTERM, signal.SIGHUP))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._worker and self._status is None:
                    self._status = os.waitstatus_to_exitcode(status)

    def _say(self, **line: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # the controller has died
            os.write(self._report, json.dumps(line).encode() + b"\n")


def _poll(*descriptors: int) -> select.poll:
    """Waits until one of them can be read. (``select`` refuses numbers from 1,024 on.)"""
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return poll


def _pass_on(number: int) -> None:
    """All processes below inherit the number, as a limit that Linux does not use (getrlimit(2))."""
    if LINUX:
        import resource

        with contextlib.suppress(OSError, ValueError):  # the system allows less
            resource.setrlimit(RLIMIT_LOCKS, (number, resource.getrlimit(RLIMIT_LOCKS)[1]))


def _send(pids: list[int], *signals: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            for number in signals:
                os.kill(pid, number)


def _become_worker(guardian: int, command: list[str]) -> None:
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guardian:  # it died before the line above
        return
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would keep that
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)


def _wake_on_signals() -> int:
    """The reading end of a pipe that gets every signal's number; no signal ends the guardian."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return reading


def main(arguments: list[str]) -> None:
    control, report, events = (int(number) for number in arguments[:3])
    grace_s, number, python, worker, folder = float(arguments[3]), *arguments[4:8]
    _pass_on(int(number))
    os.set_inheritable(control, False)
    os.set_inheritable(report, False)
    guardian = Guardian(control, report, grace_s)
    guardian.start([python, "-I", worker, folder, str(events)], events)
    guardian.watch()
    guardian.end()
    if guardian.orphaned:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
