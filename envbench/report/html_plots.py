"""A picture for the HTML page: drawn, each of its points told under pointer and keyboard."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envbench.report.curves import Picture
from envbench.report.drawing import drawn
from envbench.report.plots import Drawing

SCALE = 1.25  # CSS pixels a point of a plot
CHARACTER = 7.2  # CSS pixels of a point's text
Place = tuple[str, str, int]  # a panel's title, a curve's label, numenv


def plots(pictures: Sequence[Picture], cells: Mapping[Place, int]) -> dict[str, dict[str, Any]]:
    """Each picture, by its name, with its points; a measured one leads to its cell's number."""
    drawings = drawn([(picture, "svg") for picture in pictures])
    return {
        picture.name: _plot(picture, drawing, cells)
        for picture, drawing in zip(pictures, drawings, strict=True)
    }


def _plot(picture: Picture, drawing: Drawing, cells: Mapping[Place, int]) -> dict[str, Any]:
    (width, height), found = drawing.size, drawing.spots
    data = base64.b64encode(drawing.data).decode()
    wide = round(width * SCALE)
    return {
        "source": f"data:image/svg+xml;base64,{data}",
        "title": f"{picture.title}: frames per second by number of environments",
        "width": wide,
        "height": round(height * SCALE),
        "points": [
            {
                **_point(
                    round(spot.x * SCALE), round(spot.y * SCALE), f"{machine}{spot.text}", wide
                ),
                "cell": cells.get(place) if place else None,
            }
            for spot, (machine, place) in zip(found, _places(picture), strict=True)
        ],
    }


def _point(x: int, y: int, text: str, wide: int) -> dict[str, Any]:
    """Where it is, and where the middle of its text stands: above it, within the picture."""
    half = min(wide // 2, round(len(text) * CHARACTER / 2))
    above = y - 14 if y > 40 else y + 24
    return {"x": x, "y": y, "text": text, "left": min(max(x, half), wide - half), "top": above}


def _places(picture: Picture) -> Iterable[tuple[str, Place | None]]:
    """Of each point, in the order of ``spots``: its machine where there are several, and where it
    was measured; None of what others published."""
    for panel in picture.panels:
        machine = f"{panel.title}, " if len(picture.panels) > 1 else ""
        for curve in panel.curves:
            for point in curve.points:
                place = (panel.title, curve.label, point.numenv)
                yield machine, None if curve.published else place
