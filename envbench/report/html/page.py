"""One HTML file: tables that sort and filter, plots, and every cell with its runs and windows.

It needs no network. The content-security policy names the hash of its only script. Markup comes
from a Jinja template with escaping on. The same records give the same bytes.

A click on a figure opens its cell: its runs with their windows, files and lines, and its flags,
settings, packages and command. The page's script computes each window's FPS. Windows are those of
the shown plan. A cell that ``envbench verify`` refused has no figure.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from envbench import __version__
from envbench.machine import Profiles
from envbench.model import Record, Run, RuntimeFact, fields
from envbench.report.contents import DETAILS, OVERVIEW, PUBLISHED, BlockContent, block_contents
from envbench.report.plots.draw import Place, Spot, drawn
from envbench.report.tables.footnotes import of_entry
from envbench.report.tables.machine_results import MachineResults, in_order, machine_results
from envbench.report.tables.table import TIE, Entry, Existing, Table, entries, letters, note_once
from envbench.results.measured_cells import Measured
from envbench.results.selection import Selection
from envbench.stats.summary import rate
from envbench.text import markdown, one_line, rounded

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

ALL_CELLS = "All measured cells"
LAST = (ALL_CELLS, DETAILS, PUBLISHED)  # chapters
SCALE = 1.25  # CSS pixels per point of a plot
CHARACTER = 7.2  # CSS pixels per character
_NUMBER = re.compile(r"(?:[≠≈] )*[*±]{0,2}(\d[\d,]*(?:\.\d+)?)(?=$|[\s*=])")

_Cells = Sequence[tuple[Measured, MachineResults]]
_Part = dict[str, Any]  # a table, a plot, or both


def html_page(selection: Selection, profiles: Profiles, records: Sequence[Record]) -> str:
    """Return the whole page as text."""
    from jinja2 import Environment, StrictUndefined

    cells = _cells(machine_results(selection, profiles).values())
    chapters = _chapters(block_contents(selection, profiles).values(), cells)
    runs = {each.run_id: each for each in records if isinstance(each, Run)}
    runtimes = {each.hash: each for each in records if isinstance(each, RuntimeFact)}
    opening = [_opened(found, results, runs, runtimes) for found, results in cells]
    data = msgspec.json.encode({"cells": opening}).decode()
    numbers = {id(found): number for number, (found, _) in enumerate(cells)}
    targets = _targets(part for parts in chapters.values() for part in parts)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"inline": inline, "text": _text, "number": number, "hash": _hash}
    text: str = environment.from_string(_asset("page.html.jinja")).render(
        version=__version__,
        asset=_asset,
        chapters=chapters,
        cell=lambda entry: numbers.get(id(entry.measured)),
        is_target=lambda entry: id(entry) in targets,
        # JSON that cannot end its HTML element
        data=data.replace("<", "\\u003c").replace("&", "\\u0026"),
    )
    return text


def _cells(every: Iterable[MachineResults]) -> _Cells:
    """Each measurement with the first table that shows it: two tables can share a ceiling."""
    first: dict[int, tuple[Measured, MachineResults]] = {}
    for results in every:
        for each in in_order(results) if results.measured else []:
            first.setdefault(id(each), (each, results))
    return list(first.values())


def _notes(found: Measured, results: MachineResults) -> list[str]:
    """What to know about a cell, as text without markup."""
    notes = of_entry(found, results)
    if verified := results.verified.get(found.label):
        verdict, at = verified.verdict, verified.location
        where = f" ({at.place})" if at else ""
        notes.append(markdown(f"{verdict.badge} {verdict.audit}; {verdict.lock_step}.{where}", 900))
    return [inline(note).striptags() for note in notes]


def _opened(
    found: Measured,
    results: MachineResults,
    runs: Mapping[str, Run],
    runtimes: Mapping[str, RuntimeFact],
) -> dict[str, Any]:
    """One cell as plain values, for the page's script. ``runs`` by id, ``runtimes`` by hash."""
    summary, cell, plan = found.summary, found.cell, found.plan
    low, high = summary.interval or (None, None)
    adjusted_low, adjusted_high = (found.adjusted and found.adjusted.interval) or (None, None)
    places = {at.record: at.place for at in found.locations}
    fact = runtimes.get(found.runtime)
    return {
        "machine": results.title,
        "task": one_line(cell.task),
        "label": one_line(found.label),
        **fields(cell, "numenv env_instances frame_skip"),
        **fields(summary, "fps steps_per_second"),
        "low": low,
        "high": high,
        "adjusted": found.adjusted.rate if found.adjusted else None,
        "adjusted_low": adjusted_low,
        "adjusted_high": adjusted_high,
        "ran": one_line(found.ran),
        "settings": _lines(cell.settings),
        "flags": _notes(found, results),
        "command": one_line(shlex.join(plan.command), 4000),
        "envbench": one_line(f"{plan.envbench_version}, commit {plan.git_commit or 'unknown'}"),
        "plan": one_line(plan.plan_id),
        "python": one_line(f"{fact.implementation} {fact.python}") if fact else "unknown",
        "packages": _lines(fact.packages if fact else {}),
        "runs": [_run(runs[name], places.get(name, "")) for name in summary.runs if name in runs],
    }


def _lines(texts: Mapping[str, object]) -> dict[str, str]:
    return {one_line(name): one_line(str(value)) for name, value in texts.items()}


