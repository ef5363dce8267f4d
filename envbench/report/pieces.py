"""All that can stand in a document's blocks, by the text of the markers around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envbench.machine import Profile
from envbench.model import Published
from envbench.report.document import Piece
from envbench.report.existing import parse
from envbench.report.markdown import render
from envbench.report.published import by_heading, table
from envbench.report.selection import Selection
from envbench.report.subjects import FAMILY_TITLES, Subject, subjects
from envbench.report.table import build

PUBLISHED = "Published by others"
CHAPTERS = [*FAMILY_TITLES.values(), PUBLISHED]


def pieces(selection: Selection, profiles: Mapping[str, Profile]) -> dict[str, Piece]:
    """Every piece, by chapters: a table for each machine, family and task; published figures."""
    measured = [_table(subject) for subject in subjects(selection, profiles).values()]
    published = by_heading(selection.published, profiles).items()
    others = [_published(name, figures) for name, figures in published]
    found = sorted([*measured, *others], key=lambda piece: CHAPTERS.index(piece.chapter))
    return {piece.heading: piece for piece in found}


def _table(subject: Subject) -> Piece:
    return Piece(
        heading=subject.heading,
        chapter=FAMILY_TITLES[subject.env],
        figures=len(subject.measured),
        write=lambda inner: render(build(subject, parse(inner))),
    )


def _published(name: str, figures: Sequence[Published]) -> Piece:
    return Piece(
        heading=name,
        chapter=PUBLISHED,
        figures=len(figures),
        write=lambda inner: render(table(name, figures, parse(inner))),
    )
