"""Intervals of speeds and of their ratios. Pure.

Most of the variance lies between processes, and speeds vary by factors: so everything is done on
the logarithms of the runs' rates. Under five runs there is no interval: two or three processes say
too little about the spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
RUNS_FOR_INTERVAL = 5

Interval = tuple[float, float]


def interval(rates: Sequence[float]) -> Interval | None:
    """A 95 % t-interval of the geometric mean of positive rates; None under five of them.

    With x = log(rate): exp(mean(x) -+ t(0.975, n-1) * s / sqrt(n)), s the sample's standard
    deviation (e.g. Montgomery, Applied Statistics, section 8-2). Equal rates give that rate twice.
    """
    if len(rates) < RUNS_FOR_INTERVAL:
        return None
    if min(rates) == max(rates):
        return rates[0], rates[0]
    found = _spread(rates)
    half = _t_quantile(len(rates) - 1) * math.sqrt(found.variance)
    return _exp(found.mean - half), _exp(found.mean + half)


def ratio_interval(rates: Sequence[float], base: Sequence[float]) -> Interval | None:
    """A 95 % interval of the ratio of two geometric means, ``rates`` over ``base``.

    Welch's t-interval on the logarithms (Montgomery, section 10-2.2): the two spreads may differ.
    None where either has under five runs or one of no speed at all, or where neither has any
    spread: then nothing is known of it.
    It holds for independent runs of one time and machine; it knows nothing of a drift between.
    """
    return mean_ratio_interval([(rates, base)])


def mean_ratio_interval(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> Interval | None:
    """A 95 % interval of the geometric mean of several such ratios, each of ``rates, base``.

    The logarithm of that mean is the mean of differences of independent means: its variance is the
    sum of theirs over the count squared, with Welch and Satterthwaite's degrees of freedom. It is
    of these ratios, as they would be measured again; it says nothing of other cells. None where
    one of them has no interval.
    """
    if not pairs or not all(map(_enough, (rates for pair in pairs for rates in pair))):
        return None
    spreads = [(_spread(rates), _spread(base)) for rates, base in pairs]
    parts = [(each.variance, each.count) for pair in spreads for each in pair]
    total = math.fsum(variance for variance, _ in parts)
    if not total > 0:
        return None
    degrees = total**2 / math.fsum(variance**2 / (count - 1) for variance, count in parts)
    half = _t_quantile(degrees) * math.sqrt(total) / len(pairs)
    middle = math.fsum(above.mean - below.mean for above, below in spreads) / len(pairs)
    return _exp(middle - half), _exp(middle + half)


def _enough(rates: Sequence[float]) -> bool:
    """May there be an interval? Of a rate of zero there is no logarithm."""
    return len(rates) >= RUNS_FOR_INTERVAL and min(rates) > 0


def geometric_mean(values: Sequence[float]) -> float | None:
    """Of positive numbers; None of none."""
    if not values:
        return None
    return _exp(math.fsum(map(math.log, values)) / len(values))


@dataclass(frozen=True)
class _Spread:
    """The mean of logarithms, and the variance of that mean."""

    mean: float
    variance: float
    count: int


def _spread(rates: Sequence[float]) -> _Spread:
    logs = [math.log(value) for value in rates]
    count = len(logs)
    if min(rates) == max(rates):
        return _Spread(logs[0], 0.0, count)
    mean = math.fsum(logs) / count
    variance = math.fsum((x - mean) ** 2 for x in logs) / (count - 1)
    return _Spread(mean, variance / count, count)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:  # rates that differ by hundreds of orders of magnitude
        return math.inf


@cache
def _t_quantile(degrees: float) -> float:
    """Student's t at 97.5 %. ``scipy.special`` starts in a third of ``scipy.stats``' time."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
