"""Count steps twice: as the adapter reports them, and as the environments' counters see them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from envbench_worker.contract import COUNTED_BY, COUNTERS, Adapter, Counts, Trace
from envbench_worker.sensors import process_tree

COUNTERS_OF = ("envbench_families.base", "envbench_adapters.verifying")  # envbench's counters
STRIDES = (1, 2, 3, 5, 8, 13)  # vector steps per ``run``: the count must be right for any number
AT_ONCE_S = 0.5  # twice the length of a window
PATIENCE_S = 20.0  # the longest single ``run``, estimated from the speed so far

Emit = Callable[[Dict[str, Any]], None]


def progress(calls: int, counts: Counts) -> Dict[str, Any]:
    """The event of some untimed vector steps."""
    return {"event": "window", "phase": "measure", "ns": 1, "calls": calls, **counts._asdict()}


def count_twice(adapter: Adapter, calls: int, emit: Emit, own: bool) -> Dict[str, Any]:
    """Make at least ``calls`` vector steps, counted by the adapter and by the environments.

    Returns fields of ``envbench.model.Audit``; ``frames`` is None if nothing else counts. ``own``:
    the adapter is envbench's. The second count of a plugin is what its environments' counters in
    this process have seen when ``run`` returns: steps that are made later, as the adapter is asked
    for its own count, are not steps of ``run``. Without a counter of envbench's, it is only the
    plugin's claim; with one, that says whose count it is.
    Raises ``TypeError`` if ``counted_by`` is not one of those that the contract names.
    """
    whose: Any = adapter.counted_by
    if whose not in ("", *COUNTED_BY):
        known = ", ".join(map(repr, COUNTED_BY))
        raise TypeError('`counted_by` has to be "" or one of {}, not {!r}'.format(known, whose))
    if whose and not own:
        whose = counters_count()
    seen = None if own else seen_frames()
    if adapter.first_observations is not None:
        adapter.recount()  # discarded: what it made in lock-step
    steps = resets = made = 0
    frames: Optional[float] = 0.0
    began = time.perf_counter()
    while made < calls:
        stride = next_stride(made, calls, time.perf_counter() - began)
        before = seen_frames() or 0.0
        counts = adapter.run(stride)
        if seen is not None:
            seen = seen_frames() or 0.0
        again = adapter.recount()
        if seen is not None and again is not None:
            again = seen - before
        frames = None if again is None or frames is None else frames + again
        steps, resets, made = steps + counts.steps, resets + counts.resets, made + stride
        emit(progress(stride, counts))
    if not own and not seen and len(process_tree(os.getpid())) > 1:  # its environments are there
        frames = seen = None
    found = {"calls": made, "steps": steps, "resets": resets, "frames": frames}
    return dict(found, counted_by=whose if own or seen is not None else "")


def seen_frames() -> Optional[float]:
    """The frames that the counters in this process have seen so far; None: there is no counter."""
    every = [each.seen_frames for each in COUNTERS]
    return None if not every or None in every else float(sum(every))


def counters_count() -> str:
    """Whose count the counters in this process read. "": there is none, they differ, or one of them
    is not envbench's: then the adapter counts its own steps."""
    known = {each.counted_by if _is_envbenchs(type(each)) else "" for each in COUNTERS}
    return known.pop() if len(known) == 1 else ""


def _is_envbenchs(kind: type) -> bool:
    """Is it a class of envbench's, and not one of a plugin that only says so?"""
    module = kind.__module__
    known = sys.modules.get(module) if module in COUNTERS_OF else None
    return getattr(known, kind.__name__, None) is kind


def seen_resets() -> Optional[int]:
    """The resets that the counters in this process have seen so far; None: none counts them."""
    every: List[Any] = [getattr(each, "resets", None) for each in COUNTERS]
    return None if not every or None in every else sum(every)


def resets_twice(
    claimed: int, trace: Optional[Trace], seen: List[Optional[int]], numenv: int
) -> Dict[str, Any]:
    """Return the automatic resets that the adapter claims, in the audit and in the steps of its
    trace, and how many the environments saw: those that envbench asked for are taken off. ``seen``:
    the counts before the first step, before the audit, after it and at the end. Empty if no
    environment of this process has stepped: then they run in other processes.

    If the trace does not have all environments, only the audit's are compared.
    """
    begun, before, after, ended = (each or 0 for each in seen)
    if None in seen or not seen_frames():
        return {}
    if trace is None or trace.resets is None:
        return {"resets_claimed": claimed, "resets_seen": after - before}
    asked = 0 if trace.restarted is None else int(trace.restarted.sum()) * numenv
    made = int(trace.resets.sum())
    return {"resets_claimed": claimed + made, "resets_seen": max(0, ended - begun - asked)}


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
