"""Pure: do two backends do the same, from the same states and with the same actions?

The reference's trace has what each step of the backend's trace should have given
(``trace_file.py`` reads them). The ``Standard`` of the family (``envbench.families``) defines what
counts as equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from envbench.decisions import actions, starts
from envbench.decisions.trace_file import Trace
from envbench.families import Standard
from envbench.model import Agreement, Apart

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LONGER, FEWEST_LONGER = 3, 6  # steps of a call; such calls of all environments


def compare(standard: Standard, theirs: Trace, own: Trace) -> Agreement:
    """How far ``own`` is from what the reference predicted, step by step."""
    import numpy as np

    steps, environments = theirs.rewards.shape
    if steps == 0:
        raise ValueError("the trace has no step to compare")
    if own.rewards.shape[1] != environments:
        raise ValueError(f"the trace has {own.rewards.shape[1]} of {environments} environments")
    if standard.episodes:
        return _distributions(standard, theirs, own)
    if own.rewards.shape != theirs.rewards.shape:
        raise ValueError(f"the trace has {len(own.rewards)} steps, its reference {steps}")
    begins, made = own.begins, own.stepped
    lost = np.zeros_like(begins) if theirs.lost is None else theirs.lost
    shown, made = ~begins & ~lost, made & ~lost
    apart = _distances(standard, theirs, own, begins)
    rewards = np.where(made, _apart(_as_precise(theirs.rewards, own.rewards), own.rewards), 0.0)
    ended, own_ended = theirs.ended & made, own.ended & made
    other_ends = ended != own_ended
    if theirs.truncated is not None and own.truncated is not None:
        other_ends |= ended & own_ended & (theirs.truncated != own.truncated)
    over = apart > standard.tolerance
    over[1:] |= (rewards > standard.reward_tolerance) | other_ends
    differ = np.flatnonzero(over.any(axis=1))
    numbers = [-1, *(range(steps) if own.at is None else own.at)]
    first = np.concatenate([np.ones((1, environments), np.bool_), begins])
    short = np.ones(steps, np.bool_) if own.at is None else np.diff(own.at, prepend=-1) == 1
    within, not_reset = _ends_within(theirs, own)
    drawn = slice(0, own.chosen)
    chosen = slice(steps if own.chosen is None else own.chosen, None)

    def quantiles(distances: Array, rows: Array, largest_of: Array) -> list[Apart]:
        """Of each environment, in the worse of both parts."""
        parts = [
            [
                _quantiles(distances[part, i], rows[part, i], short[part], largest_of[part])
                for part in (drawn, chosen)
            ]
            for i in range(environments)
        ]
        return [_worse(*each) for each in parts]

    return Agreement(
        reference=standard.reference,
        steps=_steps(~begins[drawn], shown[drawn]),
        observations=quantiles(apart[1:], shown, short),
        rewards=quantiles(rewards, made, np.ones_like(short)),
        in_calls=_finite(apart[1:][shown & ~short[:, None]].max(initial=0.0)),
        start=_finite(apart[first].max()),
        first_difference=int(numbers[differ[0]]) if len(differ) else None,
        begins=bool(len(differ)) and not (over & ~first)[differ[0]].any(),
        ends=int(own_ended[drawn].sum()),
        reference_ends=int(ended[drawn].sum()),
        other_ends=int(other_ends[drawn].sum()),
        limits=int(ended[chosen].sum()),
        other_limits=int(other_ends[chosen].sum()),
        within=within,
        not_reset=not_reset,
        reused=own.reused,
        rounded=own.observations.dtype.itemsize < theirs.observations.dtype.itemsize,
        p_values=_starts(theirs, standard.first),
        by_run=own.by_run,
        longer=_longer(apart[1:], shown, own.at),
        hollow=_hollow(theirs.observations, own.observations, standard.first),
        beside=_beside(theirs, own, standard.first, shown & short[:, None]),
        actions_apart=actions.apart(theirs.actions, own.drawn_actions),
        actions_related=actions.related(own.drawn_actions),
    )


def _steps(made: Array, shown: Array) -> int:
    """How many steps of each environment are compared. Those that the reference could not follow
    are taken off on average: chance decides in which environment an episode ends within a call."""
    return int(min(made.sum(axis=0).min(), shown.sum(axis=0).mean()))


def _ends_within(theirs: Trace, own: Trace) -> tuple[int, int]:
    """How many episodes of the reference end within a row, and of these, how many the backend's
    call did not count as reset. Where the step that ends an episode also resets, a call has to
    count the ends in its last step, too."""
    import numpy as np

    if own.resets is None or theirs.resets is None:
        return 0, 0
    within = theirs.resets
    expected = within + (own.ended.sum(axis=1) if own.same_step else 0)
    return int(within.sum()), int(np.clip(expected - own.resets, 0, within).sum())


def _longer(distances: Array, chosen: Array, at: Array | None) -> float | None:
    """The median distance after a call of two to ``LONGER`` steps, of those that differ at all.
    None: too few do."""
    import numpy as np

    if at is None:
        return None
    made = np.diff(at, prepend=-1)
    rows = (made >= 2) & (made <= LONGER)
    some = distances[rows][chosen[rows]]
    differ = some[some > 0]
    return _finite(float(np.median(differ))) if len(differ) >= FEWEST_LONGER else None


def _starts(theirs: Trace, first: int | None) -> dict[str, float]:
    """How probable it is that the reference's episodes begin as the trace's do, all of them and
    those after the end of another; empty if unknown."""
    begun, by, usual, automatic = theirs.begun, theirs.begun_by, theirs.starts, theirs.automatic
    if begun is None or usual is None:
        return {}
    found = {"start": starts.probability(begun, usual, by, first)}
    if automatic is not None and automatic.any() and not automatic.all():
        alone = None if by is None else by[automatic]
        found["automatic start"] = starts.probability(begun[automatic], usual, alone, first)
    return found


def _hollow(theirs: Array, own: Array, first: int | None) -> bool:
    """Are the numbers that are not compared all zero, while the reference's are not?"""
    if first is None or theirs.shape != own.shape:
        return False
    return bool(theirs[..., first:].any() and not own[..., first:].any())


