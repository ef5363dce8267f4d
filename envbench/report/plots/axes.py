"""One chart of a picture: its axes, curves, bands and ceiling, drawn by matplotlib.

Everything has a fixed place and fixed limits, so positions are known without drawing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envbench.report.plots.picture import Chart, Curve, Picture
from envbench.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
# One more marker than colours, so no two backends share both.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
LINES: tuple[Any, ...] = ("-", (0, (7, 1.5)), (0, (5, 1, 1, 1)))
DASHED = (0, (3, 2))  # published figures
CEILING: dict[str, Any] = {"color": "#555555", "linewidth": 1.2, "linestyle": (0, (1, 2))}
MOST_TICKS = 14
LONGEST = 60  # characters of a name
LOG_SPAN = 30  # the axis is logarithmic where FPS differ by a larger factor
DECADES = 1000  # beyond this factor only powers of ten have numbers
TALLEST = 3.0  # an interval beyond this multiple of the highest figure leaves the chart

Key = tuple[str, bool]  # a curve's label, and whether it is published


LEFT, RIGHT, TOP, BOTTOM = 0.85, 0.12, 0.35, 0.45  # inches between the axes and a chart's edges


def styles(picture: Picture) -> dict[Key, dict[str, Any]]:
    """How each row is drawn in every chart: a colour per backend, a marker and a line per row."""
    found: dict[Key, dict[str, Any]] = {}
    rows: Counter[tuple[int, bool]] = Counter()
    for curve in (curve for chart in picture.charts for curve in chart.curves):
        if key_of(curve) not in found:
            found[key_of(curve)] = _style(curve, rows[curve.place, curve.published])
            rows[curve.place, curve.published] += 1
    return found


def key_of(curve: Curve) -> Key:
    return curve.label, curve.published


def _style(curve: Curve, nth: int) -> dict[str, Any]:
    """The style of its backend's ``nth`` row."""
    colour = COLOURS[curve.place % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKERS[(curve.place + 3 * nth) % len(MARKERS)],
        "markersize": 4.5,
        "markerfacecolor": "white" if curve.published else colour,
        "linewidth": 1.0 if curve.published else 1.6,
        "linestyle": DASHED if curve.published else LINES[nth % len(LINES)],
    }


def shown(text: str) -> str:
    """A name as one line that matplotlib does not read as a formula."""
    whole = one_line(text)
    if len(whole) > LONGEST:  # keep both ends: a machine's name is at the end
        whole = f"{whole[: LONGEST // 2 - 1]}…{whole[-LONGEST // 2 :]}"
    return whole.replace("$", r"\$")


def draw_chart(axes: Axes, chart: Chart, looks: Mapping[Key, Mapping[str, Any]]) -> None:
    """Draw the chart on new axes, whose size must not change any more."""
    axes.set_autoscale_on(False)
    _x_axis(axes, sorted({point.numenv for curve in chart.curves for point in curve.points}))
    _y_axis(axes, chart)
    for curve in chart.curves:
        _curve(axes, curve, looks[key_of(curve)])
    if chart.ceiling:
        axes.axhline(chart.ceiling, **CEILING)
    axes.spines[["top", "right"]].set_visible(False)
    _labels(axes, chart)


def _labels(axes: Axes, chart: Chart) -> None:
    """The title and the names of the axes, at fixed places."""
    box = axes.get_window_extent()
    inch = axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    width, height = box.width / inch, box.height / inch
    axes.set_title(
        shown(chart.title), loc="left", fontweight="bold", fontsize=10,
        x=-(LEFT - 0.1) / width, y=1 + 0.12 / height,
    )  # fmt: skip
    axes.set_xlabel("environments (numenv)")
    axes.xaxis.set_label_coords(0.5, -0.26 / height)
    axes.set_ylabel("frames per second")
    axes.yaxis.set_label_coords(-(LEFT - 0.18) / width, 0.5)


# ---------------------------------------------------------------- axes


def _x_axis(axes: Axes, numenvs: Sequence[int]) -> None:
    from matplotlib.ticker import NullLocator

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
    axes.xaxis.set_minor_locator(NullLocator())


def apart(numenvs: Sequence[int]) -> list[int]:
    """The numbers that fit on the axis without overlap; always the last one."""
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
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = _limits(chart)
    if high > LOG_SPAN * low > 0:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.25, high * 1.25)
        steps = (1.0, 2.0, 5.0) if high < DECADES * low else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.08 * high)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
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
    """A short number for an axis: 25,000, 0.5, 40 M."""
    return f"{value:,.10g}" if abs(value) < 1e7 else f"{value / 1e6:,.10g} M"


# ---------------------------------------------------------------- curves


def _curve(axes: Axes, curve: Curve, look: Mapping[str, Any]) -> None:
    numenvs = [point.numenv for point in curve.points]
    axes.plot(numenvs, [point.fps for point in curve.points], **look)
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
