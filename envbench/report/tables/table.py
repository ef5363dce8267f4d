"""A table as a value: measurements merged into the profile's and a document's rows and columns.

Pure. The document's rows keep their order, and the others are inserted in the profile's order.
Columns are the numbers of environments in numeric order; other columns keep their place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envbench import backends
from envbench.model import Cell
from envbench.report.escape import markdown
from envbench.report.tables import footnotes
from envbench.report.tables.columns import EQUAL_WORK, NAMES, Columns, other_columns
from envbench.report.tables.machine_results import MachineResults, backend_order
from envbench.results.shown import Measured

NOT_RUN = "not run"  # the library has to be installed by hand and has no results yet
_FIGURE = re.compile(r"(\*\*)?\d+\.\d\d(\*\*)?")
_MARKS = re.compile(r"<sup>([a-z]{1,3}(?:,[a-z]{1,3})*)</sup>")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a table: a measured figure, Markdown text, or nothing.

    Only one of ``fps`` and ``text`` is given. ``measured`` is what a page can link to.
    """

    fps: float | None = None
    best: bool = False
    text: str = ""
    notes: tuple[str, ...] = ()
    measured: Measured | None = None


Row = tuple[str, list[Entry]]


@dataclass(frozen=True, kw_only=True)
class Existing:
    """The present table of a block and its author's lines; rows are as long as the header.

    Cells are raw text, because an author's figures must stay exactly as written. ``measured``: the
    note of a report says that all figures are measured, none is the author's.
    """

    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    footnotes: dict[str, str] = field(default_factory=dict)
    before: str = ""  # the lines above the table
    after: str = ""  # the lines below it
    measured: bool = False

    def from_report(self, text: str) -> bool:
        """Whether a report wrote this figure. Its record may no longer exist."""
        if footnotes.NO_RECORD in self.notes(text):
            return True
        return self.measured and _FIGURE.fullmatch(_MARKS.sub("", text).strip()) is not None

    def notes(self, text: str) -> list[str]:
        """The footnotes of an entry."""
        return [self.footnotes[mark] for mark in marks(text) if mark in self.footnotes]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: each row is a label and an entry per column.

    ``first`` names the labels where the heading cannot be the first cell. The lines and footnotes
    of ``existing`` are kept.
    """

    heading: str
    columns: list[str]
    rows: list[Row]
    first: str = "backend"
    note: str = ""
    existing: Existing = field(default_factory=Existing)


def entries(texts: Iterable[str], measured: Measured | None = None) -> list[Entry]:
    """An entry for each text."""
    return [Entry(text=text, measured=measured) for text in texts]


def grid(
    labels: Mapping[Any, str], columns: Sequence[Any], known: Mapping[tuple[Any, Any], Entry]
) -> list[Row]:
    """A row for each of ``labels`` (with its text), with an entry per column, perhaps empty."""
    return [
        (markdown(text), [known.get((label, column), Entry()) for column in columns])
        for label, text in labels.items()
    ]


def marks(text: str) -> list[str]:
    """The footnotes that an entry's text refers to."""
    return [mark for group in _MARKS.findall(text) for mark in group.split(",")]


def bare(text: str) -> str:
    """An entry without references to footnotes and without bold."""
    return _MARKS.sub("", text).strip().strip("*")


# ---------------------------------------------------------------- measured figures


def build(results: MachineResults, existing: Existing | None = None) -> Table:
    """The table of these results, merged into the document's table."""
    existing = existing or Existing()
    others = other_columns(results)
    columns = _columns(existing.header[1:], results, others)
    values = _values(results, others)
    by_hand = {markdown(each.label) for each in backends.registry().values() if each.by_hand}
    rows: list[Row] = []
    has_own_figures = False
    for label, *texts in _rows(existing.rows, results):
        rows.append((label, []))
        for name, place in columns:
            text = texts[place] if texts and place is not None else ""
            if text == NOT_RUN and label in by_hand:
                text = ""
            # Of two rows or columns with the same name only the first is filled.
            entry = values.pop((label, name), None)
            if entry is None or not (name in others or _replaces(entry, text)):
                entry = kept(text, existing, name, entry.notes if entry else ())
                if bare(entry.text) and not entry.notes and name not in others:
                    has_own_figures = True
            rows[-1][1].append(entry)
    return Table(
        heading=markdown(results.heading),
        columns=[name for name, _ in columns],
        rows=rows,
        note=footnotes.of_table(results, others=has_own_figures),
        existing=existing,
    )


def without_records(existing: Existing) -> Table:
    """A document's table where no result is known."""
    heading, *columns = existing.header
    rows = [
        (label, [kept(text, existing, name) for name, text in zip(columns, texts, strict=True)])
        for label, *texts in existing.rows
    ]
    return Table(heading=heading, columns=columns, rows=rows, existing=existing)


def kept(text: str, existing: Existing, column: str, notes: Sequence[str] = ()) -> Entry:
    """A document's entry where nothing was measured. An author's text stays as it is.

    A report's figure without a record loses its bold and gets a footnote, after ``notes``. What was
    computed from such figures (a share, costs, a badge) is dropped.
    """
    if existing.measured and column in NAMES:
        return Entry()
    if not existing.from_report(text):
        return Entry(text=text)
    every = [*notes, *existing.notes(text), footnotes.NO_RECORD]
    return Entry(text=bare(text), notes=tuple(dict.fromkeys(every)))


