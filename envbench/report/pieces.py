"""All that can stand in a document's blocks, by the text of the markers around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from envbench.machine import Profile
from envbench.model import Published
from envbench.report import costs, equal_work, overview, provenance
from envbench.report.document import Piece
from envbench.report.existing import parse
from envbench.report.markdown import render
from envbench.report.published import by_heading, table
from envbench.report.selection import Selection
from envbench.report.subjects import FAMILY_TITLES, Subject, subjects
from envbench.report.table import Table, build

OVERVIEW, DETAILS, PUBLISHED = "Overview", "Details", "Published by others"
CHAPTERS = [OVERVIEW, *FAMILY_TITLES.values(), DETAILS, PUBLISHED]

_Tables = Callable[[Sequence[Subject]], list[Table]]

# What summarises all subjects: marker, chapter, how its tables are made.
SUMMARIES: dict[str, tuple[str, _Tables]] = {
    "envbench: overview": (OVERVIEW, overview.highest),
    "envbench: single": (OVERVIEW, overview.single),
    "envbench: costs": (DETAILS, costs.tables),
    "envbench: equal work": (DETAILS, equal_work.tables),
    "envbench: commands": (DETAILS, provenance.tables),
}


def pieces(selection: Selection, profiles: Mapping[str, Profile]) -> dict[str, Piece]:
    """Every piece, by chapters: summaries, a table for each machine, family and task, published
    figures."""
    found = list(subjects(selection, profiles).values())
    published = by_heading(selection.published, profiles).items()
    made = [
        *(_summary(name, chapter, tables(found)) for name, (chapter, tables) in SUMMARIES.items()),
        *map(_table, found),
        *(_published(name, figures) for name, figures in published),
    ]
    made.sort(key=lambda piece: CHAPTERS.index(piece.chapter))
    return {piece.heading: piece for piece in made}


def _summary(name: str, chapter: str, tables: Sequence[Table]) -> Piece:
    return Piece(
        heading=name,
        chapter=chapter,
        live=bool(tables),
        write=lambda _: "\n\n".join(map(render, _noted_once(tables))),
    )


def _noted_once(tables: Sequence[Table]) -> list[Table]:
    """What is said of all tables stands under the last of them."""
    last = tables[-1] if tables else None
    return [
        replace(table, note="") if table is not last and table.note == last.note else table
        for table in tables
        if last is not None
    ]


def _table(subject: Subject) -> Piece:
    return Piece(
        heading=subject.heading,
        chapter=FAMILY_TITLES[subject.env],
        live=bool(subject.measured),
        figures=len(subject.measured),
        always=True,
        write=lambda inner: render(build(subject, parse(inner))),
    )


def _published(name: str, figures: Sequence[Published]) -> Piece:
    return Piece(
        heading=name,
        chapter=PUBLISHED,
        live=True,
        figures=len(figures),
        write=lambda inner: render(table(name, figures, parse(inner))),
    )
