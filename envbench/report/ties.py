"""Can two measurements be told apart? What is within the noise is a tie. PURE."""

from __future__ import annotations

from envbench.intervals import Interval, ratio_interval
from envbench.report.selection import Measured

DRIFT = 1.10  # of a shared machine between two times of measuring: docs/measurement.md


def within_noise(found: Measured, other: Measured) -> bool | None:
    """Does the interval of their ratio hold 1, or the drift between them? None where there is no
    interval: under five processes, or a figure of zero.
    """
    span = ratio_interval(found.summary.speeds, other.summary.speeds)
    return None if span is None else holds_one(span, drift(found, other))


def drift(found: Measured, other: Measured) -> float:
    """The factor by which a machine may have drifted between them: 1 within one plan."""
    return 1.0 if found.plan_id == other.plan_id else DRIFT


def holds_one(span: Interval, factor: float) -> bool:
    """Does the interval of a ratio, widened by a factor both ways, hold 1?"""
    return span[0] / factor <= 1 <= span[1] * factor
