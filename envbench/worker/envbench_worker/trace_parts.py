"""The parts of a trace: lock-steps after a reset of all environments, or from where they are."""

from __future__ import annotations

import time
from random import SystemRandom
from typing import Any, Dict, List, Optional

import numpy as np

from envbench_worker.audit import Emit
from envbench_worker.contract import Adapter, Trace, named
from envbench_worker.traces import Choose, Note, drawn, lock_steps

LATER = 5  # after the audit, one more step is compared for this many lock-steps
STARTS = 12  # short parts after these, each with a start of all environments
SHORT = 80  # in each short part, one more step is compared for this many lock-steps
SPOT_STARTS, SPOT_PART, SPOT_STARTS_S = 40, 12, 5.0  # starts, and steps after each
# Starts after the end of an episode. At most so many seconds, and steps of environments, to wait.
AUTOMATIC, AUTOMATIC_S, AUTOMATIC_STEPS = 12, 20.0, 20_000
PART = 50  # vector steps between two looks at how many there are
YOUNG = 30  # vector steps of each episode, where the reference can follow only from its start
MORE, MORE_S, PACE_CALLS = 5, 10.0, 20  # where the reference only starts from the same seed
MORE_BYTES = 128 * 2**20  # of the observations of those, and while waiting for starts
RESET, ENTERED = "restarted", "entered"  # fields of a trace: what comes between two of its parts


def waits(adapter: Adapter, midway: bool, share: float = 0.5) -> bool:
    """Decide by chance if the spot check is made between two slices: only if the adapter can reset,
    or if the reference can begin in the middle of an episode. ``share``: the chance of it."""
    able = midway or adapter.begins_anew
    return adapter.first_observations is not None and able and SystemRandom().random() < share


def later(
    adapter: Adapter, calls: int, share: float, note: Optional[Note] = None
) -> Optional[Trace]:
    """Make lock-steps between two slices: after a reset of all environments, or from where they
    are. Chance decides, if both are possible. None: neither is. ``share``: the chance that they
    continue where they are."""
    begun = _begun(adapter) if SystemRandom().random() >= share else None
    if begun is None and share:  # not after a reset: `last` is of a step before it
        return _going_on(adapter, calls, note=note)  # in calls of several steps, too, if timed
    return lock_steps(adapter, calls, several=True, note=note) if begun else None


def _going_on(
    adapter: Adapter,
    calls: int,
    columns: Any = None,
    emit: Optional[Emit] = None,
    note: Optional[Note] = None,
) -> Optional[Trace]:
    """Make lock-steps from where the environments are. None: that is not known."""
    arrays = adapter.last()
    if arrays is None:
        return None
    several, start = note is not None, arrays[:4]
    return lock_steps(adapter, calls, several, columns, emit, start=start, note=note)


def since_start(
    adapter: Adapter, first: Any, batches: List[Any], calls: int, note: Optional[Note] = None
) -> Optional[Trace]:
    """Return a trace with one row for all steps so far, and then lock-steps. The reference makes
    all of them from the same seed. ``first``: the environments' first observations. ``batches``:
    what each step so far got. None: the results of the latest step are not known."""
    arrays = adapter.last()
    if arrays is None:
        return None
    columns = drawn(adapter.job)
    seen, rewards, terminated, truncated = (np.array(each)[None][:, columns] for each in arrays[:4])
    so_far = Trace(
        seen,
        rewards,
        terminated | truncated,
        first[None][:, columns],
        same_step=adapter.facts().get("autoreset") == "same-step",
        columns=columns,
        actions=np.stack(batches)[:, columns],
        at=np.array([len(batches) - 1]),
        truncated=truncated & ~terminated,
        by_run=True,
    )
    several, start = note is not None, arrays[:4]
    more = lock_steps(adapter, calls, several, columns, start=start, note=note)
    return None if more is None else joined(so_far, more, "")


def _begun(adapter: Adapter) -> Optional[bool]:
    """Reset all environments. Are their first observations known? None: it could not reset."""
    before = adapter.first_observations
    if before is None or not adapter.begins_anew or adapter.reset() is None:
        return None
    return adapter.first_observations is not before


