"""Which figures are equal within noise, and which is the best of its column? Pure.

``drift`` is the factor by which the machine may have drifted between two figures: 1 within one
session, ``DRIFT`` between two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from envbench.stats.intervals import Interval

DRIFT = 1.10  # of a shared machine between two sessions: docs/measurement.md
NEAR = 0.95  # without an interval, this share of the best figure is a tie


def verdict(ratio: Interval, drift: float) -> str:
    """``faster`` or ``slower``; ``~`` if the interval, widened by the drift, contains 1."""
    if ratio[0] / drift <= 1 <= ratio[1] * drift:
        return "~"
    return "faster" if ratio[0] > 1 else "slower"


def near(figure: float, best: float, drift: float) -> bool:
    """Is a figure without an interval a tie with the best?"""
    return figure >= NEAR / drift * best


def best_of_columns(figures: Iterable[tuple[int, float]]) -> dict[int, str]:
    """Return the highest figure of each column (numenv) as printed: equal ones are all best."""
    best: dict[int, float] = defaultdict(float)
    for numenv, fps in figures:
        best[numenv] = max(fps, best[numenv])
    return {numenv: f"{fps:.2f}" for numenv, fps in best.items()}
