"""Which figures without an interval are the best? Pure.

They are published figures, and rates per CPU second. Cells of a session that alternated are ranked
by ``decisions.ranking``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

NEAR = 0.95  # this share of the best figure is a tie


def near(figure: float, best: float) -> bool:
    """Is a figure a tie with the best?"""
    return figure >= NEAR * best


def best_of_columns(figures: Iterable[tuple[int, float]]) -> dict[int, str]:
    """Return the highest figure of each column (numenv) as printed: equal ones are all best."""
    best: dict[int, float] = defaultdict(float)
    for numenv, fps in figures:
        best[numenv] = max(fps, best[numenv])
    return {numenv: f"{fps:.2f}" for numenv, fps in best.items()}