def _beside(theirs: Trace, own: Trace, first: int | None, chosen: Array) -> float | None:
    """The distance of the numbers that come after the compared ones, in 97 of 100 chosen steps.
    None: there are none."""
    import numpy as np

    a, b = theirs.observations, own.observations
    if first is None or a.shape != b.shape or a.ndim != 3 or a.shape[2] <= first:
        return None
    apart = _apart(a[..., first:].astype(np.float64), b[..., first:].astype(np.float64))
    some = apart.max(axis=2)[chosen]
    return _finite(float(np.quantile(some, 0.97, method="higher"))) if some.size else None


def _distances(standard: Standard, theirs: Trace, own: Trace, begins: Array) -> Array:
    """The largest difference of each observation, the start's first: (1 + steps, environments)."""
    import numpy as np

    found = []
    age = np.zeros(begins.shape[1], int)  # steps since the episode began
    rows = zip((*theirs.start, *theirs.observations), (*own.start, *own.observations), strict=True)
    for row, (a, b) in enumerate(rows):
        age = np.where(begins[row - 1], 0, age + 1) if row else age
        a, b = _as_precise(a.astype(np.float64), b), b.astype(np.float64)
        if standard.first is not None:
            a, b = a[:, : standard.first], b[:, : standard.first]
        if a.shape != b.shape:
            raise ValueError(f"observations of {b.shape[1:]} and {a.shape[1:]} cannot be compared")
        apart = _apart(a, b)
        stacked = bool(standard.stack) and apart.ndim == 4 and apart.shape[1] == standard.stack
        if stacked:
            padded = _padded(b, age)
            for back in range(1, standard.stack):
                apart[padded & (age < back), -1 - back] = 0.0
        if row and not standard.last:  # of a stack, only the newest frame is not compared
            over = own.ended[row - 1] & ~begins[row - 1]
            apart[over, -1 if stacked else slice(None)] = 0.0
        found.append(apart.reshape(len(a), -1).max(axis=1))
    return np.stack(found)


def _padded(stacks: Array, age: Array) -> Array:
    """In which environments are the frames from before the episode all zero, or all its first?"""
    import numpy as np

    frames = stacks.shape[1]
    first = stacks[np.arange(len(stacks)), np.maximum(frames - 1 - age, 0)]
    found = np.ones(len(stacks), np.bool_)
    for place in range(frames - 1):
        before = stacks[:, place]
        empty = ~before.any(axis=(1, 2)) | (before == first).all(axis=(1, 2))
        found &= empty | (age >= frames - 1 - place)
    return found


def _as_precise(theirs: Array, own: Array) -> Array:
    """The reference's numbers, rounded to float32 if all of the backend's are such numbers."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        known = np.array_equal(own.astype(np.float32), own, equal_nan=True)
        return theirs.astype(np.float32).astype(np.float64) if known else theirs


def _apart(one: Array, other: Array) -> Array:
    """The difference of each number. Infinity where only one is not a number. Zero where neither
    is a number, or both are the same infinity."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        apart: Array = np.abs(one - other)
    apart[np.isnan(apart)] = np.inf
    apart[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
    return apart


def _quantiles(distances: Array, chosen: Array, short: Array, largest_of: Array) -> Apart:
    """Summarise the chosen rows that are calls of one step, and in ``largest`` those given."""
    import numpy as np

    some = distances[chosen & short]
    shares = [0.5, 0.9, 0.97]
    median, p90, p97 = np.quantile(some, shares, method="higher") if len(some) else (0.0, 0.0, 0.0)
    largest = distances[chosen & largest_of].max(initial=0.0)
    return Apart(
        median=_finite(median), p90=_finite(p90), p97=_finite(p97), largest=_finite(largest)
    )


def _worse(one: Apart, other: Apart) -> Apart:
    return Apart(
        median=max(one.median, other.median),
        p90=max(one.p90, other.p90),
        p97=max(one.p97 or 0.0, other.p97 or 0.0),
        largest=max(one.largest, other.largest),
    )


def _distributions(standard: Standard, theirs: Trace, own: Trace) -> Agreement:
    """Compare the lengths and returns of whole episodes as two samples each."""
    from scipy.stats import ks_2samp

    ours, reference = _episodes(own), _episodes(theirs)
    both = bool(ours["length"] and reference["length"])
    return Agreement(
        reference=standard.reference,
        steps=len(own.rewards),
        reused=own.reused,
        by_run=own.by_run,
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


def identical(one: Trace, other: Trace) -> bool:
    """Do two traces have the same observations, rewards and ends, to the last bit?"""
    names = ("start", "observations", "rewards", "ended", "truncated")
    both = [[getattr(trace, name) for name in names] for trace in (one, other)]
    mine, theirs = ([None if e is None else e.tobytes() for e in each] for each in both)
    return mine == theirs


def _finite(value: float) -> float:
    """Replace infinity and NaN, which JSON does not have, by a very large number."""
    return float(value) if math.isfinite(value) else 1e308
