"""The HTML report: one file with everything inside, which makes no request to anywhere.

It begins with a card per machine and task: what is fastest, and by how much. Below, each has bars,
curves and its table; the rest is folded. A click on a figure opens its cell: runs, settings and
records. The address of the page then names that cell. Names come from untrusted sources:
the template escapes them, and the page's script only uses them as text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files

import msgspec

from envbench import __version__
from envbench.machine import Profiles
from envbench.report.by_machine import machine_results
from envbench.report.html.cells import (
    address,
    cells_of,
    inline,
    opened,
    runtime_json,
    slices_per_run,
)
from envbench.report.html.sections import Sections
from envbench.report.machine_results import MachineResults
from envbench.report.tables.table import TIE, Entry
from envbench.results.selection import Selection

SCRIPTS = ["uPlot.iife.min.js", "page.js", "tables.js", "curves.js", "cell.js"]  # in this order
LONGEST_FIGURE = 40  # letters: a longer text is no figure, and wraps
_NUMBER = re.compile(r"(?:[≠≈] )*[*±]{0,2}(\d[\d,]*(?:\.\d+)?)(?=$|[\s*=])")
_UNITS = {"µs": 1e-6, "ms": 1e-3, "KiB": 2.0**10, "MiB": 2.0**20}


def html_page(selection: Selection, profiles: Profiles) -> str:
    """Return the whole page as text."""
    from jinja2 import Environment, StrictUndefined

    every = _newest_first(list(machine_results(selection, profiles).values()))
    cells = cells_of(every)
    page, slices = Sections(every), slices_per_run(cells)
    runtimes = {e.runtime: runtime_json(e.interpreter) for e, _ in cells if e.interpreter}
    data = msgspec.json.encode(
        {
            "cells": [opened(found, results, slices) for found, results in cells],
            "charts": page.charts,
            "runtimes": runtimes,
        }
    ).decode()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"inline": inline, "text": _text, "number": number, "hash": _hash}
    text: str = environment.from_string(_asset("page.html.jinja")).render(
        version=__version__,
        asset=_asset,
        scripts=SCRIPTS,
        address=lambda entry: entry.measured and address(entry.measured),
        selectors=page.selectors,
        summary=page.summary,
        sections=page.sections,
        chapters=page.chapters(cells),
        # JSON that cannot end its HTML element
        data=data.replace("<", "\\u003c").replace("&", "\\u0026"),
    )
    return text


def _newest_first(every: Sequence[MachineResults]) -> list[MachineResults]:
    """Machines in the order of their latest measurement: most readers have just measured theirs."""
    newest = {each.machine: "" for each in every}
    for results in every:
        for found in results.measured:
            newest[results.machine] = max(newest[results.machine], found.when)
    return sorted(every, key=lambda each: newest[each.machine], reverse=True)


def _text(entry: Entry) -> str:
    if entry.measured is not None and entry.measured.fps is None and not entry.text:
        return "refused" if entry.measured.refused else "failed"
    return f"{TIE if entry.tie else ''}{entry.text}"


def number(text: str) -> float | None:
    """Find the value that sorts a column: the number at the text's start, in seconds or bytes."""
    if len(text) <= LONGEST_FIGURE and (found := _NUMBER.match(text)):
        unit = text[found.end() :].lstrip().partition(" ")[0]
        return float(found[1].replace(",", "")) * _UNITS.get(unit, 1.0)
    return None


def _asset(name: str) -> str:
    return files("envbench.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
