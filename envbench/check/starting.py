"""Two workers that start together: what a start-up and a compile cost, both meet the same noise.

A start-up is one figure a process, a fifth of a second long. Of two that follow one another on a
busy machine either may take half as long again; so from their first instruction to their warm-up
both go by turns, ``SLICE_S`` at a time, and the time that each stood still in the midst of what its
clock measured is on record beside that. (A start that only waits, for a network, goes on waiting
while it is stopped: of two such a difference looks greater than it is, by a factor of two at most.)

Where a start is the work of one thread and each can have a core of its own, though the steps take
more, both start at once instead: that takes half the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Set

from envbench.check.stopping import Tree
from envbench.model import Times

SLICE_S = 0.01
POLL_S = 0.2  # a signal is handled in between
clock = time.perf_counter_ns  # a system's, not a process': the workers' clock, too


class Start:
    """One side's way to its warm-up. ``changed`` and ``gone`` are both sides': whose worker has
    ended is in ``gone``, and -1 where all is to end. ``at_once``: it takes no turns, and waits for
    the other before its warm-up only."""

    def __init__(
        self, side: int, changed: threading.Condition, gone: Set[int], *, at_once: bool = False
    ) -> None:
        self.side = side
        self.changed = changed
        self.gone = gone
        self.at_once = at_once
        self.tree = Tree(0)
        self.stops: list[tuple[int, int]] = []  # from when to when it stood still
        self._arrived = self._may_warm_up = False
        self._stopped_at: int | None = None

    # ------------------------------------------------------------ its own thread's

    def began(self, pid: int) -> None:
        """Stopped right away, if it takes turns: whose turn it is goes on."""
        with self.changed:
            self.tree = Tree(pid)
            if not self.at_once:
                self._stop()
            self.changed.notify_all()

    def arrived(self) -> None:
        """It is where its warm-up begins; returns when it may."""
        with self.changed:
            self._stop()
            self._arrived = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: self._may_warm_up or self.gone)
            self._go_on()

    # ------------------------------------------------------------ the main thread's

    @property
    def known(self) -> bool:
        return self.tree.pid != 0 or self.over

    @property
    def over(self) -> bool:
        """Has it come to its warm-up, or to its end?"""
        return self._arrived or self.side in self.gone

    def go_for(self, seconds: float) -> None:
        """Its turn, or what it needs of it."""
        with self.changed:
            if not self.over:
                self._go_on()
                self.changed.wait_for(lambda: self.over, seconds)

    def pause(self) -> None:
        with self.changed:
            if not self.over:
                self._stop()

    def warm_up(self) -> None:
        with self.changed:
            self._may_warm_up = True
            self.changed.notify_all()

    def abandon(self) -> None:
        """Whatever it is at, it goes on, to its end."""
        with self.changed:
            self._go_on()

    # ------------------------------------------------------------ either's, with ``changed`` held

    def _stop(self) -> None:
        if self.gone - {self.side}:
            return  # there is nobody to take turns with
        if self._stopped_at is None:
            self._stopped_at = clock()
        self.tree.stop()

    def _go_on(self) -> None:
        if self._stopped_at is not None:
            self.stops.append((self._stopped_at, clock()))
            self._stopped_at = None
        self.tree.go_on()


def start(first: Start, second: Start) -> None:
    """By turns or at once, until both have come to their warm-up, where they wait, or to their
    end."""
    with first.changed:
        while not first.changed.wait_for(lambda: first.known and second.known, POLL_S):
            pass
    own, other = first, second
    while not (own.over and other.over):
        if own.over:
            other.go_for(POLL_S)
        elif other.over or own.at_once:
            own.go_for(POLL_S)
        else:
            own.go_for(SLICE_S)
            own.pause()
            own, other = other, own


def stood_still(
    stops: list[tuple[int, int]], began_ns: Mapping[str, int], times: Times
) -> dict[str, int]:
    """Nanoseconds of each of the times, by its name, in which the worker was stopped.

    ``began_ns``: when each began, by the clock of the stops.
    """
    found = {}
    for name, began in began_ns.items():
        ended = began + getattr(times, name)
        overlaps = (min(to, ended) - max(since, began) for since, to in stops)
        found[name] = sum(max(0, each) for each in overlaps)
    return found
