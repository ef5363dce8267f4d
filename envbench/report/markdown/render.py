"""A table as Markdown: the text between a pair of markers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count, product
from string import ascii_lowercase

from envbench.report.tables.existing import marks
from envbench.report.tables.table import Entry, Table


def render(table: Table) -> str:
    """The table, its note and its footnotes, joined by ``\\n``."""
    from tabulate import tabulate

    own = table.existing
    texts = [entry.text for _, row in table.rows for entry in row]
    taken = {mark for text in [*texts, *own.before, *own.after] for mark in marks(text)}
    marked = letters(table, taken)
    grid = [[label, *(_text(entry, marked) for entry in row)] for label, row in table.rows]
    body = tabulate(
        grid,
        headers=[table.heading, *table.columns],
        tablefmt="github",
        disable_numparse=True,
        stralign="left",
    )
    kept = {mark: text for mark, text in own.footnotes.items() if mark in taken}
    footnotes = kept | {mark: sentence for sentence, mark in marked.items()}
    foot = [f"<sup>{mark}</sup> {footnotes[mark]}" for mark in sorted(footnotes, key=_order)]
    parts = ["\n".join(own.before), body, table.note, *foot, "\n".join(own.after)]
    return "\n\n".join(part for part in parts if part)


def render_all(tables: Sequence[Table]) -> str:
    """Tables, one below the other."""
    return "\n\n".join(map(render, note_once(tables)))


def note_once(tables: Sequence[Table]) -> list[Table]:
    """The tables; a note that the last one has too is removed from the others."""
    return [
        replace(table, note="") if table is not tables[-1] and table.note == tables[-1].note
        else table
        for table in tables
    ]  # fmt: skip


def _text(entry: Entry, marked: dict[str, str]) -> str:
    superscript = ",".join(sorted((marked[note] for note in entry.notes), key=_order))
    superscript = f"<sup>{superscript}</sup>" if superscript else ""
    if entry.fps is None:
        return entry.text + superscript
    figure = f"{entry.fps:.2f}"
    return f"**{figure}**{superscript}" if entry.best else figure + superscript


def letters(table: Table, taken: Collection[str] = ()) -> dict[str, str]:
    """A letter for each footnote in reading order, without those that the document uses."""
    free = (mark for mark in _alphabet() if mark not in taken)
    notes = dict.fromkeys(note for _, row in table.rows for entry in row for note in entry.notes)
    return dict(zip(notes, free, strict=False))


def _alphabet() -> Iterator[str]:
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _order(mark: str) -> tuple[int, str]:
    return len(mark), mark
