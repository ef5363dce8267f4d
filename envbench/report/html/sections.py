"""The sections of a page: a card, bars, curves and tables per machine, family and task. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from envbench import backends
from envbench.model import fields
from envbench.report.conclusion import BASE, Conclusion, conclude
from envbench.report.html.cells import ALL_CELLS, Cells, address, all_cells, code_of
from envbench.report.machine_results import MachineResults
from envbench.report.plots.picture import chart
from envbench.report.tables import costs, details, overview
from envbench.report.tables.build import build, build_published
from envbench.report.tables.table import Existing, Table, note_once
from envbench.results.measured_cells import Measured
from envbench.text import counted, one_line, times, times_from_to

WIDE = 16  # an axis that spans more than this factor is logarithmic

Part = dict[str, Any]


class Sections:
    """The page's sections, one per machine, family and task, and its chapters."""

    def __init__(self, every: Sequence[MachineResults]) -> None:
        self.every = every
        found = [(each, _conclusion(each)) for each in every if each.measured]
        machines = list(dict.fromkeys(results.machine for results, _ in found))
        found.sort(key=lambda each: (machines.index(each[0].machine), _undecided(each[1])))
        self.measured = [results for results, _ in found]
        self.conclusions = [conclusion for _, conclusion in found]
        self._names = (f"table-{number}" for number in count(1))
        self.drawn = [chart(each, published=True) for each in self.measured]
        self.charts = [self._chart(place) for place in range(len(self.measured))]
        self.sections = [self._section(number) for number in range(len(self.measured))]

    @property
    def selectors(self) -> list[tuple[str, str, list[str]]]:
        """Attribute, label and choices; none where there is nothing to choose."""
        machines = list(dict.fromkeys(each.title for each in self.measured))
        tasks = list(dict.fromkeys(_task(each) for each in self.measured))
        found = [("machine", "Machine", machines), ("task", "Task", tasks)]
        return [each for each in found if len(each[2]) > 1]

    @property
    def summary(self) -> str:
        """``56 cells, 2 sessions, 2026-11-22 to 2026-11-24``"""
        cells = [found for results in self.measured for found in results.with_figures]
        days = sorted({found.when[:10] for found in cells})
        sessions = counted(len({found.plan_id for found in cells}), "session")
        span = " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))
        return ", ".join([counted(len(cells), "cell"), sessions, *([span] if span else [])])

    def _section(self, place: int) -> Part:
        results = self.measured[place]
        found = self.conclusions[place]
        days = sorted({each.when[:10] for each in results.with_figures})
        folded = [
            ("Costs: start-up, latency, resets, memory, energy", costs.cost_tables([results])),
            ("Which to use, by criterion", overview.recommendation([results])),
            ("Equal work", details.equal_work_tables([results])),
            ("Commands and records", details.command_tables([results])),
        ]
        return {
            "id": f"results-{place + 1}",
            "machine": results.title,
            "task": _task(results),
            "when": " to ".join(dict.fromkeys([*days[:1], *days[-1:]])),
            "card": _card(found) if found else _unranked(results),
            "failures": _failures(results),
            "bars_title": _bars_title(found),
            "bars": _bars(found) if found else [],
            "chart": place if self.charts[place]["curves"] else None,
            "axes_of": ", ".join(e.title for e in self._alike(results) if e is not results),
            "part": self._part(build(results, Existing())),
            "details": [
                (title, parts) for title, tables in folded if (parts := self._parts(tables))
            ],
        }

    def chapters(self, cells: Cells) -> dict[str, list[Part]]:
        """What is about several machines, and the list of all cells."""
        groups: dict[tuple[str, str], list[MachineResults]] = defaultdict(list)
        for each in self.every:
            if each.with_figures:
                groups[each.env, each.task].append(each)
        compared = [
            part
            for tables in (overview.highest, overview.single)
            for part in self._about((g, table) for g in groups.values() for table in tables(g))
        ]
        published = self._about(
            ([each], build_published(each, Existing())) for each in self.every if each.published
        )
        listed_cells = self._parts([all_cells(cells)] if cells else [])
        for part in listed_cells:
            part["places"] = [(results.title, _task(results)) for _, results in cells]
        made = {"All machines": compared, ALL_CELLS: listed_cells, "Published by others": published}
        return {title: parts for title, parts in made.items() if parts}

    def _about(self, tables: Iterable[tuple[Sequence[MachineResults], Table]]) -> list[Part]:
        """Parts that the task menu hides unless one of their tasks is chosen."""
        parts = []
        for group, table in tables:  # each with its note: any of them may be the only one shown
            part = self._part(table)
            part["task"] = "\n".join(dict.fromkeys(map(_task, group)))
            parts.append(part)
        return parts

    def _parts(self, tables: Iterable[Table]) -> list[Part]:
        return [self._part(each) for each in note_once([*tables])]

    def _part(self, table: Table) -> Part:
        """``task`` has a line for each task that the table is about, or is "" for any. ``places``
        has the machine and task of each row, or is empty."""
        name = "cells" if table.heading == ALL_CELLS else next(self._names)
        return {"table": table, "id": name, "task": "", "places": []}

    def _alike(self, results: MachineResults) -> list[MachineResults]:
        """The results of all machines for this task: their curves have the same axes."""
        task = results.env, _task(results)
        return [e for e in self.measured if (e.env, _task(e)) == task and e.with_figures]

    def _chart(self, place: int) -> Part:
        """The curves of a machine. Machines of one task have the same axes."""
        results, drawn = self.measured[place], self.drawn[place]
        places = {(each.label, each.numenv): address(each) for each in results.with_figures}
        others = self._alike(results)
        alike = [
            chart for chart, other in zip(self.drawn, self.measured, strict=True) if other in others
        ]
        points = [point for each in alike for curve in each.curves for point in curve.points]
        figures = [point.fps for point in points] or [1.0]
        numenvs = [point.numenv for point in points] or [1]
        return {
            "title": results.heading,
            "ceiling": drawn.ceiling,
            "limit": max((each.ceiling or 0 for each in alike), default=0),
            "top": max(figures),
            "bottom": min(figures),
            "numenvs": [min(numenvs), max(numenvs)],
            "wide": max(numenvs) > WIDE * min(numenvs),
            "log": max(figures) > WIDE * min(figures),
            "curves": [
                {
                    "label": one_line(curve.label),
                    **fields(curve, "place published"),
                    "points": [
                        [p.numenv, p.fps, p.low, p.high, places.get((curve.label, p.numenv)),
                         p.apart or ""]
                        for p in curve.points
                    ],
                }
                for curve in drawn.curves
            ],
        }  # fmt: skip


