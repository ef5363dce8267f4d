"""A table as a value: its rows and entries, and what a document's block has now. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, product
from string import ascii_lowercase
from typing import Any

from envbench.report.tables.footnotes import ALONE, NO_RECORD
from envbench.results.measured_cells import Measured
from envbench.text import markdown

MOST_NOTES = 5  # footnotes of a table, without those of single cells
TIE = "≈ "  # before a figure that ties with the best of its column
JOINED = "One of these: "  # a footnote of several rare ones
_SPAN = r"( ±[\d.]+ %| \(no useful interval\))?"
_FIGURE = re.compile(rf"(\*\*)?(≈ )?\d[\d,]*(\.\d+)?{_SPAN}(\*\*)?")
_MARKS = re.compile(r"<sup>([a-z]{1,3}(?:,[a-z]{1,3})*)</sup>")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a table: a figure, Markdown text, or nothing.

    ``fps`` is the figure's value, for sorting. ``best`` is shown in bold. ``tie``: it is not shown
    to differ from the best of its column. ``measured`` is what a page can link to.
    """

    text: str = ""
    fps: float | None = None
    best: bool = False
    tie: bool = False
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
        found = [self.footnotes.get(mark, "") for mark in marks(text)]
        if any(NO_RECORD in each for each in found):
            return True
        return self.measured and _FIGURE.fullmatch(_MARKS.sub("", text).strip()) is not None

    def notes(self, text: str) -> list[str]:
        """The footnotes of an entry, without those that other entries may be meant by, too."""
        found = [self.footnotes[mark] for mark in marks(text) if mark in self.footnotes]
        return [each for each in found if not each.startswith(JOINED)]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: each row is a label and an entry per column.

    ``first`` is the heading of the column of labels where ``heading`` is shown elsewhere (in HTML).
    The lines and footnotes of ``existing`` are kept.
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


def letters(table: Table, taken: Collection[str] = ()) -> dict[str, str]:
    """A letter for each footnote in reading order, without those that the document uses.

    The rarest footnotes share the last of ``MOST_NOTES`` letters. Those that say why a row is
    refused or not verified, or why there is no figure or it is not ranked, never do.
    """
    every = ("".join(each) for n in count(1) for each in product(ascii_lowercase, repeat=n))
    free = (mark for mark in every if mark not in taken)
    notes = Counter(note for _, row in table.rows for entry in row for note in entry.notes)
    begins, ends = ALONE
    serious = {note for note in notes if note.startswith(begins) or note.endswith(ends)}
    others = Counter({note: number for note, number in notes.items() if note not in serious})
    frequent = {note for note, _ in others.most_common(MOST_NOTES - 1)} | serious | {NO_RECORD}
    alone = [note for note in notes if len(others) <= MOST_NOTES or note in frequent]
    found = dict(zip(alone, free, strict=False))
    if rest := [note for note in notes if note not in found]:
        found |= dict.fromkeys(rest, next(free))
    return found


def marks(text: str) -> list[str]:
    """The footnotes that an entry's text refers to."""
    return [mark for group in _MARKS.findall(text) for mark in group.split(",")]


def bare(text: str) -> str:
    """An entry without references to footnotes, bold and the mark of a tie."""
    return _MARKS.sub("", text).strip().strip("*").removeprefix(TIE)


def note_once(tables: Sequence[Table]) -> list[Table]:
    """The tables. Of equal notes, only the last one is kept."""
    later = [{each.note for each in tables[place:]} for place in range(1, len(tables) + 1)]
    return [
        replace(table, note="") if table.note in after else table
        for table, after in zip(tables, later, strict=True)
    ]
