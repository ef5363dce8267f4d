"""What a plot shows: FPS by number of environments, a curve per row, as values. Pure.

A ``Picture`` shows a family and task on one machine, or on several machines side by side: a chart
per machine. ``envbench.report.plots.draw`` draws it. A file is up to date if it contains the
picture's ``digest``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from envbench import backends
from envbench.model import Published, digest
from envbench.report.machine_results import MachineResults, backend_order
from envbench.results.measured_cells import Measured

FOLDER = "plots"  # beside the document that links to them
STYLE = 5  # increment it when drawing changes: files of an older style are redrawn


class Point(msgspec.Struct, frozen=True):
    """FPS at one number of environments, with its interval if there is one.

    ``apart`` says why it cannot be compared with the others: ``quick``, ``another session`` or
    ``in doubt``. It is unset for most, so that existing digests stay as they are.
    """

    numenv: int
    fps: float
    low: float | None = None
    high: float | None = None
    apart: str | msgspec.UnsetType = msgspec.UNSET


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Holds a row's points. ``place`` is its backend's position in the registry, and decides its
    colour."""

    label: str
    place: int
    points: list[Point]
    published: bool = False


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Shows one machine. ``ceiling`` is the engine's own frames per second."""

    title: str
    curves: list[Curve]
    ceiling: float | None = None


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the charts of one file, whose ``name`` has no suffix."""

    name: str
    title: str
    charts: list[Chart] = msgspec.field(name="panels")  # the name that existing digests have

    @property
    def description(self) -> str:
        """The alternative text."""
        return f"{self.title}: frames per second by number of environments"

    @property
    def digest(self) -> str:
        return digest([STYLE, msgspec.to_builtins(self)])


def chart(results: MachineResults, *, published: bool = False) -> Chart:
    """Make the chart of one machine, perhaps with its published figures."""
    measured = [
        _curve(label, row[0].cell.backend, (_point(each, results) for each in row))
        for label, row in results.rows.items()
    ]
    return Chart(
        title=results.heading,
        curves=[*measured, *(_published(results.published) if published else [])],
        ceiling=results.top,
    )


def _point(found: Measured, results: MachineResults) -> Point:
    figure, (low, high) = found.figure or 0.0, found.span or (None, None)
    if found.quick:
        return Point(found.numenv, figure, low, high, "quick")
    if found.plan_id != results.session:  # its interval says nothing about the other points
        return Point(found.numenv, figure, apart="another session")
    if found.doubt:
        return Point(found.numenv, figure, low, high, "in doubt")
    return Point(found.numenv, figure, low, high)


def _published(figures: Iterable[Published]) -> list[Curve]:
    rows: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for each in figures:
        rows[each.backend, each.source].append(Point(each.numenv, each.fps))
    one = len({source for _, source in rows}) == 1
    return [
        _curve(
            f"{backends.row_label(name, {})}, {'published' if one else source}",
            name,
            points,
            published=True,
        )
        for (name, source), points in sorted(rows.items(), key=lambda row: backend_order(row[0][0]))
    ]


def _curve(label: str, backend: str, points: Iterable[Point], *, published: bool = False) -> Curve:
    ordered = sorted(points, key=lambda point: point.numenv)
    place = backend_order(backend)
    return Curve(label=label, place=place, points=ordered, published=published)
