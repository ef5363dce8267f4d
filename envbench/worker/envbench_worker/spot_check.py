"""Mode measure: checks of a measured process, outside its slices.

Some of its vector steps are saved for the reference to follow, and the results of a few slices have
to be there at once. A plugin's steps are timed there, too, to be compared with its slices. It makes
such steps in each process, and they are followed in one of them. The adapter is not told.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from copy import deepcopy
from random import random
from statistics import median
from typing import Any, Dict, List, Optional, Sequence, Tuple

from envbench_worker import trace_parts, traces
from envbench_worker.contract import MOST_TRACED, Adapter, Counts, ImpossibleFigure, Trace
from envbench_worker.sensors import tree_peak_memory

REPLAYED = 200_000  # steps of environments that the reference makes again, at most
LONGEST_NS = 5e9  # a longer check at the end might be taken for a hang
MOST_TIMED, MOST_BYTES = 20_000, 2**24  # steps of environments, and of their observations
MOMENTS = 4  # at which a plugin's steps are timed: a machine's speed changes within a second
LOOKS = 5  # slices after which the results have to be there at once
LATE_SHARE, LATE_NS = 0.05, 2_000_000  # of a slice, and at least: results that took longer are late

QUICK_NS = 100_000  # of a call of one step: in longer ones, what a call costs hardly matters
LONG, FEWEST_STEPS = 20, 60  # vector steps of a long call, and of all long calls
MOST_CALL_NS = 20_000  # of a call of ``run``: not a cost of its steps
MOST_LONG_CALL_NS = 10_000  # of a long call, because a plugin can wait in calls of one step
STOPPED_NS = 1_000_000  # a call took so much longer than usual: another program ran

clock = time.perf_counter_ns


def cost_of_calls(calls: Sequence[Tuple[int, int]]) -> int:
    """The nanoseconds that all these calls took besides their steps. ``calls``: the nanoseconds and
    vector steps of each.

    Where a call of one step is not quick, a call costs ``MOST_CALL_NS``. Otherwise that could be
    more than its step takes, and a plugin could wait in some calls of one step. So there only long
    calls say how long a step takes (``_step_ns``).
    """
    single = [ns for ns, steps in calls if steps == 1]
    usual = median(single) if single else 0.0
    long = [(ns, steps) for ns, steps in calls if steps >= LONG]
    took, made = (sum(each) for each in zip(*calls))
    if usual > QUICK_NS or sum(steps for _, steps in long) < FEWEST_STEPS:
        return int(len(calls) * min(MOST_CALL_NS, usual / 2))
    stopped = sum(each for each in (ns - usual for ns in single) if each > STOPPED_NS)
    return max(0, int(took - made * _step_ns(long, usual) * took / (took - stopped)))


def _step_ns(long: Sequence[Tuple[int, int]], usual: float) -> float:
    """How long a step takes in long calls, if no other program runs. ``usual``: the nanoseconds of
    a call of one step. What a call costs is by how much that is more than a further step."""
    further = median(ns / steps for ns, steps in long)
    cost = min(max(0.0, usual - further), MOST_LONG_CALL_NS)
    late = (ns - steps * further for ns, steps in long)
    took = sum(ns for ns, _ in long) - sum(each for each in late if each > STOPPED_NS)
    return max(0.0, took - len(long) * cost) / sum(steps for _, steps in long)


class SpotCheck:
    """Saves what some vector steps of the measured environments return.

    Chance decides when: before the first timed step, or later, between two slices. A plugin's steps
    are followed by more starts, because its author decides how it resets while it is measured. It
    may also do other work some thousands of steps after a reset. So the check goes on where the
    environments are. If the reference cannot be put into the middle of an episode, it follows the
    next ones; or, where both only start from the same seed, all steps since then.

    Each of a plugin's processes makes such steps between slices, for ``timed_s`` seconds in all, in
    ``MOMENTS`` parts. Only those of one process are saved. If the adapter left out work in long
    calls, these steps would be slower. If it left out work here, too, the reference would differ.

    ``at``: it is made after this many measured nanoseconds, each time. ``by``: after this many
    vector steps, or earlier. ``memory_before``: the peak memory before the steps between two
    slices, which are kept in memory.
    """

    def __init__(self, job: Dict[str, Any], folder: str, own: bool) -> None:
        """``own``: the adapter is envbench's, not a plugin's."""
        self.job, self.folder = job, folder
        self.steps, self.midway = int(job["spot"]), bool(job["midway"])  # no steps: none is saved
        self.timed_s = float((job["protocol"].get("after") or {}).get("short_calls", 0.0))
        self.by_state = job["follows_by"] == "state"
        self.plugin = self.by_state and not own
        self.share = 0.5 * self.midway  # the chance that it goes on where the environments are
        self.waits = False  # does it come between two slices?
        self.saves = False  # are the steps between two slices saved?
        self.by = math.inf
        self.memory_before: Optional[int] = None
        # Copies of the first observations and of the bank, where steps are made again from a seed.
        self.first: Any = None
        self.bank: List[Any] = []
        whole = (job["protocol"].get("measured_s") or 0.0) * 1e9
        # Where only a seed is the same, the reference makes all steps again, up to one moment.
        self.moments = MOMENTS if self.timed_s and self.by_state else 1
        self.at = sorted(random() * whole for _ in range(self.moments))
        self.parts: List[Optional[Trace]] = []  # what was made at these moments, if it is saved
        self.timed: List[Tuple[int, int]] = []  # nanoseconds and vector steps of each call
        # Once in each fifth of the time, so that a short trial has enough of them.
        self.look_at = [(part + random()) * whole / LOOKS for part in range(LOOKS)]
        self.late: List[bool] = []  # were the results of these slices late?

    def begin(self, adapter: Adapter) -> Optional[Trace]:
        """Decide if the check waits. Otherwise return its steps, made before the first timed one,
        to ``save``. Any exception: the adapter cannot be followed, and its environments have to be
        made anew."""
        first, waits = adapter.first_observations, False
        if not self.by_state and first is not None:
            self.first, self.bank = deepcopy((first, adapter.bank))
            waits, self.by = True, (1 + random()) / 2 * REPLAYED / self.job["numenv"]
        elif self.by_state:
            if self.plugin:
                self.share = self._share()
            chance = 1.0 if self.plugin else max(0.5, self.share)
            waits = trace_parts.waits(adapter, self.midway, chance)
        # Steps that no reference could follow are not timed.
        able = not self.by_state or self.midway or adapter.begins_anew
        self.waits = waits or (self.timed_s > 0 and first is not None and able)
        self.saves = waits and self.steps > 0
        if waits or not self.steps:
            return None
        return traces.lock_steps(adapter, self.steps, several=self.by_state)

    def _share(self) -> float:
        """Of a plugin: the steps that are timed have to be steps that can be followed. Without
        ``midway`` these are the ones after a reset. A process whose steps are saved also looks,
        every second time, at environments that were reset long ago."""
        if self.midway:
            return 1.0
        return 0.5 if self.steps else 0.0

    def between_slices(self, meter: Any) -> None:
        """Do what is due after the latest slice of the meter."""
        made = sum(meter.measured.ns)
        due = [each for each in self.look_at if each < made]
        if due:  # a step slice has just ended: only those add to what was made
            del self.look_at[: len(due)]
            self._look(meter)
        if self.waits and (made > self.at[0] or meter.calls > self.by):
            self._next(meter)

    def now(self, meter: Any) -> None:
        """Make the check, if it still waits: all its parts that do."""
        while self.waits:
            self._next(meter)

    def _next(self, meter: Any) -> None:
        """Make the next part of the check. No slice and no load contains it."""
        del self.at[0]
        self.waits = bool(self.at)
        if self.memory_before is None:
            self.memory_before = tree_peak_memory(os.getpid())
        meter.sensors.leave_out(lambda: self._make(meter))

    def _make(self, meter: Any) -> None:
        self.parts.append(None)
        with contextlib.suppress(Exception):  # then there is no check
            part = self._later(meter)
            if self.saves:
                self.parts[-1] = part
        if self.saves and not self.waits:
            with contextlib.suppress(Exception):
                self.save(meter.adapter, self._joined())

    def _joined(self) -> Optional[Trace]:
        """All parts, one after the other. None: one of them is missing."""
        whole = self.parts[0]
        for part in self.parts[1:]:
            if whole is None or part is None:
                return None
            between = trace_parts.RESET if part.over is None else trace_parts.ENTERED
            whole = trace_parts.joined(whole, part, between)
        return whole

    def _later(self, meter: Any) -> Optional[Trace]:
        adapter, pace = meter.adapter, max(1.0, meter.ns_per_call())
        steps = -(-self.steps // self.moments)  # of each part
        calls = max(2, min(steps, int(LONGEST_NS / pace)), self._in_time(adapter, pace))
        timed: List[Tuple[int, int]] = []
        made: List[Counts] = []

        def note(ns: int, counts: Counts, stride: int) -> None:
            timed.append((ns, stride))
            made.append(counts)

        meter.sensors.window()
        clocked = note if self.timed_s else None
        if self.by_state:
            trace = trace_parts.later(adapter, calls, self.share, clocked)
        else:
            so_far = meter.batches_so_far(self.bank)
            trace = trace_parts.since_start(adapter, self.first, so_far, calls, clocked)
        if made:
            took, steps = (sum(each) for each in zip(*timed))
            meter.keep_short_calls(took, made, steps)
            self.timed += timed
            meter.calls_ns = cost_of_calls(self.timed)
        return trace

    def _in_time(self, adapter: Adapter, pace: float) -> int:
        """How many vector steps of a part fit into its time: not more than a trace should have."""
        numenv = int(self.job["numenv"])
        traced = min(numenv, MOST_TRACED)
        size = int(adapter.first_observations.nbytes) * traced // numenv
        most = min(MOST_TIMED // traced, MOST_BYTES // max(1, size))
        return min(int(self.timed_s * 1e9 / pace), most) // self.moments

    def save(self, adapter: Adapter, trace: Optional[Trace]) -> None:
        """Write the steps for the reference, if there are any; a plugin's with more starts."""
        if trace is not None and self.plugin:
            trace = trace_parts.with_starts(adapter, trace, self.midway, self.saves)
        if trace is not None:
            traces.save(trace, self.folder)

    def _look(self, meter: Any) -> None:
        """What the latest slice returned has to be there at once: an adapter that steps only when
        it is asked for results has not done its work in the slice. One late result may have been
        interrupted by another program. So most of them have to be late."""
        slice_ns, started = meter.measured.ns[-1], clock()
        meter.adapter.last()
        took, step_ns = clock() - started, slice_ns / max(1, meter.measured.calls[-1])
        self.late.append(took > max(LATE_SHARE * slice_ns, LATE_NS, 2 * step_ns))
        if 2 * sum(self.late) > LOOKS:
            raise ImpossibleFigure(
                "the results of a slice took {:.1f} ms to return, after {:.1f} ms of stepping: its "
                "steps were not made in time".format(took / 1e6, slice_ns / 1e6)
            )
