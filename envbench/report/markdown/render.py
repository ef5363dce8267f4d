"""A table written down in Markdown: the text that stands between a pair of markers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count, product
from string import ascii_lowercase

from envbench.report.tables.existing import marks
from envbench.report.tables.table import Entry, Table


def render(table: Table) -> str:
    """The table, its note and its footnotes; lines end in ``\\n``, the last one in nothing."""
    from tabulate import tabulate

    written = [entry.written for _, row in table.rows for entry in row]
    taken = {mark for text in [*written, *table.before, *table.after] for mark in marks(text)}
    marked = letters(table, taken)
    grid = [[label, *(_text(entry, marked) for entry in row)] for label, row in table.rows]
    body = tabulate(
        grid,
        headers=[table.heading, *table.columns],
        tablefmt="github",
        disable_numparse=True,
        stralign="left",
    )
    kept = {mark: text for mark, text in table.footnotes.items() if mark in taken}
    footnotes = kept | {mark: sentence for sentence, mark in marked.items()}
    foot = [f"<sup>{mark}</sup> {footnotes[mark]}" for mark in sorted(footnotes, key=_order)]
    parts = ["\n".join(table.before), body, table.note, *foot, "\n".join(table.after)]
    return "\n\n".join(part for part in parts if part)


def render_all(tables: Sequence[Table]) -> str:
    """Tables one below the other."""
    return "\n\n".join(map(render, note_once(tables)))


def note_once(tables: Sequence[Table]) -> list[Table]:
    """The tables; a note that they share stands under the last of them alone."""
    alike = [table.note == tables[-1].note for table in tables[:-1]]
    return [
        replace(table, note="") if same else table
        for table, same in zip(tables, [*alike, False], strict=False)
    ]


def _text(entry: Entry, marked: dict[str, str]) -> str:
    superscript = ",".join(sorted((marked[note] for note in entry.notes), key=_order))
    superscript = f"<sup>{superscript}</sup>" if superscript else ""
    if entry.fps is None:
        return entry.written + superscript
    figure = f"{entry.fps:.2f}"
    return f"**{figure}**{superscript}" if entry.best else figure + superscript


def letters(table: Table, taken: Collection[str] = ()) -> dict[str, str]:
    """A letter for every footnote, in reading order; none that the document uses itself."""
    free = (mark for mark in _alphabet() if mark not in taken)
    found: dict[str, str] = {}
    for _, row in table.rows:
        for entry in row:
            for note in entry.notes:
                if note not in found:
                    found[note] = next(free)
    return found


def _alphabet() -> Iterator[str]:
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _order(mark: str) -> tuple[int, str]:
    return len(mark), mark
