"""What a report shows of a cell: its measurement, and the verification of its row. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import msgspec

from envbench import backends
from envbench.decisions import fastest
from envbench.decisions.equal_work import Verdict, judge
from envbench.model import (
    Cell,
    Failure,
    Fingerprint,
    Plan,
    Run,
    RuntimeFact,
    Verification,
    Windows,
    arm_key,
)
from envbench.stats.intervals import ratio_interval
from envbench.stats.summary import Summary

REFUSES = "✗"
REFUSED = Failure(
    reason="invalid-figure",
    message="`envbench verify` refused this row's figures",
    hint="`envbench report` says why. After a change, run `envbench verify` again.",
)
Row = tuple[str, str, str, str]  # machine, family, task, label

# Packages of envbench's controller and its tests: their versions do not affect a measurement.
NOT_MEASURING = frozenset(
    "click filelock jinja2 markdown-it-py matplotlib msgspec packaging pandas pip platformdirs "  # noqa: SIM905
    "psutil rich setuptools tabulate tomli-w uv hypothesis import-linter mypy playwright pyarrow "
    "pytest pytest-timeout pytest-xdist ruff".split()
)


class Location(NamedTuple):
    """The file and line (from 1) of a record."""

    record: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """``epyc-vm/2026-11-20T12-41-47Z.jsonl:7``, as an editor opens it."""
        return f"{self.file}:{self.line}"


def lines_by_file(locations: Iterable[Location]) -> dict[str, list[int]]:
    """The lines of each file, in order."""
    files: dict[str, list[int]] = {}
    for location in locations:
        files.setdefault(location.file, []).append(location.line)
    return {file: sorted(lines) for file, lines in files.items()}


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
        return self.badge == REFUSES

    @property
    def rank(self) -> tuple[int, str, str]:
        """Of two measurements of one cell the one with the higher rank is shown."""
        if self.summary.failure:
            completeness = 0
        else:
            completeness = 1 if self.quick else 2 + (self.summary.interval is not None)
        return completeness, self.when, self.plan_id


def judged(summary: Summary, badge: str) -> Summary:
    """The summary, without its figure if ``envbench verify`` refused its row."""
    if badge != REFUSES or summary.failure is not None:
        return summary
    return Summary(cell=summary.cell, runs=summary.runs, flags=summary.flags, failure=REFUSED)


def without_figures(run: Run) -> Run:
    """A run of a refused row, as a failure that measured nothing."""
    return msgspec.structs.replace(
        run, failure=run.failure or REFUSED, warmup=Windows(), measured=Windows()
    )


def within_noise(found: Measured, other: Measured) -> bool | None:
    """Whether their ratio's interval, widened by drift, contains 1; None without an interval."""
    span = ratio_interval((found.summary.speeds, other.summary.speeds))
    return None if span is None else fastest.verdict(span, drift(found, other)) == "~"


def drift(found: Measured, other: Measured) -> float:
    """The factor by which a machine may have drifted between them: 1 within one plan."""
    return 1.0 if found.plan_id == other.plan_id else fastest.DRIFT


# ---------------------------------------------------------------- the verification of a row


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A row's verification. ``stale``: other packages or another worker measured the row."""

    verification: Verification
    stale: bool = False
    location: Location | None = None

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.verification)


def newest(
    verifications: Iterable[Verification],
    shown: Iterable[Measured],
    runtimes: Mapping[str, RuntimeFact],
    locations: Mapping[str, Location],
) -> dict[Row, Verified]:
    """For each row the newest verification of the measured packages, else the newest of all.

    A later worker checks more, so its result replaces an earlier one, even where it could not
    verify the row.
    """
    measured: dict[Row, list[Measured]] = defaultdict(list)
    for each in shown:
        measured[row_of(each.cell)].append(each)
    found: dict[Row, Verified] = {}
    for verification in sorted(verifications, key=lambda each: each.started_utc):
        row = row_of(verification.cell)
        stale = any(_other_packages(each, verification, runtimes) for each in measured[row])
        if not stale or row not in found or found[row].stale:
            location = locations.get(verification.verification_id)
            found[row] = Verified(verification=verification, stale=stale, location=location)
    for row, verified in found.items():
        workers = {
            each.plan.code.get(f"{arm_key('', each.cell)}/measure", "") for each in measured[row]
        }
        if workers - {verified.verification.worker}:
            found[row] = replace(verified, stale=True)
    return found


def _other_packages(
    found: Measured, verification: Verification, runtimes: Mapping[str, RuntimeFact]
) -> bool:
    """Whether another Python, or another version of a package that both have, measured it."""
    here, there = runtimes.get(found.runtime), runtimes.get(verification.runtime)
    if here is None or there is None:
        return found.runtime != verification.runtime
    both = (here.packages.keys() & there.packages.keys()) - NOT_MEASURING
    other = any(here.packages[name] != there.packages[name] for name in both)
    return here.python != there.python or other


def row_of(cell: Cell) -> Row:
    """The table row of a cell, for any numenv."""
    return cell.machine, cell.env, cell.task, backends.row_label(cell.backend, cell.variant)
