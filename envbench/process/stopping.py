"""Stop a worker with all its processes (SIGSTOP) while another trial is active.

This happens twice per slice, so finding the processes must be fast: psutil reads every process of
the machine to find children, and proc(5) lists them.
"""

from __future__ import annotations

import contextlib
import os
import signal

import psutil


class Tree:
    """A process and all its descendants, as of the latest ``stop``.

    The other children of ``guardian`` are daemons of the process, which it has adopted.
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
    """The children of every thread, from proc(5), for a stopped process, too; by psutil on a
    system without that file."""
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
