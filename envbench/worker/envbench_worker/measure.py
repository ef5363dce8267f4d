"""The measuring loop: warm-up to steady state, then windows, on the monotonic clock only.

A window is a fixed number of vector steps, chosen in the warm-up to last about ``window_s``. The
clock is read once per window, so a window contains only what a learner would do. Windows are back
to back: the end of one is the start of the next. So a backend whose threads run ahead gains nothing
between windows. Bookkeeping is included in the measured time.

Other quantities have slices of their own after the windows (``after_steps``).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from statistics import median
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from envbench_worker.after_steps import PATIENCE, SLOWEST_NS, fitting, returns, rounded, step_times
from envbench_worker.contract import Adapter, Counts, ImpossibleFigure, from_batch, shuffled
from envbench_worker.energy import Energy
from envbench_worker.sensors import Sensors
from envbench_worker.windows import STEADY_WINDOWS, Windows, checksums, invalidity, is_steady

LATEST = 5  # recent windows; the median of their speeds sets the calls per window
MOST_RESETS = 10_000  # per slice
MOST_CALLS = 2**32  # in a quarter of a window: no backend is this fast

Emit = Callable[[Dict[str, Any]], None]
clock = time.perf_counter_ns


class Meter:
    """Runs an adapter window by window and records the results."""

    def __init__(self, adapter: Adapter, protocol: Dict[str, Any], emit: Emit) -> None:
        self.adapter = adapter
        self.protocol = protocol
        self.emit = emit
        self.sensors = Sensors()
        self.warmup = Windows()
        self.measured = Windows()
        self.resets = Windows()  # slices of resets
        self.short_calls = Windows()  # steps in calls of one or a few each
        self.calls_ns: Optional[int] = None  # of these, besides their steps, if known
        self.latency: Counter[int] = Counter()  # nanoseconds of single vector steps
        self.returns: Optional[Dict[str, Any]] = None
        self.results: List[List[int]] = []  # checksums per measured slice, if the protocol asks
        self.spot: Any = None  # the SpotCheck of this process, which has its moments between slices
        self.calls = 0  # vector steps that were made
        takes_batches = adapter.first_observations is not None
        self._bank = list(adapter.bank) if takes_batches else []
        # If a check asks for them, the batches that vector steps got: from which step on, in which
        # order, and the first one.
        self._orders = [(0, self._bank, 0)]
        self.total_steps = 0
        self._warm = 0  # the windows of the warm-up, without lead-ins
        self._last = self._ramp = 0  # the last window's end; the windows of the calibration
        self._origin = self._warmup_origin = 0  # when the columns' times begin
        self._load: Optional[Dict[str, Any]] = None  # of the steps, once they are over
        self._others = {
            "latency_ms": self._time_steps,
            "returns_ms": self._note_returns,
            "reset_ms": self._reset_for,
        }

    def first_step(self) -> int:
        """Make the first vector step, compile included; return its nanoseconds."""
        start = clock()
        self.adapter.resume()  # what was made before the clock ran is not a part of this step
        self.adapter.compile()
        counts = self.adapter.run(self.adapter.first_calls)
        took = clock() - start
        self.calls += self.adapter.first_calls
        if not isinstance(counts, Counts):
            raise TypeError("`run` has to return Counts(steps, resets), not {!r}".format(counts))
        self.total_steps += counts.steps
        self.adapter.prepare()
        return took

    def warm_up(self) -> bool:
        """Run windows until the rate is steady, or the time is up. Return whether it is steady."""
        self.sensors.window()
        self._last = clock()
        self._origin = self._warmup_origin = self._last
        self._ramp = ramp = self._calibrate()
        while True:
            calls = self._fitting()
            elapsed = self._last - self._origin
            enough = len(self.warmup.ns) - ramp >= STEADY_WINDOWS
            steady = is_steady(self.warmup, ramp)
            if elapsed >= self.protocol["warmup_min_s"] * 1e9 and enough and steady:
                return True
            if elapsed >= self.protocol["warmup_max_s"] * 1e9:
                return steady  # judged from at least four windows
            if self.spot is not None and self.calls > self.spot.by:
                self.spot.now(self)
                self._last = clock()
            self._warm_up_for(calls)

    def _warm_up_for(self, calls: int) -> None:
        """Run a window of the warm-up, with a new iterator: an adapter may read ahead in a call."""
        self._give(self._other_order(self._bank, self.calls))
        self.run_window("warmup", self.warmup, calls)

    def measure(self) -> None:
        """Run windows of a fixed number of calls until the time or the calls are used up."""
        calls = self._fitting()
        self._begin()
        self._give(self._next_order())
        # A pool runs ahead while the load is read: that work belongs to the warm-up.
        self.run_window("warmup", self.warmup, calls)
        self._origin = self._last
        budget: Optional[int] = self.protocol["calls"]
        if budget is not None:
            while budget > 0:
                self.run_window("measure", self.measured, min(calls, budget))
                budget -= calls
        else:
            end = self._origin + int(self.protocol["measured_s"] * 1e9)
            while self._last < end:
                self.run_window("measure", self.measured, calls)
        for other, seconds in self.protocol["after"].items():
            if other + "_ms" in self._others:  # not those of a SpotCheck
                self._measure_other(other + "_ms", 1000 * seconds)

    def _begin(self) -> None:
        self._warm = len(self.warmup.ns)
        if self.adapter.gpu_memory() is not None:
            self.sensors.energy = Energy(gpu=True)
        self.sensors.begin()

    def load(self) -> Dict[str, Any]:
        """Return the ``envbench.model.Load`` of all measured windows, without other quantities."""
        if self._load is None:
            measured = sum(self.measured.ns) + sum(self.resets.ns)
            lead_ins = sum(self.warmup.ns[self._warm :])
            self._load = self.sensors.load(measured / (measured + lead_ins) if measured else 1.0)
        return self._load

    def take_turns(self, orders: Iterable[Tuple[str, int]]) -> None:
        """Run one slice per order. Between two orders other processes use the machine.

        ``step N``: N vector steps, a measured window. ``reset N``: reset all environments N times.
        ``lead N``: N vector steps before the next slice, to refill the caches after a switch. They
        are recorded as a window of the warm-up and do not affect a rate. They send no event: it
        would take CPU time from the slice that follows. ``latency_ms N``, ``returns_ms N``
        and ``reset_ms N``: about N ms of another quantity, after all ``step`` orders. Any other
        word raises ``ValueError``. ``each N``: N vector steps, a call each, whose results all count
        for the checksums, after the ``step`` orders.
        """
        self.sensors.per_slice = True
        self._begin()
        self._origin = clock()
        for what, calls in orders:
            if self.spot is not None:
                self.spot.between_slices(self)
            if what in self._others:
                self._measure_other(what, calls)
                continue
            batches = self._next_order()
            self.sensors.window()
            self._last = clock()
            self._give(batches)  # from here on, what the adapter does is timed
            self.adapter.resume()
            if what == "step":
                self.run_window("measure", self.measured, calls)
            elif what == "lead":
                self._steps(self.warmup, calls)
            elif what == "each":
                self._look_at_each(calls)
            elif what == "reset":
                start, made = self._last, [self._reset() for _ in range(calls)]
                self._last = clock()
                self._keep_resets(made, self._last - start)
            else:
                raise ValueError(
                    "the order '{} {}' is unknown: a slice is one of step, reset and lead. "
                    "Either the controller and the worker come from two releases of envbench, or "
                    "an environment forked the worker.".format(what, calls)
                )

    def _next_order(self) -> Optional[Iterator[Any]]:
        """Return a new iterator over the bank, in another random order. If the results of trials
        are compared, they get the same actions: the bank in its order. None: the adapter takes no
        batches."""
        if self.protocol.get("results"):
            return self._other_order(self._bank, self.calls)
        return self._other_order(shuffled(self._bank), 0)

    def _other_order(self, order: List[Any], first: int) -> Optional[Iterator[Any]]:
        """Return a new iterator over these batches. Note which the next steps get, if a check asks
        for them."""
        if not order:
            return None
        if self.spot is not None and self.spot.by < math.inf:
            self._orders.append((self.calls, order, first))
        return from_batch(order, first)

    def batches_so_far(self, bank: List[Any]) -> List[Any]:
        """Return the batch that each vector step got, from the first one on. ``bank``: copies of
        the adapter's batches, which it cannot have changed. For a check that needs all of them: it
        comes before other quantities are measured."""
        copies = {id(own): copy for own, copy in zip(self._bank, bank)}
        ends = [*(start for start, _, _ in self._orders[1:]), self.calls]
        return [
            copies[id(order[(first + call) % len(order)])]
            for (start, order, first), end in zip(self._orders, ends)
            for call in range(end - start)
        ]

    def _give(self, batches: Optional[Iterator[Any]]) -> None:
        if batches is not None:
            self.adapter.batches = batches

    def _measure_other(self, order: str, ms: float) -> None:
        """Measure another quantity. If the library lacks it, no step and no reset is reported."""
        if self.spot is not None:
            self.spot.now(self)  # it goes on from the latest step
        self.load()  # of the steps: it ends here
        self.sensors.window()
        self._last = clock()
        self._others[order](ms / 1000)

    def _time_steps(self, seconds: float) -> None:
        start, pace = self._last, self.ns_per_call()
        took = step_times(self.adapter, fitting(seconds, pace)) if pace < SLOWEST_NS else None
        took = took or []
        self._last = clock()
        if invalidity(self.sensors.window(), self._last - start) != "suspended":
            self.latency.update(map(rounded, took))
        made = Counts(len(took) * self.adapter.job.numenv, 0)
        self._tell("measure", self._last - start, len(took), made)

    def _note_returns(self, seconds: float) -> None:
        start, job = self._last, self.adapter.job
        ids = self.adapter.returned(fitting(seconds, self.ns_per_call())) or []
        self._last = clock()
        if ids:
            self.returns = returns(ids, job.env_instances)
        made = Counts(len(ids) * job.numenv, 0)
        self._tell("measure", self._last - start, len(ids), made)

    def _reset_for(self, seconds: float) -> None:
        """Reset all environments at least once, each time after a vector step that is not timed: a
        learner never resets them twice in a row."""
        until = self._last + PATIENCE * seconds * 1e9
        made: List[Optional[int]] = []
        took = 0
        while not made or (took < seconds * 1e9 and self._last < until and len(made) < MOST_RESETS):
            self.adapter.run(1)
            start = clock()
            made.append(self._reset())
            self._last = clock()
            took += self._last - start
            if made[-1] is None:
                break
        self._keep_resets(made, took)

    def _reset(self) -> Optional[int]:
        """Reset all environments. A learner needs their observations, so they have to be there."""
        made = self.adapter.reset()
        self.adapter.first_observations  # noqa: B018 - it may be a property that resets only now
        return made

    def _keep_resets(self, made: List[Optional[int]], took: int) -> None:
        """Record a slice of resets if the library can do them. They took that many nanoseconds."""
        known = [each for each in made if each is not None]
        if known:
            self._keep(self.resets, self._last - took, len(made), Counts(0, sum(known)))
        self._tell("measure", took, len(made), Counts(0, sum(known)))

    def _look_at_each(self, calls: int) -> None:
        """Make vector steps in calls of one each. Keep checksums of what all of them returned. An
        adapter that showed nothing after its slices makes none: it may have to compile such calls.
        """
        if not self.results:
            self._tell("measure", 0, calls, Counts(0, 0))
            return
        start = self._last
        made: List[Counts] = []
        found: List[List[int]] = []

        def look() -> None:
            for _ in range(calls):
                self._give(self._next_order())
                made.append(self.adapter.run(1))
                self.calls += 1
                last = self.adapter.last()
                found[:] = [] if last is None else [checksums(last, *found)]

        self.sensors.leave_out(look)
        self.keep_short_calls(clock() - start, made, len(made))
        self.results += found
        self._tell("measure", self._last - start, calls, made[-1])

    def keep_short_calls(self, took: int, made: List[Counts], steps: int) -> None:
        """Record so many vector steps in short calls, which took that many nanoseconds."""
        self._last = clock()
        counts = Counts(sum(each.steps for each in made), sum(each.resets for each in made))
        self._keep(self.short_calls, self._last - took, steps, counts)

    def _calibrate(self) -> int:
        """Double the calls per window until one is long enough to extrapolate from. Return the
        number of windows."""
        calls = 1
        while True:
            self._warm_up_for(calls)
            if self.warmup.ns[-1] * 4 >= self.protocol["window_s"] * 1e9:
                return len(self.warmup.ns)
            if calls >= MOST_CALLS:
                raise ImpossibleFigure(
                    "{} vector steps took {} ns: they cannot have been made".format(
                        calls, self.warmup.ns[-1]
                    )
                )
            calls *= 2

    def _fitting(self) -> int:
        """How many calls last about one window."""
        return max(1, int(self.protocol["window_s"] * 1e9 / self.ns_per_call() + 0.5))

    def ns_per_call(self) -> float:
        """The median of the latest full windows of the warm-up.

        The median ignores a reset or a disturbance in one of them.
        """
        latest = slice(max(self._ramp - 1, len(self.warmup.ns) - LATEST), None)
        windows = zip(self.warmup.ns[latest], self.warmup.calls[latest])
        return median(ns / calls for ns, calls in windows)

    def run_window(self, phase: str, windows: Windows, calls: int) -> None:
        start = self._last
        counts = self._steps(windows, calls)
        if windows is self.measured and self.protocol.get("results"):
            last = self.adapter.last()
            self.results += [] if last is None else [checksums(last)]
        self._tell(phase, self._last - start, calls, counts)

    def _steps(self, windows: Windows, calls: int) -> Counts:
        start = self._last
        counts = self.adapter.run(calls)
        self._last = clock()
        self.calls += calls
        self._keep(windows, start, calls, counts)
        self.total_steps += counts.steps
        return counts

    def _keep(self, windows: Windows, start: int, calls: int, counts: Counts) -> None:
        ns = self._last - start
        slices = windows is self.measured or windows is self.resets
        reason = invalidity(self.sensors.window(slices), ns)
        if reason:
            windows.invalid[str(len(windows.ns))] = reason
        # A lead-in comes between measured windows, but is recorded in the warm-up's columns.
        origin = self._warmup_origin if windows is self.warmup else self._origin
        windows.start_ns.append(start - origin)
        windows.ns.append(ns)
        windows.calls.append(calls)
        windows.steps.append(counts.steps)
        windows.resets.append(counts.resets)

    def _tell(self, phase: str, ns: int, calls: int, counts: Counts) -> None:
        window = {"event": "window", "phase": phase, "ns": ns, "calls": calls}
        self.emit({**window, **counts._asdict()})
