"""Everything that a document's blocks can show, by the text of their markers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from envbench import families
from envbench.machine import Profile
from envbench.model import Family, Published, digest
from envbench.report.escape import comment, markdown
from envbench.report.markdown.document import PLOT, BlockContent
from envbench.report.markdown.render import render, render_all
from envbench.report.plots.picture import FOLDER, Picture, machines_picture, picture
from envbench.report.tables import details, overview, recommendation
from envbench.report.tables.existing import parse
from envbench.report.tables.machine_results import (
    MachineResults,
    heading,
    machine_results,
)
from envbench.report.tables.published_figures import by_heading, table
from envbench.report.tables.table import Table, build
from envbench.results.selection import Selection

MOST_MACHINES = 12  # a new page has no plots of a family measured on more machines
OVERVIEW, PLOTS, DETAILS, PUBLISHED = "Overview", "Plots", "Details", "Published by others"

_Tables = Callable[[Sequence[MachineResults]], list[Table]]

# The summaries of all results: marker, chapter, and what makes the tables.
SUMMARIES: dict[str, tuple[str, _Tables]] = {
    "envbench: overview": (OVERVIEW, overview.highest),
    "envbench: single": (OVERVIEW, overview.single),
    "envbench: recommendation": (OVERVIEW, recommendation.tables),
    "envbench: costs": (DETAILS, details.cost_tables),
    "envbench: equal work": (DETAILS, details.equal_work_tables),
    "envbench: commands": (DETAILS, details.command_tables),
}


def block_contents(
    selection: Selection, profiles: Mapping[str, Profile]
) -> dict[str, BlockContent]:
    """All contents by heading, in the order of chapters."""
    every = list(machine_results(selection, profiles).values())
    published = by_heading(selection.published, profiles).items()
    made = [
        *(_summary(name, chapter, tables(every)) for name, (chapter, tables) in SUMMARIES.items()),
        *_shared_plots(every),
        *_plots(every, selection.published, profiles),
        *map(_table, every),
        *(_published(name, figures) for name, figures in published),
    ]
    titles = [each.title for each in families.registry().values()]
    chapters = [OVERVIEW, PLOTS, *titles, *{content.chapter for content in made} - {*titles}]
    order = [each for each in chapters if each not in (DETAILS, PUBLISHED)] + [DETAILS, PUBLISHED]
    made.sort(key=lambda content: order.index(content.chapter))
    return {content.heading: content for content in made}


# ---------------------------------------------------------------- tables


def _summary(name: str, chapter: str, tables: Sequence[Table]) -> BlockContent:
    return BlockContent(
        heading=name,
        chapter=chapter,
        has_results=bool(tables),
        on_new_page=bool(tables),
        replaces_all=True,
        write=lambda _: render_all(tables),
    )


def _table(results: MachineResults) -> BlockContent:
    return BlockContent(
        heading=results.heading,
        chapter=families.of_record(results.env).title,
        has_results=bool(results.measured),
        figures=len(results.measured),
        write=lambda inner: render(build(results, parse(inner))),
    )


def _published(name: str, figures: Sequence[Published]) -> BlockContent:
    return BlockContent(
        heading=name,
        chapter=PUBLISHED,
        figures=len(figures),
        write=lambda inner: render(table(name, figures, parse(inner))),
    )


# ---------------------------------------------------------------- plots


def pictures(
    every: Sequence[MachineResults],
    published: Sequence[Published],
    profiles: Mapping[str, Profile],
) -> dict[str, Picture]:
    """Each machine's pictures, by the heading of its table."""
    plots = _plots(every, published, profiles)
    return {drawn.title: drawn for content in plots for drawn in content.pictures}


def shared_pictures(every: Sequence[MachineResults]) -> list[Picture]:
    """The pictures of several machines side by side."""
    plots = _shared_plots(every)
    return [drawn for content in plots if content.on_new_page for drawn in content.pictures]


def _plots(
    every: Sequence[MachineResults],
    published: Sequence[Published],
    profiles: Mapping[str, Profile],
) -> list[BlockContent]:
    """A plot for each machine, family and task with measured or published figures.

    A new page has those with measured figures, unless there are too many.
    """
    machines = Counter(_words(results) for results in every if results.measured)
    figures: dict[tuple[str, Family, str], list[Published]] = defaultdict(list)
    for each in published:
        figures[each.machine, each.env, each.task].append(each)
    known = {(results.machine, results.env, results.task) for results in every}
    others = [_without_results(key, profiles.get(key[0])) for key in figures if key not in known]
    made = []
    for results in [*every, *others]:
        key = results.machine, results.env, results.task
        words = [*_words(results), comment(results.machine) or "?"]
        shown = [] if results.section else figures[key]
        drawn = picture(_file_name(words), results, shown)
        if drawn.charts[0].curves:
            few = machines[_words(results)] <= MOST_MACHINES
            made.append(_plot(words, drawn, on_new_page=bool(results.measured) and few))
    return made


def _without_results(key: tuple[str, Family, str], profile: Profile | None) -> MachineResults:
    """A machine and task with published figures only."""
    name, env, task = key
    title = profile.title if profile else name
    return MachineResults(
        heading=heading((env, task, ""), title), machine=name, title=title, env=env, task=task,
        profile=profile,
    )  # fmt: skip


def _shared_plots(every: Sequence[MachineResults]) -> list[BlockContent]:
    """A plot of all machines for each family and task; a new page has it for a few machines."""
    groups: dict[tuple[str, ...], list[MachineResults]] = defaultdict(list)
    for results in every:
        if results.with_figures:
            groups[_words(results)].append(results)
    return [
        _plot(
            words,
            machines_picture(_file_name(words), group),
            on_new_page=1 < len(group) <= MOST_MACHINES,
        )
        for words, group in groups.items()
    ]


def _words(results: MachineResults) -> tuple[str, ...]:
    """A plot marker's words before the machine: ``atari``, ``mujoco physics``."""
    is_default = results.task == families.default_task(results.env)
    task = "" if is_default else comment(results.task) or "?"
    return tuple(word for word in (results.env, task, results.section) if word)


def _file_name(words: Sequence[str]) -> str:
    """The words as a file name; a few digits keep it unique where characters are replaced."""
    whole = "-".join(words)
    plain = re.sub(r"[^a-zA-Z0-9._-]+", "-", whole).strip("-.")[:80] or "plot"
    return plain if plain == whole else f"{plain}-{digest(whole)[:6]}"


def _plot(words: Sequence[str], drawn: Picture, *, on_new_page: bool) -> BlockContent:
    description = markdown(f"{drawn.title}: frames per second by number of environments")
    return BlockContent(
        heading=f"{PLOT} {' '.join(words)}",
        chapter=PLOTS,
        on_new_page=on_new_page,
        pictures=(drawn,),
        write=lambda _: f"![{description}]({FOLDER}/{drawn.name}.svg)",
    )
