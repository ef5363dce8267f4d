"""A worker with all its processes, stopped (SIGSTOP) while another trial is active.

This happens twice per slice, so the processes are found as cheaply as the system allows.
"""

from __future__ import annotations

import contextlib
import os
import signal

import psutil


class Tree:
    """A process and everything that it has started, as of the latest ``stop``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._stopped: dict[int, psutil.Process] = {}

    def stop(self) -> None:
        """Stop it and every process that it has by now.

        Repeat until no new child appears; a stopped process cannot fork.
        """
        self._stopped = {}
        fresh = [self.pid]
        while fresh:
            for pid in fresh:
                with contextlib.suppress(psutil.Error):
                    self._stopped[pid] = process = psutil.Process(pid)
                    process.send_signal(signal.SIGSTOP)
            every = [child for process in self._stopped.values() for child in _children(process)]
            fresh = [pid for pid in dict.fromkeys(every) if pid not in self._stopped]

    def resume(self) -> None:
        for process in self._stopped.values():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)


def _children(process: psutil.Process) -> list[int]:
    """The children of every thread, from proc(5), which also lists them for a stopped process.
    Where the system has no such file, a look at all processes finds them."""
    try:
        threads = os.listdir(f"/proc/{process.pid}/task")
        listed = [_of_thread(process.pid, thread) for thread in threads]
    except OSError:
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in process.children()]
        return []
    return [int(pid) for pids in listed for pid in pids]


def _of_thread(pid: int, thread: str) -> list[bytes]:
    with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
        return file.read().split()
