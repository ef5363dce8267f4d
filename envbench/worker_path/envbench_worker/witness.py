"""Verify: the same work counted twice, and what environments did in lock-step put on disk."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional

import numpy as np

from envbench_worker.contract import Adapter, Trace

TRACE = "trace.npz"
STRIDES = (1, 2, 3, 5, 8, 13)  # vector steps of one ``run``: counting must hold at any number
PATIENCE_S = 20.0  # for the second half, which is one ``run``


def audit(
    adapter: Adapter, calls: int, emit: Callable[[Dict[str, Any]], None]
) -> Optional[Dict[str, Any]]:
    """``calls`` vector steps: what the adapter counts, and what the environments count.

    The first half by a few at a time, the second at once, as many as a window has; where that
    would take too long, by a few as well.

    Returns ``{"calls", "steps", "resets", "frames"}``, ``frames`` (float, by the environments) None
    where nothing counts them a second way.
    """
    steps = resets = made = 0
    frames: Optional[float] = 0.0
    began = time.perf_counter()
    while made < calls:
        stride = STRIDES[made % len(STRIDES)]
        if 2 * made >= calls and time.perf_counter() - began < PATIENCE_S:
            stride = calls - made
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


def save(trace: Trace, folder: str) -> None:
    """Arrays only, never pickles; written whole before it is seen."""
    partial = os.path.join(folder, "partial.npz")
    np.savez_compressed(
        partial,
        observations=np.asarray(trace.observations),
        rewards=np.asarray(trace.rewards, dtype=np.float64),
        ended=np.asarray(trace.ended, dtype=np.bool_),
    )
    os.replace(partial, os.path.join(folder, TRACE))
