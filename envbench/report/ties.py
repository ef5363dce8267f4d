"""Can two measurements be told apart? What is within the noise is a tie. PURE."""

from __future__ import annotations

from envbench.intervals import ratio_interval
from envbench.report.selection import Measured

DRIFT = 1.10  # of a shared machine between two times of measuring: docs/measurement.md


def within_noise(found: Measured, other: Measured) -> bool | None:
    """Does the interval of their ratio hold 1? None where there is no interval.

    Of measurements of two plans it is widened by what a machine drifts meanwhile.
    """
    span = ratio_interval(found.summary.speeds, other.summary.speeds)
    if span is None:
        return None
    drift = 1.0 if found.plan_id == other.plan_id else DRIFT
    return span[0] / drift <= 1 <= span[1] * drift