def _run(run: Run, place: str) -> dict[str, Any]:
    """``where`` is the file and line of its record."""
    columns = "start_ns ns steps invalid"
    return {
        "id": one_line(run.run_id),
        "where": one_line(place),
        "failure": f"{run.failure.reason}: {one_line(run.failure.message)}" if run.failure else "",
        **fields(run, "round seed started_utc"),
        "fps": None if run.failure else rate(run).fps,
        **fields(run, "steady times load peak_memory_bytes"),
        "warmup": fields(run.warmup, columns),
        "measured": fields(run.measured, columns),
    }


def _chapters(contents: Iterable[BlockContent], cells: _Cells) -> dict[str, list[_Part]]:
    """The parts by chapter. Figures of a summary link to their cells, other figures open them."""
    contents, numbers = list(contents), count(1)
    plots = list(_plots(contents, cells))
    own = {results.heading: plot for results, plot in plots if results is not None}
    chapters: dict[str, list[_Part]] = defaultdict(list, {OVERVIEW: []})
    for content in contents:
        if content.picture is None and content.has_results:
            for table in note_once(content.tables(Existing())):
                part = _part(table, f"table-{next(numbers)}", opens=not content.is_summary)
                if content.results is not None:  # not the published table after it
                    part |= own.pop(content.results.heading, {})
                chapters[content.chapter].append(part)
    chapters[OVERVIEW] += [plot for results, plot in plots if results is None]
    if cells:
        chapters[ALL_CELLS].append(_part(_all_cells(cells), "cells", opens=True))
    last = {name: chapters.pop(name) for name in LAST if name in chapters}
    return {name: parts for name, parts in (chapters | last).items() if parts}


def _part(table: Table, name: str, *, opens: bool) -> _Part:
    return {"table": table, "id": name, "opens": opens, "marks": letters(table)}


def _targets(parts: Iterable[_Part]) -> set[int]:
    """The ``id`` of the first entry that opens each measurement. Links lead to these entries."""
    found: dict[int, int] = {}
    for part in parts:
        rows = part["table"].rows if part.get("opens") else []
        for entry in (each for _, row in rows for each in row):
            if entry.measured is not None:
                found.setdefault(id(entry.measured), id(entry))
    return set(found.values())


def _all_cells(cells: _Cells) -> Table:
    """A row per cell."""
    return Table(
        heading=ALL_CELLS,
        first="machine",
        columns=[
            *("family", "task", "backend", "environments", "FPS", "rank", "steps/s"),
            *("equal work", "flags"),
        ],
        rows=[(markdown(results.title), _cell_row(each, results)) for each, results in cells],
    )


def _cell_row(found: Measured, results: MachineResults) -> list[Entry]:
    summary, cell, rank = found.summary, found.cell, ""
    if found.adjusted and (standing := found.session.standings.get(cell.key)):
        rank = standing.text
    steps = "" if summary.steps_per_second is None else rounded(summary.steps_per_second)
    names = [cell.env, markdown(cell.task), markdown(found.label), str(cell.numenv)]
    rest = [rank, steps, found.badge, ", ".join(summary.flags)]
    figure = Entry(measured=found)
    if found.fps is not None:
        figure = Entry(text=results.text(found), fps=results.value(found), measured=found)
    return [*entries(names), figure, *entries(rest)]


def _plots(
    contents: Iterable[BlockContent], cells: _Cells
) -> Iterator[tuple[MachineResults | None, _Part]]:
    """The plots of each machine with its results, and those of several machines."""
    places: dict[Place | None, int] = {
        (results.heading, each.label, each.numenv): number
        for number, (each, results) in enumerate(cells)
    }
    wanted = [
        (each.results, each.picture)
        for each in contents
        if each.picture is not None and (each.results is not None or each.on_new_page)
    ]
    drawings = drawn([(picture, "svg") for _, picture in wanted])
    for (results, picture), drawing in zip(wanted, drawings, strict=True):
        width, height = (round(size * SCALE) for size in drawing.size)
        plot = {
            "source": f"data:image/svg+xml;base64,{base64.b64encode(drawing.data).decode()}",
            "title": picture.description,
            "width": width,
            "height": height,
            "points": [
                _point(spot, width) | {"cell": places.get(spot.place)} for spot in drawing.spots
            ],
        }
        yield results, {"plot": plot}


def _point(spot: Spot, width: int) -> _Part:
    """Its position, and the middle of its text: above it, within the picture."""
    x, y = round(spot.x * SCALE), round(spot.y * SCALE)
    half = min(width // 2, round(len(spot.text) * CHARACTER / 2))
    left, top = min(max(x, half), width - half), y - 14 if y > 40 else y + 24
    return {"x": x, "y": y, "text": spot.text, "left": left, "top": top}


def _text(entry: Entry) -> str:
    if entry.measured is not None and not entry.text:
        return "refused" if entry.measured.refused else "failed"
    return f"{TIE if entry.tie else ''}{entry.text}"


def number(text: str) -> float | None:
    """Find the value that sorts a column: the number at the text's start; ms become seconds."""
    if found := _NUMBER.match(text):
        value = float(found[1].replace(",", ""))
        return value / 1000 if text[found.end() :].startswith(" ms") else value
    return 0.0 if text.startswith("under ") else None


def inline(markdown: str) -> Markup:
    """Return one line of Markdown as markup; HTML in it stays text."""
    from markupsafe import Markup

    return Markup(_parser().renderInline(markdown))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})


def _asset(name: str) -> str:
    return files("envbench.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
