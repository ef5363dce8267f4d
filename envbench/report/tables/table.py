"""A table as a value: measurements laid over the profile's rows and columns and a document's own.

Pure. Rows are the document's in its order, with the profile's and the measured ones put where the
profile's order has them. Columns are the document's, the ladder's and the measured numenvs, in
numeric order; columns that are not numbers keep their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envbench import backends
from envbench.equal_work.judge import judge
from envbench.model import Cell
from envbench.report.escape import markdown
from envbench.report.tables import columns as other_columns
from envbench.report.tables import footnotes
from envbench.report.tables.existing import Existing, bare, is_figure
from envbench.report.tables.subjects import Subject
from envbench.results.shown import Measured

NOT_RUN = "not run"  # of a library that no installer has, until somebody runs it


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One place of a table: a measured figure, a document's own text, or nothing.

    ``fps`` and ``written`` exclude each other. ``notes`` are footnotes of what was measured.
    ``refused`` is a measured figure as it would be printed, which may stand there from earlier.
    ``of`` is the measurement that it tells of, where a page can lead to that.
    """

    fps: float | None = None
    best: bool = False
    written: str = ""
    notes: tuple[str, ...] = ()
    refused: str = ""
    of: Measured | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table to be written down. ``rows`` are a label and an entry per column.

    ``first`` says what the labels are, where the heading does not stand above them.
    """

    heading: str
    columns: list[str]
    rows: list[tuple[str, list[Entry]]]
    first: str = "backend"
    note: str = ""
    footnotes: dict[str, str] = field(default_factory=dict)  # the document's own
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def build(subject: Subject, existing: Existing | None = None) -> Table:
    """The table of a subject, merged into what stands in the document."""
    existing = existing or Existing()
    extra = other_columns.columns(subject)
    written_names = [other_columns.RENAMED.get(name, name) for name in existing.header[1:]]
    columns = _columns(written_names, subject, extra)
    rows = _rows([row[0] for row in existing.rows], subject)
    values = _values(subject, extra)
    by_hand = {markdown(each.label) for each in backends.registry().values() if each.by_hand}
    lines: list[tuple[str, list[Entry]]] = []
    others = False
    for label, row in rows:
        entries = []
        for name, column in columns:
            written = ""
            if row is not None and column is not None:
                written = existing.rows[row][column + 1]
            if written == NOT_RUN and label in by_hand:
                written = ""
            # Of two rows or columns of one name only the first is filled.
            found = values.pop((label, name), None)
            own = found is not None and (found.fps is not None or name in extra)
            if found is None or not (own or _says_it_all(found, written)):
                found = kept(written, existing, name, found.notes if found else ())
                person = is_figure(found.written) and not found.notes
                others = others or (person and name not in extra)
            entries.append(found)
        lines.append((label, entries))
    return Table(
        heading=markdown(subject.heading),
        columns=[name for name, _ in columns],
        rows=lines,
        note=footnotes.of_table(subject.measured, subject.ceiling, others=others),
        footnotes=existing.footnotes,
        before=existing.before,
        after=existing.after,
    )


def kept(written: str, existing: Existing, column: str, known: Sequence[str] = ()) -> Entry:
    """What stands in a document where nothing was measured: a person's own text as it is.

    A figure of a report without a record is not bold, and says so, with what is ``known`` in its
    place; what was computed of such ones (a share, costs, a badge) goes.
    """
    if existing.measured and column in other_columns.NAMES:
        return Entry()
    if not existing.is_left(written):
        return Entry(written=written)
    told = [*known, *existing.told(written), footnotes.GONE]
    return Entry(written=bare(written), notes=tuple(dict.fromkeys(told)))


def _says_it_all(found: Entry, written: str) -> bool:
    """Does what is known, though no figure, take the place of what is written?"""
    return not is_figure(written) or found.refused == bare(written)


def _values(subject: Subject, extra: other_columns.Columns) -> dict[tuple[str, str], Entry]:
    """What is known, by the row's label and the column's heading, both as they are written."""
    best = best_figures(subject)
    values = {
        (markdown(label), name): Entry(written=text)
        for name, texts in extra.items()
        for label, text in texts.items()
    }
    for label in extra.get(other_columns.EQUAL_WORK, {}):
        verified = subject.verified[label]
        sentences = tuple(footnotes.of_verification(verified, stale=label in subject.stale))
        values[markdown(label), other_columns.EQUAL_WORK] = Entry(
            written=judge(verified).badge, notes=sentences
        )
    for name in subject.by_hand if subject.ladder else []:
        values[markdown(name), str(subject.ladder[0])] = Entry(written=NOT_RUN)
    for found in subject.measured:
        place = markdown(found.label), str(found.summary.cell.numenv)
        values[place] = _entry(found, best, subject)
    return values


def _entry(found: Measured, best: dict[int, str], subject: Subject) -> Entry:
    verified = subject.verified.get(found.label)
    if verified is not None and found.refused:
        figure = "" if found.withdrawn is None else f"{found.withdrawn:.2f}"
        return Entry(notes=(footnotes.of_refusal(verified),), refused=figure, of=found)
    sentences = tuple(footnotes.of_entry(found, subject.profile))
    fps = found.summary.fps
    if fps is None:
        return Entry(notes=sentences, of=found)
    numenv = found.summary.cell.numenv
    best_here = competes(found, subject) and best.get(numenv) == f"{fps:.2f}"
    return Entry(fps=fps, best=best_here, notes=sentences, of=found)


def same_work(cell: Cell) -> bool:
    """Whether the cell's settings leave its backend's work as it is."""
    return backends.same_work(cell.backend, cell.variant)


def competes(found: Measured, subject: Subject) -> bool:
    """Whether it may be the best of its column: equal work, as far as anybody knows.

    A row whose settings change the work (one constant action, say) does not compete, nor one
    that ``envbench verify`` did not find equal. Of what was not verified as it was measured only
    the built-in backends compete: the project's tests do it for them.
    """
    verified = subject.verified.get(found.label)
    ours = backends.is_built_in(found.summary.cell.backend)
    if verified is None or verified.failure is not None:
        equal = ours
    else:
        equal = judge(verified).badge == "✓" and (ours or found.label not in subject.stale)
    return equal and same_work(found.summary.cell)


def best_figures(subject: Subject) -> dict[int, str]:
    """The best measured figure of each column as it is printed: equal ones are all best."""
    best: dict[int, float] = {}
    for found in subject.measured:
        numenv, fps = found.summary.cell.numenv, found.summary.fps
        if fps is not None and competes(found, subject):
            best[numenv] = max(fps, best.get(numenv, 0.0))
    return {numenv: f"{fps:.2f}" for numenv, fps in best.items()}


# ---------------------------------------------------------------- rows and columns


def _columns(
    written: Sequence[str], subject: Subject, extra: Iterable[str]
) -> list[tuple[str, int | None]]:
    """Each column's heading, and where the document has it."""
    columns: list[tuple[str, int | None]] = [(name, i) for i, name in enumerate(written)]
    known = {name for name, _ in columns}
    wanted = {*subject.ladder, *(found.summary.cell.numenv for found in subject.measured)}
    for numenv in sorted(wanted):
        if str(numenv) not in known:
            columns.insert(_place(numenv, [name for name, _ in columns]), (str(numenv), None))
    return [*columns, *((name, None) for name in extra if name not in known)]


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
