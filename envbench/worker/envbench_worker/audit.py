"""Mode verify: step with given actions and save what happened; count steps twice (the audit)."""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from random import SystemRandom
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from envbench_worker.contract import COUNTERS, MOST_TRACED, Adapter, Trace

STRIDES = (1, 2, 3, 5, 8, 13)  # vector steps per ``run``: the count must be right for any number
AT_ONCE_S = 0.5  # twice the length of a window
HELD = 16  # arrays of observations that are held until the end of the lock-steps
PATIENCE_S = 20.0  # the longest single ``run``, estimated from the speed so far


def lock_steps(adapter: Adapter, calls: int) -> Optional[Trace]:
    """What the first ``calls`` batches of the adapter's bank gave. None: it cannot be driven.

    Where the adapter has ``last``, its ``run`` makes the steps, one at a time: what is timed is
    what is compared.
    """
    first = adapter.first_observations
    if first is None:
        return adapter.follow(calls)
    if not isinstance(first, np.ndarray):
        return None
    kept, columns = range(calls)[: adapter.job.observed], drawn(adapter.job.numenv)
    observations, outcomes, actions = [], [], []
    held = [(first, np.array(first))]  # arrays, and their copies
    reused = False
    for call, batch in enumerate(islice(cycle(adapter.bank), calls)):
        adapter.batches = iter([batch])
        adapter.run(1)
        found = adapter.last()
        if found is None:
            return None
        reused = reused or overwritten(held[-1:])
        if (call + 1) % max(1, calls // HELD):  # a ring of arrays is overwritten later
            held.pop()
        seen, *outcome = found[:4]
        outcomes.append([np.asarray(each)[columns] for each in outcome])
        actions.append(np.asarray(batch)[columns])
        held.append((seen, np.array(seen)))
        if call in kept:
            observations.append(held[-1][1][columns])
    adapter.batches = cycle(adapter.bank)
    reused = reused or overwritten(held)
    rewards, terminated, truncated = (np.stack(each) for each in zip(*outcomes))
    same_step = adapter.facts().get("autoreset") == "same-step"
    return Trace(
        np.stack(observations),
        rewards,
        terminated | truncated,
        np.array(first)[None][:, columns],
        same_step,
        reused,
        columns=columns,
        actions=np.stack(actions),
    )


def drawn(environments: int) -> Any:
    """Draw which environments are traced: all, or at most ``MOST_TRACED``, in their order."""
    count = min(environments, MOST_TRACED)
    return np.array(sorted(SystemRandom().sample(range(environments), count)))


def overwritten(held: List[Tuple[Any, Any]]) -> bool:
    """Does an array differ from the copy that was made when it was returned?"""
    return any(array.tobytes() != copy.tobytes() for array, copy in held)


def count_twice(
    adapter: Adapter, calls: int, emit: Callable[[Dict[str, Any]], None]
) -> Dict[str, Any]:
    """Make at least ``calls`` vector steps, counted by the adapter and by the environments.

    Returns the fields of ``envbench.model.Audit``; ``frames`` is None if nothing else counts. The
    second count of a plugin is what its environments' counters in this process have seen. Without
    one, it is the plugin's own word.
    """
    own = type(adapter).__module__.startswith("envbench_adapters.")
    seen = None if own else seen_frames()
    if adapter.first_observations is not None:
        adapter.recount()  # discarded: what it made in lock-step
    steps = resets = made = 0
    frames: Optional[float] = 0.0
    began = time.perf_counter()
    while made < calls:
        stride = next_stride(made, calls, time.perf_counter() - began)
        counts = adapter.run(stride)
        again = adapter.recount()
        if seen is not None:
            before, seen = seen, seen_frames() or 0.0
            again = None if again is None else seen - before
        frames = None if again is None or frames is None else frames + again
        steps, resets, made = steps + counts.steps, resets + counts.resets, made + stride
        window = {"event": "window", "phase": "measure", "ns": 1, "calls": stride}
        emit({**window, **counts._asdict()})
    found = {"calls": made, "steps": steps, "resets": resets, "frames": frames}
    return dict(found, counted_by=adapter.counted_by if own or seen is not None else "")


def seen_frames() -> Optional[float]:
    """The frames that the counters in this process have seen so far; None: there is no counter."""
    every = [each.seen_frames for each in COUNTERS]
    return None if not every or None in every else float(sum(every))


def next_stride(made: int, calls: int, seconds: float) -> int:
    """Return the vector steps of the next ``run``, after ``made`` of ``calls`` took ``seconds``.

    A few at a time until half of them are made. Then all the rest at once, but at least what fits
    into ``AT_ONCE_S``, and at most what fits into ``PATIENCE_S``.
    """
    few = STRIDES[made % len(STRIDES)]
    if 2 * made < calls:
        return few
    speed = made / seconds
    longest = max(int(speed * PATIENCE_S), sum(STRIDES))
    return min(max(calls - made, int(speed * AT_ONCE_S)), longest)


def given(folder: str) -> Optional[Trace]:
    """Read the trace that the reference has to predict, if there is one."""
    path = os.path.join(folder, "given.npz")
    if not os.path.isfile(path):
        return None
    with np.load(path, allow_pickle=False) as arrays:
        found = Trace(**{name: arrays[name] for name in Trace._fields if name in arrays})
    return found._replace(same_step=bool(found.same_step), reused=bool(found.reused))


def save(trace: Trace, folder: str) -> None:
    """Write a trace as arrays only (no pickles), with an atomic rename at the end."""
    partial = os.path.join(folder, "partial.npz")
    rewards, ended = np.asarray(trace.rewards, np.float64), np.asarray(trace.ended, np.bool_)
    arrays = trace._replace(rewards=rewards, ended=ended)._asdict()
    known = {name: each for name, each in arrays.items() if each is not None}
    np.savez_compressed(partial, **known)
    os.replace(partial, os.path.join(folder, "trace.npz"))
