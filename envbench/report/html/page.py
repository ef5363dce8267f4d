"""One HTML file: tables that sort and filter, plots, and every cell with its runs and windows.

It needs no network. The content-security policy names the hash of its only script. Markup comes
from a Jinja template with escaping on. The same records give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from envbench import __version__, families
from envbench.machine import Profile
from envbench.model import Family, Published
from envbench.report.html.cells import RunRecords, opened
from envbench.report.html.tables import Place, Tables, all_cells_table, plots
from envbench.report.markdown.contents import (
    DETAILS,
    OVERVIEW,
    PUBLISHED,
    SUMMARIES,
    pictures,
    shared_pictures,
)
from envbench.report.tables.existing import Existing
from envbench.report.tables.machine_results import (
    MachineResults,
    heading,
    in_order,
    machine_results,
)
from envbench.report.tables.published_figures import by_heading
from envbench.report.tables.published_figures import table as published_table
from envbench.report.tables.table import build
from envbench.results.selection import Selection
from envbench.results.shown import Measured


def html_page(selection: Selection, profiles: Mapping[str, Profile], records: RunRecords) -> str:
    """The whole page as text."""
    page = _Page(selection, profiles, records)
    style, script = _asset("page.css"), _asset("page.js")
    data = msgspec.json.encode({"cells": page.cells}).decode()
    text: str = _template().render(
        title="envbench: results",
        version=__version__,
        style=_safe(style),
        script=_safe(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        chapters=[chapter for chapter in page.chapters() if chapter["parts"]],
        # JSON that cannot end its HTML element
        data=_safe(data.replace("<", "\\u003c").replace("&", "\\u0026")),
    )
    return text


class _Page:
    """The page's content by chapter. A part of a chapter is a table, a plot, or both."""

    def __init__(
        self, selection: Selection, profiles: Mapping[str, Profile], records: RunRecords
    ) -> None:
        self._profiles = profiles
        self._published = by_heading(selection.published, profiles)
        self._every = list(machine_results(selection, profiles).values())
        self._found = [each for each in self._every if each.measured]
        self._measured = _once(self._found)
        self.cells = [opened(each, results, records) for each, results in self._measured]
        self._tables = Tables({id(each): n for n, (each, _) in enumerate(self._measured)})
        places: dict[Place, int] = {
            (results.heading, each.label, each.numenv): number
            for number, (each, results) in enumerate(self._measured)
        }
        self._pictures = pictures(self._every, selection.published, profiles)
        self._shared = shared_pictures(self._found)
        self._plots = plots([*self._shared, *self._pictures.values()], places)

    def chapters(self) -> list[dict[str, Any]]:
        names = dict.fromkeys([*families.names(), *(each.env for each in self._every)])
        chapters = [(families.of_record(name).title, self._machines(name)) for name in names]
        cells = self._tables.opening(all_cells_table(self._measured), "cells")
        shared = [{"plot": self._plots[each.name]} for each in self._shared]
        parts = [
            (OVERVIEW, [*self._summaries(OVERVIEW), *shared]),
            *chapters,
            ("All measured cells", [{"table": cells}] if self._measured else []),
            (DETAILS, self._summaries(DETAILS)),
            (PUBLISHED, self._others()),
        ]
        return [{"title": title, "parts": made} for title, made in parts]

    def _summaries(self, chapter: str) -> list[dict[str, Any]]:
        made = [tables(self._every) for its, tables in SUMMARIES.values() if its == chapter]
        return [{"table": each} for tables in made for each in self._tables.summaries(tables)]

    def _machines(self, family: Family) -> list[dict[str, Any]]:
        return [
            {"table": self._tables.opening(build(each)), **self._plot(each.heading)}
            for each in self._found
            if each.env == family
        ]

    def _others(self) -> list[dict[str, Any]]:
        """Published figures, with their curves unless a measured table's plot has them."""
        shown = {results.heading for results in self._found}
        parts = []
        for name, figures in self._published.items():
            title = self._measured_heading(figures[0])
            plot = {} if title in shown else self._plot(title)
            table = published_table(name, figures, Existing())
            parts.append({"table": self._tables.opening(table), **plot})
        return parts

    def _measured_heading(self, figure: Published) -> str:
        """The heading of the table that such a figure would have if it were measured."""
        profile = self._profiles.get(figure.machine)
        return heading((figure.env, figure.task, ""), profile.title if profile else figure.machine)

    def _plot(self, title: str) -> dict[str, Any]:
        drawn = self._pictures.get(title)
        return {"plot": self._plots[drawn.name]} if drawn else {}


def _once(found: Sequence[MachineResults]) -> list[tuple[Measured, MachineResults]]:
    """Each measurement with the first table that shows it: two tables can share a ceiling."""
    first: dict[int, tuple[Measured, MachineResults]] = {}
    for results in found:
        for each in in_order(results):
            first.setdefault(id(each), (each, results))
    return list(first.values())


# ---------------------------------------------------------------- the file


def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("page.html.jinja"))


def _asset(name: str) -> str:
    return files("envbench.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _safe(text: str) -> str:
    from markupsafe import Markup

    return Markup(text)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
