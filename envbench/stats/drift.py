"""How much a host drifts between two sessions, from the records at hand. Pure.

A cell that was measured in several sessions of one host shows the drift: the spread of its
logarithmic rates over the sessions. All such cells are pooled. Their differences share the speed of
the host in each session, so the degrees of freedom count sessions and not cells: one less than
there are sessions in each group of sessions that common cells connect. Without such a cell nothing
is known, and figures of two sessions have no interval of their ratio.

Rates relative to the reference kernel of their session drift less (docs/measurement.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from envbench.stats.intervals import TWO_SIDED, Interval, t_quantile


@dataclass(frozen=True, kw_only=True)
class Drift:
    """``spread``: the standard deviation of a cell's logarithmic rate over sessions. ``hosts`` are
    those with cells of several sessions."""

    spread: float
    degrees: int
    sessions: int
    hosts: frozenset[str] = frozenset()

    @property
    def typical(self) -> float:
        """How far two sessions of one cell differ (the root of the mean square): 0.1 is 10 %."""
        return math.exp(math.sqrt(2) * self.spread) - 1

    @property
    def reach(self) -> float:
        """How far two sessions of one cell differ at most, in 95 of 100 cases: 0.1 is 10 %."""
        return math.exp(t_quantile(TWO_SIDED, self.degrees) * math.sqrt(2) * self.spread) - 1


@dataclass(frozen=True, kw_only=True)
class Uncertain:
    """The logarithm of a rate, with its standard error and degrees of freedom in its session."""

    log: float
    error: float
    degrees: float


def drift(cells: Iterable[tuple[str, Mapping[str, float]]]) -> Drift | None:
    """Estimate it from cells: each has its host, and its logarithmic rates by session."""
    squares, values = 0.0, 0
    groups: list[set[tuple[str, str]]] = []  # of sessions, each with its host
    for host, rates in cells:
        if len(rates) > 1:
            middle = fmean(rates.values())
            squares += math.fsum((rate - middle) ** 2 for rate in rates.values())
            values += len(rates) - 1
            own = {(host, each) for each in rates}
            joined = own.union(*(each for each in groups if each & own))
            groups = [joined, *(each for each in groups if not each & own)]
    if not squares:
        return None
    sessions = set[tuple[str, str]]().union(*groups)
    return Drift(
        spread=math.sqrt(squares / values),
        degrees=len(sessions) - len(groups),
        sessions=len(sessions),
        hosts=frozenset(host for host, _ in sessions),
    )


def ratio_between(one: Uncertain, other: Uncertain, drift: Drift) -> Interval:
    """Return the 95 % interval of a ratio of two sessions (Welch and Satterthwaite's degrees)."""
    parts = [(each.error**2, each.degrees) for each in (one, other)]
    parts.append((2 * drift.spread**2, drift.degrees))
    total = math.fsum(part for part, _ in parts)
    degrees = total**2 / math.fsum(part**2 / degrees for part, degrees in parts)
    half = t_quantile(TWO_SIDED, degrees) * math.sqrt(total)
    middle = one.log - other.log
    return math.exp(middle - half), math.exp(middle + half)
