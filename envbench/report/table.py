"""A table as a value: measurements laid over the profile's rows and columns and a document's own.

Pure. Rows are the document's in its order, with the profile's and the measured ones put where the
profile's order has them. Columns are the document's, the ladder's and the measured numenvs, in
numeric order; columns that are not numbers keep their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envbench import backends
from envbench.model import Cell
from envbench.report import notes
from envbench.report.escape import markdown
from envbench.report.existing import Existing, is_figure
from envbench.report.selection import Measured
from envbench.report.subjects import Subject


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One place of a table: a measured figure, a document's own text, or nothing.

    ``fps`` and ``written`` exclude each other. ``notes`` are footnotes of what was measured.
    """

    fps: float | None = None
    best: bool = False
    written: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table to be written down. ``rows`` are a label and an entry per column."""

    heading: str
    columns: list[str]
    rows: list[tuple[str, list[Entry]]]
    note: str = ""
    footnotes: dict[str, str] = field(default_factory=dict)  # the document's own
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def build(subject: Subject, existing: Existing | None = None) -> Table:
    """The table of a subject, merged into what stands in the document."""
    existing = existing or Existing()
    columns = _columns(existing.header[1:], subject)
    rows = _rows([row[0] for row in existing.rows], subject)
    results = {(markdown(m.label), str(m.summary.cell.numenv)): m for m in subject.measured}
    best = _best(subject.measured)
    lines: list[tuple[str, list[Entry]]] = []
    for label, row in rows:
        entries = []
        for numenv, column in columns:
            written = ""
            if row is not None and column is not None:
                written = existing.rows[row][column + 1]
            # Of two rows or columns of one name only the first is filled.
            found = results.pop((label, numenv), None)
            entries.append(_entry(found, written, best, subject))
        lines.append((label, entries))
    others = any(is_figure(entry.written) for _, entries in lines for entry in entries)
    return Table(
        heading=markdown(subject.heading),
        columns=[name for name, _ in columns],
        rows=lines,
        note=notes.of_table(subject.measured, others=others),
        footnotes=existing.footnotes,
        before=existing.before,
        after=existing.after,
    )


def _entry(found: Measured | None, written: str, best: dict[int, str], subject: Subject) -> Entry:
    if found is None:
        return Entry(written=written)
    sentences = tuple(notes.of_entry(found, subject.profile))
    fps = found.summary.fps
    if fps is None:  # failed: what a person wrote there stays as it is
        return Entry(written=written) if is_figure(written) else Entry(notes=sentences)
    cell = found.summary.cell
    best_here = same_work(cell) and best[cell.numenv] == f"{fps:.2f}"
    return Entry(fps=fps, best=best_here, notes=sentences)


def same_work(cell: Cell) -> bool:
    """Whether the cell may be the best of its column."""
    return backends.same_work(cell.backend, cell.variant)


def _best(measured: Iterable[Measured]) -> dict[int, str]:
    """The best measured figure of each column as it is printed: equal ones are all best.

    A row whose settings change the work (one constant action, say) does not compete.
    """
    best: dict[int, float] = {}
    for found in measured:
        numenv, fps = found.summary.cell.numenv, found.summary.fps
        if fps is not None and same_work(found.summary.cell):
            best[numenv] = max(fps, best.get(numenv, 0.0))
    return {numenv: f"{fps:.2f}" for numenv, fps in best.items()}


# ---------------------------------------------------------------- rows and columns


def _columns(written: Sequence[str], subject: Subject) -> list[tuple[str, int | None]]:
    """Each column's heading, and where the document has it."""
    columns: list[tuple[str, int | None]] = [(name, i) for i, name in enumerate(written)]
    known = {name for name, _ in columns}
    wanted = {*subject.ladder, *(found.summary.cell.numenv for found in subject.measured)}
    for numenv in sorted(wanted):
        if str(numenv) not in known:
            columns.insert(_place(numenv, [name for name, _ in columns]), (str(numenv), None))
    return columns


def _place(numenv: int, names: Sequence[str]) -> int:
    numbers = {i: int(name) for i, name in enumerate(names) if name.isascii() and name.isdigit()}
    larger = [i for i, number in numbers.items() if number > numenv]
    if larger:
        return larger[0]
    return max(numbers) + 1 if numbers else len(names)


def _rows(written: Sequence[str], subject: Subject) -> list[tuple[str, int | None]]:
    """Each row's label, and where the document has it."""
    rows: list[tuple[str, int | None]] = [(label, i) for i, label in enumerate(written)]
    previous: str | None = None
    for label in map(markdown, subject.labels):
        labels = [each for each, _ in rows]
        if label not in labels:
            rows.insert(labels.index(previous) + 1 if previous in labels else 0, (label, None))
        previous = label
    return rows
