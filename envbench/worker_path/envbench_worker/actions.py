"""Actions are drawn before the clock starts, seeded, and then cycled.

Never one constant action by default: a robot that lies still, or a game that never scores, runs
at another speed. The same seed gives the same actions to every backend of a family.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any, Iterator, List

import numpy as np

BATCHES = 1024
BANK_BYTES = 8 * 2**20  # larger banks would measure the cache, not the environment


def bank(space: Any, numenv: int, seed: int, source: str) -> List[Any]:
    """Batches of actions for ``numenv`` environments, one entry a vector step.

    ``space`` is the action space of *one* environment (Gymnasium's Discrete or Box, or anything
    else with ``sample``). ``source`` is ``bank`` (up to 1,024 different batches) or ``constant``
    (one batch, as EnvPool's and Gymnasium's published scripts do).

    Returns a list of arrays of shape (numenv, *action shape); for other spaces, of lists.
    """
    rng = np.random.default_rng(seed)
    first = _batch(space, numenv, rng)
    if source == "constant":
        return [first]
    size = max(getattr(first, "nbytes", 64 * numenv), 1)
    length = int(min(BATCHES, max(16, BANK_BYTES // size)))
    return [first] + [_batch(space, numenv, rng) for _ in range(length - 1)]


def forever(batches: List[Any]) -> Iterator[Any]:
    """The bank over and over, at the cost of one iterator step a call."""
    return cycle(batches)


def described(batches: List[Any], seed: int) -> str:
    """For the record: where the actions came from."""
    if len(batches) == 1:
        return "one constant random batch, seed {}".format(seed)
    return "bank of {} random batches, seed {}, cycled".format(len(batches), seed)


def _batch(space: Any, numenv: int, rng: np.random.Generator) -> Any:
    if hasattr(space, "n"):
        start = int(getattr(space, "start", 0))
        return rng.integers(start, start + int(space.n), size=numenv).astype(space.dtype)
    if _is_bounded_box(space):
        shape = (numenv,) + tuple(space.shape)
        return rng.uniform(space.low, space.high, size=shape).astype(space.dtype)
    space.seed(int(rng.integers(2**31)))
    samples = [space.sample() for _ in range(numenv)]
    return np.stack(samples) if isinstance(samples[0], np.ndarray) else tuple(samples)


def _is_bounded_box(space: Any) -> bool:
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or not np.issubdtype(space.dtype, np.floating):
        return False
    return bool(np.isfinite(low).all() and np.isfinite(high).all())
