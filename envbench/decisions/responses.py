"""Pure: do a backend's environments follow their actions, and nothing else?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from envbench.decisions.trace_file import Trace

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MOST_REPEATED = {"f": 0.02, "u": 0.5}  # share of an environment's steps, by kind of number
MOST_APART = 1e-4  # the largest distance between environments with the same actions
TOGETHER = 5  # first lock-steps with the same actions, where a backend has its own engine
# How much farther other actions take environments apart, in as many steps. On an H100, Brax's ants
# with the same actions were 2e-7 apart after one step, 0.002 after five and 0.02 after ten.
LEAST_GROWTH = 100


def repeated(trace: Trace, again: Trace) -> bool | None:
    """Compare a trace with one of a new process with the same seed, and partly other actions.

    True if environments with the same actions repeat their observations and those with other
    actions do not. None: the former do not repeat, or one group is empty.
    """
    import numpy as np

    steps = np.arange(len(again.rewards)) if again.at is None else again.at
    steps = steps[: len(again.observations)]
    steps = steps[steps < len(trace.observations)]
    numbers = np.arange(trace.rewards.shape[1])
    mine, theirs = (numbers if each.columns is None else each.columns for each in (trace, again))
    _, a, b = np.intersect1d(mine, theirs, return_indices=True)
    if not len(a) or not len(steps) or trace.actions is None or again.actions is None:
        return None
    starts = _equal(trace.start[:, a], again.start[:, b])
    equal = starts & _equal(trace.observations[steps][:, a], again.observations[: len(steps), b])
    count = min(len(trace.actions), len(again.actions))
    alike = _equal(trace.actions[:count, a], again.actions[:count, b])
    if not alike.any() or alike.all() or not equal[alike].all():
        return None
    return not equal[~alike].any()


def _equal(one: Array, other: Array) -> Array:
    """Which columns of two arrays are equal, (columns,)."""
    import numpy as np

    if one.shape != other.shape:
        raise ValueError(f"arrays of {one.shape} and {other.shape} cannot be compared")
    return np.asarray(np.equal(one, other).all(axis=(0, *range(2, one.ndim))))


def responds(trace: Trace, together: int, again: bool | None = None) -> bool | None:
    """Do observations follow the actions, and nothing else? None means unknown: the observations
    change, but no steps had equal actions (``together`` is 0), so it cannot be tested. A part in
    which the robot hardly moves (``Trace.chosen``) does not count.

    This needs two environments and no reference. Environments that start alike must look alike
    while they get the same actions (the first ``together`` steps), and differ afterwards. A GPU may
    round differently in each environment. So they may be a little apart, if as many steps with
    other actions take them ``LEAST_GROWTH`` times as far apart. A game's screen may repeat from
    step to step; a simulated robot's state does not. NaN is not accepted.
    ``again``: what the same steps with other actions showed (``repeated``).
    """
    import numpy as np

    observations = trace.observations[: trace.chosen]
    steps, environments = observations.shape[:2]
    flat = observations.reshape(steps, environments, math.prod(observations.shape[2:]))
    # Without steps that can be compared, a task may repeat its observations, or have NaN in them.
    failed = None if not together and again is None else False
    if steps < 2 or not flat.size or (flat.dtype.kind == "f" and not np.isfinite(flat).all()):
        return failed
    alike = _apart(flat[:together]).max(initial=0.0)
    grown = _apart(flat[together : 2 * together]).min(initial=math.inf)
    repeated = (flat[1:] == flat[:-1]).all(axis=2).mean(axis=0)  # of each environment
    moves = bool(repeated.max(initial=0.0) <= MOST_REPEATED.get(flat.dtype.kind, 0.5))
    differ = (flat[together:, 1:] != flat[together:, :1]).any(axis=(0, 2)).all()
    rounded = alike <= MOST_APART or grown >= LEAST_GROWTH * alike
    if not (moves and rounded and differ):
        return failed
    return True if together else again


def _apart(flat: Array) -> Array:
    """How far each environment but the first is from the first one at most, (environments - 1,)."""
    import numpy as np

    numbers = flat.astype(np.float64)
    return np.asarray(np.abs(numbers[:, 1:] - numbers[:, :1]).max(axis=(0, 2), initial=0.0))
