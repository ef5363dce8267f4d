"""A ``Picture`` drawn by matplotlib, as SVG or PNG bytes: the same bytes for the same picture.

Colours are Okabe and Ito's (jfly.uni-koeln.de/color), told apart by colour-blind readers, one a
backend, with a marker and a line of its own for each of its rows; a white ground, so that print and
dark pages show the same.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from envbench.report.curves import Curve, Panel, Picture, Point
from envbench.report.escape import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", (0, (7, 1.5)), (0, (5, 1, 1, 1)))  # of rows of one backend
Kind = Literal["svg", "png"]
ABREAST = 2  # panels
MOST_TICKS = 14
LONGEST = 60  # characters of a name
WIDTH, HEIGHT, LINE = 6.4, 3.7, 0.18  # inches of a panel without its legend, and of its lines
LEGEND_COLUMNS, LEGEND_CHARACTERS = 3, 90
LOG_SPAN = 30  # FPS that differ by more than this are drawn on a logarithmic axis


@dataclass(frozen=True)
class Spot:
    """A point of a curve in a drawn picture: points from its left and upper edge, and its text."""

    x: float
    y: float
    text: str


def draw(picture: Picture, kind: Kind) -> bytes:
    """The picture; its digest is in the file's metadata (``digest_in``)."""
    file = io.BytesIO()
    with _figure(picture) as figure:
        figure.savefig(file, format=kind, dpi=150, metadata=_metadata(picture, kind))
    return file.getvalue()


def spots(picture: Picture) -> tuple[tuple[float, float], list[Spot]]:
    """Width and height of the drawn picture in points, and where its curves' points lie."""
    with _figure(picture) as figure:
        figure.set_dpi(72)  # a pixel is a point
        figure.canvas.draw()
        width, height = (float(inches * 72) for inches in figure.get_size_inches())
        found = []
        for axes, panel in zip(figure.axes, picture.panels, strict=False):
            for curve in panel.curves:
                for point in curve.points:
                    x, y = axes.transData.transform((point.numenv, point.fps))
                    found.append(Spot(float(x), height - float(y), _told(curve, point)))
    return (width, height), found


def _told(curve: Curve, point: Point) -> str:
    span = (
        "" if point.low is None or point.high is None else f" ({point.low:,.0f}–{point.high:,.0f})"
    )
    return f"{plain(curve.label, 60)} at {point.numenv:,}: {point.fps:,.2f} FPS{span}"


@contextmanager
def _figure(picture: Picture) -> Iterator[Figure]:
    """The picture as a figure with its canvas, under settings that change no byte."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(picture.panels)
    across = min(ABREAST, count)
    down = -(-count // across)
    fixed: Any = {"svg.hashsalt": "envbench", "svg.fonttype": "path", "font.size": 9}
    with matplotlib.rc_context(fixed), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a stranger's name in a script without glyphs
        below = max(map(_legend_lines, picture.panels), default=0)
        size = (WIDTH * across, (HEIGHT + LINE * below) * down)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(down, across, squeeze=False)
        for axes, panel in zip(grid.flat, picture.panels, strict=False):
            _panel(axes, panel)
        for axes in grid.flat[count:]:
            axes.set_axis_off()
        yield figure


def digest_in(data: bytes) -> str:
    """The digest of the picture that a file shows; "" where it is none of ours."""
    _, found, rest = data.partition(b"envbench picture ")
    return rest[:12].decode("ascii", "replace") if found else ""


def _metadata(picture: Picture, kind: Kind) -> dict[str, Any]:
    told = f"envbench picture {picture.digest}"
    if kind == "svg":
        title = plain(picture.title)
        return {"Date": None, "Creator": "envbench", "Title": title, "Description": told}
    return {"Software": "envbench", "Description": told}


def _shown(text: str) -> str:
    """A name as it is: one line, and no formula."""
    whole = plain(text)
    if len(whole) > LONGEST:  # a machine's name is at the end
        whole = f"{whole[: LONGEST // 2 - 1]}…{whole[-LONGEST // 2 :]}"
    return whole.replace("$", r"\$")


def _panel(axes: Axes, panel: Panel) -> None:
    numenvs = sorted({point.numenv for curve in panel.curves for point in curve.points})
    for index, curve in enumerate(panel.curves):
        _curve(axes, curve, _before(panel.curves[:index], curve))
    if panel.ceiling:
        axes.axhline(panel.ceiling, color="#555555", linewidth=1, linestyle=(0, (1, 2)))
        axes.annotate(
            "ceiling: the engine alone", (1, panel.ceiling), xycoords=("axes fraction", "data"),
            xytext=(-4, 3), textcoords="offset points", ha="right", fontsize=8, color="#555555",
        )  # fmt: skip
    axes.set_title(_shown(panel.title), loc="left", fontweight="bold")
    axes.set_xlabel("environments (numenv)")
    axes.set_ylabel("frames per second")
    if len(numenvs) > 1 and numenvs[-1] >= 4 * numenvs[0]:
        axes.set_xscale("log", base=2)
    ticks = _apart(numenvs)
    axes.set_xticks(ticks, [f"{numenv:,}" for numenv in ticks])
    axes.minorticks_off()
    speeds = [point.fps for curve in panel.curves for point in curve.points]
    if speeds and max(speeds) > LOG_SPAN * min(speeds):
        axes.set_yscale("log")
    else:
        highs = [point.high or point.fps for curve in panel.curves for point in curve.points]
        axes.set_ylim(0, 1.08 * max([*highs, panel.ceiling or 0.0], default=1.0))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.curves:
        below: dict[str, Any] = {
            "loc": "upper center",
            "bbox_to_anchor": (0.5, -0.13),
            "ncols": _legend_columns(panel),
        }
        axes.legend(frameon=False, fontsize=8, **below)


def _apart(numenvs: Sequence[int]) -> list[int]:
    """Those whose numbers do not run into each other on the axis; the last for sure."""
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


def _legend_columns(panel: Panel) -> int:
    """As many as fit beside each other."""
    longest = max((len(_shown(curve.label)) for curve in panel.curves), default=0)
    return min(LEGEND_COLUMNS, max(1, LEGEND_CHARACTERS // (longest + 8)))


def _legend_lines(panel: Panel) -> int:
    return -(-len(panel.curves) // _legend_columns(panel))


def _before(earlier: Sequence[Curve], curve: Curve) -> int:
    """How many rows of its backend come before it: each has a line and a marker of its own."""
    return sum((e.place, e.published) == (curve.place, curve.published) for e in earlier)


def _curve(axes: Axes, curve: Curve, nth: int) -> None:
    colour = COLOURS[curve.place % len(COLOURS)]
    numenvs = [point.numenv for point in curve.points]
    axes.plot(
        numenvs,
        [point.fps for point in curve.points],
        label=_shown(curve.label),
        color=colour,
        marker=MARKERS[(curve.place + 3 * nth) % len(MARKERS)],
        markersize=4.5,
        markerfacecolor="white" if curve.published else colour,
        linewidth=1.0 if curve.published else 1.6,
        linestyle="--" if curve.published else LINES[nth % len(LINES)],
    )
    known = [point for point in curve.points if point.low is not None and point.high is not None]
    if len(known) == 1:  # a band has no width there
        (only,) = known
        axes.vlines(only.numenv, only.low or 0.0, only.high or 0.0, color=colour, alpha=0.6)
    if known:
        axes.fill_between(
            [point.numenv for point in known],
            [point.low or 0.0 for point in known],
            [point.high or 0.0 for point in known],
            color=colour,
            alpha=0.18,
            linewidth=0,
        )
