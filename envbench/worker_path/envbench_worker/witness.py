"""Verify: the same work counted twice, and what environments did in lock-step put on disk."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional

import numpy as np

from envbench_worker.contract import Adapter, Trace

TRACE = "trace.npz"
START = "start.npz"
STRIDES = (1, 2, 3, 5, 8, 13)  # vector steps of one ``run``: counting must hold at any number
AT_ONCE_S = 0.5  # twice a window: one that is measured with one environment has more steps
PATIENCE_S = 20.0  # the longest single ``run``, at the speed so far


def audit(adapter: Adapter, calls: int, emit: Callable[[Dict[str, Any]], None]) -> Dict[str, Any]:
    """``calls`` vector steps or more: what the adapter counts, and what the environments count.

    Returns ``{"calls", "steps", "resets", "frames"}``, ``frames`` (float, by the environments) None
    where nothing counts them a second way.
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
        emit(
            {
                "event": "window",
                "phase": "measure",
                "ns": 1,
                "calls": stride,
                "steps": counts.steps,
                "resets": counts.resets,
            }
        )
    return {"calls": made, "steps": steps, "resets": resets, "frames": frames}


def next_stride(made: int, calls: int, seconds: float) -> int:
    """The vector steps of the next ``run``, where ``made`` of ``calls`` took so long.

    A few at a time until half of them are made; then what is left at once, and no fewer than a
    window has, be they more than were asked for. Only what would take too long is shared out.
    """
    few = STRIDES[made % len(STRIDES)]
    if 2 * made < calls:
        return few
    speed = made / seconds
    longest = max(int(speed * PATIENCE_S), sum(STRIDES))
    return min(max(calls - made, int(speed * AT_ONCE_S)), longest)


def given_start(folder: str) -> Any:
    """The first observations of the trace that the reference has to start from; None: its own."""
    path = os.path.join(folder, START)
    if not os.path.isfile(path):
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["start"][0] if "start" in arrays else None


def save(trace: Trace, folder: str) -> None:
    """Arrays only, never pickles; written whole before it is seen."""
    partial = os.path.join(folder, "partial.npz")
    arrays: Dict[str, Any] = {
        "observations": np.asarray(trace.observations),
        "rewards": np.asarray(trace.rewards, dtype=np.float64),
        "ended": np.asarray(trace.ended, dtype=np.bool_),
    }
    if trace.start is not None:
        arrays["start"] = np.asarray(trace.start)
    np.savez_compressed(partial, **arrays)
    os.replace(partial, os.path.join(folder, TRACE))
