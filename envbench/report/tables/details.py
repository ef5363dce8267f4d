"""What a start costs and what ``envbench verify`` found, per machine, family and task."""

from __future__ import annotations

from collections.abc import Iterable

from envbench.equal_work.judge import judge
from envbench.report.escape import code, markdown
from envbench.report.tables.columns import COSTS, largest
from envbench.report.tables.subjects import Subject
from envbench.report.tables.table import Entry, Table

NOTE = (
    "`envbench verify`: the same steps counted a second way (audit), the same start and actions "
    "as the reference (lock-step), and in what a step differs from what is asked of the task "
    "(`asked`; for Ant that is Ant-v3, which Gymnasium has no more). ✓ counted "
    "twice and equal; ≠ counted twice, other work or another engine; ✗ refused, no figure is "
    "shown; – not verified."
)


def tables(subjects: Iterable[Subject]) -> list[Table]:
    """One a subject of which a row was verified."""
    return [_table(subject) for subject in subjects if subject.verified]


def _table(subject: Subject) -> Table:
    rows = []
    for label, found in sorted(subject.verified.items(), key=lambda item: _place(subject, item[0])):
        verdict = judge(found)
        apart = ", ".join(verdict.differences) or "nothing"
        texts = [verdict.badge, verdict.audit, verdict.lock_step, apart]
        at = subject.verified_at.get(label)
        places = [code(at.place) if at else ""] if subject.verified_at else []
        written = [*(markdown(text, 900) for text in texts), *places]
        rows.append((markdown(label), [Entry(written=text) for text in written]))
    return Table(
        heading=markdown(f"Equal work - {subject.heading}"),
        columns=[
            *("", "Audit", "Lock-step", "Differs in"),
            *(["Record"] if subject.verified_at else []),
        ],
        rows=rows,
        note=NOTE,
    )


def _place(subject: Subject, label: str) -> tuple[int, str]:
    known = subject.labels
    return (known.index(label) if label in known else len(known), label)


# ---------------------------------------------------------------- costs

COSTS_NOTE = (
    "Of each row's largest number of environments: start-up is import and build, the first step "
    "holds any compile, both medians of its processes (from the shortest to the longest where a "
    "library found on disk what it had compiled before); memory is the most of any of them, with "
    "its children."
)


def cost_tables(subjects: Iterable[Subject]) -> list[Table]:
    """One a subject that has costs on record."""
    return [made for subject in subjects if (made := _cost_table(subject)) is not None]


def _cost_table(subject: Subject) -> Table | None:
    found = largest(subject.measured)
    texts = {
        label: [shown(each.summary.costs) if each.summary.costs else "" for shown in COSTS.values()]
        for label, each in found.items()
    }
    kept = [i for i in range(len(COSTS)) if any(row[i] for row in texts.values())]
    if not kept:
        return None
    names = list(COSTS)
    return Table(
        heading=markdown(f"Costs - {subject.heading}"),
        columns=["Environments", *(names[i] for i in kept)],
        rows=[
            (
                markdown(label),
                [
                    Entry(written=str(found[label].summary.cell.numenv)),
                    *(Entry(written=texts[label][i], of=found[label]) for i in kept),
                ],
            )
            for label in subject.labels
            if label in texts
        ],
        note=COSTS_NOTE,
    )
