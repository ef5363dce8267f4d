"""Mode measure: checks of a measured process, outside its slices.

Some of its vector steps are saved for the reference to follow, and the results of a few slices have
to be there at once. The adapter is not told.
"""

from __future__ import annotations

import contextlib
import math
import time
from copy import deepcopy
from random import random
from typing import Any, Dict, List, Optional

from envbench_worker import trace_parts, traces
from envbench_worker.contract import Adapter, ImpossibleFigure, Trace

REPLAYED = 200_000  # steps of environments that the reference makes again, at most
LONGEST_NS = 5e9  # a longer check at the end might be taken for a hang
LOOKS = 5  # slices after which the results have to be there at once
LATE_SHARE, LATE_NS = 0.05, 2_000_000  # of a slice, and at least: results that took longer are late

clock = time.perf_counter_ns


class SpotCheck:
    """Saves what some vector steps of the measured environments return.

    Chance decides when: before the first timed step, or later, between two slices. A plugin's steps
    are followed by more starts, because its author decides how it resets while it is measured. It
    may also do other work some thousands of steps after a reset. So the check goes on where the
    environments are. If the reference cannot be put into the middle of an episode, it follows the
    next ones; or, where both only start from the same seed, all steps since then.

    ``by``: it is made after this many vector steps, or earlier.
    """

    def __init__(self, job: Dict[str, Any], folder: str, own: bool) -> None:
        """``own``: the adapter is envbench's, not a plugin's."""
        self.job, self.folder = job, folder
        self.steps, self.midway = int(job["spot"]), bool(job["midway"])
        self.by_state = job["follows_by"] == "state"
        self.plugin = self.by_state and not own
        self.share = 0.5 * self.midway  # the chance that it goes on where the environments are
        self.waits = False  # does it come between two slices?
        self.by = math.inf
        self.first: Any = None  # the first observations, where steps are made again from a seed
        whole = (job["protocol"].get("measured_s") or 0.0) * 1e9
        self.at = random() * whole  # after this many measured nanoseconds
        # Once in each fifth of the time, so that a short trial has enough of them.
        self.look_at = [(part + random()) * whole / LOOKS for part in range(LOOKS)]
        self.late: List[bool] = []  # were the results of these slices late?

    def begin(self, adapter: Adapter) -> Optional[Trace]:
        """Decide if the check waits. Otherwise return its steps, made before the first timed one,
        to ``save``. Any exception: the adapter cannot be followed, and its environments have to be
        made anew."""
        if self.plugin and (self.midway or adapter.begins_anew):
            self.share = 1.0
        first = adapter.first_observations
        if not self.by_state and first is not None:
            self.first = deepcopy(first)  # the adapter may use the array again
            self.waits, self.by = True, (1 + random()) / 2 * REPLAYED / self.job["numenv"]
        elif self.by_state:
            self.waits = trace_parts.waits(adapter, self.midway, max(0.5, self.share))
        if self.waits:
            return None
        return traces.lock_steps(adapter, self.steps, several=self.by_state)

    def between_slices(self, meter: Any) -> None:
        """Do what is due after the latest slice of the meter."""
        made = sum(meter.measured.ns)
        due = [each for each in self.look_at if each < made]
        if due:  # a step slice has just ended: only those add to what was made
            del self.look_at[: len(due)]
            self._look(meter)
        if made > self.at or meter.calls > self.by:
            self.now(meter)

    def now(self, meter: Any) -> None:
        """Make the check, if it still waits. No slice and no load contains it."""
        if self.waits:
            self.waits = False
            meter.sensors.leave_out(lambda: self._make(meter))

    def _make(self, meter: Any) -> None:
        with contextlib.suppress(Exception):  # then there is no check
            self.save(meter.adapter, self._later(meter))

    def _later(self, meter: Any) -> Optional[Trace]:
        pace = max(1.0, meter.ns_per_call())
        fitting = max(2, min(self.steps, int(LONGEST_NS / pace)))
        if self.by_state:
            return trace_parts.later(meter.adapter, fitting, self.share)
        return trace_parts.since_start(meter.adapter, self.first, meter.batches_so_far(), fitting)

    def save(self, adapter: Adapter, trace: Optional[Trace]) -> None:
        """Write the steps for the reference, if there are any; a plugin's with more starts."""
        if trace is not None and self.plugin:
            trace = trace_parts.with_starts(adapter, trace, self.midway)
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
