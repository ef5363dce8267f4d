"""The ledger of equal work: what ``envbench verify`` found out about each row. PURE."""

from __future__ import annotations

from collections.abc import Iterable

from envbench.report.escape import code, markdown
from envbench.report.subjects import Subject
from envbench.report.table import Entry, Table
from envbench.verdict import judge

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
