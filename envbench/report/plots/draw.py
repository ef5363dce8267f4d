"""A ``Picture`` drawn by matplotlib, as SVG or PNG bytes: the same bytes for the same picture.

Colours are Okabe and Ito's (jfly.uni-koeln.de/color), told apart by colour-blind readers, one a
backend, with a marker and a line of its own for each of its rows; a white ground, so that print and
dark pages show the same. One legend below all panels: no word lies over a curve.
"""

from __future__ import annotations

import io
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Literal

from envbench.machine import usable_cpus
from envbench.report.plots.axes import CEILING, MARGINS, Key, draw_panel, shown, styles
from envbench.report.plots.picture import Curve, Picture, Point
from envbench.text import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Kind = Literal["svg", "png"]
ABREAST = 2  # panels
WIDTH, HEIGHT, LINE = 6.4, 3.6, 0.18  # inches of a panel, and of a line of the legend
DPI, LARGEST = 150, 30_000  # of a PNG, and its most pixels across or down


@dataclass(frozen=True)
class Spot:
    """A point of a curve in a drawn picture: points from its left and upper edge, and its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """A drawn picture: the file's bytes, its width and height in points, where its figures lie."""

    data: bytes
    size: tuple[float, float]
    spots: list[Spot]


def draw(picture: Picture, kind: Kind) -> Drawing:
    """The picture as a file's content, without its stamp (``picture_files``)."""
    file = io.BytesIO()
    with _figure(picture) as figure:
        width, height = (float(inches) for inches in figure.get_size_inches())
        dpi = min(DPI, int(LARGEST / max(width, height)))
        found = _spots(figure, picture)
        figure.savefig(file, format=kind, dpi=dpi, metadata=_metadata(picture, kind))
    return Drawing(file.getvalue(), (72 * width, 72 * height), found)


def _spots(figure: Figure, picture: Picture) -> list[Spot]:
    """From the axes' limits and places alone: nothing has to be drawn for it."""
    points_a_pixel = 72 / figure.dpi
    height = figure.bbox.height
    found = []
    for axes, panel in zip(figure.axes, picture.panels, strict=True):
        for curve in panel.curves:
            places = axes.transData.transform([(each.numenv, each.fps) for each in curve.points])
            found += [
                Spot(float(x) * points_a_pixel, float(height - y) * points_a_pixel, _told(curve, p))
                for (x, y), p in zip(places, curve.points, strict=True)
            ]
    return found


def _told(curve: Curve, point: Point) -> str:
    span = (
        "" if point.low is None or point.high is None else f" ({point.low:,.0f}–{point.high:,.0f})"
    )
    return f"{one_line(curve.label, 60)} at {point.numenv:,}: {point.fps:,.2f} FPS{span}"


@contextmanager
def _figure(picture: Picture) -> Iterator[Figure]:
    """The picture as a figure with its canvas, under settings that change no byte."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fixed: Any = {"svg.hashsalt": "envbench", "svg.fonttype": "path", "font.size": 9}
    with matplotlib.rc_context(fixed), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a stranger's name in a script without glyphs
        looks = styles(picture)
        names = [shown(label) for label, _ in looks]
        if any(panel.ceiling for panel in picture.panels):
            names.append("ceiling (engine alone)")
        across = min(ABREAST, len(picture.panels))
        down = -(-len(picture.panels) // across)
        columns = _legend_columns(names, WIDTH * across)
        below = LINE * -(-len(names) // columns) + 0.1
        figure = Figure(figsize=(WIDTH * across, HEIGHT * down + below))
        FigureCanvasAgg(figure)
        for index, panel in enumerate(picture.panels):
            row, column = divmod(index, across)
            left, bottom = WIDTH * column, below + HEIGHT * (down - 1 - row)
            draw_panel(figure.add_axes(_box(figure, left, bottom)), panel, looks)
        _legend(figure, looks, names, columns)
        yield figure


def _box(figure: Figure, left: float, bottom: float) -> tuple[float, float, float, float]:
    """Of a panel's axes, in parts of the figure."""
    width, height = (float(inches) for inches in figure.get_size_inches())
    return (
        (left + MARGINS.left) / width,
        (bottom + MARGINS.bottom) / height,
        (WIDTH - MARGINS.left - MARGINS.right) / width,
        (HEIGHT - MARGINS.bottom - MARGINS.top) / height,
    )


def _legend(
    figure: Figure, looks: Mapping[Key, Mapping[str, Any]], names: list[str], columns: int
) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for look in [*looks.values(), CEILING]]
    figure.legend(
        handles[: len(names)], names, loc="lower center", ncols=columns, frameon=False,
        fontsize=8, borderaxespad=0.2, labelspacing=0.35,
    )  # fmt: skip


def _legend_columns(names: list[str], width: float) -> int:
    """As many as fit beside each other in so many inches."""
    longest = max(map(len, names), default=0)
    return min(len(names) or 1, max(1, int(width / (0.5 + 0.065 * longest))))


def _metadata(picture: Picture, kind: Kind) -> dict[str, Any]:
    if kind == "svg":
        return {"Date": None, "Creator": "envbench", "Title": one_line(picture.title)}
    return {"Software": "envbench"}


PANELS_A_PROCESS = 12  # at least
MOST_PROCESSES = 8

Wanted = tuple[Picture, Kind]


def drawn(wanted: Sequence[Wanted]) -> Iterator[Drawing]:
    """The drawings, in this order."""
    processes = min(usable_cpus(), MOST_PROCESSES, _panels(wanted) // PANELS_A_PROCESS, len(wanted))
    if processes < 2:
        yield from map(_draw_one, wanted)
        return
    order = sorted(range(len(wanted)), key=lambda i: -len(wanted[i][0].panels))
    with ProcessPoolExecutor(processes, get_context("spawn"), _left_alone) as pool:
        begun = {i: pool.submit(_draw_one, wanted[i]) for i in order}  # the longest first
        try:
            for i in range(len(wanted)):
                yield begun.pop(i).result()
        finally:
            pool.shutdown(cancel_futures=True)


def _draw_one(wanted: Wanted) -> Drawing:
    return draw(*wanted)


def _panels(wanted: Sequence[Wanted]) -> int:
    return sum(len(picture.panels) for picture, _ in wanted)


def _left_alone() -> None:
    """An interrupt is the parent's to tell of."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
