"""How evenly an asynchronous backend serves its environments. Pure.

More environments are in flight than are returned at a time, so some may be returned more often than
others, and an observation waits while others are returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from envbench.model import Returns
from envbench.stats.latency import merged, percentile


@dataclass(frozen=True, kw_only=True)
class Service:
    """Medians over processes, and the ages of all processes together.

    ``fairness``: Jain's index of the counts (Jain, Chiu and Hawe, A Quantitative Measure of
    Fairness, 1984): 1 if all environments were returned equally often, 1 / n if only one was.
    ``smallest`` and ``largest``: the count of the environment that was returned least or most
    often, divided by the mean count. ``age_p50`` and ``age_p99``: vector steps from one return of
    an environment to its next one. Equal service gives instances / numenv for both. None: too few.
    """

    fairness: float
    smallest: float
    largest: float
    age_p50: int | None
    age_p99: int | None


def service(trials: Iterable[Returns]) -> Service | None:
    """Return how the trials of a cell served their environments; None without any return."""
    known = [each for each in trials if sum(each.counts)]
    if not known:
        return None
    ages = merged(each.ages for each in known)
    return Service(
        fairness=median(jain(each.counts) for each in known),
        smallest=median(_relative(each.counts, min(each.counts)) for each in known),
        largest=median(_relative(each.counts, max(each.counts)) for each in known),
        age_p50=percentile(ages, 0.5),
        age_p99=percentile(ages, 0.99),
    )


def jain(counts: Sequence[int]) -> float:
    """(sum of counts)² / (n x sum of squares)."""
    return float(sum(counts) ** 2 / (len(counts) * sum(count**2 for count in counts)))


def _relative(counts: Sequence[int], count: int) -> float:
    return count * len(counts) / sum(counts)
