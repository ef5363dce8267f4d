"""One panel of a picture: its axes, curves, bands and ceiling, drawn by matplotlib.

Everything has a fixed place and fixed limits, so that nothing has to be drawn to find out where it
comes to lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envbench.report.plots.picture import Curve, Panel, Picture
from envbench.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")  # one more: no two backends share both
LINES: tuple[Any, ...] = ("-", (0, (7, 1.5)), (0, (5, 1, 1, 1)))
DASHED = (0, (3, 2))  # what others have published
CEILING: dict[str, Any] = {"color": "#555555", "linewidth": 1.2, "linestyle": (0, (1, 2))}
MOST_TICKS = 14
LONGEST = 60  # characters of a name
LOG_SPAN = 30  # FPS that differ by more than this are drawn on a logarithmic axis
DECADES = 1000  # and beyond this only powers of ten are numbered
TALLEST = 3.0  # times the highest figure: a wider interval runs out of the panel

Key = tuple[str, bool]  # a curve's label, and whether it is published


@dataclass(frozen=True)
class Margins:
    """Inches of a panel around its axes."""

    left: float = 0.85
    right: float = 0.12
    top: float = 0.35
    bottom: float = 0.45


MARGINS = Margins()


def styles(picture: Picture) -> dict[Key, dict[str, Any]]:
    """How each row is drawn, the same in every panel: a colour a backend, and a marker and a line
    that tell its rows apart without colour."""
    found: dict[Key, dict[str, Any]] = {}
    rows: dict[tuple[int, bool], int] = {}
    for curve in (curve for panel in picture.panels for curve in panel.curves):
        if key_of(curve) not in found:
            nth = rows.get((curve.place, curve.published), 0)
            rows[curve.place, curve.published] = nth + 1
            found[key_of(curve)] = _style(curve, nth)
    return found


def key_of(curve: Curve) -> Key:
    return curve.label, curve.published


def _style(curve: Curve, nth: int) -> dict[str, Any]:
    """Of the ``nth`` row of its backend."""
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
    """A name as it is: one line, and no formula."""
    whole = one_line(text)
    if len(whole) > LONGEST:  # a machine's name is at the end
        whole = f"{whole[: LONGEST // 2 - 1]}…{whole[-LONGEST // 2 :]}"
    return whole.replace("$", r"\$")


def draw_panel(axes: Axes, panel: Panel, looks: Mapping[Key, Mapping[str, Any]]) -> None:
    """The panel on fresh axes of a size that is not changed any more."""
    axes.set_autoscale_on(False)
    _across(axes, sorted({point.numenv for curve in panel.curves for point in curve.points}))
    _upwards(axes, panel)
    for curve in panel.curves:
        _curve(axes, curve, looks[key_of(curve)])
    if panel.ceiling:
        axes.axhline(panel.ceiling, **CEILING)
    axes.spines[["top", "right"]].set_visible(False)
    _words(axes, panel)


def _words(axes: Axes, panel: Panel) -> None:
    """Title and names of the axes; where they are put, nothing is measured to place them."""
    box = axes.get_window_extent()
    inch = axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    width, height = box.width / inch, box.height / inch
    axes.set_title(
        shown(panel.title), loc="left", fontweight="bold", fontsize=10,
        x=-(MARGINS.left - 0.1) / width, y=1 + 0.12 / height,
    )  # fmt: skip
    axes.set_xlabel("environments (numenv)")
    axes.xaxis.set_label_coords(0.5, -0.26 / height)
    axes.set_ylabel("frames per second")
    axes.yaxis.set_label_coords(-(MARGINS.left - 0.18) / width, 0.5)


# ---------------------------------------------------------------- axes


def _across(axes: Axes, numenvs: Sequence[int]) -> None:
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


def _upwards(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = _limits(panel)
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


def _limits(panel: Panel) -> tuple[float, float]:
    """The lowest and the highest that is to be seen."""
    points = [point for curve in panel.curves for point in curve.points]
    speeds = [*(point.fps for point in points), *([panel.ceiling] if panel.ceiling else [])]
    if not speeds:
        return 0.0, 1.0
    least, most = min(speeds), max(speeds)
    highs = [each.high for each in points if each.high is not None and each.high < TALLEST * most]
    return least, max([most, *highs]) or 1.0


def number(value: float) -> str:
    """As short as it stands on an axis: 25,000, 0.5, 40 M."""
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
    if len(known) == 1:  # a band has no width there
        ((numenv, low, high),) = known
        axes.vlines(numenv, low, high, color=look["color"], alpha=0.6)
    elif known:
        at, lows, highs = zip(*known, strict=True)
        axes.fill_between(at, lows, highs, color=look["color"], alpha=0.18, linewidth=0)
