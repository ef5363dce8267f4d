"""What is drawn: FPS by number of environments, a curve a row, as values. PURE.

A ``Picture`` is one machine's figures of a family and task, or of several machines side by side
(``panels``). ``envbench.report.plots.draw`` draws it; its ``digest`` says whether a file shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envbench import backends, families
from envbench.model import Published, digest
from envbench.report.tables.subjects import Subject, titled
from envbench.results.shown import Measured

FOLDER = "plots"  # beside the document that links to them
STYLE = 4  # counted up when drawing changes: files of an older style are drawn anew


class Point(msgspec.Struct, frozen=True):
    """FPS at one number of environments, and its interval where it has one."""

    numenv: int
    fps: float
    low: float | None = None
    high: float | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A row. ``place`` is its backend's in the registry: the same colour in every picture."""

    label: str
    place: int
    points: list[Point]
    published: bool = False


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One machine. ``ceiling`` is frames per second of the engine alone."""

    title: str
    curves: list[Curve]
    ceiling: float | None = None


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A file: ``name`` without its ending, ``title`` for those who cannot see it."""

    name: str
    title: str
    panels: list[Panel]

    @property
    def digest(self) -> str:
        return digest([STYLE, msgspec.to_builtins(self)])


def picture(name: str, subject: Subject, published: Sequence[Published] = ()) -> Picture:
    """One machine's."""
    return Picture(name=name, title=subject.heading, panels=[_panel(subject, published)])


def gallery(name: str, subjects: Sequence[Subject]) -> Picture:
    """All machines of a family and task, side by side."""
    first = subjects[0]
    title = titled(families.of_record(first.env).title, first.env, first.task)
    return Picture(name=name, title=title, panels=[_panel(each) for each in subjects])


def _panel(subject: Subject, published: Sequence[Published] = ()) -> Panel:
    return Panel(
        title=subject.heading,
        curves=[*_measured(subject), *_published(published)],
        ceiling=subject.ceiling.summary.fps if subject.ceiling else None,
    )


def _measured(subject: Subject) -> list[Curve]:
    curves = []
    for label in subject.labels:
        rows = [found for found in subject.measured if found.label == label]
        points = [point for found in sorted(rows, key=_numenv) if (point := _point(found))]
        if points:
            place = _place(rows[0].summary.cell.backend)
            curves.append(Curve(label=label, place=place, points=points))
    return curves


def _numenv(found: Measured) -> int:
    return found.summary.cell.numenv


def _point(found: Measured) -> Point | None:
    fps = found.summary.fps
    if fps is None:
        return None
    low, high = found.summary.interval or (None, None)
    return Point(found.summary.cell.numenv, fps, low, high)


def _published(figures: Iterable[Published]) -> list[Curve]:
    rows: dict[tuple[str, str], list[Published]] = {}
    for figure in figures:
        rows.setdefault((figure.backend, figure.source), []).append(figure)
    sources = {source for _, source in rows}
    return [
        Curve(
            label=f"{backends.row_label(name, {})}, {'published' if len(sources) == 1 else source}",
            place=_place(name),
            points=[Point(f.numenv, f.fps) for f in sorted(row, key=lambda f: f.numenv)],
            published=True,
        )
        for (name, source), row in sorted(rows.items(), key=lambda item: _place(item[0][0]))
    ]


def _place(name: str) -> int:
    known = list(backends.registry())
    return known.index(name) if name in known else len(known)
