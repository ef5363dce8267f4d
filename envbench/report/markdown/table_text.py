"""A table as Markdown, the text between a pair of markers: parsed, and rendered.

The rows are split here, because a Markdown parser would unescape an author's cells. A report's own
note, and footnotes that no kept entry refers to, are dropped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

from envbench.report.tables.note import OPENING, OTHERS
from envbench.report.tables.table import JOINED, TIE, Entry, Existing, Table, letters, marks

_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_FOOTNOTE = re.compile(r"\s{0,3}<sup>([a-z]{1,3})</sup> (.*\S)\s*")


def parse(text: str) -> Existing:
    """The content of a block, from its raw text."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    # A table begins at a line with a bar above a line of dashes.
    bars = (i for i, pair in enumerate(pairwise(lines)) if "|" in pair[0] and "|" in pair[1])
    start = next((i for i in bars if _DELIMITER.fullmatch(lines[i + 1])), None)
    if start is None:
        return Existing(before=_trimmed(lines))
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    grid = [split_row(line) for line in (lines[start], *lines[start + 2 : end])]
    width = max(map(len, grid))
    header, *rows = [row + [""] * (width - len(row)) for row in grid]
    notes = [line for line in lines[end:] if line.startswith(OPENING)]
    found = [_FOOTNOTE.fullmatch(line) for line in lines[end:]]
    others = [line for line, note in zip(lines[end:], found, strict=True) if not note]
    return Existing(
        header=header,
        rows=rows,
        footnotes={note[1]: note[2] for note in reversed(found) if note},
        before=_trimmed(lines[:start]),
        after=_trimmed([line for line in others if line not in notes]),
        measured=bool(notes) and not any(OTHERS in line for line in notes),
    )


def split_row(line: str) -> list[str]:
    r"""The raw cells of a row. As in GitHub's Markdown, ``\|`` is a bar within a cell."""
    cells = re.findall(r"((?:\\.|[^|])*)(?:\||$)", line.strip().removeprefix("|"))
    return [cell.strip() for cell in cells[:-1]]  # the last one is always empty


def _trimmed(lines: list[str]) -> str:
    """The lines with at most one blank line in a row, and none at the ends."""
    text = "\n".join(line if line.strip() else "" for line in lines)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


# ---------------------------------------------------------------- rendered


def render(table: Table) -> str:
    """The table, its note and its footnotes, joined by ``\\n``."""
    from tabulate import tabulate

    own = table.existing
    texts = [entry.text for _, row in table.rows for entry in row]
    taken = {mark for text in [*texts, own.before, own.after] for mark in marks(text)}
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
    sentences: dict[str, list[str]] = defaultdict(list)
    for sentence, mark in marked.items():
        sentences[mark].append(sentence)
    footnotes = kept | {mark: _joined(every) for mark, every in sentences.items()}
    foot = [f"<sup>{mark}</sup> {footnotes[mark]}" for mark in sorted(footnotes, key=_order)]
    parts = [own.before, body, table.note, *foot, own.after]
    return "\n\n".join(part for part in parts if part)


def _joined(sentences: list[str]) -> str:
    """One footnote of several rare ones."""
    return sentences[0] if len(sentences) == 1 else f"{JOINED}{' '.join(sentences)}"


def _text(entry: Entry, marked: dict[str, str]) -> str:
    superscript = ",".join(sorted({marked[note] for note in entry.notes}, key=_order))
    superscript = f"<sup>{superscript}</sup>" if superscript else ""
    text = f"**{entry.text}**" if entry.best else entry.text
    return f"{TIE if entry.tie else ''}{text}{superscript}"


def _order(mark: str) -> tuple[int, str]:
    return len(mark), mark
