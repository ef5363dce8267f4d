"""Mode verify: count the same steps twice (the audit), and save what happened in lock-step."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional

import numpy as np

from envbench_worker.contract import Adapter, Trace

STRIDES = (1, 2, 3, 5, 8, 13)  # vector steps per ``run``: the count must be right for any number
AT_ONCE_S = 0.5  # twice the length of a window
PATIENCE_S = 20.0  # the longest single ``run``, estimated from the speed so far


def count_twice(
    adapter: Adapter, calls: int, emit: Callable[[Dict[str, Any]], None]
) -> Dict[str, Any]:
    """Make at least ``calls`` vector steps, counted by the adapter and by the environments.

    Returns the fields of ``envbench.model.Audit``; ``frames`` is None if nothing else counts.
    """
    steps = resets = made = 0
    frames: Optional[float] = 0.0
    began = time.perf_counter()
    while made < calls:
        stride = next_stride(made, calls, time.perf_counter() - began)
        counts = adapter.run(stride)
        again = adapter.recount()
        frames = None if again is None or frames is None else frames + again
        steps, resets, made = steps + counts.steps, resets + counts.resets, made + stride
        window = {"event": "window", "phase": "measure", "ns": 1, "calls": stride}
        emit({**window, **counts._asdict()})
    found = {"calls": made, "steps": steps, "resets": resets, "frames": frames}
    return dict(found, counted_by=adapter.counted_by)


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
