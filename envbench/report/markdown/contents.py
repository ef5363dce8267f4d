"""All that can stand in a document's blocks, by the text of the markers around it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from envbench import families
from envbench.machine import Profile
from envbench.model import Family, Published, digest
from envbench.report.escape import comment, markdown
from envbench.report.markdown.document import PLOT, Piece
from envbench.report.markdown.render import render, render_all
from envbench.report.plots.picture import FOLDER, Picture, gallery, picture
from envbench.report.tables import details, overview, provenance, recommendation
from envbench.report.tables.existing import parse
from envbench.report.tables.published_figures import by_heading, table
from envbench.report.tables.subjects import Subject, heading, subjects
from envbench.report.tables.table import Table, build
from envbench.results.selection import Selection

MOST_PANELS = 12  # machines whose plots a page has by itself: more are more than anybody looks at
OVERVIEW, PLOTS, DETAILS, PUBLISHED = "Overview", "Plots", "Details", "Published by others"

_Tables = Callable[[Sequence[Subject]], list[Table]]

# What summarises all subjects: marker, chapter, how its tables are made.
SUMMARIES: dict[str, tuple[str, _Tables]] = {
    "envbench: overview": (OVERVIEW, overview.highest),
    "envbench: single": (OVERVIEW, overview.single),
    "envbench: recommendation": (OVERVIEW, recommendation.tables),
    "envbench: costs": (DETAILS, details.cost_tables),
    "envbench: equal work": (DETAILS, details.tables),
    "envbench: commands": (DETAILS, provenance.tables),
}


def pieces(selection: Selection, profiles: Mapping[str, Profile]) -> dict[str, Piece]:
    """Every piece, by chapters: summaries, plots, a table for each machine, family and task,
    published figures."""
    found = list(subjects(selection, profiles).values())
    published = by_heading(selection.published, profiles).items()
    made = [
        *(_summary(name, chapter, tables(found)) for name, (chapter, tables) in SUMMARIES.items()),
        *_galleries(found),
        *_plots(found, selection.published, profiles),
        *map(_table, found),
        *(_published(name, figures) for name, figures in published),
    ]
    titles = [each.title for each in families.registry().values()]
    chapters = [OVERVIEW, PLOTS, *titles, *{piece.chapter for piece in made} - {*titles}]
    order = [each for each in chapters if each not in (DETAILS, PUBLISHED)] + [DETAILS, PUBLISHED]
    made.sort(key=lambda piece: order.index(piece.chapter))
    return {piece.heading: piece for piece in made}


# ---------------------------------------------------------------- tables


def _summary(name: str, chapter: str, tables: Sequence[Table]) -> Piece:
    return Piece(
        heading=name,
        chapter=chapter,
        live=bool(tables),
        whole=True,
        page=bool(tables),
        write=lambda _: render_all(tables),
    )


def _table(subject: Subject) -> Piece:
    return Piece(
        heading=subject.heading,
        chapter=families.of_record(subject.env).title,
        live=bool(subject.measured),
        page=True,
        figures=len(subject.measured),
        write=lambda inner: render(build(subject, parse(inner))),
    )


def _published(name: str, figures: Sequence[Published]) -> Piece:
    return Piece(
        heading=name,
        chapter=PUBLISHED,
        live=True,
        page=True,
        figures=len(figures),
        write=lambda inner: render(table(name, figures, parse(inner))),
    )


# ---------------------------------------------------------------- plots


def pictures(
    found: Sequence[Subject], published: Sequence[Published], profiles: Mapping[str, Profile]
) -> dict[str, Picture]:
    """Each machine's pictures, by the heading of what they show."""
    made = [drawn for piece in _plots(found, published, profiles) for drawn in piece.pictures]
    return {drawn.title: drawn for drawn in made}


def galleries(found: Sequence[Subject]) -> list[Picture]:
    """The pictures of several machines side by side."""
    return [drawn for piece in _galleries(found) if piece.page for drawn in piece.pictures]


def _plots(
    found: Sequence[Subject], published: Sequence[Published], profiles: Mapping[str, Profile]
) -> list[Piece]:
    """One a machine, family and task that has figures, measured or published; a page has those of
    what was measured by itself, while they are few."""
    machines = Counter(_words(subject) for subject in found if subject.measured)
    made = []
    for subject in [*found, *_published_only(found, published, profiles)]:
        theirs = [each for each in published if not subject.section and _same(subject, each)]
        words = [*_words(subject), comment(subject.name) or "?"]
        drawn = picture(_slug(words), subject, theirs)
        if drawn.panels[0].curves:
            few = machines[_words(subject)] <= MOST_PANELS
            made.append(_plot(words, drawn, page=bool(subject.measured) and few))
    return made


def _published_only(
    found: Sequence[Subject], published: Sequence[Published], profiles: Mapping[str, Profile]
) -> list[Subject]:
    """What others have published of machines, or tasks of theirs, that no table here is about."""
    known = {(subject.name, subject.env, subject.task) for subject in found}
    others = {_about(each): None for each in published if _about(each) not in known}
    return [_bare(*other, profiles.get(other[0])) for other in others]


def _bare(name: str, env: Family, task: str, profile: Profile | None) -> Subject:
    machine = profile.title if profile else name
    return Subject(
        heading=heading((env, task, ""), machine), name=name, machine=machine, env=env, task=task,
        profile=profile,
    )  # fmt: skip


def _galleries(found: Sequence[Subject]) -> list[Piece]:
    """One a family and task that several machines have been measured for; a page has it by itself
    while they are few."""
    groups: dict[tuple[str, ...], list[Subject]] = defaultdict(list)
    for subject in found:
        if any(each.summary.fps is not None for each in subject.measured):
            groups[_words(subject)].append(subject)
    return [
        _plot(list(words), gallery(_slug(words), group), page=1 < len(group) <= MOST_PANELS)
        for words, group in groups.items()
    ]


def _same(subject: Subject, figure: Published) -> bool:
    return (subject.name, subject.env, subject.task) == _about(figure)


def _about(figure: Published) -> tuple[str, Family, str]:
    return figure.machine, figure.env, figure.task


def _words(subject: Subject) -> tuple[str, ...]:
    """What a marker says of a subject besides its machine: ``atari``, ``mujoco physics``."""
    task = (
        "" if subject.task == families.default_task(subject.env) else comment(subject.task) or "?"
    )
    return tuple(word for word in (subject.env, task, subject.section) if word)


def _slug(words: Sequence[str]) -> str:
    """A file's name; where that takes away from the words, with a few digits that tell it apart."""
    whole = "-".join(words)
    plain = re.sub(r"[^a-zA-Z0-9._-]+", "-", whole).strip("-.")[:80] or "plot"
    return plain if plain == whole else f"{plain}-{digest(whole)[:6]}"


def _plot(words: Sequence[str], drawn: Picture, *, page: bool) -> Piece:
    told = f"{drawn.title}: frames per second by number of environments"
    return Piece(
        heading=f"{PLOT} {' '.join(words)}",
        chapter=PLOTS,
        live=True,
        page=page,
        pictures=(drawn,),
        write=lambda _: f"![{markdown(told)}]({FOLDER}/{drawn.name}.svg)",
    )
