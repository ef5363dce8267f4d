"""The cells of the HTML page as plain values: what opens when a reader clicks a figure.

A cell has its runs with their windows, files and lines, and its flags, settings, packages and
command. The page's script computes each window's FPS. Windows are those of the shown plan. A cell
that ``envbench verify`` refused has no figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from envbench.model import Run, RuntimeFact, fields
from envbench.results.measured_cells import Measured
from envbench.stats.summary import rate
from envbench.text import one_line


def opened(
    found: Measured, notes: list[str], runs: Mapping[str, Run], runtimes: Mapping[str, RuntimeFact]
) -> dict[str, Any]:
    """Return one cell, for the page's script to show.

    ``notes`` are sentences about the cell. ``runs`` are by id, ``runtimes`` by hash.
    """
    summary, cell, plan = found.summary, found.cell, found.plan
    low, high = summary.interval or (None, None)
    adjusted_low, adjusted_high = (found.adjusted and found.adjusted.interval) or (None, None)
    places = {at.record: at.place for at in found.locations}
    fact = runtimes.get(found.runtime)
    return {
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
        "flags": notes,
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
