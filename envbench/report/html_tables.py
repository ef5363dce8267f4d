"""A ``Table`` as the HTML page shows it: plain values for the template, markup already escaped.

A figure of a machine's own table opens its cell; the same figure in a summary leads there. Texts
are the tables' Markdown, by markdown-it without HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from envbench.report.markdown import letters, note_once
from envbench.report.table import Entry, Table

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

_NUMBER = re.compile(r"(?:≠ )?[*±]{0,2}(\d[\d,]*(?:\.\d+)?)(?=$|[\s*])")


class Tables:
    """Writes a page's tables. ``numbers``: its cells, by the ``id`` of their ``Measured``."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers
        self._anchored: set[int] = set()
        self._made = 0

    def summaries(self, tables: Iterable[Table]) -> list[dict[str, Any]]:
        """Tables whose figures lead to where they are opened."""
        return [self._written(table, opens=False) for table in note_once(list(tables))]

    def opening(self, table: Table, name: str = "") -> dict[str, Any]:
        """A table whose figures open; the first to show a cell is where links to it lead."""
        return self._written(table, opens=True) | ({"id": name} if name else {})

    def _written(self, table: Table, *, opens: bool) -> dict[str, Any]:
        self._made += 1
        marks = letters(table)
        return {
            "id": f"table-{self._made}",
            "heading": inline(table.heading),
            "columns": [inline(name or "mark") for name in [table.first, *table.columns]],
            "rows": [
                (inline(label), [self._entry(entry, marks, opens=opens) for entry in row])
                for label, row in table.rows
            ],
            "note": inline(table.note),
            "footnotes": {mark: inline(sentence) for sentence, mark in marks.items()},
        }

    def _entry(self, entry: Entry, marks: Mapping[str, str], *, opens: bool) -> dict[str, Any]:
        cell = None if entry.of is None else self._numbers.get(id(entry.of))
        text = _text(entry)
        return {
            "html": inline(text),
            "value": entry.fps or number(text),
            "best": entry.best,
            "cell": cell,
            "opens": opens,
            "anchor": opens and self._is_first(cell),
            "marks": {marks[note]: inline(note).striptags() for note in entry.notes},
        }

    def _is_first(self, cell: int | None) -> bool:
        if cell is None or cell in self._anchored:
            return False
        self._anchored.add(cell)
        return True


def number(text: str) -> float | None:
    """What a column is sorted by: the number that a text begins with, seconds where it says ms."""
    if found := _NUMBER.match(text):
        value = float(found[1].replace(",", ""))
        return value / 1000 if text[found.end() :].startswith(" ms") else value
    return 0.0 if text.startswith("under ") else None


def _text(entry: Entry) -> str:
    if entry.fps is not None:
        return f"{entry.fps:.2f}"
    if entry.of is not None and not entry.written:
        return "refused" if entry.of.refused else "failed"
    return entry.written


def inline(markdown: str) -> Markup:
    """One line of our Markdown as markup; what looks like HTML in it stays text."""
    from markupsafe import Markup

    return Markup(_parser().renderInline(markdown))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})
