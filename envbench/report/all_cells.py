"""All measured cells in one table, for a page on which it is sorted and filtered. PURE."""

from __future__ import annotations

from collections.abc import Sequence

from envbench.report.escape import markdown
from envbench.report.selection import Measured
from envbench.report.subjects import Subject
from envbench.report.table import Entry, Table


def table(measured: Sequence[tuple[Measured, Subject]]) -> Table:
    """A row a cell, with the subject of its machine."""
    return Table(
        heading="All measured cells",
        first="machine",
        columns=[
            *("family", "task", "backend", "environments", "FPS", "95 % interval", "steps/s"),
            *("equal work", "flags"),
        ],
        rows=[(markdown(subject.machine), _row(each)) for each, subject in measured],
    )


def _row(found: Measured) -> list[Entry]:
    summary, cell = found.shown, found.summary.cell
    low, high = summary.interval or (None, None)
    spread = (
        f"±{50 * (high - low) / summary.fps:.1f} %"
        if low is not None and high is not None and summary.fps
        else ""
    )
    steps = "" if summary.steps_per_second is None else f"{summary.steps_per_second:.2f}"
    names = [cell.env, markdown(cell.task), markdown(found.label), str(cell.numenv)]
    rest = [spread, steps, found.badge, ", ".join(found.summary.flags)]
    return [
        *(Entry(written=text) for text in names),
        Entry(fps=summary.fps, of=found),
        *(Entry(written=text) for text in rest),
    ]
