"""The marked blocks of a document: ``<!-- Atari - Laptop -->``, twice, around what a report fills.

A marker stands on a line of its own and not inside a fenced code block; its opening and closing
form are the same. Every byte outside the blocks stays as it is: the text is cut by offsets and
never re-joined from lines. What a marker looks like: a family's title, `` - ``, a machine's title,
or ``envbench:`` and what shall stand there (``contents``); other comments are
nobody's business here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envbench.errors import UsageError

_MARKER = re.compile(
    r" {0,3}<!--\s*((?:Atari|Mujoco|Gym)(?: [^<>]*?)? - [^<>]*?|envbench: [^<>]*?)\s*-->\s*"
)
_COMMENT = re.compile(r"\s*<!--(.*)-->\s*")
_LONGEST = 500
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block: its marker's text, the opening marker's line (from 1), its content's offsets."""

    heading: str
    line: int
    start: int
    end: int
    newline: str


@dataclass(frozen=True)
class _Marker:
    heading: str
    line: int
    start: int
    after: int
    newline: str


def find(text: str, source: str) -> list[Block]:
    """The document's blocks, in order. ``UsageError`` names ``source`` and line of any trouble."""
    blocks: list[Block] = []
    opened: _Marker | None = None
    lines_of: dict[str, int] = {}
    for marker in _markers(text):
        if opened is None:
            if marker.heading in lines_of:
                raise _trouble(
                    source, marker, f"stands a third time: line {lines_of[marker.heading]} began it"
                )
            opened = marker
            lines_of[marker.heading] = marker.line
        elif marker.heading != opened.heading:
            raise _trouble(
                source,
                marker,
                f"stands inside the block that <!-- {opened.heading} --> opens at line "
                f"{opened.line}",
            )
        else:
            blocks.append(_block(opened, marker))
            opened = None
    if opened is not None:
        raise _trouble(source, opened, "has no partner: a block ends with the same line")
    return blocks


def fill(text: str, blocks: list[Block], contents: Mapping[str, str]) -> str:
    """The document with the content of some blocks replaced; the others' bytes stay."""
    parts, position = [], 0
    for block in blocks:
        if block.heading in contents:
            body = f"\n{contents[block.heading]}\n\n".replace("\n", block.newline)
            parts += [text[position : block.start], body]
            position = block.end
    return "".join([*parts, text[position:]])


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment alone on its line and not a marker: perhaps one misspelt."""
    for number, _, line in _plain_lines(text):
        found = _COMMENT.fullmatch(line) if len(line) < _LONGEST else None
        if found and not _MARKER.fullmatch(line):
            yield number, " ".join(found[1].split())


def sections(text: str) -> Iterator[tuple[int, str, int]]:
    """The headings outside code: level, title, and the offset of the line."""
    for _, start, line in _plain_lines(text):
        found = re.fullmatch(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?\s*", line)
        if found:
            yield len(found[1]), found[2].strip(), start


def _block(opened: _Marker, closed: _Marker) -> Block:
    return Block(
        heading=opened.heading,
        line=opened.line,
        start=opened.after,
        end=closed.start,
        newline=opened.newline,
    )


def _trouble(source: str, marker: _Marker, what: str) -> UsageError:
    return UsageError(
        f"{source}:{marker.line}: the marker <!-- {marker.heading} --> {what}. "
        "The file was not touched.",
        hint="A table stands between two equal lines such as <!-- Atari - Laptop -->.",
    )


def _markers(text: str) -> Iterator[_Marker]:
    for number, start, line in _plain_lines(text):
        if len(line) < _LONGEST and (found := _MARKER.fullmatch(line)):
            newline = "\r\n" if line.endswith("\r\n") else "\n"
            yield _Marker(found[1], number, start, start + len(line), newline)


def _plain_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Number, offset and text (with its end) of each line that is not in a fenced code block."""
    fence = ""
    position = 0
    # str.splitlines would also break lines at form feeds and the like.
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), start=1):
        bare = line.rstrip("\r\n").removeprefix("\ufeff" if number == 1 else "")
        skipped = len(line.rstrip("\r\n")) - len(bare)
        found = _FENCE.fullmatch(bare)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        else:
            yield number, position + skipped, line[skipped:]
        position += len(line)
