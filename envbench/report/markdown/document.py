"""Whole documents: a new results page, and the filled blocks of any document.

A block whose content has results is filled. An empty block gets an empty table. Any other keeps
every byte, except on the results' own page (``filled``). ``extended`` adds a page's lacking blocks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from envbench import families
from envbench.errors import UsageError
from envbench.report.contents import PLOT, PREFIX, BlockContent, possible_headings
from envbench.report.markdown import blocks
from envbench.report.markdown.table_text import parse, render
from envbench.report.plots.picture import FOLDER, Picture
from envbench.report.tables.build import without_records
from envbench.report.tables.table import note_once
from envbench.text import markdown

_PAGE = """\
# Results

Frames per second of reinforcement-learning environments, by number of environments (columns) and
backend (rows), measured by envbench. Frames include `frame_skip`; `envbench report --json` has
steps per second. ± is a 95 % interval that compares rows of one session, not hours or days. The
best figure of each column is bold if it is shown to be the fastest among rows that do the same
work. ≈ marks figures that tie with the highest.

To measure this machine and fill these tables:

```bash
envbench run --plan     # what it would measure, and for how long
envbench run
envbench report
```

Without `--machine`, envbench takes the profile that matches this machine, or makes one.

`envbench report` changes only the marked tables. Edit the rest freely.
"""


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A filled document: its text, the number of figures, the linked pictures, and warnings.

    ``misspelt`` are the warnings about comments that are probably misspelt markers. ``current``,
    for the results' own page: all pictures of the results; any other drawing is out of date.
    """

    text: str
    figures: int = 0
    pictures: list[Picture] = field(default_factory=list)
    current: list[Picture] | None = None
    warnings: list[str] = field(default_factory=list)
    misspelt: list[str] = field(default_factory=list)


def filled(
    text: str, source: str, contents: Mapping[str, BlockContent], *, own: bool = False
) -> Filled:
    """The document with its blocks filled. ``source`` names it in errors and warnings.

    ``own``: it is the results' own page. There a figure without a record gets a footnote, and
    summaries and pictures without results are emptied.

    ``UsageError``: no block, markers in the wrong order, or an unknown ``envbench:`` marker.
    """
    found = blocks.find(text, source, contents)
    misspelt = _misspelt(text, source, contents)
    if not found:
        raise UsageError(
            f"{source} has no marked table: nothing to fill, the file was not touched."
            + "".join(f"\n{each}" for each in misspelt),
            hint="Write the line <!-- Atari - Laptop --> twice where the table belongs "
            "(a family and a machine's title).",
        )
    warnings: list[str] = []
    texts: dict[str, str] = {}
    possible = possible_headings(contents.values())
    for block in found:
        content, present = contents.get(block.heading), text[block.start : block.end]
        if content is None:
            near = "" if block.heading in possible else _nearest(block.heading, contents)
            warning = _unknown(f"{source}:{block.line}", block.heading, near)
            (misspelt if near else warnings).append(warning)
        new = _new_text(content, present, own=own)
        if new is not None:
            texts[block.heading] = new
    known = [contents[block.heading] for block in found if block.heading in contents]
    if not any(each.has_results for each in known):
        warnings.append(f"{source}: there are no results for any of its tables")
    return Filled(
        text=blocks.fill(text, found, texts),
        figures=sum(each.figures for each in known),
        pictures=[each.picture for each in known if each.picture is not None],
        current=[e.picture for e in contents.values() if e.picture is not None] if own else None,
        warnings=[*misspelt, *warnings],
        misspelt=misspelt,
    )


_PICTURE = re.compile(rf"!\[[^\n]*\]\({FOLDER}/[^\s)]+\.svg\)")


def _new_text(content: BlockContent | None, present: str, *, own: bool) -> str | None:
    """The new text of a block; None where it stays, such as where its author wrote figures."""
    if content is not None and (
        content.has_results or (content.is_summary and own) or not present.strip()
    ):
        return block_text(content, present)
    if own and _PICTURE.fullmatch(present.strip()):
        return ""
    existing = parse(present) if own else None
    return render(without_records(existing)) if existing and existing.measured else None


def block_text(content: BlockContent, present: str) -> str:
    """A block's new text, from its present text."""
    if content.picture is not None:
        return f"![{markdown(content.picture.description)}]({FOLDER}/{content.picture.name}.svg)"
    return "\n\n".join(map(render, note_once(content.tables(parse(present)))))


