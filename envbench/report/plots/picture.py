"""What a plot shows: FPS by number of environments, a curve per row, as values. Pure.

A ``Picture`` shows a family and task on one machine, or on several machines side by side: a chart
per machine. ``envbench.report.plots.draw`` draws it. A file shows it if it has its ``digest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envbench import backends
from envbench.model import Published, digest
from envbench.report.tables.machine_results import MachineResults, backend_order, family_title
from envbench.results.shown import Measured

FOLDER = "plots"  # beside the document that links to them
STYLE = 4  # increment it when drawing changes: files of an older style are redrawn


class Point(msgspec.Struct, frozen=True):
    """FPS at one number of environments, with its interval if there is one."""

    numenv: int
    fps: float
    low: float | None = None
    high: float | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A row. ``place`` is its backend's in the registry and decides its colour everywhere."""

    label: str
    place: int
    points: list[Point]
    published: bool = False


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One machine. ``ceiling`` is the engine's own frames per second."""

    title: str
    curves: list[Curve]
    ceiling: float | None = None


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A file: ``name`` has no suffix, ``title`` is the alternative text."""

    name: str
    title: str
    charts: list[Chart] = msgspec.field(name="panels")  # the name that existing digests have

    @property
    def digest(self) -> str:
        return digest([STYLE, msgspec.to_builtins(self)])


def picture(name: str, results: MachineResults, published: Sequence[Published] = ()) -> Picture:
    """The picture of one machine."""
    return Picture(name=name, title=results.heading, charts=[_chart(results, published)])


def machines_picture(name: str, every: Sequence[MachineResults]) -> Picture:
    """The picture of all machines of a family and task, side by side."""
    title = family_title(every[0].env, every[0].task)
    return Picture(name=name, title=title, charts=[_chart(each) for each in every])


def _chart(results: MachineResults, published: Sequence[Published] = ()) -> Chart:
    return Chart(
        title=results.heading,
        curves=[*_measured(results), *_published(published)],
        ceiling=results.ceiling.fps if results.ceiling else None,
    )


def _measured(results: MachineResults) -> list[Curve]:
    curves = []
    for label in results.labels:
        row = [found for found in results.with_figures if found.label == label]
        if row:
            points = [_point(found) for found in sorted(row, key=lambda found: found.numenv)]
            place = backend_order(row[0].cell.backend)
            curves.append(Curve(label=label, place=place, points=points))
    return curves


def _point(found: Measured) -> Point:
    return Point(found.numenv, found.fps or 0.0, *(found.summary.interval or (None, None)))


def _published(figures: Iterable[Published]) -> list[Curve]:
    rows: dict[tuple[str, str], list[Published]] = {}
    for figure in figures:
        rows.setdefault((figure.backend, figure.source), []).append(figure)
    sources = {source for _, source in rows}
    return [
        Curve(
            label=f"{backends.row_label(name, {})}, {'published' if len(sources) == 1 else source}",
            place=backend_order(name),
            points=[Point(f.numenv, f.fps) for f in sorted(row, key=lambda f: f.numenv)],
            published=True,
        )
        for (name, source), row in sorted(rows.items(), key=lambda item: backend_order(item[0][0]))
    ]
