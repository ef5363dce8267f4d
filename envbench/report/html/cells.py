"""The cells of the HTML page as plain values: what opens when a reader clicks a figure.

A cell has its runs with their windows, files and lines, and its flags, settings, packages and
command. Windows are those of the shown plan. A cell that ``envbench verify`` refused has no figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from envbench.model import Run, RuntimeFact
from envbench.report.data_export import fields
from envbench.results.shown import Measured
from envbench.stats.summary import rate
from envbench.text import one_line


def opened(
    found: Measured,
    notes: list[str],
    runs: Mapping[str, Run],
    runtimes: Mapping[str, RuntimeFact],
) -> dict[str, Any]:
    """One cell, for the page's script to show.

    ``notes`` are what to know about it, ``runs`` are by id, ``runtimes`` by hash.
    """
    summary, cell, plan = found.summary, found.cell, found.plan
    low, high = summary.interval or (None, None)
    places = {at.record: at.place for at in found.locations}
    fact = runtimes.get(found.runtime)
    return {
        "task": one_line(cell.task),
        "label": one_line(found.label),
        **fields(cell, "numenv env_instances frame_skip"),
        **fields(summary, "fps steps_per_second"),
        "low": low,
        "high": high,
        "ran": one_line(found.ran),
        "settings": _lines(cell.settings),
        "flags": notes,
        "command": one_line(shlex.join(plan.command), 4000),
        "envbench": one_line(f"{plan.envbench_version}, commit {plan.git_commit or 'unknown'}"),
        "plan": one_line(plan.plan_id),
        "python": one_line(f"{fact.implementation} {fact.python}") if fact else "unknown",
        "packages": _lines(fact.packages if fact else {}),
        "runs": [
            _run(runs[name], places.get(name, ""), refused=found.refused)
            for name in summary.runs
            if name in runs
        ],
    }


def _lines(texts: Mapping[str, object]) -> dict[str, str]:
    return {one_line(name): one_line(str(value)) for name, value in texts.items()}


def _run(run: Run, place: str, *, refused: bool) -> dict[str, Any]:
    return {
        "id": one_line(run.run_id),
        "where": one_line(place),
        "failure": f"{run.failure.reason}: {one_line(run.failure.message)}" if run.failure else "",
        **fields(run, "round seed"),
        "started": one_line(run.started_utc),
        **({"windows": []} if refused else _figures(run)),
    }


def _figures(run: Run) -> dict[str, Any]:
    times, memory, load = run.times, run.peak_memory_bytes, run.load
    loads = (load.cpu_s, load.other_cpu_s, load.steal_s)
    return {
        "fps": None if run.failure else rate(run).fps,
        "steady": run.steady,
        "start_s": (times.import_ns + times.build_ns) / 1e9 if times else None,
        "first_step_s": times.first_step_ns / 1e9 if times else None,
        "memory_mib": memory / 2**20 if memory else None,
        "load": ", ".join("?" if each is None else f"{each:.2f} s" for each in loads),
        "windows": [*_windows(run, warmup=True), *_windows(run, warmup=False)],
    }


def _windows(run: Run, *, warmup: bool) -> list[list[Any]]:
    """[start in ms, length in ms, FPS, why invalid, whether warm-up]; measuring starts after it."""
    windows = run.warmup if warmup else run.measured
    offset = 0 if warmup else sum(run.warmup.ns)
    skip = run.cell.frame_skip
    return [
        [
            round((start + offset) / 1e6, 3),
            round(ns / 1e6, 3),
            round(steps * skip / ns * 1e9, 1) if ns > 0 else 0,
            one_line(windows.invalid.get(str(index), "")),
            warmup,
        ]
        for index, (start, ns, steps) in enumerate(
            zip(windows.start_ns, windows.ns, windows.steps, strict=False)
        )
    ]
