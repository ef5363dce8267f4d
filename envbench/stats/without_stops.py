"""How fast a process steps outside its slices, compared with its slices. Pure.

Cells alternate in short slices and are stopped in between. During its warm-up, a process steps
without a stop. After a stop, the system's scheduler places the threads of a pool anew. So the two
speeds may differ, by more than the intervals of the slices say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from envbench.model import Run, Windows
from envbench.stats.intervals import Interval, interval

CALL_NS = 20_000  # of a call of ``run``: not a cost of its steps, where it was not measured
SETTLED_NS = 1_000_000_000  # of the warm-up, which do not count: caches fill, a clock may rise
FEWEST_NS = 500_000_000  # after that


@dataclass(frozen=True, kw_only=True)
class WithoutStops:
    """The geometric mean of several processes' ratios: steps per second without a stop / in slices.
    ``interval``: at 95 %; None for fewer than five processes."""

    ratio: float
    interval: Interval | None
    processes: int


def without_stops(run: Run) -> float | None:
    """The process's rate without a stop / its rate in slices.

    None if it did not alternate, if the machine slept, or if its warm-up was shorter than 1.5 s.
    """
    warm, slices = run.warmup, run.measured
    if not run.alternated or not sum(slices.steps) or not (warm.whole and slices.whole):
        return None
    steps = took = 0
    for place in range(warm.without_gap):
        if warm.invalid.get(str(place), "").startswith("suspend"):
            return None
        if warm.start_ns[place] >= SETTLED_NS:
            steps, took = steps + _steps(run, warm, place), took + warm.ns[place]
    if took < FEWEST_NS or steps <= 0:
        return None
    return steps / took / (sum(slices.steps) / sum(slices.ns))


def in_short_calls(run: Run, *, whole: bool = False) -> float | None:
    """The process's rate in short calls / its rate in slices, which are long calls.

    Without what the calls cost besides their steps, unless ``whole``. None if it made no short
    calls in valid windows, or if they took no longer than that.
    """
    short, slices = run.short_calls, run.measured
    valid = [i for i in range(len(short.ns)) if str(i) not in short.invalid]
    cost = run.calls_ns
    if cost is None:  # an older record: nearly all calls make one step
        cost = sum(CALL_NS * short.calls[i] for i in valid)
    took = sum(short.ns[i] for i in valid) - (0 if whole else cost)
    steps = sum(_steps(run, short, i) for i in valid)
    if took <= 0 or not steps or not sum(slices.steps):
        return None
    return steps / took / (sum(slices.steps) / sum(slices.ns))


def _steps(run: Run, windows: Windows, place: int) -> int:
    """The steps of a window, at most as many as its calls can return."""
    return min(windows.steps[place], windows.calls[place] * run.cell.numenv)


def pooled(ratios: Sequence[float]) -> WithoutStops | None:
    """The mean of these processes; None if there are none."""
    if not ratios:
        return None
    mean = math.exp(fmean(map(math.log, ratios)))
    return WithoutStops(ratio=mean, interval=interval(ratios), processes=len(ratios))
