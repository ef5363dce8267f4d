"""How long single vector steps take. Pure.

A percentile is the smallest value that at least this share of the values does not exceed (Hyndman
and Fan, Sample Quantiles in Statistical Packages, 1996, definition 1). It needs enough values
for one to lie beyond it: 20 steps for 95 %, 100 for 99 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from envbench.model import Histogram


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Seconds of single vector steps, by percentile. None: too few steps to say.

    ``slowest_share``: the share of the total time that the slowest 1 % of the steps took.
    """

    steps: int
    p50_s: float
    p95_s: float | None
    p99_s: float | None
    slowest_share: float | None


def latency(histograms: Iterable[Histogram]) -> Latency | None:
    """Return the latency over all steps of a cell's trials; None without any step."""
    every = merged(histograms)
    middle = percentile(every, 0.5)
    if middle is None:
        return None
    p95, p99 = percentile(every, 0.95), percentile(every, 0.99)
    return Latency(
        steps=sum(every.values()),
        p50_s=middle / 1e9,
        p95_s=None if p95 is None else p95 / 1e9,
        p99_s=None if p99 is None else p99 / 1e9,
        slowest_share=_share_of_slowest(every) if p99 is not None else None,
    )


def merged(histograms: Iterable[Histogram]) -> Counter[int]:
    """Count the values of all these histograms together."""
    every: Counter[int] = Counter()
    for each in histograms:
        for value, count in zip(each.values, each.counts, strict=True):
            every[value] += count
    return every


def percentile(counts: Counter[int], share: float) -> int | None:
    """The value at this share (0.99: 99 %); None if it needs more values. 0.5 needs one value."""
    total = sum(counts.values())
    if total < (1 if share <= 0.5 else round(1 / (1 - share))):
        return None
    rank, below = math.ceil(round(share * total, 9)), 0
    for value in sorted(counts):
        below += counts[value]
        if below >= rank:
            return value
    raise AssertionError("a rank is at most the number of values")


def _share_of_slowest(counts: Counter[int]) -> float | None:
    """Exactly 1 % of the steps count: of the last step perhaps only a part."""
    time = sum(value * count for value, count in counts.items())
    left = sum(counts.values()) / 100
    slowest = 0.0
    for value in sorted(counts, reverse=True):
        taken = min(left, counts[value])
        slowest, left = slowest + taken * value, left - taken
    return slowest / time if time else None