def _misspelt(text: str, source: str, contents: Iterable[str]) -> list[str]:
    """Warnings about comments that differ from a marker in case, spaces or a letter."""
    known = {name.casefold(): name for name in contents}
    return [
        f"{source}:{line}: the comment {comment!r} is not a marker; write <!-- {known[near]} -->"
        for line, comment in blocks.comments(text)
        if (near := _nearest(comment.casefold(), known)) and known[near] != comment
    ]


def _nearest(name: str, known: Iterable[str]) -> str:
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.8)), "")


def _unknown(place: str, heading: str, near: str) -> str:
    """A warning about a marker without content. ``UsageError`` where it can never have one."""
    advice = f"; did you mean {near!r}?" if near else ". If its results are gone, delete its block."
    if not heading.startswith(PREFIX):
        return f"{place}: there is no machine or task for {heading!r}{advice}"
    warning = f"{place}: the marker {heading!r} is unknown"
    # Summaries always have a content; later results can bring a plot.
    if any(heading.startswith(f"{PLOT} {family}") for family in families.names()):
        return warning + advice
    guess = f"; did you mean {near!r}?" if near else "."
    raise UsageError(
        f"{warning}{guess} The file was not touched.", hint="docs/report.md lists the markers."
    )


# ---------------------------------------------------------------- empty blocks


# From ten on: three digits (9.96) have two decimals in any style
_PLAIN = re.compile(
    r"^\|.*\|\s*([≈≠] )?(\*\*)?\d{2,}\.\d\d(\*\*)?( at \d+)?\s*(<sup>|\|)", re.MULTILINE
)
_ROUNDED = re.compile(r"^\|.*\d ±[\d.]+ %", re.MULTILINE)
_BLOCK = re.compile(r"^<!-- ([^\n]*) -->$.*?^<!-- \1 -->$", re.DOTALL | re.MULTILINE)
# Blocks whose numbers have two decimals in any style
_ALWAYS = re.compile(
    r"<!-- ([^\n]* \(published\) - [^\n]*|envbench: (?:costs|commands|equal work)) -->"
    r".*?<!-- \1 -->",
    re.DOTALL,
)


def is_plain(text: str) -> bool:
    """Do the document's marked tables have figures of two decimals (from ten on), and none with an
    interval?"""
    text = "\n".join(found[0] for found in _BLOCK.finditer(_ALWAYS.sub("", text)))
    return _PLAIN.search(text) is not None and _ROUNDED.search(text) is None


def fresh(contents: Mapping[str, BlockContent]) -> str:
    """A new results page with a section per chapter and an empty block per content."""
    return _with_blocks(_PAGE, [each for each in contents.values() if each.on_new_page])


def extended(text: str, source: str, contents: Mapping[str, BlockContent]) -> str:
    """The page with an empty block added for each content that has figures but no block.

    Summaries are not added: the owner of the page may have removed them.
    """
    present = {block.heading for block in blocks.find(text, source, contents)}
    missing = [each for each in contents.values() if each.heading not in present]
    return _with_blocks(text, [each for each in missing if each.figures])


def _with_blocks(text: str, contents: Iterable[BlockContent]) -> str:
    """The text with these blocks at the ends of their chapters, or in new chapters at its end."""
    chapters: dict[str, list[str]] = defaultdict(list)
    for each in contents:
        chapters[each.chapter].append(f"<!-- {each.heading} -->\n<!-- {each.heading} -->\n")
    newline = "\r\n" if "\r\n" in text else "\n"
    for chapter, empty in chapters.items():
        headings = blocks.sections(text)
        own = [i for i, (_, name, _) in enumerate(headings) if name == chapter]
        added, end = "\n".join(empty), len(text)
        if own:
            level = headings[own[-1]][0]
            later = [offset for depth, _, offset in headings[own[-1] + 1 :] if depth <= level]
            end = later[0] if later else end
        else:
            added = f"### {chapter}\n\n{added}"
        head, tail = text[:end].rstrip("\r\n"), text[end:]
        body = ("\n\n" if head else "") + added + ("\n" if tail else "")
        text = head + body.replace("\n", newline) + tail
    return text
