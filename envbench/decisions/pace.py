"""Pure: is a plugin's pace the same wherever its process steps?

A plugin's author decides how it is measured. Slices are timed, and so are its warm-up and some
short calls between two slices. If it is much slower or faster there than in its slices, a
part of the work may be done where no slice times it. Built-in backends do none of this, but a busy
machine can look like that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import median

from envbench.model import Run
from envbench.stats.intervals import Interval
from envbench.stats.without_stops import WithoutStops, in_short_calls, pooled, without_stops

# Of a plugin's speed, relative to its slices (honest cells: docs/studies.md).
SLOWEST_WARM_UP = 0.5
SLOWEST_SHORT_CALLS = 0.67
SLOWEST_UNSURE = 0.5  # in short calls, of most processes, even if that may be noise
FASTEST_SHORT_CALLS = 1.5  # with all that a call costs
FASTEST_UNCHECKED = 2.0  # of a process, relative to one with a spot check


def doubt(runs: Sequence[Run], others: Sequence[Run] = ()) -> str:
    """Why the figure of these processes is doubtful; "" if it is not.

    ``runs``: those of a cell that count. ``others``: those of its other sessions. They count, too:
    otherwise one could measure it until chance hides a difference. The limits need 95 %
    confidence. But if most processes are much slower in short calls, the figure is doubtful even if
    that may be noise: otherwise a few processes that differ could hide as much.
    """
    if (ratio := fastest_unchecked(runs)) is not None and ratio > FASTEST_UNCHECKED:
        return f"a process without a spot check is {ratio:,.1f} times as fast as one with it"
    if found := _paces_apart(runs):
        return found
    found = _paces_apart([*runs, *others]) if others else ""
    return f"over all its sessions, {found}" if found else ""


def _paces_apart(runs: Sequence[Run]) -> str:
    rates = [
        [each for run in runs if (each := rate(run)) is not None]
        for rate in (without_stops, in_short_calls, partial(in_short_calls, whole=True))
    ]
    warm, short, whole = map(pooled, rates)
    if warm and _ends(warm)[1] < SLOWEST_WARM_UP:
        return (
            f"its slices are {1 / warm.ratio:,.1f} times as fast as its warm-up, where its steps "
            "follow each other without a pause: it may do a part of its work between slices"
        )
    if whole and _ends(whole)[0] > FASTEST_SHORT_CALLS:
        return (
            f"short calls are {whole.ratio:,.1f} times as fast as its slices: their work may be "
            "done outside of these calls"
        )
    sure = short is not None and (
        _ends(short)[1] < SLOWEST_SHORT_CALLS or _nearly_all_below(rates[1], SLOWEST_SHORT_CALLS)
    )
    if short and (sure or median(rates[1]) < SLOWEST_UNSURE):
        why = "it may leave out work in long calls" if sure else "that may be noise"
        return (
            f"its slices are {1 / short.ratio:,.1f} times as fast as short calls (without what "
            f"a call costs), which are compared with the reference's: {why}"
        )
    return ""


def _nearly_all_below(ratios: Sequence[float], limit: float) -> bool:
    """Whether their median is below the limit, with 95 % confidence (sign test: of five, all are).
    One process that waits would make the interval of the mean wide, but changes nothing here."""
    above = sum(each >= limit for each in ratios)
    chance = sum(math.comb(len(ratios), few) for few in range(above + 1)) / (1 << len(ratios))
    return chance < 0.05


def fastest_unchecked(runs: Sequence[Run]) -> float | None:
    """The highest speed of processes without a spot check / the median of those with one."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for run in runs:
        if steps := sum(run.measured.steps):
            rates[run.agreement is not None].append(steps / sum(run.measured.ns))
    return max(rates[False]) / median(rates[True]) if all(rates.values()) else None


def _ends(mean: WithoutStops) -> Interval:
    return mean.interval or (mean.ratio, mean.ratio)
