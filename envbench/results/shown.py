"""The measurement of a cell that a report shows, and whether two measurements are a tie. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from envbench.model import Cell, Failure, Fingerprint, Plan
from envbench.results.join import Location
from envbench.stats.intervals import Interval, ratio_interval
from envbench.stats.summary import Summary

REFUSED = Failure(reason="invalid-figure", message="`envbench verify` refused this row's figures")
DRIFT = 1.10  # of a shared machine between two sessions: docs/measurement.md


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A cell's measurement in one plan. ``label`` names its row, ``when`` is its last run's start.

    ``fps`` is None where the measurement failed or ``envbench verify`` refused its row.
    """

    summary: Summary
    label: str
    plan: Plan
    when: str
    quick: bool
    fingerprint: Fingerprint | None
    runtime: str  # hash of the interpreter and packages of its last run
    times: int = 1  # how many complete measurements of this cell are stored, without quick ones
    ran: str = ""  # the library's own task, where it differs from the requested one
    pools: int = 0  # processes that share its environments; 0: unknown
    badge: str = ""  # of its row, from ``envbench verify``: ✓ ≠ ✗ –; "" where never verified
    withdrawn: float | None = None  # the refused figure, so that a document can drop it
    locations: tuple[Location, ...] = ()  # of its runs' records, where known

    @property
    def cell(self) -> Cell:
        return self.summary.cell

    @property
    def numenv(self) -> int:
        return self.summary.cell.numenv

    @property
    def fps(self) -> float | None:
        return self.summary.fps

    @property
    def plan_id(self) -> str:
        return self.plan.plan_id

    @property
    def refused(self) -> bool:
        """Whether ``envbench verify`` refused its row."""
        return self.badge == "✗"

    def judged(self, badge: str) -> Measured:
        """The same with its row's badge. A refused row has no figure."""
        judged = replace(self, badge=badge)
        if not judged.refused or self.summary.failure is not None:
            return judged
        summary = Summary(
            cell=self.cell, runs=self.summary.runs, flags=self.summary.flags, failure=REFUSED
        )
        return replace(judged, summary=summary, withdrawn=self.fps)

    @property
    def rank(self) -> tuple[int, str, str]:
        """Of two measurements of one cell the one with the higher rank is shown."""
        return self._completeness(), self.when, self.plan_id

    def _completeness(self) -> int:
        if self.summary.failure:
            return 0
        if self.quick:
            return 1
        return 2 if self.summary.interval is None else 3


def within_noise(found: Measured, other: Measured) -> bool | None:
    """Whether their ratio's interval, widened by drift, contains 1; None without an interval."""
    span = ratio_interval(found.summary.speeds, other.summary.speeds)
    return None if span is None else contains_one(span, drift(found, other))


def drift(found: Measured, other: Measured) -> float:
    """The factor by which a machine may have drifted between them: 1 within one plan."""
    return 1.0 if found.plan_id == other.plan_id else DRIFT


def contains_one(span: Interval, factor: float) -> bool:
    """Whether the interval of a ratio, widened by a factor on both sides, contains 1."""
    return span[0] / factor <= 1 <= span[1] * factor
