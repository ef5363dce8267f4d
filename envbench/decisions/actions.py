"""Pure: are the actions that a backend reports drawn at random, as the reference's are?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BY_CHANCE = 2.6  # of a Kolmogorov-Smirnov statistic, for samples of one: exceeded once in 10⁵
LAGS = 8  # steps between two actions that are compared
CHANCE = 5.0  # standard errors of a correlation: exceeded once in 10⁶
INDEPENDENT = 1024  # batches of a bank; after that, actions repeat


def apart(theirs: Array | None, own: Array | None) -> float | None:
    """How much the distributions of actions differ, beyond what chance explains: the largest
    Kolmogorov-Smirnov statistic of any number of an action. None: unknown."""
    import numpy as np
    from scipy.stats import ks_2samp

    if theirs is None or own is None or theirs.shape[2:] != own.shape[2:]:
        return None
    mine, wanted = (each.reshape(math.prod(each.shape[:2]), -1) for each in (own, theirs))
    if not np.isfinite(mine).all() or not len(mine) or not len(wanted):
        return None
    chance = BY_CHANCE * math.sqrt(1 / len(mine) + 1 / len(wanted))
    found = max(ks_2samp(a, b).statistic for a, b in zip(mine.T, wanted.T, strict=True))
    return max(0.0, float(found) - chance)


def related(actions: Array | None) -> float | None:
    """How much actions depend on each other, beyond what chance explains: the largest correlation
    with the actions of the same environment up to ``LAGS`` steps later, with those of the other
    environments in the same step, or of two numbers of an action (or of their sizes). Actions drawn
    at random have none. None: unknown."""
    import numpy as np

    if actions is None or len(actions) <= LAGS or not np.isfinite(actions).all():
        return None
    steps, environments = actions.shape[:2]
    numbers = actions.reshape(steps, environments, -1).astype(np.float64)
    spread = numbers.std(axis=(0, 1))
    numbers = ((numbers - numbers.mean(axis=(0, 1))) / np.where(spread > 0, spread, 1.0))[
        ..., spread > 0
    ]
    count = min(steps, INDEPENDENT) * numbers.shape[2]
    if not count:
        return None  # they are constant
    chance = CHANCE / math.sqrt(count * environments)
    later = (abs((numbers[lag:] * numbers[:-lag]).mean()) for lag in range(1, LAGS + 1))
    found = [max(later) - chance]
    if environments > 1:
        together = environments * (numbers.mean(axis=1) ** 2).mean() - 1
        found.append((abs(together) - CHANCE * math.sqrt(2 / count)) / (environments - 1))
    if numbers.shape[2] > 1:
        once = numbers[:INDEPENDENT].reshape(-1, numbers.shape[2])
        within = max(_correlated(once), _correlated(abs(once)))
        found.append(within - CHANCE / math.sqrt(len(once)))
    return max(0.0, float(max(found)))


def _correlated(numbers: Array) -> float:
    """The largest correlation of two columns. Columns that are constant have none."""
    import numpy as np

    varying = numbers[:, numbers.std(axis=0) > 0]
    if varying.shape[1] < 2:
        return 0.0
    return float(abs(np.corrcoef(varying.T) - np.eye(varying.shape[1])).max())
