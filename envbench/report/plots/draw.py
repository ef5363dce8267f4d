"""A ``Picture`` drawn by matplotlib, as SVG or PNG bytes: the same bytes for the same picture.

Colour-blind readers can distinguish the colours, which are Okabe and Ito's
(jfly.uni-koeln.de/color). Each backend has one, with a marker and a line style per row. All places
and limits are fixed, so positions are known without drawing.
"""

from __future__ import annotations

import io
import math
import signal
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from envbench.machine import usable_cpus
from envbench.report.plots.picture import Chart, Curve, Picture
from envbench.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
# One more marker than colours, so no two backends share both.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
LINES: tuple[Any, ...] = ("-", (0, (7, 1.5)), (0, (5, 1, 1, 1)))
DASHED = (0, (3, 2))  # published figures
CEILING: dict[str, Any] = {"color": "#555555", "linewidth": 1.2, "linestyle": (0, (1, 2))}
HOLLOW = {"linestyle": "none", "markerfacecolor": "white"}  # a figure apart
APART: dict[str, Any] = {"color": "#555555", "marker": "o", "markersize": 4.5, **HOLLOW}

COLUMNS = 2  # charts side by side
WIDTH, HEIGHT, LINE = 6.4, 3.6, 0.18  # inches: a chart, and a line of the legend
LEFT, RIGHT, TOP, BOTTOM = 0.85, 0.12, 0.35, 0.45  # inches between the axes and a chart's edges
ACROSS, UP = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM  # inches: the axes
DPI, LARGEST = 150, 30_000  # of a PNG, and its maximum width and height in pixels
CHARTS_PER_PROCESS, MOST_PROCESSES = 12, 8  # at least, at most

MOST_TICKS = 14
LONGEST = 60  # characters of a name
LOG_SPAN = 30  # the axis is logarithmic where FPS differ by a larger factor
DECADES = 1000  # beyond this factor only powers of ten have numbers
TALLEST = 3.0  # an interval beyond this multiple of the highest figure leaves the chart

LIGHT = b'<style type="text/css">'  # matplotlib's own style of an SVG
DARK = b"""@media (prefers-color-scheme: dark) {
svg { fill: #e6edf3 }
[style*="fill: #ffffff"] { fill: #0d1117 !important }
[style*="stroke: #000000"] { stroke: #e6edf3 !important }
[style*="fill: #000000"] { fill: #e6edf3 !important }
[style*="stroke: #dddddd"] { stroke: #3d444d !important }
[style*="stroke: #555555"] { stroke: #9198a1 !important }
[style*="stroke: #0072b2"] { stroke: #4aa3df !important }
[style*="fill: #0072b2"] { fill: #4aa3df !important }
}
"""
Kind = Literal["svg", "png"]
Look = dict[str, Any]


def drawn(wanted: Sequence[tuple[Picture, Kind]]) -> Iterator[bytes]:
    """Yield the files' contents in this order, by several processes where there are many charts."""
    charts = sum(len(picture.charts) for picture, _ in wanted)
    processes = min(usable_cpus(), MOST_PROCESSES, charts // CHARTS_PER_PROCESS, len(wanted))
    if processes < 2:
        yield from (draw(*each) for each in wanted)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # The processes ignore an interrupt (Ctrl-C); this process handles it.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(processes, get_context("spawn"), signal.signal, ignore) as pool:
        yield from pool.map(draw, *zip(*wanted, strict=True))


def draw(picture: Picture, kind: Kind) -> bytes:
    """Draw the picture as a file's content, without the line that ``stamped`` adds.

    An SVG has a dark form, which browsers take where the reader prefers dark colours.
    """
    file = io.BytesIO()
    with as_figure(picture) as figure:
        width, height = (float(inches) for inches in figure.get_size_inches())
        dpi = min(DPI, int(LARGEST / max(width, height)))
        title = {"Date": None, "Creator": "envbench", "Title": one_line(picture.title)}
        metadata = title if kind == "svg" else {"Software": "envbench"}
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)
    return file.getvalue().replace(LIGHT, LIGHT + DARK, 1)


