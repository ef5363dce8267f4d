"""One HTML file: tables that sort and filter, plots, and every cell opened to its runs and windows.

It needs no network and runs no script but its own, which the content-security policy names by
its hash. Markup comes from a Jinja template with escaping on; summaries from the same Markdown as
the other report, by markdown-it without HTML. Windows are those of each cell's shown plan alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import msgspec

from envbench import __version__
from envbench.machine import Profile
from envbench.model import Plan, Record, Run, RuntimeFact
from envbench.report.curves import picture
from envbench.report.escape import plain
from envbench.report.existing import parse
from envbench.report.markdown import render, render_all
from envbench.report.notes import FLAGS, elsewhere, hardware
from envbench.report.origin import Origin
from envbench.report.pieces import DETAILS, OVERVIEW, SUMMARIES
from envbench.report.plots import draw, spots
from envbench.report.published import by_heading
from envbench.report.published import table as published_table
from envbench.report.selection import Measured, Selection
from envbench.report.subjects import Subject, subjects
from envbench.report.table import best_figures, competes
from envbench.statistics import rate
from envbench.verdict import judge

SCALE = 1.25  # CSS pixels a point of a plot
_SUPERSCRIPT = re.compile(r"&lt;sup&gt;([a-z,]{1,20})&lt;/sup&gt;")


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What the records hold besides the cells: runs by id, runtimes by their hash, and the file
    and line where each run stands."""

    runs: Mapping[str, Run]
    runtimes: Mapping[str, RuntimeFact]
    origins: Mapping[str, Origin]


def archive(records: Sequence[Record], origins: Mapping[str, Origin]) -> Archive:
    return Archive(
        runs={each.run_id: each for each in records if isinstance(each, Run)},
        runtimes={each.hash: each for each in records if isinstance(each, RuntimeFact)},
        origins=origins,
    )


def html_page(selection: Selection, profiles: Mapping[str, Profile], held: Archive) -> str:
    """The whole page as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    every = list(subjects(selection, profiles).values())
    found = [each for each in every if each.measured]
    numbers: dict[int, int] = {}
    cells: list[dict[str, Any]] = []
    for subject in found:
        for each in _ordered(subject):
            numbers[id(each)] = len(cells)
            cells.append(_cell(each, subject, held))
    style, script = _asset("page.css"), _asset("page.js")
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        _asset("page.html.jinja")
    )
    return template.render(
        title="envbench: results",
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        overview=_summaries(every, OVERVIEW),
        details=_summaries(every, DETAILS),
        published=[
            _html(render(published_table(name, figures, parse(""))))
            for name, figures in by_heading(selection.published, profiles).items()
        ],
        tables=[_table(subject, number, numbers) for number, subject in enumerate(found)],
        cells=cells,
        data=Markup(_embedded({"cells": cells})),
    )


def _asset(name: str) -> str:
    return files("envbench.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _embedded(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def _summaries(every: Sequence[Subject], chapter: str) -> list[dict[str, Any]]:
    made = {
        name.partition(": ")[2]: tables(every)
        for name, (its, tables) in SUMMARIES.items()
        if its == chapter
    }
    return [
        {"id": name.replace(" ", "-"), "html": _html(render_all(tables))}
        for name, tables in made.items()
        if tables
    ]


def _html(markdown: str) -> str:
    """Our Markdown as markup: of what looks like HTML in it, superscripts of footnotes alone."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Markup(_SUPERSCRIPT.sub(r"<sup>\1</sup>", parser.render(markdown)))


# ---------------------------------------------------------------- tables and plots


def _ordered(subject: Subject) -> list[Measured]:
    ceiling = [subject.ceiling] if subject.ceiling else []
    place = {label: index for index, label in enumerate(subject.labels)}
    return sorted(
        [*subject.measured, *ceiling],
        key=lambda each: (place.get(each.label, len(place)), each.summary.cell.numenv),
    )


def _table(subject: Subject, number: int, numbers: Mapping[int, int]) -> dict[str, Any]:
    columns = sorted({*subject.ladder, *(each.summary.cell.numenv for each in subject.measured)})
    best = best_figures(subject)
    placed = {(each.label, each.summary.cell.numenv): each for each in subject.measured}
    return {
        "id": f"table-{number}",
        "heading": subject.heading,
        "columns": columns,
        "rows": [
            {
                "label": plain(label),
                "entries": [
                    _entry(placed.get((label, numenv)), subject, best, numbers)
                    for numenv in columns
                ],
            }
            for label in dict.fromkeys(subject.labels)
        ],
        "plot": _plot(subject),
    }


def _entry(
    found: Measured | None,
    subject: Subject,
    best: Mapping[int, str],
    numbers: Mapping[int, int],
) -> dict[str, Any] | None:
    if found is None:
        return None
    fps = _fps(found, subject)
    text = "failed" if found.summary.fps is None else "refused"
    is_best = (
        fps is not None
        and competes(found, subject)
        and (best.get(found.summary.cell.numenv) == f"{fps:.2f}")
    )
    return {
        "id": numbers[id(found)],
        "fps": fps,
        "text": text if fps is None else f"{fps:.2f}",
        "best": is_best,
    }


