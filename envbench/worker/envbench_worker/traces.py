"""Step with known actions, and keep what was returned: the traces that a verification compares."""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from random import Random, SystemRandom
from typing import Any, Callable, List, Optional, Tuple

import numpy as np

from envbench_worker.after_steps import call_lengths
from envbench_worker.audit import Emit, progress
from envbench_worker.contract import MOST_TRACED, Adapter, Counts, Job, Trace, from_batch, shuffled

MOST_BYTES = 64 * 2**20  # of a trace's file
HELD = 16  # arrays of observations that are held until the end of the lock-steps

Choose = Callable[[Any, Any], Any]  # actions, from the latest observations and a batch of the bank
Note = Callable[[int, Counts, int], None]  # of a call: nanoseconds, what it made, vector steps
clock = time.perf_counter_ns


def lock_steps(
    adapter: Adapter,
    calls: int,
    several: bool = False,
    columns: Any = None,
    emit: Optional[Emit] = None,
    choose: Optional[Choose] = None,
    start: Optional[List[Any]] = None,
    note: Optional[Note] = None,
) -> Optional[Trace]:
    """What ``calls`` batches of the adapter's bank gave, in a random order, or what ``choose`` made
    of them. None: it cannot be driven.

    Where the adapter has ``last``, its ``run`` makes the steps: what is timed is what is compared.
    Each call makes one. ``several``: a few calls, drawn at random, make more. ``emit`` tells the
    controller of each call. ``start``: what the latest step returned, if no reset came after it.
    ``note`` gets the nanoseconds of each call, from the moment at which the adapter can know its
    actions to the moment at which its result is copied. So no part of a step can be made outside.
    Which actions a call gets cannot be known before: they are drawn just before it, and what
    follows them in the iterator is not what the next calls get. The trace has copies of the
    actions, and of where it begins, made before the first call: an adapter could change the arrays
    later.
    """
    first = adapter.first_observations if start is None else start[0]
    if first is None:
        return followed(adapter, calls)
    if not (isinstance(first, np.ndarray) and isinstance(adapter.bank[0], np.ndarray)):
        return None  # observations or actions of several arrays each
    columns = drawn(adapter.job) if columns is None else columns
    kept = range(calls)[: adapter.job.observed]
    in_order, numenv = _in_order(adapter.job), int(adapter.job.numenv)
    bank = list(adapter.bank)
    others, chance = shuffled(bank), SystemRandom()
    copies_of_bank = [np.array(each) for each in bank]
    asked: List[Any] = []
    begun = np.array(first)
    over = None if start is None else np.asarray(start[2] | start[3])[columns]
    observations: List[Any] = []
    outcomes: List[List[Any]] = []
    at: List[int] = []
    resets: List[int] = []
    held = [(first, begun)]  # arrays, and their copies
    outcomes_held: List[Tuple[Any, Any]] = []  # of the latest call, as rewards and ends
    reused, made = False, 0
    handed: List[Any] = []
    freed: List[Any] = []  # arrays that earlier calls returned, and that are not needed any more
    lengths = call_lengths(calls if several else 0)
    while made < calls:
        ended = bool(outcomes) and any(each.any() for each in outcomes[-1][1:])
        stride = 1 if ended else min(next(lengths, 1), calls - made)  # after an end comes a reset
        more = islice(from_batch(others, chance.randrange(len(others))), len(others))
        order = [chance.randrange(len(bank)) for _ in range(stride)]
        if in_order:
            order = [each % len(bank) for each in range(made, made + stride)]
        asked += [copies_of_bank[each] for each in order]
        batches = [bank[each] for each in order]
        if choose is not None:
            asked[made] = choose(held[-1][1], asked[made])
            batches = [np.array(asked[made])]
        given = from_batch(bank, made)
        if choose is not None or not in_order:
            given = cycle([*batches, *more])
        handed = [*handed[-1:], given]  # the previous one is not freed while the clock runs
        started = clock()
        freed.clear()  # code that runs when these arrays are freed is timed, too
        adapter.batches = given
        counts = Counts(*map(int, adapter.run(stride)))
        found = adapter.last()
        if found is None:
            return None
        arrays = list(found)[:4]
        copies = [np.array(each) for each in arrays]
        took = clock() - started
        if note is not None:
            note(took, counts, stride)
        if emit is not None:
            emit(progress(stride, counts))
        reused = reused or overwritten([*held[-1:], *outcomes_held])
        if (made + 1) % max(1, calls // HELD):  # a ring of arrays is overwritten later
            freed.append(held.pop()[0])
        made += stride
        if not all(type(each) is np.ndarray for each in arrays):  # a subclass could be lazy
            kinds = ", ".join(type(each).__name__ for each in arrays)
            raise TypeError("`last` has to return a list of NumPy arrays, not of " + kinds)
        for name, each in zip(("rewards", "terminated", "truncated"), arrays[1:]):
            if each.shape != (numenv,):
                text = "`last` has to return {} of shape ({},), not {}"
                raise ValueError(text.format(name, numenv, each.shape))
        freed.extend(array for array, _ in outcomes_held)
        outcomes_held = list(zip(arrays[1:], copies[1:]))
        outcomes.append([each[columns] for _, each in outcomes_held])
        at.append(made - 1)
        resets.append(counts.resets)
        held.append((arrays[0], copies[0]))
        if made - 1 in kept:
            observations.append(held[-1][1][columns])
    adapter.batches = from_batch(adapter.bank, 0)
    reused = reused or overwritten(held)
    rewards, terminated, truncated = (np.stack(each) for each in zip(*outcomes))
    return Trace(
        np.stack(observations),
        rewards,
        terminated | truncated,
        begun[None][:, columns],
        same_step=adapter.facts().get("autoreset") == "same-step",
        reused=reused,
        columns=columns,
        actions=np.stack([each[columns] for each in asked]),
        at=np.array(at),
        resets=np.array(resets) if len(columns) == adapter.job.numenv else None,
        truncated=truncated & ~terminated,
        over=over,
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
