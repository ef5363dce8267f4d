"""What a start costs: a table for each machine, family and task. PURE.

Of each row's largest number of environments: start-up (import and build), the first step (with
any compile), the most memory of the host's processes and of the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from envbench.report.escape import markdown
from envbench.report.extras import COSTS, largest
from envbench.report.subjects import Subject
from envbench.report.table import Entry, Table

NOTE = (
    "Of each row's largest number of environments: start-up is import and build, the first step "
    "holds any compile, both medians of its processes (from the shortest to the longest where a "
    "library found on disk what it had compiled before); memory is the most of any of them, with "
    "its children."
)


def tables(subjects: Iterable[Subject]) -> list[Table]:
    """One a subject that has costs on record."""
    return [made for subject in subjects if (made := _table(subject)) is not None]


def _table(subject: Subject) -> Table | None:
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
        note=NOTE,
    )
