"""A worker with all its processes, stopped (SIGSTOP) while another trial is active.

This happens twice per slice, so the processes are found as cheaply as the system allows.
"""

from __future__ import annotations

import contextlib
import os
import signal

import psutil


class Tree:
    """A process and everything that it has started, as of the latest ``stop``.

    ``guardian`` adopts what the process started and then disowned (a daemon): its other children.
    """

    def __init__(self, pid: int, guardian: int = 0) -> None:
        self.pid = pid
        self._guardian = guardian
        self._stopped: dict[int, psutil.Process] = {}

    def stop(self) -> None:
        """Stop it and every process that it has by now.

        Repeat until no new child appears; a stopped process cannot fork.
        """
        self._stopped = {}
        fresh = [self.pid, *(_children(self._guardian) if self._guardian else [])]
        while fresh:
            for pid in fresh:
                with contextlib.suppress(psutil.Error):
                    self._stopped[pid] = process = psutil.Process(pid)
                    process.send_signal(signal.SIGSTOP)
            every = [child for pid in self._stopped for child in _children(pid)]
            fresh = [pid for pid in dict.fromkeys(every) if pid not in self._stopped]

    def resume(self) -> None:
        for process in self._stopped.values():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)


def _children(pid: int) -> list[int]:
    """The children of every thread, from proc(5), which also lists them for a stopped process.
    Where the system has no such file, a look at all processes finds them."""
    try:
        listed = [_of_thread(pid, thread) for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    return [int(child) for children in listed for child in children]


def _of_thread(pid: int, thread: str) -> list[bytes]:
    with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
        return file.read().split()