def _conclusion(results: MachineResults) -> Conclusion | None:
    return conclude(results) if results.section in ("", "accelerators", "physics") else None


def _undecided(found: Conclusion | None) -> int:
    """0: a row is shown to be the fastest, or to tie. 1: only provisionally. 2: no row is ranked,
    as where all do other work."""
    return 2 if found is None else int(bool(found.provisional))


def _task(results: MachineResults) -> str:
    """``Ant-v3``, ``Ant-v3 (physics)``"""
    section = f" ({results.section})" if results.section else ""
    return f"{one_line(results.task)}{section}"


def _failures(results: MachineResults) -> str:
    """Why no cell has a figure; "" if one has."""
    if results.with_figures:
        return ""
    reasons = [
        f"{each.label} at {each.numenv}: {each.summary.failure.message}"
        for each in results.measured
        if each.summary.failure
    ]
    return one_line(f"No cell has a figure. {'; '.join(reasons)}", 1000)


def _card(found: Conclusion) -> Part:
    best, results = found.best, found.results
    figure, _, half = results.text(best).partition(" ")
    flight = best.cell.env_instances
    setup = [counted(best.numenv, "environment")]
    setup += [f"{flight} in flight"] if flight != best.numenv else []
    setup += [counted(best.threads, "thread")] if best.threads else []
    says = [_factor(found)] if found.factor else []
    share = results.share(best)
    if share and results.top and results.value(best) < 1.02 * results.top:
        says.append(f"{share} of the hardware limit")
    says += _scaling(found)
    if found.higher or found.alone:
        says.append(found.higher or "no other row is comparable")
    elif not found.ties and not found.provisional and found.rows > 1:
        says.append("no other backend ties")
    return {
        "figure": figure,
        "half": f" {half}" if half else "",
        "address": address(best),
        "label": one_line(best.label),
        "setup": ", ".join(setup),
        "provisional": one_line(f"Provisional: {found.provisional}." if found.provisional else ""),
        "says": [one_line(each) for each in says],
        "ties": [
            {"label": one_line(f"{each.label} at {each.numenv}"), "address": address(each)}
            for each in found.ties
        ],
        **_code([best, *found.ties]),
    }


