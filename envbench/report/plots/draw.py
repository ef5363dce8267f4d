"""A ``Picture`` drawn by matplotlib, as SVG or PNG bytes: the same bytes for the same picture.

Colours are Okabe and Ito's (jfly.uni-koeln.de/color), which colour-blind readers can distinguish:
one per backend, with a marker and a line style for each of its rows. The background is white, so
print and dark pages show the same. One legend is below all charts.
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
from envbench.report.plots import axes as chart_axes
from envbench.report.plots.axes import CEILING, Key, draw_chart, shown, styles
from envbench.report.plots.picture import Curve, Picture, Point
from envbench.text import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Kind = Literal["svg", "png"]
COLUMNS = 2  # charts side by side
WIDTH, HEIGHT, LINE = 6.4, 3.6, 0.18  # inches: a chart, and a line of the legend
DPI, LARGEST = 150, 30_000  # of a PNG, and its maximum width and height in pixels


@dataclass(frozen=True)
class Spot:
    """A point of a curve: its distance from the left and the upper edge in points, and its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """A drawn picture: the file's bytes, its width and height in points, and its figures."""

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
        title = {"Date": None, "Creator": "envbench", "Title": one_line(picture.title)}
        metadata = title if kind == "svg" else {"Software": "envbench"}
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)
    return Drawing(file.getvalue(), (72 * width, 72 * height), found)


def _spots(figure: Figure, picture: Picture) -> list[Spot]:
    scale = 72 / figure.dpi  # points per pixel
    height = figure.bbox.height
    found = []
    for axes, chart in zip(figure.axes, picture.charts, strict=True):
        for curve in chart.curves:
            places = axes.transData.transform([(each.numenv, each.fps) for each in curve.points])
            found += [
                Spot(float(x) * scale, float(height - y) * scale, _description(curve, p))
                for (x, y), p in zip(places, curve.points, strict=True)
            ]
    return found


def _description(curve: Curve, point: Point) -> str:
    known = point.low is not None and point.high is not None
    span = f" ({point.low:,.0f}–{point.high:,.0f})" if known else ""
    return f"{one_line(curve.label, 60)} at {point.numenv:,}: {point.fps:,.2f} FPS{span}"


@contextmanager
def _figure(picture: Picture) -> Iterator[Figure]:
    """The picture as a figure with its canvas, with settings that make the bytes reproducible."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fixed: Any = {"svg.hashsalt": "envbench", "svg.fonttype": "path", "font.size": 9}
    with matplotlib.rc_context(fixed), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name may have characters without glyphs
        looks = styles(picture)
        names = [shown(label) for label, _ in looks]
        if any(chart.ceiling for chart in picture.charts):
            names.append("ceiling (engine alone)")
        across = min(COLUMNS, len(picture.charts))
        down = -(-len(picture.charts) // across)
        columns = _legend_columns(names, WIDTH * across)
        below = LINE * -(-len(names) // columns) + 0.1
        figure = Figure(figsize=(WIDTH * across, HEIGHT * down + below))
        FigureCanvasAgg(figure)
        for index, chart in enumerate(picture.charts):
            row, column = divmod(index, across)
            left, bottom = WIDTH * column, below + HEIGHT * (down - 1 - row)
            draw_chart(figure.add_axes(_box(figure, left, bottom)), chart, looks)
        _legend(figure, looks, names, columns)
        yield figure


def _box(figure: Figure, left: float, bottom: float) -> tuple[float, float, float, float]:
    """A chart's axes, as fractions of the figure."""
    width, height = (float(inches) for inches in figure.get_size_inches())
    return (
        (left + chart_axes.LEFT) / width,
        (bottom + chart_axes.BOTTOM) / height,
        (WIDTH - chart_axes.LEFT - chart_axes.RIGHT) / width,
        (HEIGHT - chart_axes.BOTTOM - chart_axes.TOP) / height,
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
    """How many names fit side by side; ``width`` is in inches."""
    longest = max(map(len, names), default=0)
    return min(len(names) or 1, max(1, int(width / (0.5 + 0.065 * longest))))


CHARTS_PER_PROCESS = 12  # at least
MOST_PROCESSES = 8

Wanted = tuple[Picture, Kind]


def drawn(wanted: Sequence[Wanted]) -> Iterator[Drawing]:
    """The drawings in this order, by several processes where there are many charts."""
    charts = [len(picture.charts) for picture, _ in wanted]
    processes = min(usable_cpus(), MOST_PROCESSES, sum(charts) // CHARTS_PER_PROCESS, len(wanted))
    if processes < 2:
        yield from (draw(*each) for each in wanted)
        return
    order = sorted(range(len(wanted)), key=lambda i: -charts[i])
    # Processes that ignore an interrupt leave it to this one.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(processes, get_context("spawn"), signal.signal, ignore) as pool:
        submitted = {i: pool.submit(draw, *wanted[i]) for i in order}  # the longest first
        try:
            for i in range(len(wanted)):
                yield submitted.pop(i).result()
        finally:
            pool.shutdown(cancel_futures=True)