@contextmanager
def as_figure(picture: Picture) -> Iterator[Figure]:
    """The picture as a figure with its canvas, with settings that make the bytes reproducible."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    fixed: Any = {"svg.hashsalt": "envbench", "svg.fonttype": "path", "font.size": 9}
    with matplotlib.rc_context(fixed), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name may have characters without glyphs
        looks = styles(picture)
        legend = [(shown(label), look) for (label, _), look in looks.items()]
        if any(chart.ceiling for chart in picture.charts):
            legend.append(("ceiling (engine alone)", CEILING))
        curves = [curve for chart in picture.charts for curve in chart.curves]
        apart = {point.apart for curve in curves for point in curve.points if point.apart}
        if apart:
            legend.append((f"not ranked: {', '.join(sorted(map(str, apart)))}", APART))
        names = [name for name, _ in legend]
        across = min(COLUMNS, len(picture.charts))
        down = -(-len(picture.charts) // across)
        longest = max(map(len, names), default=0)
        columns = min(len(names) or 1, max(1, int(WIDTH * across / (0.5 + 0.065 * longest))))
        below = LINE * -(-len(names) // columns) + 0.1
        width, height = WIDTH * across, HEIGHT * down + below
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(
            down, across, left=LEFT / width, right=1 - RIGHT / width, top=1 - TOP / height,
            bottom=(below + BOTTOM) / height, wspace=WIDTH / ACROSS - 1, hspace=HEIGHT / UP - 1,
        )  # fmt: skip
        for index, chart in enumerate(picture.charts):
            _draw_chart(figure.add_subplot(grid[divmod(index, across)]), chart, looks)
        figure.legend(
            [Line2D([], [], **look) for _, look in legend],
            names,
            loc="lower center",
            ncols=columns,
            frameon=False,
            fontsize=8,
            borderaxespad=0.2,
            labelspacing=0.35,
        )
        yield figure


def styles(picture: Picture) -> dict[tuple[str, bool], Look]:
    """How each row is drawn in every chart, by its label and whether it is published.

    A backend has a colour, and each of its rows a marker and a line.
    """
    found: dict[tuple[str, bool], Look] = {}
    rows: Counter[tuple[int, bool]] = Counter()
    for curve in (curve for chart in picture.charts for curve in chart.curves):
        if (curve.label, curve.published) in found:
            continue
        nth = rows[curve.place, curve.published]  # of its backend's rows
        rows[curve.place, curve.published] += 1
        colour = COLOURS[curve.place % len(COLOURS)]
        found[curve.label, curve.published] = {
            "color": colour,
            "marker": MARKERS[(curve.place + 3 * nth) % len(MARKERS)],
            "markersize": 4.5,
            "markerfacecolor": "white" if curve.published else colour,
            "linewidth": 1.0 if curve.published else 1.6,
            "linestyle": DASHED if curve.published else LINES[nth % len(LINES)],
        }
    return found


def shown(text: str) -> str:
    """Return a name as one line that matplotlib does not read as a formula."""
    whole = one_line(text)
    if len(whole) > LONGEST:  # keep both ends: a machine's name is at the end
        whole = f"{whole[: LONGEST // 2 - 1]}…{whole[-LONGEST // 2 :]}"
    return whole.replace("$", r"\$")


def _draw_chart(axes: Axes, chart: Chart, looks: Mapping[tuple[str, bool], Look]) -> None:
    axes.set_autoscale_on(False)
    _x_axis(axes, sorted({point.numenv for curve in chart.curves for point in curve.points}))
    _y_axis(axes, chart)
    axes.minorticks_off()
    for curve in chart.curves:
        _draw_curve(axes, curve, looks[curve.label, curve.published])
    if chart.ceiling:
        axes.axhline(chart.ceiling, **CEILING)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        shown(chart.title), loc="left", fontweight="bold", fontsize=10,
        x=-(LEFT - 0.1) / ACROSS, y=1 + 0.12 / UP,
    )  # fmt: skip
    axes.set_xlabel("environments (numenv)")
    axes.xaxis.set_label_coords(0.5, -0.26 / UP)
    axes.set_ylabel("frames per second")
    axes.yaxis.set_label_coords(-(LEFT - 0.18) / ACROSS, 0.5)


def _x_axis(axes: Axes, numenvs: Sequence[int]) -> None:
    first, last = (numenvs[0], numenvs[-1]) if numenvs else (1, 1)
    if last >= 4 * first:
        axes.set_xscale("log", base=2)
        room = (last / first) ** 0.045
        axes.set_xlim(first / room, last * room)
    else:
        room = 0.045 * (last - first) or 1.0
        axes.set_xlim(first - room, last + room)
    ticks = apart(numenvs)
    axes.set_xticks(ticks, [f"{numenv:,}" for numenv in ticks])


def apart(numenvs: Sequence[int]) -> list[int]:
    """Return the numbers that fit on the axis without overlap; always the last one."""
    if not numenvs:
        return []
    log = numenvs[-1] >= 4 * numenvs[0]
    place = {n: math.log2(n) if log else float(n) for n in numenvs}
    least = (place[numenvs[-1]] - place[numenvs[0]]) / MOST_TICKS
    kept = [numenvs[-1]]
    for numenv in reversed(numenvs[:-1]):
        if place[kept[-1]] - place[numenv] >= least:
            kept.append(numenv)
    return kept[::-1]


def _y_axis(axes: Axes, chart: Chart) -> None:
    low, high = _limits(chart)
    if high > LOG_SPAN * low > 0:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.25, high * 1.25)
        steps = (1.0, 2.0, 5.0) if high < DECADES * low else (1.0,)
        axes.locator_params(axis="y", subs=steps, numticks=12)
    else:
        axes.set_ylim(0, 1.08 * high)
        axes.locator_params(axis="y", nbins=7, steps=[1, 2, 5, 10])
    axes.yaxis.set_major_formatter(lambda value, _: number(value))
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _limits(chart: Chart) -> tuple[float, float]:
    """The lowest and the highest visible value."""
    points = [point for curve in chart.curves for point in curve.points]
    speeds = [*(point.fps for point in points), *([chart.ceiling] if chart.ceiling else [])]
    if not speeds:
        return 0.0, 1.0
    least, most = min(speeds), max(speeds)
    highs = [each.high for each in points if each.high is not None and each.high < TALLEST * most]
    return least, max([most, *highs]) or 1.0


def number(value: float) -> str:
    """Return a short number for an axis: 25,000, 0.5, 40 M."""
    return f"{value:,.10g}" if abs(value) < 1e6 else f"{value / 1e6:,.10g} M"


def _draw_curve(axes: Axes, curve: Curve, look: Look) -> None:
    numenvs = [point.numenv for point in curve.points]
    axes.plot(numenvs, [point.fps for point in curve.points], **look)
    if apart := [(point.numenv, point.fps) for point in curve.points if point.apart]:
        axes.plot(*zip(*apart, strict=True), **{**look, **HOLLOW})
    known = [
        (point.numenv, point.low, point.high)
        for point in curve.points
        if point.low is not None and point.high is not None
    ]
    if len(known) == 1:  # a band would have no width
        ((numenv, low, high),) = known
        axes.vlines(numenv, low, high, color=look["color"], alpha=0.6)
    elif known:
        at, lows, highs = zip(*known, strict=True)
        axes.fill_between(at, lows, highs, color=look["color"], alpha=0.18, linewidth=0)
