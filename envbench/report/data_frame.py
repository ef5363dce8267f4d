"""Measurements as a pandas data frame: a row a cell, or a row a run, for people who compute on.

Text that a spreadsheet would run as a formula is made text by an apostrophe (``neutralised``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envbench.backends.settings import shown
from envbench.equal_work.judge import judge
from envbench.model import Cell, Plan, Record, Run, run_design
from envbench.results.archive import Origin, lines_by_file
from envbench.results.selection import Selection
from envbench.results.shown import Measured
from envbench.results.verified import row_of
from envbench.stats.summary import rate

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # full width, too


def of_cells(measured: Iterable[Measured]) -> pd.DataFrame:
    """The measurements that a report shows: fps, interval, costs, flags."""
    return _frame([_cell_row(found) for found in measured])


def of_runs(
    records: Sequence[Record], origins: Mapping[str, Origin], selection: Selection
) -> pd.DataFrame:
    """Every run on record; failed ones, and those of rows that were refused, without a figure."""
    plans = [record for record in records if isinstance(record, Plan)]
    quick = {plan.plan_id: run_design(plan).quick for plan in plans}
    runs = [record for record in records if isinstance(record, Run)]
    badges = {row: judge(found).badge for row, found in selection.verified.items()}
    return _frame(
        [
            _run_row(run, quick.get(run.plan_id), badges.get(row_of(run.cell), ""))
            | _place(origins.get(run.run_id))
            for run in runs
        ]
    )


def neutralised(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, with no text in it that a spreadsheet takes for a formula."""
    return frame.map(lambda value: f"'{value}" if _is_formula(value) else value)


def _is_formula(value: object) -> bool:
    return isinstance(value, str) and (value + " ").lstrip(" \n\v\f").startswith(_FORMULA)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)


def _cell_row(found: Measured) -> dict[str, Any]:
    summary, costs = found.summary, found.summary.costs
    low, high = summary.interval or (None, None)
    return {
        **_what(summary.cell),
        "fps": summary.fps,
        "fps_low": low,
        "fps_high": high,
        "steps_per_second": summary.steps_per_second,
        "start_s": costs.start_s if costs else None,
        "first_step_s": costs.first_step_s if costs else None,
        "peak_memory_bytes": costs.memory_bytes if costs else None,
        "peak_gpu_memory_bytes": costs.gpu_memory_bytes if costs else None,
        "runs": len(summary.runs),
        "flags": " ".join(summary.flags),
        "equal_work": found.badge,
        "failure": summary.failure.reason if summary.failure else "",
        "when_utc": found.when,
        "plan": found.plan_id,
        "run_ids": " ".join(summary.runs),
        "records": _records(found.origins),
    }


def _records(origins: Iterable[Origin]) -> str:
    """``epyc-vm/2026-11-20T12-41-47Z.jsonl:7,31,52``"""
    files = lines_by_file(origins).items()
    return " ".join(f"{file}:{','.join(map(str, lines))}" for file, lines in files)


def _place(origin: Origin | None) -> dict[str, Any]:
    return {"file": origin.file if origin else "", "line": origin.line if origin else None}


def _run_row(run: Run, quick: bool | None, badge: str) -> dict[str, Any]:
    figure = None if run.failure or badge == "✗" else rate(run)
    return {
        **_what(run.cell),
        "fps": figure.fps if figure else None,
        "steps": sum(run.measured.steps),
        "resets": sum(run.measured.resets),
        "measured_s": sum(run.measured.ns) / 1e9,
        "windows": len(run.measured.ns),
        "invalid_windows": len(run.measured.invalid),
        "steady": run.steady,
        "equal_work": badge,
        "peak_memory_bytes": run.peak_memory_bytes,
        "failure": run.failure.reason if run.failure else "",
        "quick": quick,
        "round": run.round,
        "seed": run.seed,
        "started_utc": run.started_utc,
        "plan": run.plan_id,
        "run": run.run_id,
    }


def _what(cell: Cell) -> dict[str, Any]:
    variant = " ".join(f"{key}={shown(value)}" for key, value in sorted(cell.variant.items()))
    return {
        "machine": cell.machine,
        "env": cell.env,
        "task": cell.task,
        "backend": cell.backend,
        "kind": cell.kind,
        "variant": variant,
        "numenv": cell.numenv,
        "env_instances": cell.env_instances,
        "frame_skip": cell.frame_skip,
    }
