"""Whole documents: a fresh results page, and any document with marked tables, filled.

A ``Piece`` is what can stand in a block: its marker's text, and how to write it over what stands
there. A block whose piece is live is filled; another keeps every byte, unless it is empty: then it
gets an empty table. ``extended`` adds the blocks that a results page lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from envbench import families
from envbench.errors import UsageError
from envbench.report.markdown import blocks
from envbench.report.markdown.render import render
from envbench.report.plots.picture import FOLDER, Picture
from envbench.report.tables.existing import parse
from envbench.report.tables.table import Table, kept

OURS, PLOT = "envbench: ", "envbench: plot"  # how markers of what is no measured table begin
_PAGE = """\
# Results

Frames per second of reinforcement-learning environments, by number of environments (across) and
way of running them (down), measured by envbench. Each entry is total frames over total time of
several fresh processes; `frame_skip` is multiplied in, and steps per second are in
`envbench report --json`. The best measured figure of each column is bold, among rows that do the
same work.

To measure a machine's profile and fill these tables:

```bash
envbench run --machine NAME
envbench report
```

`envbench machines` lists the names; `envbench machines init NAME --like laptop` makes a profile for
the machine at hand.

Everything outside the marked tables is yours to edit: `envbench report` leaves it alone.
"""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What can stand in a block.

    ``chapter`` is the heading under which a results page has it, ``figures`` how many measured or
    published figures it brings, ``write`` makes the block's new text of what stands in it.
    ``live``: it has something to say; one that has not is only written where a block is empty.
    ``page``: a new page has it. ``whole``: nothing of what stands there is kept. ``pictures`` are
    what it links to, in a folder ``plots`` beside the document.
    """

    heading: str
    chapter: str
    write: Callable[[str], str]
    live: bool
    page: bool
    whole: bool = False
    figures: int = 0
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A document after filling: its text, how many figures went in, the pictures that it links
    to, what was odd; of that ``misspelt`` is what was probably meant for a marker."""

    text: str
    figures: int = 0
    pictures: list[Picture] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    misspelt: list[str] = field(default_factory=list)


def fresh(pieces: Mapping[str, Piece]) -> str:
    """A new results page with a section per chapter and an empty block per piece."""
    parts = [_PAGE]
    for chapter in dict.fromkeys(piece.chapter for piece in pieces.values()):
        headings = [
            name for name, piece in pieces.items() if piece.chapter == chapter and piece.page
        ]
        if headings:
            parts += [f"### {chapter}\n", *map(_empty_block, headings)]
    return "\n".join(parts)


def filled(text: str, source: str, pieces: Mapping[str, Piece], *, own: bool = False) -> Filled:
    """The document with its blocks filled. ``source`` names it in errors and warnings.

    ``own``: it is the page of these results, and of no others; what it shows that they do not
    hold any more is told as that (``gone``), summaries of nothing are emptied.

    ``UsageError``: markers out of order, none at all, or one of ours that stands for nothing.
    """
    found = blocks.find(text, source)
    misspelt = _misspelt(text, source, pieces)
    if not found:
        raise UsageError(
            f"{source} has no marked table: nothing to fill, the file was not touched."
            + "".join(f"\n{each}" for each in misspelt),
            hint="Write two lines <!-- Atari - Laptop --> where the table shall stand "
            "(a family, a machine's title).",
        )
    contents: dict[str, str] = {}
    warnings, figures, live = list[str](), 0, False
    pictures: list[Picture] = []
    for block in found:
        piece = pieces.get(block.heading)
        inner = text[block.start : block.end]
        if piece is None:
            near = _nearest(block.heading, pieces)
            told = f"{source}:{block.line}: {_unknown(block.heading, near, pieces)}"
            if not _may_come(block.heading):
                raise UsageError(
                    f"{told} The file was not touched.", hint="docs/report.md lists the markers."
                )
            (misspelt if near else warnings).append(told)
        if piece is not None and (piece.live or (piece.whole and own) or not inner.strip()):
            contents[block.heading] = piece.write(inner)
            figures += piece.figures
            live = live or piece.live
            pictures += piece.pictures
        elif own and (text_left := without_records(inner)) is not None:
            contents[block.heading] = text_left
    if not live:
        warnings.append(f"{source}: no result belongs into any of its tables")
    return Filled(
        text=blocks.fill(text, found, contents),
        figures=figures,
        pictures=pictures,
        warnings=[*misspelt, *warnings],
        misspelt=misspelt,
    )


def _may_come(heading: str) -> bool:
    """May results make a piece of that marker one day? Summaries are there from the beginning."""
    return not heading.startswith(OURS) or any(
        heading.startswith(f"{PLOT} {family}") for family in families.names()
    )


def _misspelt(text: str, source: str, pieces: Mapping[str, Piece]) -> list[str]:
    """Comments that would be a piece's marker but for case, space or a letter."""
    known = {name.casefold(): name for name in pieces}
    meant = (
        (line, comment, _nearest(comment.casefold(), known))
        for line, comment in blocks.comments(text)
    )
    return [
        f"{source}:{line}: the comment {comment!r} marks no table; a marker is written "
        f"<!-- {known[near]} -->"
        for line, comment, near in meant
        if near
    ]


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.8)
    return near[0] if near else ""


def _unknown(heading: str, near: str, pieces: Mapping[str, Piece]) -> str:
    """What to say of a marker that stands for nothing."""
    question = f"; did you mean {near!r}?" if near else f". Known: {', '.join(pieces)}."
    if heading.startswith(OURS):
        return f"nothing stands behind the marker {heading!r}{question}"
    return f"no machine or task for {heading!r}{question}"


def extended(text: str, source: str, pieces: Mapping[str, Piece]) -> str:
    """The page with an empty block for each piece that brings figures and has no block yet.

    Summaries are for the page's owner to take in or leave out: a new page has them.

    It goes to the end of its chapter's section, or under a new heading at the end of the page.
    """
    present = {block.heading for block in blocks.find(text, source)}
    for name, piece in pieces.items():
        if piece.figures and name not in present:
            text = _with_block(text, name, piece.chapter)
    return text


def _with_block(text: str, heading: str, title: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    headings = list(blocks.sections(text))
    own = [i for i, (_, name, _) in enumerate(headings) if name == title]
    end, block = len(text), _empty_block(heading)
    if own:
        level = headings[own[-1]][0]
        later = [offset for depth, _, offset in headings[own[-1] + 1 :] if depth <= level]
        end = later[0] if later else end
    else:
        block = f"### {title}\n\n{block}"
    head, tail = text[:end].rstrip("\r\n"), text[end:]
    body = f"{head}\n\n{block}" if head else block
    separator = "\n" if tail else ""
    return head + (body[len(head) :] + separator).replace("\n", newline) + tail


def _empty_block(heading: str) -> str:
    return f"<!-- {heading} -->\n<!-- {heading} -->\n"


_PICTURE = re.compile(rf"!\[[^\n]*\]\({FOLDER}/[^\s)]+\.svg\)")


def without_records(text: str) -> str | None:
    """The block's text as it shall be; None where no report wrote its figures alone."""
    if _PICTURE.fullmatch(text.strip()):
        return ""
    existing = parse(text)
    if not existing.measured:
        return None
    heading, *columns = existing.header
    rows = [
        (label, [kept(text, existing, name) for name, text in zip(columns, entries, strict=True)])
        for label, *entries in existing.rows
    ]
    table = Table(
        heading=heading,
        columns=columns,
        rows=rows,
        footnotes=existing.footnotes,
        before=existing.before,
        after=existing.after,
    )
    return render(table)
