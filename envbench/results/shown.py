"""The measurement of a cell that a report shows, and whether two of them are a tie. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from envbench.model import Failure, Fingerprint, Plan
from envbench.results.archive import Origin
from envbench.stats.intervals import Interval, ratio_interval
from envbench.stats.summary import Summary

REFUSED = Failure(reason="invalid-figure", message="`envbench verify` refused this row's figures")
DRIFT = 1.10  # of a shared machine between two times of measuring: docs/measurement.md


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A cell's measurement in one plan. ``label`` is its row, ``when`` its last run's UTC start."""

    summary: Summary
    label: str
    plan: Plan
    when: str
    quick: bool
    fingerprint: Fingerprint | None
    runtime: str  # hash of the interpreter and packages of its last run
    times: int = 1  # complete measurements of this cell on record, quick ones aside
    ran: str = ""  # the library's own task, where it is another than the one asked for
    pools: int = 0  # processes that hold a part of its environments each; 0: it does not tell
    badge: str = ""  # of its row, by ``envbench verify``: ✓ ≠ ✗ –; "" where nobody has
    withdrawn: float | None = None  # the refused figure, so that a document can be rid of it
    origins: tuple[Origin, ...] = ()  # where its runs stand, as far as that was told

    @property
    def plan_id(self) -> str:
        return self.plan.plan_id

    @property
    def refused(self) -> bool:
        """Did ``envbench verify`` refuse its row? Then its summary has no figure."""
        return self.badge == "✗"

    def judged(self, badge: str) -> Measured:
        """The same, with what ``envbench verify`` found of its row. A refused row has no figure."""
        judged = replace(self, badge=badge)
        if not judged.refused or self.summary.failure is not None:
            return judged
        summary = replace(
            self.summary,
            fps=None,
            steps_per_second=None,
            interval=None,
            failure=REFUSED,
            costs=None,
            speeds=(),
            frames_per_cpu_s=None,
        )
        return replace(judged, summary=summary, withdrawn=self.summary.fps)

    @property
    def rank(self) -> tuple[int, str, str]:
        """Of two measurements of one cell the greater is shown."""
        return self._kind(), self.when, self.plan_id

    def _kind(self) -> int:
        if self.summary.failure:
            return 0
        if self.quick:
            return 1
        return 2 if self.summary.interval is None else 3


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