def _unranked(results: MachineResults) -> Part | None:
    """A card for results of which no row is ranked: the highest figure, and why it is not."""
    if not results.with_figures:
        return None
    best = max(results.highest.values(), key=lambda each: (not each.quick, results.value(each)))
    other = best.badge == "≠" or not backends.same_work(best.cell)
    why = "different work" if other else best.doubt or "its work was not shown to be equal"
    figure, _, half = results.text(best).partition(" ")
    return {
        "figure": figure,
        "half": "".join(f" {each}" for each in (half, "≠" if other else "") if each),
        "address": address(best),
        "label": one_line(best.label),
        "setup": counted(best.numenv, "environment"),
        "provisional": "",
        "says": [one_line(f"not ranked: {why}"), *(["quick"] if best.quick else [])],
        "ties": [],
        "code": code_of(best),
        "code_of": "",
    }


def _scaling(found: Conclusion) -> list[str]:
    """Would fewer environments do, or may more be faster?"""
    best = found.best
    row = [each for each in found.results.measured if each.label == best.label]  # failed, too
    if found.enough < best.numenv:
        return [f"no gain beyond noise above {counted(found.enough, 'environment')}"]
    most = best.numenv == max(each.numenv for each in row)
    return [f"more than {best.numenv:,} were not measured"] if most and len(row) > 1 else []


def _code(leaders: Sequence[Measured]) -> Part:
    """The code of the best, or, if it has none, of a row that ties with it."""
    shown = next((each for each in leaders if each.code), leaders[0])
    says = "" if shown is leaders[0] else f"{one_line(shown.label)} at {shown.numenv}, which ties:"
    return {"code": code_of(shown), "code_of": says}


def _factor(found: Conclusion) -> str:
    """``2.6 × a Python loop (2.5 to 2.7)``, or ``9.0 × Subprocess (8.1 to 10.0)``."""
    label = found.base.label if found.base else ""
    return found.factor.replace(f"× {label}", "× a Python loop", 1) if label else found.factor


def _bars_title(found: Conclusion | None) -> str:
    if found is None or not _base(found):
        return "Each backend at its best number of environments"
    return "How much faster than a Python loop? Each at its best number of environments"


def _base(found: Conclusion) -> Measured | None:
    """The Python loop's best: what the others are compared with."""
    if found.base is not None:
        return found.base
    return found.best if found.best.cell.backend == BASE else None


def _bars(found: Conclusion) -> list[Part]:
    """A bar per row, from the fastest: its ratio to the Python loop, or its figure. Figures in
    doubt come last."""
    results, base = found.results, _base(found)
    rows = sorted(results.highest.values(), key=results.value, reverse=True)
    rows.sort(key=lambda each: bool(each.doubt))
    if len(rows) < 2:
        return []
    most = results.value(rows[0])
    leaders = {each.label for each in (found.best, *found.ties)}
    return [
        {
            "label": one_line(each.label),
            "address": address(each),
            "numenv": each.numenv,
            "width": round(min(100.0, 100 * results.value(each) / most), 1),
            "first": each.label in leaders,
            **_bar_text(each, base, found),
        }
        for each in rows
    ]


def _bar_text(each: Measured, base: Measured | None, found: Conclusion) -> dict[str, str]:
    relation = found.results.relations.between(each, base) if base and each is not base else None
    other_session = base is not None and each.plan_id != base.plan_id
    if relation and other_session and (relation.kernel or not relation.interval):
        relation = None  # it is relative to the kernel, or how far they differ is not known
    more = ["ties"] if each in found.ties else []
    more += ["different work"] if each.badge == "≠" else []
    more += [one_line(f"not ranked: {each.doubt}", 100)] if each.doubt else []
    more += ["equal work not shown"] if each.badge == "–" else []
    more += ["quick"] if each.quick else []
    more += ["another session"] if each.plan_id != found.results.session else []
    if each is base:
        return {"text": "1 ×", "more": ", ".join([found.results.text(each), *more])}
    if relation is None:
        return {"text": found.results.text(each), "more": ", ".join(more)}
    span = times_from_to(relation.ratio, relation.interval, "–")
    return {"text": times(relation.ratio), "more": ", ".join(filter(None, [span, *more]))}
