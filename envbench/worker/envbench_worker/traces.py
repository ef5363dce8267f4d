"""Step with known actions, and keep what was returned: the traces that a verification compares."""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from random import Random, SystemRandom
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from envbench_worker.after_steps import call_lengths
from envbench_worker.audit import Emit, progress
from envbench_worker.contract import MOST_TRACED, Adapter, Job, Trace, from_batch, named, shuffled

LATER = 5  # after the audit, one more step is compared for this many lock-steps
STARTS = 12  # short parts after these, each with a start of all environments
SHORT = 80  # in each short part, one more step is compared for this many lock-steps
SPOT_STARTS, SPOT_PART, SPOT_STARTS_S = 40, 12, 5.0  # starts, and steps after each
MORE, MORE_S, PACE_CALLS = 5, 10.0, 20  # where the reference only starts from the same seed
MORE_BYTES = 128 * 2**20  # of the observations of those
MOST_BYTES = 64 * 2**20  # of a trace's file
HELD = 16  # arrays of observations that are held until the end of the lock-steps

Choose = Callable[[Any, Any], Any]  # actions, from the latest observations and a batch of the bank


def lock_steps(
    adapter: Adapter,
    calls: int,
    several: bool = False,
    columns: Any = None,
    emit: Optional[Emit] = None,
    choose: Optional[Choose] = None,
    start: Optional[List[Any]] = None,
) -> Optional[Trace]:
    """What ``calls`` batches of the adapter's bank gave, in a random order, or what ``choose`` made
    of them. None: it cannot be driven.

    Where the adapter has ``last``, its ``run`` makes the steps: what is timed is what is compared.
    Each call makes one. ``several``: a few calls, drawn at random, make more. ``emit`` tells the
    controller of each call. ``start``: what the latest step returned, if no reset came after it.
    """
    first = adapter.first_observations if start is None else start[0]
    if first is None:
        return followed(adapter, calls)
    if not (isinstance(first, np.ndarray) and isinstance(adapter.bank[0], np.ndarray)):
        return None  # observations or actions of several arrays each
    columns = drawn(adapter.job) if columns is None else columns
    kept = range(calls)[: adapter.job.observed]
    bank = adapter.bank if _in_order(adapter.job) else shuffled(adapter.bank)
    batches = list(islice(cycle(bank), calls))
    observations: List[Any] = []
    outcomes: List[List[Any]] = []
    at: List[int] = []
    resets: List[int] = []
    held = [(first, np.array(first))]  # arrays, and their copies
    outcomes_held: List[Tuple[Any, Any]] = []  # of the latest call, as rewards and ends
    reused, made = False, 0
    lengths = call_lengths(calls if several else 0)
    while made < calls:
        ended = bool(outcomes) and any(each.any() for each in outcomes[-1][1:])
        stride = 1 if ended else min(next(lengths, 1), calls - made)  # after an end comes a reset
        if choose is None:
            adapter.batches = from_batch(bank, made)  # as in a measurement
        else:
            batches[made] = choose(held[-1][1], batches[made])
            adapter.batches = from_batch(batches, made)
        counts = adapter.run(stride)
        if emit is not None:
            emit(progress(stride, counts))
        found = adapter.last()
        if found is None:
            return None
        reused = reused or overwritten([*held[-1:], *outcomes_held])
        if (made + 1) % max(1, calls // HELD):  # a ring of arrays is overwritten later
            held.pop()
        made += stride
        if not all(isinstance(each, np.ndarray) for each in found[:4]):
            kinds = ", ".join(type(each).__name__ for each in found[:4])
            raise TypeError("`last` has to return a list of NumPy arrays, not of " + kinds)
        seen, *outcome = found[:4]
        for name, each in zip(("rewards", "terminated", "truncated"), outcome):
            if each.shape != (adapter.job.numenv,):
                text = "`last` has to return {} of shape ({},), not {}"
                raise ValueError(text.format(name, adapter.job.numenv, each.shape))
        outcomes_held = [(each, np.array(each)) for each in outcome]
        outcomes.append([each[columns] for _, each in outcomes_held])
        at.append(made - 1)
        resets.append(counts.resets)
        held.append((seen, np.array(seen)))
        if made - 1 in kept:
            observations.append(held[-1][1][columns])
    adapter.batches = from_batch(adapter.bank, 0)
    reused = reused or overwritten(held)
    rewards, terminated, truncated = (np.stack(each) for each in zip(*outcomes))
    return Trace(
        np.stack(observations),
        rewards,
        terminated | truncated,
        np.array(first)[None][:, columns],
        same_step=adapter.facts().get("autoreset") == "same-step",
        reused=reused,
        columns=columns,
        actions=np.stack([np.asarray(batch)[columns] for batch in batches]),
        at=np.array(at),
        resets=np.array(resets) if len(columns) == adapter.job.numenv else None,
        truncated=truncated & ~terminated,
        over=None if start is None else np.asarray(start[2] | start[3])[columns],
        by_run=True,
    )


def _in_order(job: Job) -> bool:
    """Do the first batches of the bank come first, or does another process repeat the steps?"""
    return bool(job.together) or job.observed is not None


def followed(adapter: Adapter, calls: int) -> Optional[Trace]:
    """What the adapter's own loop recorded: a row per vector step, with their actions."""
    trace = adapter.follow(calls)
    if trace is None:
        return None
    actions = trace.actions
    if actions is None and adapter.job.observed is not None:
        actions = np.stack([np.asarray(each) for each in islice(cycle(adapter.bank), calls)])
    return trace._replace(actions=actions, at=None, restarted=None, resets=None, by_run=False)


def waits(adapter: Adapter, midway: bool, share: float = 0.5) -> bool:
    """Decide by chance if the spot check is made between two slices: only if the adapter can reset,
    or if the reference can begin in the middle of an episode. ``share``: the chance of it."""
    able = midway or adapter.begins_anew
    return adapter.first_observations is not None and able and SystemRandom().random() < share


def later(adapter: Adapter, calls: int, midway: bool, share: float = 0.5) -> Optional[Trace]:
    """Make lock-steps between two slices: after a reset of all environments, or from where they
    are. Chance decides, if both are possible. None: neither is. ``share``: the chance that they
    continue where they are."""
    begun = _begun(adapter) if not midway or SystemRandom().random() >= share else None
    if begun or not midway:
        return lock_steps(adapter, calls, several=True) if begun else None
    arrays = adapter.last() if begun is None else None  # after a reset, it is of a step before it
    return None if arrays is None else lock_steps(adapter, calls, start=arrays[:4])


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
    return trace if later is None else joined(trace, later, reset=False)


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


def with_starts(adapter: Adapter, trace: Trace) -> Optional[Trace]:
    """Return the trace with short parts, each after a reset of all environments, until it has
    ``SPOT_STARTS`` of these starts or the time is up. If the trace has no such part, the first one
    is as long as the trace: it has calls of several steps. None: a reset shows no first
    observations."""
    until = time.perf_counter() + SPOT_STARTS_S
    parts = [SPOT_PART for _ in range(0, SPOT_STARTS, adapter.job.numenv)]
    if trace.over is not None:
        parts[0] = len(trace.actions)
        if _begun(adapter) is False:
            return None
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


def joined(trace: Trace, later: Trace, reset: bool = True) -> Trace:
    """Return the trace with a row for the reset of all environments, if there was one, and the rows
    of the later one."""
    calls = len(trace.actions)
    gap = int(reset)
    none = np.zeros_like(later.rewards[:gap])
    before = trace.restarted
    parts = {
        "observations": (trace.observations, later.start[:gap], later.observations),
        "rewards": (trace.rewards, none, later.rewards),
        "ended": (trace.ended, none.astype(np.bool_), later.ended),
        "truncated": (trace.truncated, none.astype(np.bool_), later.truncated),
        "actions": (trace.actions, later.actions[:gap], later.actions),
        "at": (trace.at, np.full(gap, calls), calls + gap + later.at),
        "restarted": (
            np.zeros(len(trace.rewards), np.bool_) if before is None else before,
            np.ones(gap, np.bool_),
            np.zeros(len(later.rewards), np.bool_),
        ),
    }
    if trace.resets is not None:
        parts["resets"] = (trace.resets, np.zeros(gap, int), later.resets)
    together: Dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
    return trace._replace(reused=trace.reused or later.reused, **together)


def drawn(job: Job) -> Any:
    """Draw which environments are traced: all, or the first one and others, in their order.

    Where episodes are compared, another process has to draw the same."""
    chance = SystemRandom() if job.observed is None else Random(job.seed)
    count = min(job.numenv, MOST_TRACED)
    return np.array([0, *sorted(chance.sample(range(1, job.numenv), count - 1))])


def overwritten(held: List[Tuple[Any, Any]]) -> bool:
    """Does an array differ from the copy that was made when it was returned?"""
    return any(array.tobytes() != copy.tobytes() for array, copy in held)


def given(folder: str) -> Optional[Trace]:
    """Read the trace that the reference has to predict, if there is one."""
    path = os.path.join(folder, "given.npz")
    if not os.path.isfile(path):
        return None
    with np.load(path, allow_pickle=False) as arrays:
        found = Trace(**{name: arrays[name] for name in Trace._fields if name in arrays})
    flags = {name: bool(getattr(found, name)) for name in ("same_step", "reused", "by_run")}
    return found._replace(**flags)


def save(trace: Trace, folder: str, shorter: Optional[Trace] = None) -> None:
    """Write a trace as arrays only (no pickles), with an atomic rename at the end. If its file is
    too large, write the shorter one."""
    partial = os.path.join(folder, "partial.npz")
    rewards, ended = np.asarray(trace.rewards, np.float64), np.asarray(trace.ended, np.bool_)
    arrays = trace._replace(rewards=rewards, ended=ended)._asdict()
    known = {name: each for name, each in arrays.items() if each is not None}
    np.savez_compressed(partial, **known)
    if shorter is not None and os.path.getsize(partial) > MOST_BYTES:
        save(shorter, folder)
    else:
        os.replace(partial, os.path.join(folder, "trace.npz"))
