"""Intervals of speeds and of their ratios. Pure.

Processes differ, and the slices of one depend on each other. So everything is computed on the
logarithms of the runs' rates. Fewer than five runs give no interval: two or three processes say too
little about the spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev, variance

TWO_SIDED = 0.975  # the quantile that a two-sided 95 % interval ends at
RUNS_FOR_INTERVAL = 5

Interval = tuple[float, float]


def interval(rates: Sequence[float]) -> Interval | None:
    """Return a 95 % t-interval of the geometric mean of positive rates; None for fewer than five.

    With x = log(rate): exp(mean(x) -+ t(0.975, n-1) * s / sqrt(n)), where s is the sample standard
    deviation (e.g. Montgomery, Applied Statistics, section 8-2). Equal rates give that rate twice.
    """
    if len(rates) < RUNS_FOR_INTERVAL:
        return None
    if min(rates) == max(rates):
        return rates[0], rates[0]
    logs = [math.log(rate) for rate in rates]
    mean = fmean(logs)
    half = t_quantile(TWO_SIDED, len(logs) - 1) * stdev(logs, mean) / math.sqrt(len(logs))
    return _exp(mean - half), _exp(mean + half)


def half_width(interval: Interval | None) -> float | None:
    """Half the width of a multiplicative interval, as a share: 0.02 for about ±2 %."""
    return None if interval is None else math.sqrt(interval[1] / interval[0]) - 1


def ratio_interval(rates: Sequence[float], base: Sequence[float]) -> Interval | None:
    """Welch's 95 % interval of the ratio of two geometric means.

    It assumes independent runs on one machine at one time and does not include drift. None where a
    side has fewer than five runs or a rate of zero, or where neither side has any spread.
    """
    if any(len(each) < RUNS_FOR_INTERVAL or min(each) <= 0 for each in (rates, base)):
        return None
    logs = [[math.log(rate) for rate in each] for each in (rates, base)]
    error, degrees = welch(logs)
    if not error > 0:
        return None
    middle = fmean(logs[0]) - fmean(logs[1])
    half = t_quantile(TWO_SIDED, degrees) * error
    return _exp(middle - half), _exp(middle + half)


def welch(samples: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the standard error of independent means' sum or difference, and degrees of freedom.

    The spreads may differ: Welch and Satterthwaite's degrees (Montgomery, section 10-2.2). Every
    sample has at least two values.
    """
    parts = [(variance(each) / len(each), len(each) - 1) for each in samples]
    total = math.fsum(part for part, _ in parts)
    if not total:
        return 0.0, float(sum(degrees for _, degrees in parts))
    return math.sqrt(total), total**2 / math.fsum(part**2 / degrees for part, degrees in parts)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:  # rates that differ by hundreds of orders of magnitude
        return math.inf


@cache
def t_quantile(share: float, degrees: float) -> float:
    """Student's t: 4.785 for 0.999 and 7 degrees of freedom.

    ``scipy.special`` starts three times as fast as ``scipy.stats``.
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, share))
