"""Measured cells and verified rows, as values: what a selection consists of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from envbench import backends
from envbench.decisions.equal_work import Verdict, judge, spot_check
from envbench.decisions.session import Session
from envbench.model import (
    Agreement,
    Cell,
    Failure,
    Fingerprint,
    Plan,
    Run,
    RuntimeFact,
    Verification,
    Windows,
)
from envbench.stats.block_model import Adjusted
from envbench.stats.intervals import Interval, half_width
from envbench.stats.summary import Summary

REFUSES = "✗"
REFUSED = Failure(
    reason="invalid-figure",
    message="`envbench verify` refused this row's figures",
    hint="`envbench report` says why. After a change, run `envbench verify` again.",
)
Row = tuple[str, str, str, str]  # machine, family, task, label
TableKey = tuple[str, str, str, str]  # machine, family, task, section


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
    """A cell's measurement in one plan. ``label`` names its row, ``when`` is its latest start.

    ``fps`` is None where the measurement failed or ``envbench verify`` refused its row.
    """

    summary: Summary
    label: str
    plan: Plan
    when: str
    fingerprint: Fingerprint | None
    runtime: str  # hash of the interpreter and packages of its last run
    interpreter: RuntimeFact | None = None  # what that hash stands for, where recorded
    times: int = 1  # how many complete measurements of this cell are stored, without quick ones
    ran: str = ""  # the library's own task, where it differs from the requested one
    pools: int = 0  # processes that share its environments; 0: unknown
    badge: str = ""  # of its row, from ``envbench verify``: ✓ ≠ ✗ –; "" where never verified
    work: Mapping[str, Any] = field(default_factory=dict)  # of a step, as its last run reports
    threads: int = 0  # of its pool, as its last run reports; 0: it has none
    code: str = ""  # Python that makes the same environments, as its last run reports
    spot: Agreement | None = None  # of a trial some of whose steps the reference followed
    doubt: str = ""  # why its figure is shown, but not ranked
    runs: tuple[Run, ...] = ()  # as recorded, the interrupted ones too
    locations: tuple[Location, ...] = ()  # of its runs' records, where known
    session: Session = field(default_factory=Session)  # it and the other cells of its plan

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
    def adjusted(self) -> Adjusted | None:
        """Its FPS, as if all cells of its session were measured at the same time; None if no
        other cell alternated with it, or if it has no figure."""
        return None if self.fps is None else self.session.adjusted(self.cell)

    @property
    def spot_agrees(self) -> bool | None:
        """Did its process make the reference's steps while it was measured? None: not checked, or
        too few steps."""
        return spot_check(self.cell, self.work, self.spot)[0] if self.spot else None

    @property
    def figure(self) -> float | None:
        """What a table shows: the adjusted FPS, otherwise the FPS."""
        return self.adjusted.rate if self.adjusted else self.fps

    @property
    def span(self) -> Interval | None:
        """The 95 % interval of ``figure``."""
        return self.adjusted.interval if self.adjusted else self.summary.interval

    @property
    def half(self) -> float | None:
        """The half-width of ``span``, as a share of the figure."""
        return half_width(self.span)

    @property
    def plan_id(self) -> str:
        return self.plan.plan_id

    @property
    def refused(self) -> bool:
        """Whether ``envbench verify`` refused its row."""
        return self.badge == REFUSES

    @property
    def table(self) -> TableKey:
        """A ceiling belongs to the main table of its task."""
        cell = self.cell
        section = "" if cell.kind == "ceiling" else cell.section
        return cell.machine, cell.env, cell.task, section

    @property
    def on_gpu(self) -> bool:
        """Does a backend of envbench step on the machine's GPU? No processor limits that."""
        behaviour = self.plan.behaviour.get(self.cell.backend)
        device = behaviour is not None and behaviour.steps_in == "device"
        has_gpu = self.fingerprint is not None and bool(self.fingerprint.gpus)
        return device and has_gpu and backends.is_built_in(self.cell.backend)

    @property
    def quick(self) -> bool:
        """Was it a quick look? The summary of a failed cell does not say."""
        return self.summary.quick or self.plan.quick

    @property
    def quality(self) -> int:
        """0: it failed; 1: quick; 2: without an interval; 3: with one."""
        if self.summary.failure:
            return 0
        return 1 if self.quick else 2 + (self.summary.interval is not None)

    @property
    def rank(self) -> tuple[int, str, str]:
        """Orders several measurements of one cell: by quality, then by time."""
        return self.quality, self.when, self.plan_id


def judged(summary: Summary, badge: str) -> Summary:
    """The summary, without its figure if ``envbench verify`` refused its row."""
    if badge != REFUSES or summary.failure is not None:
        return summary
    return without_figure(summary, REFUSED)


def without_figure(summary: Summary, failure: Failure) -> Summary:
    return Summary(cell=summary.cell, runs=summary.runs, flags=summary.flags, failure=failure)


def without_figures(run: Run) -> Run:
    """A run of a refused row, as a failure that measured nothing."""
    return msgspec.structs.replace(
        run, failure=run.failure or REFUSED, warmup=Windows(), measured=Windows()
    )


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A row's verification. ``stale``: the row was measured with other code. ``refuted``: why a
    figure of the row was refused, although it claims the work of the reference."""

    verification: Verification
    stale: bool = False
    location: Location | None = None
    refuted: str = ""

    @cached_property
    def verdict(self) -> Verdict:
        found = judge(self.verification)
        if not self.refuted or found.badge == REFUSES:
            return found
        text = f"a figure was refused: {self.refuted}"
        if not found.lock_step.startswith("the reference"):
            text += f"; verified before: {found.lock_step}"
        return replace(found, badge="✗", lock_step=text)


def row_of(cell: Cell) -> Row:
    """The table row of a cell, for any numenv."""
    return cell.machine, cell.env, cell.task, backends.row_label(cell.backend, cell.variant)
