"""The order of a block's slices: which worker makes the next one, of what kind and how long.

``SliceOrder`` is shared by the threads that drive the workers. It follows the block's programme,
once every worker is warm or has ended. A worker that ends loses its slices; the others keep theirs.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from envbench.model import Job, Other, Programme
from envbench.process.reply import WindowEnded
from envbench.process.starting import POLL_S

FEWEST_MIXED, MOST_MIXED = 4, 10_000  # slices per worker in a random order
FEWEST_SLICES = 10  # per worker, if one slice is longer than it was meant to be
FEWEST_RESET_SLICES = 4
MOST_RESETS = 10_000  # per slice
EACH = 0.2  # of the steps of all slices of a worker: as many more, of which each is compared
LONGEST_LEAD_S = 5.0  # to reach the step of the other worker of a pair
LEAD_SHARE = 0.03  # of a slice: the longest lead-in, unless the programme wants more
# per worker, in this order
SLICES_AFTER: dict[Other, int] = {"latency": 4, "returns": 1, "reset": 2}


class NotOrdered(Exception):
    """The worker makes slices that were not ordered."""


class Slice(NamedTuple):
    """A slice of a worker (its index). ``calls``: None if the worker's speed decides it.

    ``ms``: of another quantity than steps. The worker itself decides how much fits into that time.
    ``each``: steps that are not timed, to compare what each of them returns.
    """

    kind: Literal["step", "each"] | Other
    worker: int
    calls: int | None = None
    ms: int | None = None


class SliceOrder:
    """Orders a programme's slices. ``jobs`` are those of the block's workers, in order."""

    def __init__(self, programme: Programme, jobs: Sequence[Job]) -> None:
        self.steps = [Slice("step", index) for index in programme.turns]
        # After the steps
        looked_at = [i for i, job in enumerate(jobs) if job.protocol.results]
        self.others = [
            *(Slice("each", index) for index in looked_at),
            *(Slice("reset", index) for index in programme.reset_turns),
        ]
        self.programme = programme
        self.jobs = jobs
        self.count = len(jobs)
        self.slice_ns = programme.slice_s * 1e9
        self.next = 0
        self.resets = 0  # per slice; 0: not known yet
        self.made: list[int] = []  # the worker of each slice of steps
        self.lacking: set[tuple[int, str]] = set()  # what a worker's library cannot do
        self.measured_ns, self.slices_made = [0] * self.count, [0] * self.count  # of steps
        self.calls_made = [0] * self.count  # of steps
        self.calls_before: dict[int, int] = {}  # of the workers that are warm
        self.chance = random.Random(programme.seed)
        self.draws = [self.chance.random() for _ in jobs]
        self.ns_per_call: dict[int, float] = {}  # of the workers that are warm
        self.ended: set[int] = set()
        self.settled = False
        self.changed = threading.Condition()

    @property
    def due(self) -> Slice | None:
        """The next slice; None after the last one."""
        if self.next < len(self.steps):
            return self.steps[self.next]
        return next(iter(self.others[self.next - len(self.steps) :]), None)

    # ------------------------------------------------------------ getting ready

    def worker_ready(self, index: int, ns_per_call: float, calls: int = 0) -> None:
        """This worker is warm, after ``calls`` vector steps. When all are, the number of slices is
        settled."""
        with self.changed:
            self.ns_per_call[index], self.calls_before[index] = ns_per_call, calls
            self._settle()

    def worker_ended(self, *indexes: int) -> None:
        """These workers have ended, successfully or not. Their slices are skipped."""
        with self.changed:
            self.ended.update(indexes)
            self._settle()

    def wait_until_ready(self, index: int) -> None:
        """Wait for this worker to be warm, or to end."""
        with self.changed:
            while index not in self.ns_per_call and index not in self.ended:
                self.changed.wait(POLL_S)

    @property
    def all_ready(self) -> bool:
        return len(self.ns_per_call.keys() | self.ended) == self.count

    def _settle(self) -> None:
        """When all speeds are known, decide the slices: mix them, or shorten a fixed order.

        Only a call that is longer than a slice shortens it, not the rounding to whole calls.
        """
        if self.all_ready and not self.settled:
            self.settled = True
            if self.programme.mixed:
                self.others = self._after()
            elif self.ns_per_call:
                slices = [max(self.slice_ns, self.pace(index)) for index in self.ns_per_call]
                self.steps = self.steps[: self._fitting(self.steps, fmean(slices), FEWEST_SLICES)]
        self._skip()
        self.changed.notify_all()

    def _choose(self) -> None:
        """Decide the next slice of steps of a mixed order, if a worker needs one.

        The order is random, and each worker's slices are spread evenly over the block. What counts
        is the share that it has done so far, so this holds for a worker whose speed changes, too.
        """
        left = [index for index in sorted(self.ns_per_call) if not self._needs_none(index)]
        if left:
            index = min(left, key=lambda each: sum(self._share(each)))
            self.draws[index] = self.chance.random()
            self.steps.append(Slice("step", index, self._calls_of_next(index)))

    def _share(self, index: int) -> tuple[float, float]:
        """What share of its steps or its time this worker has done; a random part of one slice."""
        total, calls, count = self.jobs[index].protocol.calls, self.calls(index), FEWEST_MIXED
        if total is not None:
            done, slices = self.calls_made[index] / total, total / calls
        else:
            wanted_ns = self.jobs[index].protocol.measured_s * 1e9
            done = min(self.measured_ns[index] / wanted_ns, self.slices_made[index] / count)
            slices = max(count, wanted_ns / (calls * self.ns_per_call[index]))
        return done, self.draws[index] / slices

    def _calls_of_next(self, index: int) -> int:
        total, calls = self.jobs[index].protocol.calls, self.calls(index)
        if total is None:
            return calls
        calls = max(calls, math.ceil(total / MOST_MIXED))
        return min(calls, total - self.calls_made[index])

    def _after(self) -> list[Slice]:
        """The slices of other quantities: each quantity in rounds, in which the workers have a
        random order."""
        chance = random.Random(f"{self.programme.seed} after")
        slices: list[Slice] = []
        for other, count in SLICES_AFTER.items():
            for _ in range(count):
                for index in chance.sample(sorted(self.ns_per_call), len(self.ns_per_call)):
                    seconds = self.jobs[index].protocol.after.get(other, 0.0)
                    ms = round(1000 * seconds / count)
                    slices += [Slice(other, index, ms=ms)] if ms else []
        return slices

    def pace(self, index: int) -> float:
        """Nanoseconds per vector step; of the first worker, if all make equally many steps."""
        if self.programme.equal_calls:
            index = min(self.ns_per_call)
        return self.ns_per_call[index]

    def calls(self, index: int) -> int:
        """Vector steps of this worker's slices."""
        mixed = self.programme.mixed
        slice_ns = mixed[index] * 1e9 if mixed else self.slice_ns
        return max(1, round(slice_ns / self.pace(index)))

    def lead_in(self, index: int) -> int:
        """Untimed vector steps before a slice.

        They last for the programme's time or, if that costs little, until everything in flight is
        returned. They are needed even after a slice of the same worker, because it was stopped in
        between. With ``equal_calls``, before a worker's first slice, they last until it has made as
        many steps as the others, so that all are at the same steps of their episodes, unless that
        takes too long.
        """
        if self.programme.equal_calls and not self.slices_made[index]:
            behind = max(self.calls_before.values()) - self.calls_before[index]
            return behind if behind * self.ns_per_call[index] < LONGEST_LEAD_S * 1e9 else 0
        seconds = self.programme.lead_in_s[index] if self.programme.lead_in_s else 0.0
        if not seconds:
            return 0
        job, wanted = self.jobs[index], seconds * 1e9 / self.ns_per_call[index]
        in_flight = min(job.env_instances / job.numenv, LEAD_SHARE * self.calls(index))
        return math.ceil(max(wanted, in_flight))

    def _fitting(self, slices: Sequence[object], ns: float, fewest: int) -> int:
        """How many of the planned slices fit into the planned time if each takes ``ns``: whole
        groups of two per worker."""
        count = int(len(slices) * self.slice_ns / max(self.slice_ns, ns))
        group = 2 * self.count
        return max(count // group * group, fewest * self.count)

    # ------------------------------------------------------------ slice by slice

    def await_turn(self, index: int) -> bytes:
        """Wait for this worker's next slice; returns the order, or an empty line after the last."""
        with self.changed:
            self.changed.wait_for(lambda: self.may_go(index))
            due = self.due
            if due is None:
                return b"\n"
            if due.kind == "reset":
                order = f"reset {max(1, self.resets)}" if due.ms is None else f"reset_ms {due.ms}"
                return f"{order}\n".encode()
            return self.order(due).encode()

    def order(self, due: Slice) -> str:
        """The order for a slice of steps, with its lead-in if there is one."""
        if due.kind == "each":
            slices = len(self.steps) // self.count
            return f"each {math.ceil(EACH * slices * self.calls(due.worker))}\n"
        lead_in = self.lead_in(due.worker)
        lead = f"lead {lead_in}\n" if lead_in else ""
        if due.ms is not None:
            return f"{lead}{due.kind}_ms {due.ms}\n"
        return f"{lead}step {due.calls or self.calls(due.worker)}\n"

    def may_go(self, index: int) -> bool:
        return self.settled and (self.due is None or self.due.worker == index)

    def slice_made(self, index: int, window: WindowEnded) -> None:
        """The worker has made the ordered slice. ``NotOrdered``: it made another one."""
        with self.changed:
            due = self.due
            if due is None or due.worker != index:
                raise NotOrdered
            if due.kind == "step" and window.calls != (due.calls or self.calls(index)):
                raise NotOrdered
            if due.kind == "step":
                self.made.append(index)
                self.measured_ns[index] += window.ns
                self.slices_made[index] += 1
                self.calls_made[index] += window.calls
            elif due.ms is not None and not window.steps + window.resets:
                self.lacking.add((index, due.kind))
            elif due.kind == "reset" and due.ms is None and not self.resets:
                self._size_reset_slices(window)
            self.next += 1
            self._skip()
            self.changed.notify_all()

    def _skip(self) -> None:
        """Pass over slices of workers that have ended. In a mixed order, decide the next one."""
        while self.next < len(self.steps) and self.steps[self.next].worker in self.ended:
            self.next += 1
        if self.settled and self.programme.mixed and self.next == len(self.steps):
            self._choose()
        while self.next >= len(self.steps) and self.due and self._is_impossible(self.due):
            self.next += 1

    def _is_impossible(self, due: Slice) -> bool:
        return due.worker in self.ended or (due.worker, due.kind) in self.lacking

    def _needs_none(self, index: int) -> bool:
        """Has this worker of a mixed order ended, or made its steps, or measured for its time? The
        number of its slices is limited, too: its clock may not advance."""
        protocol, count = self.jobs[index].protocol, self.slices_made[index]
        if protocol.calls is not None:
            enough = self.calls_made[index] >= protocol.calls
        else:
            enough = self.measured_ns[index] >= protocol.measured_s * 1e9 and count >= FEWEST_MIXED
        return enough or index in self.ended or count >= 2 * MOST_MIXED

    def _size_reset_slices(self, window: WindowEnded) -> None:
        """Set the resets per slice and the number of slices by the time of the first reset."""
        first = self.next - len(self.steps)
        if not window.resets:  # the library has no reset for all environments
            self.others = self.others[: first + 1]
            return
        self.resets = min(max(1, round(self.slice_ns / max(1, window.ns))), MOST_RESETS)
        count = self._fitting(self.others[first:], window.ns, FEWEST_RESET_SLICES)
        self.others = self.others[: first + count]
