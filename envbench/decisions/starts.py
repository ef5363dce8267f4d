"""Pure: do the episodes of two backends begin alike? As distributions, because starts are random.

``begun`` are the starts of a backend's episodes, (count, …), ``by`` the environment of each, and
``starts`` those of the reference. ``first``: how many leading numbers of a start are compared.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DRAWS = 50_000  # of starts, to judge how many are different
MOST_AHEAD = 4  # episodes by which one environment may be ahead of another: not all starts are seen


def probability(begun: Array, starts: Array, by: Array | None, first: int | None) -> float:
    """Return the p-value of the hypothesis that the trace's episodes begin as the reference's do.

    Three tests, with Bonferroni's correction. How many different starts are there (among as many of
    the reference's, drawn at random)? Is each of their numbers distributed as the reference's
    (Kolmogorov-Smirnov), and does it spread as far? And do two environments begin alike more often
    than by chance?
    """
    import numpy as np

    mine, theirs = (
        np.nan_to_num(each.reshape(len(each), -1)[:, :first].astype(np.float64))
        for each in (begun, starts)
    )
    chance, count = np.random.default_rng(0), min(len(mine), len(theirs))
    different = len(np.unique(mine[:count], axis=0))
    _, kinds = np.unique(theirs, axis=0, return_inverse=True)
    draws = (chance.permutation(kinds.ravel())[:count] for _ in range(DRAWS))
    all_differ = different == count  # then no draw has more different ones
    fewer = DRAWS if all_differ else sum(len(np.unique(each)) <= different for each in draws)
    shape = _shape(mine, theirs)
    alike = float(((np.bincount(kinds.ravel()) / len(theirs)) ** 2).sum())
    copied = _copied(mine, by, alike)
    few = max((fewer + 1) / (DRAWS + 1), _equal(theirs, count, count - different))
    chances = few, len(shape) * min(shape), copied
    return float(min(1.0, *(len(chances) * each for each in chances)))


def _shape(mine: Array, theirs: Array) -> list[float]:
    """Return p-values of Kolmogorov-Smirnov tests: two for each number, of its values and of their
    distances from the median of both sides. The distances show another spread, which the values
    hardly do."""
    import numpy as np
    from scipy.stats import ks_2samp

    middle = np.median(np.concatenate([mine, theirs]), axis=0)
    pairs = [(mine, theirs), (np.abs(mine - middle), np.abs(theirs - middle))]
    return [
        float(ks_2samp(ours, its).pvalue)
        for a, b in pairs
        for ours, its in zip(a.T, b.T, strict=True)
    ]


def _equal(theirs: Array, count: int, equal: int) -> float:
    """Return the probability that so many of ``count`` continuous starts equal another one only
    because they are rounded to float32: MountainCar's start is one number of 3 million."""
    import numpy as np
    from scipy.stats import poisson

    spacing = np.spacing(np.abs(theirs).max(axis=0).astype(np.float32)).astype(np.float64)
    values = np.maximum(1.0, np.ptp(theirs, axis=0) / spacing)
    pairs = count * (count - 1) / 2
    return float(poisson.sf(equal - 1, pairs / np.exp(np.log(values).sum())))


def _copied(starts: Array, by: Array | None, alike: float) -> float:
    """Return the p-value of how often two environments have equal starts, in their k-th episodes,
    or one of them some episodes later.

    ``alike``: the probability that two starts of the reference are equal.
    """
    import numpy as np
    from scipy.stats import binom

    if by is None:
        return 1.0
    rows = [starts[by == each] for each in np.unique(by)]
    least, tests = 1.0, 0
    for one, other in combinations(rows, 2):
        for ahead in range(-MOST_AHEAD, MOST_AHEAD + 1):
            first, second = one[max(0, -ahead) :], other[max(0, ahead) :]
            count = min(len(first), len(second))
            equal = int((first[:count] == second[:count]).all(axis=1).sum())
            least, tests = min(least, float(binom.sf(equal - 1, count, alike))), tests + 1
    return min(1.0, max(tests, 1) * least)
