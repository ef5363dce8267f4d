"""What a trial measures after its windows of steps: the time of each single vector step, how often
each environment of an asynchronous backend is in a batch, and steps in short calls.

These slices never touch an adapter's timed loop. The clock is read by the iterator from which the
loop takes its batches, so once per vector step.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice
from random import SystemRandom
from typing import Any, Dict, Iterator, List, Optional

from envbench_worker.contract import Adapter

MOST_PER_S, FEWEST_PER_S = 3000, 30  # vector steps per second of a slice
LENGTHS = (2, 3, 5, 8, 13, 20, 40)  # vector steps of a longer call: at most a third of all
SELDOM = 10  # one of ten calls makes several steps
SLOWEST_NS = 5e9  # of a vector step: several are one call, which must end before it seems to hang
LONGEST = 2  # a call of several steps lasts at most so many times as long as its batches are apart
PATIENCE = 2  # times as long as asked: a slow backend's fewest steps, or results looked at

clock = time.perf_counter_ns


def fitting(seconds: float, ns_per_call: float) -> int:
    """How many vector steps a slice of that length has: at least one.

    At most ``MOST_PER_S``. A slow backend makes at least ``FEWEST_PER_S``, unless that takes over
    ``PATIENCE`` times as long.
    """
    in_time = seconds * 1e9 / max(1.0, ns_per_call)
    fewest = min(FEWEST_PER_S * seconds, PATIENCE * in_time)
    return max(1, int(min(MOST_PER_S * seconds, max(in_time, fewest))))


def call_lengths(steps: int) -> Iterator[int]:
    """Yield the vector steps of each call: 1, but of one of ``SELDOM`` calls one of ``LENGTHS``.

    ``steps``: how many there are in all, at most. Two of five are left for calls of one step: only
    these can be compared one by one.
    """
    chance, left = SystemRandom(), 3 * steps // 5
    for _ in range(0, steps, SELDOM):
        longest = min(left, steps // 3)
        length = chance.choice([each for each in LENGTHS if each <= longest] or [1])
        left -= length
        longer = chance.randrange(SELDOM)
        yield from (length if i == longer else 1 for i in range(SELDOM))


def step_times(adapter: Adapter, calls: int) -> Optional[List[int]]:
    """Make vector steps and return the nanoseconds of each; None if a consumer gets no single ones.

    A step lasts from its start to the start of the next one, as for a learner. An asynchronous pool
    may have run ahead before the first steps, so these are not returned. Nothing is returned if the
    steps lasted much longer than the times say: the loop took its batches before it made the steps.
    """
    starts: List[int] = []
    note = starts.append
    if adapter.single_steps == "calls":
        for _ in range(calls):
            note(clock())
            adapter.run(1)
        note(clock())
    elif adapter.single_steps == "batches":
        batches = adapter.batches

        def noted(batch: Any) -> Any:
            note(clock())
            return batch

        adapter.batches = map(noted, batches)
        try:
            ahead = -(-adapter.job.env_instances // adapter.job.numenv)
            began = clock()
            adapter.run(ahead + calls + 1)
            between = starts[-1] - starts[0] if starts else 0
            if between * LONGEST < clock() - began:
                return None
            del starts[:ahead]
        finally:
            adapter.batches = batches
    return [after - before for before, after in zip(starts, islice(starts, 1, None))] or None


def returns(ids: List[Any], env_instances: int) -> Dict[str, Any]:
    """Return the fields of ``envbench.model.Returns``. ``ids``: of the environments per batch."""
    import numpy as np  # only adapters that have it return ids

    calls = np.repeat(np.arange(len(ids)), [len(each) for each in ids])
    flat = np.concatenate(ids)
    order = np.lexsort((calls, flat))  # by environment, then in time
    same = np.diff(flat[order]) == 0
    ages: Counter[int] = Counter(np.diff(calls[order])[same].tolist())
    return {
        "calls": len(ids),
        "counts": np.bincount(flat, minlength=env_instances).tolist(),
        "ages": histogram(ages) or {},
    }


def rounded(ns: int) -> int:
    """To three significant digits, so that equal values are counted together."""
    digits = len(str(ns)) - 3
    return int(round(ns, -digits)) if digits > 0 else ns


def histogram(counted: Counter[int]) -> Optional[Dict[str, List[int]]]:
    """Return the fields of ``envbench.model.Histogram``; None if nothing was counted."""
    if not counted:
        return None
    values = sorted(counted)
    return {"values": values, "counts": [counted[each] for each in values]}
