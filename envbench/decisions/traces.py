"""Pure: do two backends do the same, from the same start and with the same actions?

A trace is an ``.npz`` of arrays (``envbench_worker.audit.save``): observations (steps,
environments, …), rewards and ended (steps, environments). The ``Standard`` of the family
(``envbench.families``) defines what counts as equal.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from envbench.families import Standard
from envbench.model import Agreement, Audit

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LEAST_STEPS = 100  # steps; an ant without actions may still move for half of them
LEAST_MOVEMENT = 0.6  # relative to the reference's, per environment (docs/verify.md)
MOST_REPEATED = {"f": 0.02, "u": 0.5}  # share of an environment's steps, by kind of number
MOST_APART = 1e-4  # the largest distance between environments with the same actions


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Arrays of (steps, environments, …). Observations may be those of the first steps only."""

    observations: Array
    rewards: Array
    ended: Array


def read_trace(raw: bytes) -> Trace:
    """Read the arrays of an ``.npz``, never a pickle; ``ValueError`` for anything else."""
    import zipfile

    import numpy as np

    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in ("observations", "rewards", "ended")}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"a trace cannot be read: {error}") from error
    seen, rewards, ended = (array.shape[:2] for array in found.values())
    if len(rewards) != 2 or rewards != ended or seen[1:] != rewards[1:] or seen > rewards:
        raise ValueError("the arrays of a trace differ in steps or environments")
    return Trace(**found)


def compare(standard: Standard, theirs: Trace, own: Trace) -> Agreement:
    """How far ``own`` is from the reference's trace, over the steps that both have."""
    import numpy as np

    steps = min(len(theirs.rewards), len(own.rewards))
    environments = theirs.rewards.shape[1]
    if steps == 0:
        raise ValueError("the trace has no step to compare")
    if own.rewards.shape[1] != environments:
        raise ValueError(f"the trace has {own.rewards.shape[1]} of {environments} environments")
    if standard.episodes:
        return _distributions(standard, theirs, own)
    a, b = (each.observations[:steps].astype(np.float64) for each in (theirs, own))
    if standard.first is not None:
        a, b = a[:, :, : standard.first], b[:, :, : standard.first]
    if a.shape != b.shape:
        raise ValueError(f"observations of {b.shape[2:]} and {a.shape[2:]} cannot be compared")
    apart = np.abs(a - b)
    if standard.stack and apart.ndim == 5 and apart.shape[2] == standard.stack:
        apart[: standard.stack - 1, :, :-1] = 0.0
    rewards = np.abs(theirs.rewards[:steps] - own.rewards[:steps])
    ended, own_ended = theirs.ended[:steps], own.ended[:steps]
    other_ends = np.flatnonzero((ended != own_ended).any(axis=1))
    ends = np.flatnonzero(np.logical_and(ended, own_ended).any(axis=1))
    found = Agreement(
        reference=standard.reference,
        distances=[_finite(x) for x in apart.reshape(steps, -1).max(axis=1)],
        reward_distances=[_finite(x) for x in rewards.max(axis=1)],
        same_ends=not len(other_ends),
        first_other_end=int(other_ends[0]) if len(other_ends) else None,
        first_end=int(ends[0]) if len(ends) else None,
        ends=int(own_ended.sum()),
        reference_ends=int(ended.sum()),
    )
    if standard.steps >= LEAST_STEPS or agreed(standard, found) == steps:
        return found  # all compared steps have to agree, or do: movement adds nothing
    return msgspec.structs.replace(found, late_movement=_late_movement(a, b))


def _distributions(standard: Standard, theirs: Trace, own: Trace) -> Agreement:
    """Compare the lengths and returns of whole episodes as two samples each."""
    from scipy.stats import ks_2samp

    ours, reference = _episodes(own), _episodes(theirs)
    both = bool(ours["length"] and reference["length"])
    return Agreement(
        reference=standard.reference,
        distances=[],
        reward_distances=[],
        same_ends=False,
        ends=len(ours["length"]),
        reference_ends=len(reference["length"]),
        p_values={
            name: float(ks_2samp(reference[name], ours[name]).pvalue) if both else 0.0
            for name in ours
        },
    )


def _episodes(trace: Trace) -> dict[str, list[float]]:
    """The length and return of each whole episode, environment by environment."""
    import numpy as np

    found: dict[str, list[float]] = {"length": [], "return": []}
    for column in range(trace.ended.shape[1]):
        ends = np.flatnonzero(trace.ended[:, column]) + 1
        for first, last in zip([0, *ends[:-1]], ends, strict=False):
            found["length"].append(float(last - first))
            found["return"].append(float(trace.rewards[first:last, column].sum()))
    return found


def _late_movement(theirs: Array, own: Array) -> float | None:
    """The movement per step of ``own``'s least active environment in the second half of the steps,
    divided by the mean movement of the reference's."""
    import numpy as np

    if len(theirs) < LEAST_STEPS:
        return None
    ours, reference = (
        np.abs(np.diff(each[len(each) // 2 :], axis=0)).mean(axis=(0, *range(2, each.ndim)))
        for each in (own, theirs)
    )
    return _finite(ours.min() / reference.mean()) if reference.mean() > 0 else None


def moves_on(found: Agreement) -> bool:
    """Does every environment still move at the end, as the reference's do?

    An ant without actions lies still after some seconds.
    """
    return found.late_movement is None or found.late_movement > LEAST_MOVEMENT


def agreed(standard: Standard, found: Agreement) -> int:
    """Count the first steps that agree within the standard's tolerances, including ends."""
    pairs = zip(found.distances, found.reward_distances, strict=True)
    for step, (distance, reward) in enumerate(pairs):
        other_end = found.first_other_end == step
        if distance > standard.tolerance or reward > standard.reward_tolerance or other_end:
            return step
    return len(found.distances)


def responds(trace: Trace, together: int) -> bool | None:
    """Do observations follow the actions, and nothing else? None means unknown: the observations
    change, but no steps had equal actions (``together`` is 0), so it cannot be tested.

    This needs two environments and no reference. Environments that start alike must look alike
    while they get the same actions (the first ``together`` steps), and differ afterwards. A game's
    screen may repeat from step to step; a simulated robot's state does not. NaN is not accepted.
    """
    import numpy as np

    steps, environments = trace.observations.shape[:2]
    flat = trace.observations.reshape(steps, environments, math.prod(trace.observations.shape[2:]))
    if steps < 2 or not flat.size or (flat.dtype.kind == "f" and not np.isfinite(flat).all()):
        return False
    alike = np.abs(np.diff(flat[:together].astype(np.float64), axis=1)).max(initial=0.0)
    repeated = (flat[1:] == flat[:-1]).all(axis=2).mean(axis=0)  # of each environment
    moves = bool(repeated.max(initial=0.0) <= MOST_REPEATED.get(flat.dtype.kind, 0.5))
    differ = (flat[together:, 1:] != flat[together:, :1]).any(axis=(0, 2)).all()
    if not (moves and alike <= MOST_APART and differ):
        return False
    return True if together else None


def counted(audit: Audit, frame_skip: float) -> bool | None:
    """Does the backend's count equal that of its environments? None: nothing else counts it.

    A count of zero steps is refused: no environment only resets.
    """
    if audit.frames is None:
        return None
    claimed = audit.steps * frame_skip
    if audit.steps < 1 or audit.steps + audit.resets < audit.calls:
        return False
    return abs(claimed - audit.frames) < min(0.5, frame_skip / 2)


def _finite(value: float) -> float:
    """Replace infinity and NaN, which JSON does not have, by a very large number."""
    return float(value) if math.isfinite(value) else 1e308
