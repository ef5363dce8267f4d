"""The present content of a block: a table, its footnotes, and its author's lines.

Cells are kept as raw text, because an author's figures must stay exactly as written. A Markdown
parser would unescape them, so the rows are split here. What a report rewrites (its note, and
footnotes that no kept entry refers to) is dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from envbench.report.tables.footnotes import NO_RECORD, OPENING, OTHERS

_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_FOOTNOTE = re.compile(r"\s{0,3}<sup>([a-z]{1,3})</sup> (.*\S)\s*")
_FIGURE = re.compile(r"(\*\*)?\d+\.\d\d(\*\*)?")
_MARKS = re.compile(r"<sup>([a-z]{1,3}(?:,[a-z]{1,3})*)</sup>")


@dataclass(frozen=True, kw_only=True)
class Existing:
    """A block's content; rows are as long as the header.

    ``measured``: the note of a report says that all figures are measured, none is the author's.
    """

    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    footnotes: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)  # lines above the table
    after: list[str] = field(default_factory=list)  # lines below it
    measured: bool = False

    def from_report(self, text: str) -> bool:
        """Whether a report wrote this figure. Its record may no longer exist."""
        if NO_RECORD in self.notes(text):
            return True
        return self.measured and _FIGURE.fullmatch(_MARKS.sub("", text).strip()) is not None

    def notes(self, text: str) -> list[str]:
        """The footnotes of an entry."""
        return [self.footnotes[mark] for mark in marks(text) if mark in self.footnotes]


def parse(text: str) -> Existing:
    """The content of a block, from its raw text."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    start = _table_start(lines)
    if start is None:
        return Existing(before=_trimmed(lines))
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    grid = [split_row(line) for line in (lines[start], *lines[start + 2 : end])]
    width = max(map(len, grid))
    header, *rows = [row + [""] * (width - len(row)) for row in grid]
    footnotes, after = _below(lines[end:])
    notes = [line for line in lines[end:] if line.startswith(OPENING)]
    return Existing(
        header=header,
        rows=rows,
        footnotes=footnotes,
        before=_trimmed(lines[:start]),
        after=_trimmed(after),
        measured=bool(notes) and not any(OTHERS in line for line in notes),
    )


def split_row(line: str) -> list[str]:
    r"""The raw cells of a row. As in GitHub's Markdown, ``\|`` is a bar within a cell."""
    line = line.strip()
    cells, cell, escaped = [], "", False
    for char in line.removeprefix("|"):
        if char == "|" and not escaped:
            cells.append(cell.strip())
            cell = ""
        else:
            cell += char
        escaped = char == "\\" and not escaped
    return [*cells, cell.strip()] if cell.strip() else cells


def marks(text: str) -> list[str]:
    """The footnotes that an entry's text refers to."""
    return [mark for group in _MARKS.findall(text) for mark in group.split(",")]


def bare(text: str) -> str:
    """An entry without references to footnotes and without bold."""
    return _MARKS.sub("", text).strip().strip("*")


def _table_start(lines: list[str]) -> int | None:
    for i, (header, below) in enumerate(pairwise(lines)):
        if "|" in header and "|" in below and _DELIMITER.fullmatch(below):
            return i
    return None


def _below(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """The footnotes and the author's lines below a table."""
    footnotes: dict[str, str] = {}
    others: list[str] = []
    for line in lines:
        if found := _FOOTNOTE.fullmatch(line):
            footnotes.setdefault(found[1], found[2])
        elif not line.startswith(OPENING):
            others.append(line)
    return footnotes, others


def _trimmed(lines: list[str]) -> list[str]:
    """The lines with at most one blank line in a row, and none at the ends."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1].strip()):
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