def _replaces(entry: Entry, text: str) -> bool:
    """Whether a known entry replaces the document's text: a figure does, other notes may not.

    A document may still contain a refused figure.
    """
    refused = entry.measured.withdrawn if entry.measured else None
    is_refused = refused is not None and bare(text) == f"{refused:.2f}"
    return entry.fps is not None or not bare(text) or is_refused


def _values(results: MachineResults, others: Columns) -> dict[tuple[str, str], Entry]:
    """The known entries by row label and column heading, both in Markdown."""
    able = [found for found in results.with_figures if competes(found, results)]
    best = _best((found.numenv, found.fps or 0.0) for found in able)
    values = {
        (markdown(label), name): Entry(text=text)
        for name, texts in others.items()
        for label, text in texts.items()
    }
    for label, badge in others.get(EQUAL_WORK, {}).items():
        notes = tuple(footnotes.of_verification(results.verified[label]))
        values[markdown(label), EQUAL_WORK] = Entry(text=badge, notes=notes)
    for label in results.not_run if results.ladder else []:
        values[markdown(label), str(results.ladder[0])] = Entry(text=NOT_RUN)
    for found in results.measured:
        values[markdown(found.label), str(found.numenv)] = _entry(found, best, results)
    return values


def _entry(found: Measured, best: Mapping[int, str], results: MachineResults) -> Entry:
    verified = results.verified.get(found.label)
    if verified is not None and found.refused:
        notes = [footnotes.of_refusal(verified)]
    else:
        notes = footnotes.of_entry(found, results.profile)
    is_best = competes(found, results) and best.get(found.numenv) == f"{found.fps or 0.0:.2f}"
    return Entry(fps=found.fps, best=is_best, notes=tuple(notes), measured=found)


def same_work(cell: Cell) -> bool:
    """Whether the cell's settings do not change the backend's work."""
    return backends.same_work(cell.backend, cell.variant)


def competes(found: Measured, results: MachineResults) -> bool:
    """Whether it can be the best of its column: it does equal work as far as known.

    Settings that change the work and a badge other than ✓ exclude a row. Without a current
    verification only built-in backends compete: the project's tests verify them.
    """
    verified = results.verified.get(found.label)
    built_in = backends.is_built_in(found.cell.backend)
    if verified is None or verified.verification.failure is not None:
        equal = built_in
    else:
        equal = verified.verdict.badge == "✓" and (built_in or not verified.stale)
    return equal and same_work(found.cell)


def _best(figures: Iterable[tuple[int, float]]) -> dict[int, str]:
    """The highest figure of each numenv as printed: equal ones are all best."""
    best: dict[int, float] = defaultdict(float)
    for numenv, fps in figures:
        best[numenv] = max(fps, best[numenv])
    return {numenv: f"{fps:.2f}" for numenv, fps in best.items()}


# ---------------------------------------------------------------- rows and columns


def _columns(
    written: Sequence[str], results: MachineResults, others: Iterable[str]
) -> list[tuple[str, int | None]]:
    """Each column's heading and its place in the document."""
    columns: list[tuple[str, int | None]] = [(name, i) for i, name in enumerate(written)]
    for numenv in sorted({*results.ladder, *(found.numenv for found in results.measured)}):
        if str(numenv) not in written:
            columns.insert(_place(numenv, [name for name, _ in columns]), (str(numenv), None))
    return [*columns, *((name, None) for name in others if name not in written)]


def _place(numenv: int, names: Sequence[str]) -> int:
    numbers = {i: int(name) for i, name in enumerate(names) if name.isascii() and name.isdigit()}
    larger = [i for i, number in numbers.items() if number > numenv]
    if larger:
        return larger[0]
    return max(numbers) + 1 if numbers else len(names)


def _rows(written: Iterable[list[str]], results: MachineResults) -> list[list[str]]:
    """The document's rows, and for each other row its label alone."""
    rows = list(written)
    place = 0
    for label in map(markdown, results.labels):
        labels = [row[0] for row in rows]
        if label not in labels:
            rows.insert(place, [label])
        place = [row[0] for row in rows].index(label) + 1
    return rows


# ---------------------------------------------------------------- published figures


def build_published(results: MachineResults, existing: Existing | None = None) -> Table:
    """The table of the figures that others have published, with the author's lines around it.

    Rows and columns come from the data. The best of a column is bold among these figures; measured
    figures never appear beside them.
    """
    figures, existing = results.published, existing or Existing()
    sources = list(dict.fromkeys(each.source for each in figures))
    best = _best((each.numenv, each.fps) for each in figures)
    known = {
        ((each.backend, each.source), each.numenv): Entry(
            fps=each.fps, best=f"{each.fps:.2f}" == best[each.numenv]
        )
        for each in figures
    }
    labels = {
        row: backends.row_label(row[0], {}) + (f", {row[1]}" if len(sources) > 1 else "")
        for row in sorted({row for row, _ in known}, key=lambda row: (backend_order(row[0]), *row))
    }
    return Table(
        heading=markdown(results.published_heading),
        columns=[str(numenv) for numenv in sorted(best)],
        rows=grid(labels, sorted(best), known),
        note=footnotes.of_published(figures, sources),
        existing=Existing(before=existing.before, after=existing.after),
    )
