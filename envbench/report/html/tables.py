"""A ``Table`` for the HTML page: plain values for the template, with escaped markup.

A figure in a machine's own table opens its cell; in a summary it links there. markdown-it converts
the tables' Markdown, without HTML.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from envbench.report.escape import markdown
from envbench.report.markdown.render import letters, note_once
from envbench.report.plots.draw import Drawing, Spot, drawn
from envbench.report.plots.picture import Picture
from envbench.report.tables.machine_results import MachineResults
from envbench.report.tables.table import Entry, Table, entries
from envbench.results.shown import Measured

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup


_NUMBER = re.compile(r"(?:≠ )?[*±]{0,2}(\d[\d,]*(?:\.\d+)?)(?=$|[\s*])")


class Tables:
    """A page's tables. ``numbers``: the cells' numbers, by the ``id`` of their ``Measured``."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers
        self._anchored: set[int] = set()
        self._made = 0

    def summaries(self, tables: Iterable[Table]) -> list[dict[str, Any]]:
        """Tables whose figures link to their cells."""
        return [self._values(table, opens=False) for table in note_once(list(tables))]

    def opening(self, table: Table, name: str = "") -> dict[str, Any]:
        """A table whose figures open their cells. Links lead to the first one with the cell."""
        return self._values(table, opens=True) | ({"id": name} if name else {})

    def _values(self, table: Table, *, opens: bool) -> dict[str, Any]:
        self._made += 1
        marks = letters(table)
        return {
            "id": f"table-{self._made}",
            "heading": inline(table.heading),
            "columns": [inline(name or "mark") for name in [table.first, *table.columns]],
            "rows": [
                (inline(label), [self._entry(entry, marks, opens=opens) for entry in row])
                for label, row in table.rows
            ],
            "note": inline(table.note),
            "footnotes": {mark: inline(sentence) for sentence, mark in marks.items()},
        }

    def _entry(self, entry: Entry, marks: Mapping[str, str], *, opens: bool) -> dict[str, Any]:
        cell = None if entry.measured is None else self._numbers.get(id(entry.measured))
        text = _text(entry)
        return {
            "html": inline(text),
            "value": entry.fps or number(text),
            "best": entry.best,
            "cell": cell,
            "opens": opens,
            "anchor": opens and self._is_first(cell),
            "marks": {marks[note]: inline(note).striptags() for note in entry.notes},
        }

    def _is_first(self, cell: int | None) -> bool:
        if cell is None or cell in self._anchored:
            return False
        self._anchored.add(cell)
        return True


def number(text: str) -> float | None:
    """The value by which a column is sorted: the number at the text's start; ms become seconds."""
    if found := _NUMBER.match(text):
        value = float(found[1].replace(",", ""))
        return value / 1000 if text[found.end() :].startswith(" ms") else value
    return 0.0 if text.startswith("under ") else None


def _text(entry: Entry) -> str:
    if entry.fps is not None:
        return f"{entry.fps:.2f}"
    if entry.measured is not None and not entry.text:
        return "refused" if entry.measured.refused else "failed"
    return entry.text


def inline(markdown: str) -> Markup:
    """One line of Markdown as markup; HTML in it stays text."""
    from markupsafe import Markup

    return Markup(_parser().renderInline(markdown))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})


SCALE = 1.25  # CSS pixels per point of a plot
CHARACTER = 7.2  # CSS pixels per character
Place = tuple[str, str, int]  # a chart's title, a curve's label, numenv


def plots(pictures: Sequence[Picture], cells: Mapping[Place, int]) -> dict[str, dict[str, Any]]:
    """Each picture by its name, with its points; a measured point has its cell's number."""
    drawings = drawn([(picture, "svg") for picture in pictures])
    return {
        picture.name: _plot(picture, drawing, cells)
        for picture, drawing in zip(pictures, drawings, strict=True)
    }


def _plot(picture: Picture, drawing: Drawing, cells: Mapping[Place, int]) -> dict[str, Any]:
    width, height = drawing.size
    data = base64.b64encode(drawing.data).decode()
    wide = round(width * SCALE)
    return {
        "source": f"data:image/svg+xml;base64,{data}",
        "title": f"{picture.title}: frames per second by number of environments",
        "width": wide,
        "height": round(height * SCALE),
        "points": [
            _point(spot, machine, wide) | {"cell": cells.get(place) if place else None}
            for spot, (machine, place) in zip(drawing.spots, _places(picture), strict=True)
        ],
    }


def _point(spot: Spot, machine: str, wide: int) -> dict[str, Any]:
    """Its position, and the middle of its text: above it, within the picture."""
    x, y, text = round(spot.x * SCALE), round(spot.y * SCALE), f"{machine}{spot.text}"
    half = min(wide // 2, round(len(text) * CHARACTER / 2))
    above = y - 14 if y > 40 else y + 24
    return {"x": x, "y": y, "text": text, "left": min(max(x, half), wide - half), "top": above}


def _places(picture: Picture) -> Iterable[tuple[str, Place | None]]:
    """The machine (where there are several) and the place of each point, in the order of spots.

    A published point has no place.
    """
    for chart in picture.charts:
        machine = f"{chart.title}, " if len(picture.charts) > 1 else ""
        for curve in chart.curves:
            for point in curve.points:
                place = (chart.title, curve.label, point.numenv)
                yield machine, None if curve.published else place


def all_cells_table(measured: Sequence[tuple[Measured, MachineResults]]) -> Table:
    """A row per cell."""
    return Table(
        heading="All measured cells",
        first="machine",
        columns=[
            *("family", "task", "backend", "environments", "FPS", "95 % interval", "steps/s"),
            *("equal work", "flags"),
        ],
        rows=[(markdown(results.title), _cell_row(each)) for each, results in measured],
    )


def _cell_row(found: Measured) -> list[Entry]:
    summary, cell, spread = found.summary, found.cell, ""
    if summary.interval and summary.fps:
        low, high = summary.interval
        spread = f"±{50 * (high - low) / summary.fps:.1f} %"
    steps = "" if summary.steps_per_second is None else f"{summary.steps_per_second:.2f}"
    names = [cell.env, markdown(cell.task), markdown(found.label), str(cell.numenv)]
    rest = [spread, steps, found.badge, ", ".join(summary.flags)]
    return [*entries(names), Entry(fps=summary.fps, measured=found), *entries(rest)]
