"""Everything that a report can show, by the text of its marker in a document."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

from envbench import families
from envbench.machine import Profiles
from envbench.model import Section, digest
from envbench.report.by_machine import machine_results
from envbench.report.machine_results import MachineResults, family_title
from envbench.report.plots.picture import Chart, Picture, chart
from envbench.report.tables import costs, details, overview
from envbench.report.tables.build import build, build_published
from envbench.report.tables.table import Existing, Table
from envbench.results.selection import Selection
from envbench.text import comment

PREFIX, PLOT = "envbench: ", "envbench: plot"  # of markers that are not a measured table's
MOST_MACHINES = 12  # a new page has no plots of a family measured on more machines
OVERVIEW, PLOTS, DETAILS, PUBLISHED = "Overview", "Plots", "Details", "Published by others"

# The summaries of all results: marker, chapter, and what makes the tables.
SUMMARIES: dict[str, tuple[str, Callable[[Sequence[MachineResults]], Iterable[Table]]]] = {
    "envbench: overview": (OVERVIEW, overview.highest),
    "envbench: single": (OVERVIEW, overview.single),
    "envbench: recommendation": (OVERVIEW, overview.recommendation),
    "envbench: costs": (DETAILS, costs.cost_tables),
    "envbench: equal work": (DETAILS, details.equal_work_tables),
    "envbench: commands": (DETAILS, details.command_tables),
}


@dataclass(frozen=True, kw_only=True)
class BlockContent:
    """What a block can show: a picture, or tables.

    ``chapter`` is its heading on a results page. ``figures`` counts measured and published ones.
    ``tables`` merges the figures into a document's table. Without ``has_results`` it only fills an
    empty block. ``on_new_page``: a new page has the block. ``results`` None: the tables summarise
    several machines and replace all text. A ``picture`` is linked from the folder ``plots``.
    """

    heading: str
    chapter: str
    tables: Callable[[Existing], list[Table]] = lambda _: []
    picture: Picture | None = None
    results: MachineResults | None = None
    has_results: bool = True
    on_new_page: bool = True
    figures: int = 0

    @property
    def is_summary(self) -> bool:
        return self.picture is None and self.results is None


def block_contents(
    selection: Selection, profiles: Profiles, *, plain: bool = False
) -> dict[str, BlockContent]:
    """All contents by heading, in the order of chapters. ``plain``: figures have two decimals."""
    every = list(machine_results(selection, profiles, plain=plain).values())
    summaries = [
        _summary(name, chapter, make(every)) for name, (chapter, make) in SUMMARIES.items()
    ]
    titles = [families.of_record(name).title for name in families.names()]
    order = [OVERVIEW, PLOTS, *titles, DETAILS, PUBLISHED]
    tables = [*map(_table, every), *(_published(each) for each in every if each.published)]
    order[-2:-2] = dict.fromkeys(each.chapter for each in tables if each.chapter not in order)
    made = [*summaries, *_shared_plots(every), *_plots(every), *tables]
    made.sort(key=lambda content: order.index(content.chapter))
    return {content.heading: content for content in made}


def possible_headings(contents: Iterable[BlockContent]) -> set[str]:
    """The headings that more results of the same machines could fill, for the default tasks."""
    owners = {each.results.machine: each.results for each in contents if each.results is not None}
    found: set[str] = set()
    for family in families.registry().values():
        for owner, section in product(owners.values(), get_args(Section)):
            task = family.default_task
            could = replace(owner, env=family.name, task=task, section=section)
            words = " ".join(_words(could))
            found |= {could.heading, could.published_heading, f"{PLOT} {words}"}
            found.add(f"{PLOT} {words} {comment(owner.machine)}")
    return found


# ---------------------------------------------------------------- tables


def _summary(name: str, chapter: str, made: Iterable[Table]) -> BlockContent:
    tables = list(made)
    some = bool(tables)
    return BlockContent(
        heading=name, chapter=chapter, tables=lambda _: tables, has_results=some, on_new_page=some
    )


def _table(results: MachineResults) -> BlockContent:
    """A main table. A new page has it if there are results."""
    return BlockContent(
        heading=results.heading,
        chapter=families.of_record(results.env).title,
        tables=lambda existing: [build(results, existing)],
        results=results,
        has_results=bool(results.measured),
        on_new_page=bool(results.measured),
        figures=len(results.measured),
    )


def _published(results: MachineResults) -> BlockContent:
    return BlockContent(
        heading=results.published_heading,
        chapter=PUBLISHED,
        tables=lambda existing: [build_published(results, existing)],
        results=results,
        figures=len(results.published),
    )


# ---------------------------------------------------------------- plots


def _plots(every: Sequence[MachineResults]) -> list[BlockContent]:
    """A plot for each machine, family and task with measured or published figures.

    A new page has those with measured figures, unless there are too many.
    """
    machines = Counter(_words(results) for results in every if results.measured)
    made = []
    for results in every:
        drawn = chart(results, published=True)
        if drawn.curves:
            words = [*_words(results), comment(results.machine) or "?"]
            new = bool(results.measured) and machines[_words(results)] <= MOST_MACHINES
            made.append(_plot(words, results.heading, [drawn], on_new_page=new, results=results))
    return made


def _shared_plots(every: Sequence[MachineResults]) -> list[BlockContent]:
    """A plot of all machines for each family and task; a new page has it for a few machines."""
    groups: dict[tuple[str, ...], list[MachineResults]] = defaultdict(list)
    for results in every:
        if results.with_figures:
            groups[_words(results)].append(results)
    made = []
    for words, group in groups.items():
        title = family_title(group[0].env, group[0].task)
        new = 1 < len(group) <= MOST_MACHINES
        made.append(_plot(words, title, list(map(chart, group)), on_new_page=new))
    return made


def _plot(words: Sequence[str], title: str, charts: list[Chart], **given: Any) -> BlockContent:
    whole = "-".join(words)
    plain = re.sub(r"[^a-zA-Z0-9._-]+", "-", whole).strip("-.")[:80] or "plot"
    # A few digits keep the file's name unique where characters are replaced.
    name = plain if plain == whole else f"{plain}-{digest(whole)[:6]}"
    picture = Picture(name=name, title=title, charts=charts)
    heading = f"{PLOT} {' '.join(words)}"
    return BlockContent(heading=heading, chapter=PLOTS, picture=picture, **given)


def _words(results: MachineResults) -> tuple[str, ...]:
    """A plot marker's words before the machine: ``atari``, ``mujoco physics``."""
    is_default = results.task == families.default_task(results.env)
    task = "" if is_default else comment(results.task) or "?"
    return tuple(word for word in (results.env, task, results.section) if word)
