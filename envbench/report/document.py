"""Whole documents: a fresh results page, and any document with marked tables, filled.

A block whose subject has results is filled; one without keeps every byte, unless it is empty:
then it gets the profile's empty table. ``extended`` adds the blocks that a results page lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from envbench.errors import UsageError
from envbench.model import Family
from envbench.report import blocks
from envbench.report.existing import parse
from envbench.report.markdown import render
from envbench.report.subjects import FAMILY_TITLES, Subject
from envbench.report.table import build

_PAGE = """\
# Results

Frames per second of reinforcement-learning environments, by number of environments (across) and
way of running them (down), measured by envbench. Each entry is total frames over total time of
several fresh processes; `frame_skip` is multiplied in, and steps per second are in
`envbench report --json`. The best measured figure of each column is bold.

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
class Filled:
    """A document after filling: its text, how many measured cells went in, what was odd."""

    text: str
    cells: int = 0
    warnings: list[str] = field(default_factory=list)


def fresh(subjects: Mapping[str, Subject]) -> str:
    """A new results page with a section per family and an empty block per subject."""
    parts = [_PAGE]
    for family, title in FAMILY_TITLES.items():
        headings = [name for name, subject in subjects.items() if subject.env == family]
        if headings:
            parts += [f"### {title}\n", *map(_empty_block, headings)]
    return "\n".join(parts)


def filled(text: str, source: str, subjects: Mapping[str, Subject]) -> Filled:
    """The document with its blocks filled. ``source`` names it in errors and warnings."""
    found = blocks.find(text, source)
    misspelt = _misspelt(text, source, subjects)
    if not found:
        raise UsageError(
            f"{source} has no marked table: nothing to fill, the file was not touched."
            + "".join(f"\n{each}" for each in misspelt),
            hint="Write two lines <!-- Atari - Laptop --> where the table shall stand "
            "(a family, a machine's title).",
        )
    contents: dict[str, str] = {}
    warnings, cells = misspelt, 0
    for block in found:
        subject = subjects.get(block.heading)
        inner = text[block.start : block.end]
        if subject is None:
            warnings.append(f"{source}:{block.line}: {_unknown(block.heading, subjects)}")
        elif subject.measured or not inner.strip():
            contents[block.heading] = render(build(subject, parse(inner)))
            cells += len(subject.measured)
    if not cells:
        warnings.append(f"{source}: no result belongs into any of its tables")
    return Filled(text=blocks.fill(text, found, contents), cells=cells, warnings=warnings)


def _misspelt(text: str, source: str, subjects: Mapping[str, Subject]) -> list[str]:
    """Comments that would be a subject's marker but for case, space or a letter."""
    known = {name.casefold(): name for name in subjects}
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


def _unknown(heading: str, subjects: Mapping[str, Subject]) -> str:
    """What to say of a marker that stands for nothing."""
    near = _nearest(heading, subjects)
    question = f"; did you mean {near!r}?" if near else f". Known: {', '.join(subjects)}"
    return f"no machine or task for {heading!r}{question}"


def extended(text: str, source: str, subjects: Mapping[str, Subject]) -> str:
    """The page with an empty block for each subject that has results and no block yet.

    It goes to the end of its family's section, or under a new heading at the end of the page.
    """
    present = {block.heading for block in blocks.find(text, source)}
    for name, subject in subjects.items():
        if subject.measured and name not in present:
            text = _with_block(text, name, subject.env)
    return text


def _with_block(text: str, heading: str, family: Family) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    title = FAMILY_TITLES[family]
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
