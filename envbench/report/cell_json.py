"""The JSON shape of a cell: one place for ``run --json``, ``report --json`` and their readers.

``{"machine", "env", "task", "backend", "numenv", "env_instances", "settings", "fps",
"steps_per_second", "frame_skip", "interval": [low, high] | null, "runs": [run ids], "flags": [],
"failure": null | {…}}``; ``fps`` and ``steps_per_second`` are null exactly where ``failure`` is
not. ``failure`` has the fields of ``envbench.model.Failure``. ``report --json`` adds ``"records"``:
where each of the runs stands.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envbench.results.shown import Measured
from envbench.stats.summary import Summary

SCHEMA = 1


def cell_json(summary: Summary, *, other_hardware: bool = False) -> dict[str, Any]:
    """One cell as plain values. ``other_hardware``: measured on other than its profile's."""
    cell, failure = summary.cell, summary.failure
    return {
        "machine": cell.machine,
        "env": cell.env,
        "task": cell.task,
        "backend": cell.backend,
        "numenv": cell.numenv,
        "env_instances": cell.env_instances,
        "settings": dict(cell.settings),
        "fps": summary.fps,
        "steps_per_second": summary.steps_per_second,
        "frame_skip": cell.frame_skip,
        "interval": None if summary.interval is None else list(summary.interval),
        "runs": list(summary.runs),
        "flags": [*summary.flags, *(["other-hardware"] if other_hardware else [])],
        "failure": None if failure is None else msgspec.to_builtins(failure),
    }


def measured_json(found: Measured, *, other_hardware: bool) -> dict[str, Any]:
    """A cell of a report: without its figure where that was refused, with its runs' records."""
    records = [
        {"run": origin.record, "file": origin.file, "line": origin.line} for origin in found.origins
    ]
    return {**cell_json(found.summary, other_hardware=other_hardware), "records": records}