def restarted(
    adapter: Adapter,
    calls: int,
    columns: Any = None,
    emit: Optional[Emit] = None,
    choose: Optional[Choose] = None,
    several: bool = True,
) -> Optional[Trace]:
    """Reset all environments, and make lock-steps. None: the library cannot.

    If ``choose`` changes the actions, each call makes one step.
    """
    if not _begun(adapter):
        return None
    return lock_steps(adapter, calls, several and choose is None, columns, emit, choose)


def continued(adapter: Adapter, trace: Trace) -> Trace:
    """Return the trace with as many steps again, without a reset, in calls of one and of several
    steps. A library that cannot reset makes calls of several steps in no other part."""
    arrays = adapter.last() if trace.by_run else None
    if arrays is None:
        return trace
    steps = len(trace.actions)
    later = lock_steps(adapter, steps, several=True, columns=trace.columns, start=arrays[:4])
    return trace if later is None else joined(trace, later, "")


def with_carried_on(
    adapter: Adapter, trace: Trace, midway: bool, emit: Optional[Emit] = None
) -> Trace:
    """Return the trace with lock-steps from where the environments are now: after the audit, they
    made thousands of steps without a reset of all. ``midway``: as in ``with_automatic``."""
    calls = len(trace.rewards) // LATER if midway else PART
    later = _going_on(adapter, max(1, calls), trace.columns, emit) if trace.by_run else None
    if later is None:
        return trace
    trace = joined(trace, later, ENTERED)
    return with_automatic(adapter, trace, midway, emit)


def with_automatic(
    adapter: Adapter, trace: Trace, midway: bool, emit: Optional[Emit] = None
) -> Trace:
    """Return the trace with more lock-steps, without a reset, until ``AUTOMATIC`` episodes have
    begun after the end of another, or as many as are allowed.

    ``midway``: the reference can be put into any state. Otherwise it can follow an episode only
    from its start. Then the trace has rows for the first ``YOUNG`` steps of each episode. A row
    may stand for many steps in which no episode is young, and none ends.
    """
    until, steps, first = time.perf_counter() + AUTOMATIC_S, 0, len(trace.rewards)
    while trace.ended.sum() < AUTOMATIC and time.perf_counter() < until:
        more = None
        if steps < AUTOMATIC_STEPS and trace.observations[first:].nbytes < MORE_BYTES:
            more = _going_on(adapter, PART, trace.columns, emit)
        if more is None:
            return trace
        steps += PART * len(more.rewards[0])
        trace = joined(trace, more, "")
        trace = trace if midway else _young(trace, first)
    if not steps:
        return trace
    more = _going_on(adapter, YOUNG, trace.columns, emit)  # the last episodes begin
    return trace if more is None else joined(trace, more, "")


def _young(trace: Trace, first: int) -> Trace:
    """Return the trace without the rows, from the first one on, in which no episode is young or
    ends."""
    began = np.where(trace.ended[first - 1], trace.at[first - 1], -YOUNG - 1)
    kept = np.ones(len(trace.rewards), np.bool_)
    for row in range(first, len(kept)):
        kept[row] = trace.ended[row].any() or (trace.at[row] - began <= YOUNG).any()
        began = np.where(trace.ended[row], trace.at[row], began)
    names = ["observations", "rewards", "ended", "truncated", "at", "resets", RESET, ENTERED]
    rows = {name: getattr(trace, name) for name in names}
    return trace._replace(**{name: e[kept] for name, e in rows.items() if e is not None})


