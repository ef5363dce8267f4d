"""Which cells of a column are shown to be faster than which? Pure.

A column holds the cells that a table compares: one task, kind and numenv. Each pair of its cells
has two hypotheses: the first is not faster than the second, and the reverse. Each is tested with
the one-sided t-test of the pair's ratio in the block model. Holm's procedure (Scandinavian Journal
of Statistics 6, 1979) decides about all hypotheses of the column together. So the probability that
a column contains any false claim, one in the wrong direction included, is at most 5 %, however the
tests depend on each other.

Everything else follows from these claims. So the rank, the ties and the best never contradict each
other.

A row holds the cells of one backend at several numenvs. ``best_row`` says which row has the fastest
cell of all. Rows are chosen by their maxima, and the maximum of many figures is biased upward. So
each cell is a candidate, and its p-values count once for each candidate and each other row
(Bonferroni). A candidate is faster than a row if it is faster than each cell of it. The p-value of
that is the greatest of theirs (an intersection-union test, Berger, Technometrics 24, 1982).

Figures without an interval (published ones, quick ones, and rates per CPU second) have no such
tests: ``best_of_columns`` finds the highest, and ``near`` those that are close to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from envbench.stats.block_model import BlockModel

FAMILY_WISE = 0.05  # the probability of any false claim about a column
NEAR = 0.95  # this share of the best figure counts as a tie, where there are no intervals

Claim = tuple[str, str]  # the first cell is faster than the second


@dataclass(frozen=True, kw_only=True)
class Place:
    """``rank`` is 1 + the number of cells shown to be faster than this one. ``ties`` are the cells
    that are not shown to differ from it."""

    rank: int
    ties: tuple[str, ...]

    @property
    def text(self) -> str:
        """The rank; with = if cells tie with it."""
        return f"{self.rank}{'=' if self.ties else ''}"


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The place of each cell of a column, and the cell with the highest adjusted rate.

    ``best`` is None where no cell has an adjusted rate. It is the best of its column only if
    nothing ties with it.
    """

    places: dict[str, Place]
    best: str | None

    @property
    def ties(self) -> tuple[str, ...]:
        """The cells that are not shown to differ from the best."""
        return self.places[self.best].ties if self.best is not None else ()


def rank(model: BlockModel, column: Sequence[str]) -> Ranking:
    """Rank the cells of a column. A cell that nothing connects to the others ties with them."""
    claims = proven(model, column)
    places = {
        cell: Place(
            rank=1 + sum(slower == cell for _, slower in claims),
            ties=tuple(
                other
                for other in column
                if other != cell and not {(cell, other), (other, cell)} & claims
            ),
        )
        for cell in column
    }
    rates = {cell: model.adjusted[cell].rate for cell in column if cell in model.adjusted}
    return Ranking(places=places, best=max(rates, key=rates.__getitem__, default=None))


def best_row(model: BlockModel, rows: Mapping[str, Sequence[str]]) -> tuple[str | None, list[str]]:
    """Return the cell with the highest adjusted rate, and the other rows that tie with it: it is
    not shown to be faster than them. None where no cell has an adjusted rate."""
    rates = {
        cell: model.adjusted[cell].rate
        for cells in rows.values()
        for cell in cells
        if cell in model.adjusted
    }
    best = max(rates, key=rates.__getitem__, default=None)
    if best is None:
        return None, []
    others = {name: cells for name, cells in rows.items() if best not in cells}
    allowed = FAMILY_WISE / (len(rates) * max(len(others), 1))
    return best, [
        name
        for name, cells in others.items()
        if any(_share(model, best, cell) > allowed for cell in cells)
    ]


def _share(model: BlockModel, faster: str, slower: str) -> float:
    """The one-sided p-value of the claim; 1.0 if it cannot be tested."""
    found = _test(model, faster, slower)
    return found[0] if found and found[1] == (faster, slower) else 1.0


def proven(model: BlockModel, column: Sequence[str]) -> set[Claim]:
    """Return what Holm's procedure shows: (faster cell, slower cell).

    Of the two hypotheses of a pair only one can be rejected, so the other still counts. Pairs
    without an interval cannot be tested.
    """
    tested = sorted(each for pair in combinations(column, 2) if (each := _test(model, *pair)))
    claims: set[Claim] = set()
    for share, claim in tested:
        if share > FAMILY_WISE / (2 * len(tested) - len(claims)):
            break
        claims.add(claim)
    return claims


def _test(model: BlockModel, cell: str, other: str) -> tuple[float, Claim] | None:
    """The one-sided p-value of the faster-looking direction, and what it would show."""
    from scipy.special import stdtr

    found = model.ratio(cell, other)
    if found is None or found.error is None or found.degrees is None:
        return None
    log = math.log(found.ratio)
    claim = (cell, other) if log > 0 else (other, cell)
    return float(stdtr(found.degrees, -abs(log) / found.error)), claim


def near(figure: float, best: float) -> bool:
    """Is a figure without an interval close to the best?"""
    return figure >= NEAR * best


def best_of_columns(figures: Iterable[tuple[int, float]]) -> dict[int, str]:
    """Return the highest figure of each column (numenv) as printed: equal ones are all best."""
    best: dict[int, float] = defaultdict(float)
    for numenv, fps in figures:
        best[numenv] = max(fps, best[numenv])
    return {numenv: f"{fps:.2f}" for numenv, fps in best.items()}
