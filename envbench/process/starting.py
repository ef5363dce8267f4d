"""How the workers of a block start and are stopped, so that their start-up times can be compared.

On a busy machine, one of several starts can take 50 % longer than the others. So the workers
alternate from their first instruction to their warm-up, ``SLICE_S`` at a time, and the time that
each was stopped in each phase is recorded. (A start that waits for a network also waits while it is
stopped. The difference between two such starts can look up to twice as large as it is.) If one
thread does the start and each worker has its own core, all start at once, which takes less time.

A worker is stopped together with all its processes (SIGSTOP), here and between its slices. proc(5)
lists the children of a process. psutil is slower, because it reads every process of the machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence

import psutil

from envbench.model import Times

SLICE_S = 0.01
POLL_S = 0.2  # a signal is handled in between
clock = time.perf_counter_ns  # a system's clock, not a process's: the workers use it, too


class Tree:
    """Stops and resumes a process and all its descendants, as of the latest ``stop``.

    Daemons of the process are adopted by ``guardian``: they are its other children. ``stops``
    has the beginning and the end of each time that the tree was stopped.
    """

    def __init__(self, pid: int, guardian: int = 0) -> None:
        self.pid = pid
        self._guardian = guardian
        self._stopped: dict[int, psutil.Process] = {}
        self._stopped_at: int | None = None
        self.stops: list[tuple[int, int]] = []

    def stop(self) -> None:
        """Stop it and every process that it has by now.

        Repeat until no new child appears; a stopped process cannot fork.
        """
        self._stopped = {}
        self._stopped_at = self._stopped_at or clock()
        fresh = [self.pid, *(_children(self._guardian) if self._guardian else [])]
        while fresh:
            for pid in fresh:
                with contextlib.suppress(psutil.Error):
                    self._stopped[pid] = process = psutil.Process(pid)
                    process.send_signal(signal.SIGSTOP)
            every = [child for pid in self._stopped for child in _children(pid)]
            fresh = [pid for pid in dict.fromkeys(every) if pid not in self._stopped]

    def resume(self) -> None:
        if self._stopped_at is not None:
            self.stops.append((self._stopped_at, clock()))
            self._stopped_at = None
        for process in self._stopped.values():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)


def _children(pid: int) -> list[int]:
    """The children of every thread, from proc(5), or from psutil on a system without that file."""
    with contextlib.suppress(OSError):
        found: list[int] = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        return found
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


class Start:
    """Controls one worker's start, up to its warm-up.

    ``changed`` guards all starts and the slice order of a block. ``at_once``: it does not
    alternate, and waits for the others only before its warm-up.
    """

    def __init__(self, changed: threading.Condition, *, at_once: bool = False) -> None:
        self.changed = changed
        self.at_once = at_once
        self.tree = Tree(0)
        self._ended = self._arrived = self._may_warm_up = False

    # ------------------------------------------------------------ called by its own thread

    def began(self, pid: int, guardian: int = 0) -> None:
        """The worker has a process now. If starts alternate, stop it until its turn."""
        with self.changed:
            self.tree = Tree(pid, guardian)
            if not self.at_once and not self._may_warm_up:
                self.tree.stop()
            self.changed.notify_all()

    def arrived(self) -> None:
        """The worker is ready to warm up. Return when its warm-up may begin."""
        with self.changed:
            self.tree.stop()
            self._arrived = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: self._may_warm_up)
            self.tree.resume()

    def ended(self) -> None:
        """The worker has ended, successfully or not."""
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    # ------------------------------------------------------------ called by the main thread

    @property
    def over(self) -> bool:
        """Has it reached its warm-up, or its end?"""
        return self._arrived or self._ended

    def run_for(self, seconds: float, *, then_stop: bool = False) -> None:
        """Let it run for that long, or until its start is over."""
        with self.changed:
            if not self.over:
                self.tree.resume()
                if not self.changed.wait_for(lambda: self.over, seconds) and then_stop:
                    self.tree.stop()

    def warm_up(self) -> None:
        """Let it warm up or, if the block is given up, continue to its end."""
        with self.changed:
            self._may_warm_up = True
            if not self._arrived:
                self.tree.resume()
            self.changed.notify_all()


def start(starts: Sequence[Start]) -> None:
    """Let them run alternately or at once, until all wait for their warm-up or have ended."""
    changed = starts[0].changed
    with changed:
        while not changed.wait_for(lambda: all(s.tree.pid or s.over for s in starts), POLL_S):
            pass
    while running := [each for each in starts if not each.over]:
        if len(running) == 1 or running[0].at_once:
            running[0].run_for(POLL_S)
            continue
        for each in running:
            each.run_for(SLICE_S, then_stop=True)


def stopped_ns(
    stops: Sequence[tuple[int, int]], began_ns: Mapping[str, int], times: Times
) -> dict[str, int]:
    """For how many nanoseconds the worker was stopped during each named time.

    ``began_ns``: when each began, by the clock of the stops.
    """
    stopped = {}
    for name, began in began_ns.items():
        if (took := getattr(times, name, None)) is None:
            continue  # of a worker of another version
        ended = began + took
        overlaps = (min(to, ended) - max(since, began) for since, to in stops)
        stopped[name] = sum(max(0, each) for each in overlaps)
    return stopped
