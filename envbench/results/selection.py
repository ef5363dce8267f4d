"""Which measurement of each cell a report shows.

Each cell shows its newest *complete* measurement: one plan's runs, every round of it ended (or the
cell failed). Runs of different plans are never pooled. In order of preference:

1. one with an interval (five processes or more), the newest;
2. one of fewer processes, where there is none with an interval;
3. a quick one (or one that measured for less than a quick one does), where there is no other;
4. a failure, where there is no figure at all: a footnote, and an empty entry.

A measurement that was stopped half-way is never shown, not even where there is nothing else: its
rounds say nothing yet about the machine's drift. It is counted in ``Selection.warnings``, with
the way to finish it. Runs whose plan is not there (a bad line) cannot be judged complete either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from envbench import backends
from envbench.equal_work.judge import judge
from envbench.model import (
    Fingerprint,
    MachineFact,
    Plan,
    Published,
    Record,
    Run,
    RuntimeFact,
    Verification,
    run_design,
)
from envbench.results.archive import Origin
from envbench.results.shown import Measured
from envbench.results.verified import Row, newest, row_of
from envbench.stats.summary import QUICK_S, summarise
from envbench.text import one_line

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is shown, by machine, family, task, row and numenv; what was found out about each
    row's work; what others have published; and what is not shown, in words."""

    measured: list[Measured] = field(default_factory=list)
    verified: dict[Row, Verification] = field(default_factory=dict)
    stale: set[Row] = field(default_factory=set)  # measured otherwise than it was verified
    verified_at: dict[Row, Origin] = field(default_factory=dict)  # the finding's record
    published: list[Published] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class _Archive:
    plans: dict[str, Plan] = field(default_factory=dict)
    machines: dict[str, Fingerprint] = field(default_factory=dict)
    runtimes: dict[str, RuntimeFact] = field(default_factory=dict)
    verified: list[Verification] = field(default_factory=list)
    published: dict[tuple[str, str, str, str, int, str], Published] = field(default_factory=dict)
    # plan -> cell -> run id -> run: a copied file does not double its runs
    runs: dict[str, dict[bytes, dict[str, Run]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )


def select(records: Iterable[Record], origins: Mapping[str, Origin] | None = None) -> Selection:
    """The measurements to show, of all records of all files; ``origins``: where they stand."""
    origins = origins or {}
    archive = _sort(records)
    every: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
    warnings: list[str] = []
    for plan_id, cells in archive.runs.items():
        plan = archive.plans.get(plan_id)
        if plan is None:
            warnings.append(
                f"runs of the plan {one_line(plan_id)} are left out: its line is missing"
            )
            continue
        unfinished = 0
        known = {_ENCODER.encode(cell) for cell in plan.cells}
        for key, runs in cells.items():
            if key not in known:
                first = next(iter(runs))
                warnings.append(f"run {one_line(first)} is left out: its plan has no such cell")
                continue
            ordered = sorted(runs.values(), key=lambda run: (run.round, run.started_utc))
            if not is_complete(plan, ordered):
                unfinished += 1
                continue
            found = _measured(plan, ordered, archive.machines, origins)
            cell = found.summary.cell
            slot = (cell.machine, cell.env, cell.task, found.label, str(cell.numenv))
            every[slot].append(found)
        if unfinished:
            warnings.append(_unfinished(plan, unfinished))
    best = {
        slot: replace(max(measured, key=lambda m: m.rank), times=sum(map(_is_whole, measured)))
        for slot, measured in every.items()
    }
    if aside := sum(_newer(each, best[slot]) for slot, each in every.items()):
        warnings.append(
            f"{aside} newer measurement{'s' if aside > 1 else ''} set aside: what has no interval "
            "(quick, short, or under five processes) does not displace what has one"
        )
    verified, stale = newest(archive.verified, best.values(), archive.runtimes)
    return Selection(
        measured=[_with_badge(best[slot], verified) for slot in sorted(best)],
        verified=verified,
        stale=stale,
        verified_at={
            row: origins[found.verification_id]
            for row, found in verified.items()
            if found.verification_id in origins
        },
        published=[archive.published[key] for key in sorted(archive.published)],
        warnings=warnings,
    )


def _is_whole(found: Measured) -> bool:
    """Is it a measurement that counts as one more: with a figure, and no quick look?"""
    return found.summary.fps is not None and not found.quick


def _with_badge(found: Measured, verified: Mapping[Row, Verification]) -> Measured:
    finding = verified.get(row_of(found.summary.cell))
    return found if finding is None else found.judged(judge(finding).badge)


def _newer(measured: Iterable[Measured], shown: Measured) -> int:
    """How many are newer than the one shown, and have a figure that is not."""
    return sum(each.when > shown.when and each.summary.fps is not None for each in measured)


def is_complete(plan: Plan, runs: Iterable[Run]) -> bool:
    """Whether one cell's runs are all that the plan asks for, or the cell has failed."""
    repeats, rounds = 0, set()
    for run in runs:
        if run.failure is not None and run.failure.reason != "interrupted":
            return True
        repeats = run_design(plan).repeats.get(run.cell.backend, 0)
        if run.failure is None and 0 <= run.round < repeats:
            rounds.add(run.round)
    return 0 < repeats <= len(rounds)


def _sort(records: Iterable[Record]) -> _Archive:
    archive = _Archive()
    for record in records:
        if isinstance(record, Run):
            cell = _ENCODER.encode(record.cell)
            archive.runs[record.plan_id][cell].setdefault(record.run_id, record)
        elif isinstance(record, Plan):
            archive.plans.setdefault(record.plan_id, record)
        elif isinstance(record, MachineFact):
            archive.machines[record.hash] = record.fingerprint
        elif isinstance(record, RuntimeFact):
            archive.runtimes[record.hash] = record
        elif isinstance(record, Verification):
            archive.verified.append(record)
        elif isinstance(record, Published):
            place = record.machine, record.env, record.task, record.backend, record.numenv
            archive.published[*place, record.source] = record
    return archive


def _measured(
    plan: Plan,
    runs: list[Run],
    machines: Mapping[str, Fingerprint],
    origins: Mapping[str, Origin],
) -> Measured:
    found = machines.get(runs[-1].fingerprint)
    cpus = found.logical_cpus if found else 1
    cell = runs[0].cell
    summary = summarise(runs, cpus=cpus, alone=len(plan.cells) == 1)
    return Measured(
        summary=summary,
        label=backends.row_label(cell.backend, cell.variant),
        plan=plan,
        when=max(run.started_utc for run in runs),
        quick=run_design(plan).quick or _seconds(runs) < QUICK_S,
        fingerprint=found,
        runtime=runs[-1].runtime,
        ran=ran(runs[-1]),
        pools=_pools(runs[-1]),
        origins=tuple(origins[name] for name in summary.runs if name in origins),
    )


def _seconds(runs: Iterable[Run]) -> float:
    return sum(sum(run.measured.ns) for run in runs) / 1e9


def ran(run: Run) -> str:
    """``Ant-v4 (use_contact_forces=True)`` where that stood in for ``Ant-v3``."""
    task = run.facts.get("library_task")
    if not isinstance(task, str) or run.cell.task in (task, task.rpartition("/")[2]):
        return ""
    given = run.facts.get("library_arguments")
    arguments = given if isinstance(given, dict) else {}
    listed = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"{task} ({listed})" if listed else task


def _pools(run: Run) -> int:
    told = run.facts.get("processes")
    return len(told) if isinstance(told, list) else 0


def _unfinished(plan: Plan, count: int) -> str:
    cells = "1 cell" if count == 1 else f"{count} cells"
    machine = one_line(plan.cells[0].machine) if plan.cells else "?"
    return (
        f"{cells} of {machine} (plan {one_line(plan.plan_id)}, {one_line(plan.started_utc)}) "
        "left out: not finished. The same `envbench run` command goes on with them."
    )
