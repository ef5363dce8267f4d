"""Measurements merged into a profile's and a document's rows and columns. Pure.

The document's rows keep their order, and the others are inserted in the profile's order. Columns
are the numbers of environments in numeric order; other columns keep their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from envbench import backends
from envbench.decisions.ranking import best_of_columns
from envbench.report.machine_results import MachineResults, backend_order
from envbench.report.tables import footnotes, note
from envbench.report.tables.costs import COSTS, usual_costs
from envbench.report.tables.table import Entry, Existing, Row, Table, bare, grid
from envbench.results.measured_cells import Measured
from envbench.text import markdown

NOT_RUN = "not run"  # the library has to be installed by hand and has no results yet


# ---------------------------------------------------------------- measured figures


def build(results: MachineResults, existing: Existing) -> Table:
    """The table of these results, merged into the document's table."""
    others = _other_columns(results)
    columns = _columns(existing.header[1:], results, others)
    values = _values(results, others)
    by_hand = {markdown(each.label) for each in backends.registry().values() if each.by_hand}
    refused = {markdown(name) for name, each in results.verified.items() if each.verdict.refused}
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
            if (label in refused or _refuted(entry)) and existing.from_report(text):
                text = ""  # no figure of a refused row stays, whenever it was measured
            own = bare(text) and label not in refused and name not in others  # the document's text
            if entry is None or (own and entry.fps is None):
                entry = kept(text, existing, name, entry.notes if entry else ())
                if bare(entry.text) and not entry.notes and name not in others:
                    has_own_figures = True
            rows[-1][1].append(entry)
    return Table(
        heading=markdown(results.heading),
        columns=[name for name, _ in columns],
        rows=rows,
        note=note.of_table(results, others=has_own_figures),
        existing=existing,
    )


def _refuted(entry: Entry | None) -> bool:
    """Did a check refuse the figure that was measured?"""
    failure = entry.measured.summary.failure if entry and entry.measured else None
    return failure is not None and failure.reason == "invalid-figure"


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


def _values(
    results: MachineResults, others: Mapping[str, Mapping[str, Entry]]
) -> dict[tuple[str, str], Entry]:
    """The known entries by row label and column heading, both in Markdown."""
    values = {
        (markdown(label), name): entry
        for name, column in others.items()
        for label, entry in column.items()
    }
    for label in results.not_run:
        values[markdown(label), str(results.planned.numenv[0])] = Entry(text=NOT_RUN)
    for found in results.measured:
        values[markdown(found.label), str(found.numenv)] = _entry(found, results)
    return values


def _entry(found: Measured, results: MachineResults) -> Entry:
    notes = tuple(footnotes.of_entry(found, results))
    if found.fps is None:
        return Entry(notes=notes, measured=found)
    leaders = results.leaders[found.numenv]
    return Entry(
        text=results.text(found),
        fps=results.value(found),
        best=leaders == [found],
        tie=len(leaders) > 1 and found in leaders,
        notes=notes,
        measured=found,
    )


# ---------------------------------------------------------------- rows and columns


def _columns(
    written: Sequence[str], results: MachineResults, others: Iterable[str]
) -> list[tuple[str, int | None]]:
    """Each column's heading and its place in the document."""
    columns: list[tuple[str, int | None]] = [(name, i) for i, name in enumerate(written)]
    for numenv in sorted({*results.planned.numenv, *(found.numenv for found in results.measured)}):
        if str(numenv) not in written:
            columns.insert(_place(numenv, [name for name, _ in columns]), (str(numenv), None))
    return [*columns, *((name, None) for name in others if name not in written)]


def _place(numenv: int, names: Sequence[str]) -> int:
    numbers = {i: int(name) for i, name in enumerate(names) if name.isascii() and name.isdigit()}
    after = max(numbers) + 1 if numbers else len(names)
    return next((i for i, number in numbers.items() if number > numenv), after)


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


# ---------------------------------------------------------------- other columns

CEILING = "Of ceiling"
EQUAL_WORK = "Equal work"
NAMES = frozenset({CEILING, EQUAL_WORK, *COSTS, "Compile and first step"})  # an older name


def _other_columns(results: MachineResults) -> dict[str, dict[str, Entry]]:
    """The columns that are not a number of environments: heading -> row label -> entry.

    * with a ceiling: each row's best share of it;
    * for accelerators and physics: the costs at the row's largest numenv;
    * after ``envbench verify``: a badge per row.
    """
    columns: dict[str, dict[str, Entry]] = {}
    if results.top:
        columns[CEILING] = {
            label: Entry(
                text=results.share(best),
                notes=(*footnotes.quick(best), *footnotes.of_doubt(best)),
            )
            for label, best in results.highest.items()
        }
    for name, texts in (usual_costs(results) if results.section else {}).items():
        columns[name] = {label: Entry(text=text) for label, text in texts.items()}
    rows = results.rows
    badges = {
        label: Entry(
            text=found.verdict.badge,
            notes=(
                *footnotes.of_verification(found, results.shared_differences),
                *footnotes.of_doubtful_row(rows.get(label, [])),
            ),
        )
        for label, found in results.verified_rows.items()
    }
    never = Entry(text="–", notes=(footnotes.NEVER,))
    columns[EQUAL_WORK] = {label: never for label in rows if badges} | badges
    return {name: column for name, column in columns.items() if column}


# ---------------------------------------------------------------- published figures


def build_published(results: MachineResults, existing: Existing) -> Table:
    """The table of the figures that others have published, with the author's lines around it.

    Rows and columns come from the data. The best of a column is bold among these figures; measured
    figures never appear beside them.
    """
    figures = results.published
    sources = list(dict.fromkeys(each.source for each in figures))
    best = best_of_columns((each.numenv, each.fps) for each in figures)
    known = {
        ((each.backend, each.source), each.numenv): Entry(
            text=f"{each.fps:.2f}", fps=each.fps, best=f"{each.fps:.2f}" == best[each.numenv]
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
        note=note.of_published(figures, sources),
        existing=Existing(before=existing.before, after=existing.after),
    )