def with_later(adapter: Adapter, trace: Trace, emit: Emit, amount: Dict[str, Any]) -> Trace:
    """Return the trace with more lock-steps, each part after a reset of all environments.

    A backend may do other work after some thousands of steps: the first part looks for that. Short
    parts follow, because a few starts do not show how they are distributed. Nothing is added if the
    library cannot reset. ``amount``: the job's ``Verify``. If it has a time limit, one more part
    lasts until then, because random actions end nearly all episodes before it.
    """
    calls = len(trace.rewards)
    for part in (calls // LATER, *[calls // SHORT] * STARTS):
        later = restarted(adapter, max(1, part), trace.columns, emit)
        if later is None:
            return trace
        trace = joined(trace, later)
    if amount["limit"] and isinstance(adapter.bank[0], np.ndarray):
        chosen = named(amount["lasting"])
        later = restarted(adapter, amount["limit"] + 1, trace.columns, emit, chosen)
        if later is not None:
            trace = joined(trace, later)._replace(chosen=len(trace.rewards))
    return trace


def with_starts(adapter: Adapter, trace: Trace, midway: bool, between: bool) -> Optional[Trace]:
    """Return the trace with short parts, each after a reset of all environments, until it has
    ``SPOT_STARTS`` of these starts or the time is up. ``between``: it was made between two slices.
    Then it first gets starts after the end of an episode, and the first of these parts is as long
    as the trace was: it has calls of several steps. ``midway``: as in ``with_automatic``. None: a
    reset shows no first observations."""
    parts = [SPOT_PART for _ in range(0, SPOT_STARTS, adapter.job.numenv)]
    if between:
        parts[0] = len(trace.actions)
        trace = with_automatic(adapter, trace, midway)
        if _begun(adapter) is False:
            return None
    until = time.perf_counter() + SPOT_STARTS_S
    for part in parts:
        later = restarted(adapter, part, trace.columns)
        if later is None or time.perf_counter() > until:
            break
        trace = joined(trace, later)
    return trace


def with_more(adapter: Adapter, trace: Trace, emit: Emit) -> Trace:
    """Return the trace with up to ``MORE`` times as many lock-steps after a reset of all
    environments, in calls of one and of several steps: as many as fit into ``MORE_S`` and
    ``MORE_BYTES``. If episodes ended only within calls of several steps, as many again in calls of
    one step.

    Where the reference starts from the same seed, it makes all steps, too, so these come before the
    audit. Nothing is added if the library cannot reset.
    """
    began, calls = time.perf_counter(), len(trace.rewards)
    probe = restarted(adapter, min(calls, PACE_CALLS), trace.columns, emit)
    if probe is None:
        return trace
    pace = (time.perf_counter() - began) / len(probe.actions)
    trace = joined(trace, probe)
    more = min(MORE * calls, int(MORE_S / pace), MORE_BYTES // trace.start.nbytes)
    for several in (True, False):
        hidden = not trace.ended.any() and trace.resets is not None and trace.resets.any()
        if more > 0 and (several or hidden):
            later = restarted(adapter, more, trace.columns, emit, several=several)
            trace = trace if later is None else joined(trace, later)
    return trace


def joined(trace: Trace, later: Trace, between: str = RESET) -> Trace:
    """Return the trace with the rows of the later one. Between them comes a row for a reset of all
    environments (``RESET``), or for steps that have no row (``ENTERED``), or none ("")."""
    calls, gap = len(trace.actions), int(bool(between))
    none = np.zeros(later.rewards[:gap].shape)
    over = none if later.over is None else later.over[None][:gap]
    parts = {
        "observations": (trace.observations, later.start[:gap], later.observations),
        "rewards": (trace.rewards, none, later.rewards),
        "ended": (trace.ended, over.astype(np.bool_), later.ended),
        "truncated": (trace.truncated, none.astype(np.bool_), later.truncated),
        "actions": (trace.actions, later.actions[:gap], later.actions),
        "at": (trace.at, np.full(gap, calls), calls + gap + later.at),
    }
    for kind in (RESET, ENTERED):
        before = getattr(trace, kind)
        parts[kind] = (
            np.zeros(len(trace.rewards), np.bool_) if before is None else before,
            np.full(gap, kind == between),
            np.zeros(len(later.rewards), np.bool_),
        )
    if trace.resets is not None:
        parts["resets"] = (trace.resets, np.zeros(gap, int), later.resets)
    together: Dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
    return trace._replace(reused=trace.reused or later.reused, **together)
