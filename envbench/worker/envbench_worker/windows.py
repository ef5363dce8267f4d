"""Windows of steps in columns, and what is decided about them: valid, steady, equal results."""

from __future__ import annotations

import math
from statistics import variance
from typing import Any, Dict, List, Sequence
from zlib import crc32

STEADY_WINDOWS = 8
STEADY_TOLERANCE = 0.02
STEAL_LIMIT = 0.05
ONE_TICK_S = 0.015  # the system counts in ticks of 0.01 s: one is over 5 % of a short slice
SUSPEND_LIMIT_NS = 50_000_000


class Windows:
    """Consecutive windows in columns: the fields of ``envbench.model.Windows``."""

    def __init__(self) -> None:
        self.start_ns: List[int] = []
        self.ns: List[int] = []
        self.calls: List[int] = []
        self.steps: List[int] = []
        self.resets: List[int] = []
        self.invalid: Dict[str, str] = {}


def checksums(arrays: List[Any], before: Sequence[int] = ()) -> List[int]:
    """Return a number per array, which changes if the array does (CRC-32), or if one of those
    ``before`` did, whose numbers are given."""
    pairs = zip(arrays, before or [0] * len(arrays))
    return [crc32(each.tobytes(), number) for each, number in pairs]


def invalidity(signals: Dict[str, float], ns: int) -> str:
    """Say why an outside signal makes this window invalid, or return an empty string.

    These are the only reasons to discard a window. A slow window is not invalid.
    """
    if signals.get("suspended_ns", 0) > SUSPEND_LIMIT_NS:
        return "suspended"
    if signals.get("throttled_periods", 0) > 0:
        return "throttled"
    stolen = signals.get("steal_share", 0.0) > STEAL_LIMIT
    if stolen and signals.get("steal", math.inf) > ONE_TICK_S:
        return "steal"
    return ""


def is_steady(windows: Windows, skip: int = 0) -> bool:
    """Do the halves of the last four to eight windows agree within 2 % or two standard errors?"""
    rates = [s / ns for s, ns in zip(windows.steps[skip:], windows.ns[skip:])][-STEADY_WINDOWS:]
    half = len(rates) // 2
    if half < 2:
        return False
    first, second = rates[-2 * half : -half], rates[-half:]
    a, b = sum(first) / half, sum(second) / half
    if a <= 0 or b <= 0:
        return False
    error = (variance(first) / half + variance(second) / half) ** 0.5
    return bool(abs(a - b) <= max(STEADY_TOLERANCE * (a + b) / 2, 2 * error))
