"""Actions are drawn from a seed before the clock starts, and then cycled.

The default is never one constant action: a robot that lies still, or a game that never scores,
steps at another speed. The same seed gives the same actions to every backend of a family.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple

import numpy as np

from envbench_worker.contract import Job

BATCHES = 1024
BANK_BYTES = 8 * 2**20  # larger banks would measure the cache, not the environment


class Box(NamedTuple):
    """An action space, for a library that does not describe its own as Gymnasium does."""

    low: Any
    high: Any
    shape: Any
    dtype: Any = np.dtype(np.float32)


def bank(space: Any, numenv: int, seed: int, source: str, batched_space: Any = None) -> List[Any]:
    """Batches of actions for ``numenv`` environments, one per vector step.

    ``space`` is the action space of *one* environment. NumPy draws from a Discrete or bounded Box,
    the same for every backend. For any other space, ``batched_space`` (the action space of a
    Gymnasium vector environment) is sampled. ``source`` is ``bank`` (up to 1,024 different
    batches) or ``constant`` (one batch, as in EnvPool's and Gymnasium's published scripts).

    Returns a list of arrays of shape (numenv, *action shape), or of samples of the batched space.
    """
    rng = np.random.default_rng(seed)
    if not (_is_discrete(space) or _is_bounded_box(space)):
        if batched_space is None:
            raise TypeError(
                "cannot draw actions of {}: pass the action space of a vector env, "
                "`actions.of_job(space, job, batched_space)`".format(space)
            )
        batched_space.seed(seed)
        length = 1 if source == "constant" else BATCHES // 4
        return [batched_space.sample() for _ in range(length)]
    first = _batch(space, numenv, rng)
    if source == "constant":
        return [first]
    length = int(min(BATCHES, max(16, BANK_BYTES // max(first.nbytes, 1))))
    return [first] + [_batch(space, numenv, rng) for _ in range(length - 1)]


def of_job(space: Any, job: Job, batched_space: Any = None) -> List[Any]:
    """Draw the bank of a job. In its first ``job.together`` batches all environments act alike."""
    source = job.settings.get("actions", "bank")
    batches = bank(space, job.numenv, job.seed, source, batched_space)
    for batch in batches[: job.together]:
        if isinstance(batch, np.ndarray):
            batch[:] = batch[0]
    return batches


def _batch(space: Any, numenv: int, rng: np.random.Generator) -> Any:
    if _is_discrete(space):
        start = int(getattr(space, "start", 0))
        return rng.integers(start, start + int(space.n), size=numenv).astype(space.dtype)
    shape = (numenv,) + tuple(space.shape)
    # Round to float32 even where a library takes float64, so that every backend gets the same.
    return rng.uniform(space.low, space.high, size=shape).astype(np.float32).astype(space.dtype)


def _is_discrete(space: Any) -> bool:
    return type(space).__name__ == "Discrete"


def _is_bounded_box(space: Any) -> bool:
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or not np.issubdtype(space.dtype, np.floating):
        return False
    return bool(np.isfinite(low).all() and np.isfinite(high).all())