def _fps(found: Measured, subject: Subject) -> float | None:
    verified = subject.verified.get(found.label)
    if verified is not None and judge(verified).refused:
        return None
    return found.summary.fps


def _plot(subject: Subject) -> dict[str, Any] | None:
    drawn = picture("plot", subject)
    if not drawn.panels[0].curves:
        return None
    data = base64.b64encode(draw(drawn, "svg")).decode()
    size, found = spots(drawn)
    return {
        "source": f"data:image/svg+xml;base64,{data}",
        "width": round(size[0] * SCALE),
        "height": round(size[1] * SCALE),
        "spots": [
            {"x": round(spot.x * SCALE), "y": round(spot.y * SCALE), "text": spot.text}
            for spot in found
        ],
    }


# ---------------------------------------------------------------- a cell


def _cell(found: Measured, subject: Subject, held: Archive) -> dict[str, Any]:
    summary, cell, plan = found.summary, found.summary.cell, found.plan
    fps = _fps(found, subject)
    low, high = summary.interval if summary.interval and fps else (None, None)
    runs = [held.runs[run_id] for run_id in summary.runs if run_id in held.runs]
    return {
        "machine": subject.machine,
        "env": cell.env,
        "task": plain(cell.task),
        "label": plain(found.label),
        "numenv": cell.numenv,
        "env_instances": cell.env_instances,
        "frame_skip": cell.frame_skip,
        "fps": fps,
        "low": low,
        "high": high,
        "steps_per_second": summary.steps_per_second if fps else None,
        "shown": "-" if fps is None else f"{fps:.2f}",
        "shown_steps": "" if not fps else f"{summary.steps_per_second:.2f}",
        "width": "" if low is None or high is None or not fps else 50 * (high - low) / fps,
        "spread": ""
        if low is None or high is None or not fps
        else f"±{50 * (high - low) / fps:.1f} %",
        "ran": plain(found.ran),
        "settings": {plain(k): plain(str(v)) for k, v in cell.settings.items()},
        "flag_names": ", ".join(summary.flags),
        "flags": _flags(found, subject),
        "command": plain(shlex.join(plan.command), 4000),
        "envbench": plain(_version(plan)),
        "plan": plain(plan.plan_id),
        **_runtime(held.runtimes.get(found.runtime)),
        "runs": [_run(run, held.origins) for run in runs],
    }


def _flags(found: Measured, subject: Subject) -> list[str]:
    told = [FLAGS[flag].replace("`", "") for flag in found.summary.flags]
    if found.summary.failure is not None:
        failure = found.summary.failure
        told.append(f"No figure: {failure.reason}: {plain(failure.message)}")
    verified = subject.verified.get(found.label)
    if verified is not None:
        verdict = judge(verified)
        told.append(f"{verdict.badge} {plain(verdict.audit)}; {plain(verdict.lock_step)}.")
    if elsewhere(found, subject.profile) and found.fingerprint is not None:
        told.append(f"Measured on other hardware: {hardware(found.fingerprint)}.")
    return told


def _runtime(fact: RuntimeFact | None) -> dict[str, Any]:
    if fact is None:
        return {"python": "unknown", "packages": {}}
    return {
        "python": plain(f"{fact.implementation} {fact.python}"),
        "packages": {plain(name): plain(version) for name, version in fact.packages.items()},
    }


def _version(plan: Plan) -> str:
    return f"{plan.envbench_version}, commit {plan.git_commit or 'unknown'}"


def _run(run: Run, origins: Mapping[str, Origin]) -> dict[str, Any]:
    figure = None if run.failure else rate(run).fps
    times, memory = run.times, run.peak_memory_bytes
    return {
        "id": plain(run.run_id),
        "where": plain(origins[run.run_id].place) if run.run_id in origins else "",
        "fps": figure,
        "failure": f"{run.failure.reason}: {plain(run.failure.message)}" if run.failure else "",
        "round": run.round,
        "seed": run.seed,
        "started": plain(run.started_utc),
        "steady": run.steady,
        "start_s": (times.import_ns + times.build_ns) / 1e9 if times else None,
        "first_step_s": times.first_step_ns / 1e9 if times else None,
        "memory_mib": memory / 2**20 if memory else None,
        "load": _load(run),
        "windows": [*_windows(run, warmup=True), *_windows(run, warmup=False)],
    }


def _load(run: Run) -> str:
    parts = (run.load.cpu_s, run.load.other_cpu_s, run.load.steal_s)
    return ", ".join("?" if part is None else f"{part:.2f} s" for part in parts)


def _windows(run: Run, *, warmup: bool) -> list[list[Any]]:
    """[start in ms, length in ms, FPS, why set aside, is it warm-up]: the warm-up's come first."""
    windows = run.warmup if warmup else run.measured
    origin = 0 if warmup else sum(run.warmup.ns)
    skip = run.cell.frame_skip
    return [
        [
            round((start + origin) / 1e6, 3),
            round(ns / 1e6, 3),
            round(steps * skip / ns * 1e9, 1) if ns > 0 else 0,
            plain(windows.invalid.get(str(index), "")),
            warmup,
        ]
        for index, (start, ns, steps) in enumerate(
            zip(windows.start_ns, windows.ns, windows.steps, strict=False)
        )
    ]
