"""The marked blocks of a document: ``<!-- Atari - Laptop -->``, twice, around a report's table.

A marker is alone on its line and not in a code block. It opens and closes a block with the same
text: ``FAMILY - MACHINE``, or ``envbench:`` and the name of what the block shows. Other comments
are ignored. markdown-it finds code and headings. Every byte outside the blocks stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from envbench import families
from envbench.errors import UsageError

if TYPE_CHECKING:
    from markdown_it.token import Token

_TITLES = "|".join(re.escape(each.title) for each in families.registry().values())
_MARKER = re.compile(
    rf" {{0,3}}<!--\s*((?:{_TITLES})(?: [^<>]*?)? - [^<>]*?"
    r"|envbench: [^<>]*?)\s*-->\s*"
)
_COMMENT = re.compile(r"\s*<!--(.*)-->\s*")
_LONGEST = 500


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block: its marker's text, the opening marker's line (from 1), its content's offsets."""

    heading: str
    line: int
    start: int
    end: int
    newline: str


class _Line(NamedTuple):
    """A line outside code, with its line end."""

    number: int
    start: int
    text: str


def find(text: str, source: str, known: Collection[str] = ()) -> list[Block]:
    """The blocks in order. ``UsageError`` names ``source`` and line. ``known``: more headings."""
    blocks: dict[str, Block] = {}
    found = [(line, _heading(line.text, known)) for line in _lines(text)]
    markers = iter([(line, heading) for line, heading in found if heading])
    for first, heading in markers:
        if heading in blocks:
            what = f"occurs a third time: the first one is in line {blocks[heading].line}"
            raise _error(source, first, heading, what)
        last, closing = next(markers, (first, ""))
        if not closing:
            raise _error(source, first, heading, "has no partner: a block ends with the same line")
        if closing != heading:
            what = f"is inside the block that <!-- {heading} --> opens in line {first.number}"
            raise _error(source, last, closing, what)
        blocks[heading] = Block(
            heading=heading,
            line=first.number,
            start=first.start + len(first.text),
            end=last.start,
            newline="\r\n" if first.text.endswith("\r\n") else "\n",
        )
    return list(blocks.values())


def _heading(line: str, known: Collection[str]) -> str:
    marker = _MARKER.fullmatch(line) or _COMMENT.fullmatch(line)
    heading = marker[1].strip() if marker else ""
    return heading if heading in known or _MARKER.fullmatch(line) else ""


def fill(text: str, blocks: list[Block], contents: Mapping[str, str]) -> str:
    """The document with new contents of some blocks; all other bytes stay."""
    parts, position = [], 0
    for block in blocks:
        if block.heading in contents:
            body = f"\n{contents[block.heading]}\n\n".replace("\n", block.newline)
            parts += [text[position : block.start], body]
            position = block.end
    return "".join([*parts, text[position:]])


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment alone on its line that is not a marker: perhaps a typo."""
    for line in _lines(text):
        found = _COMMENT.fullmatch(line.text)
        if found and not _MARKER.fullmatch(line.text):
            yield line.number, " ".join(found[1].split())


def sections(text: str) -> list[tuple[int, str, int]]:
    """The headings: level, title, and the offset of the line."""
    lines, tokens = _parsed(text)
    starts = list(accumulate(map(len, lines), initial=0))
    return [
        (int(token.tag[1]), title.content.strip(), starts[token.map[0]])
        for token, title in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


def _error(source: str, line: _Line, heading: str, what: str) -> UsageError:
    return UsageError(
        f"{source}:{line.number}: the marker <!-- {heading} --> {what}. The file was not touched.",
        hint="A table is between two equal lines such as <!-- Atari - Laptop -->.",
    )


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[list[str], list[Token]]:
    """The document's lines with their ends, and its blocks as markdown-it sees them."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    # markdown-it would end a line at a lone \r and see no heading after a byte order mark.
    return re.findall(r"[^\n]*\n|[^\n]+", text), parser.parse(
        text.removeprefix("\ufeff").replace("\r", " ")
    )


def _lines(text: str) -> Iterator[_Line]:
    """Each line outside code blocks that is not too long for a marker."""
    lines, tokens = _parsed(text)
    code = {
        number
        for token in tokens
        if token.type in ("fence", "code_block") and token.map
        for number in range(*token.map)
    }
    position = 0
    for number, line in enumerate(lines):
        mark = number == 0 and line.startswith("\ufeff")
        if number not in code and len(line) < _LONGEST:
            yield _Line(number + 1, position + mark, line[mark:])
        position += len(line)
