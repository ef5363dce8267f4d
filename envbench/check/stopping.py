"""A worker with all its processes, stopped (SIGSTOP) while it is another's turn.

It happens twice a slice, so the processes are looked up as cheaply as the system allows.
"""

from __future__ import annotations

import contextlib
import os
import signal

import psutil


class Tree:
    """A process and what it has started, as of the latest ``stop``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._stopped: list[psutil.Process] = []

    def stop(self) -> None:
        """It, and every process that it has by now: who is stopped starts no other."""
        self._stopped = []
        found = [self.pid]
        for pid in found:  # which grows
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                process.send_signal(signal.SIGSTOP)
                self._stopped.append(process)
                found += [child for child in _children(process) if child not in found]

    def go_on(self) -> None:
        for process in self._stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


def _children(process: psutil.Process) -> list[int]:
    """Of every thread, from proc(5), which has them for a process that is stopped; where the system
    has no such file, by a look at all processes."""
    try:
        threads = os.listdir(f"/proc/{process.pid}/task")
        listed = [_of_thread(process.pid, thread) for thread in threads]
    except OSError:
        return [child.pid for child in process.children()]
    return [int(pid) for pids in listed for pid in pids]


def _of_thread(pid: int, thread: str) -> list[bytes]:
    with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
        return file.read().split()
