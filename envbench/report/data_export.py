"""Measurements as data: a cell as JSON, and cells or runs as the rows of a flat table.

The JSON shape of a cell is the same in ``run --json``, ``compare --json``, ``report --json`` and
``export --format json``: docs/json.md. The last two add the file and line of each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envbench.backends import shown
from envbench.decisions.session import Session
from envbench.model import Cell, Record, Run, fields
from envbench.results.measured_cells import Location, Measured, lines_by_file
from envbench.results.selection import Selection
from envbench.stats.costs import PHASES, Costs
from envbench.stats.summary import Summary, rate
from envbench.stats.without_stops import pooled

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = 1
_FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")  # a spreadsheet's, also in full width


def cell_json(
    summary: Summary,
    session: Session,
    found: Measured | None,
    *,
    badge: str,
    other_hardware: bool = False,
) -> dict[str, Any]:
    """Return a cell as plain values, with its place in its session.

    ``found``: its measurement, once complete. ``badge``: of its row, from ``envbench verify``.
    ``other_hardware``: not measured on its profile's hardware.
    """
    standing = None if summary.fps is None else session.standings.get(summary.cell.key)
    adjusted = None if summary.fps is None else session.adjusted(summary.cell)
    return {
        "key": summary.cell.key,
        **fields(summary.cell, "machine env task backend numenv env_instances frame_skip settings"),
        **fields(summary, "fps steps_per_second interval runs failure"),
        "adjusted_fps": adjusted.rate if adjusted else None,
        "adjusted_interval": adjusted.interval if adjusted else None,
        "rank": standing.rank if standing else None,
        "ties": standing.ties if standing else [],
        "doubt": found.doubt if found else "",
        "equal_work": badge,
        "spot_check": found.spot_agrees if found else None,
        "flags": [*summary.flags, *(["other-hardware"] if other_hardware else [])],
        "costs": costs_json(summary),
    }


def costs_json(summary: Summary) -> dict[str, Any] | None:
    """Return what a cell costs besides its steps, as plain values; None if it has no figure."""
    if summary.costs is None:
        return None
    names = "start_up latency service reset_s memory_bytes memory gpu_memory_bytes energy"
    unstopped = pooled(summary.costs.without_stops)
    return {
        **fields(summary.costs, names),
        "without_stops": fields(unstopped, "ratio interval") if unstopped else None,
        "frames_per_cpu_s": summary.frames_per_cpu_s,
    }


def complete_json(found: Measured, *, other_hardware: bool = False) -> dict[str, Any]:
    """Return ``cell_json`` of a complete measurement."""
    return cell_json(
        found.summary, found.session, found, badge=found.badge, other_hardware=other_hardware
    )


def measured_json(found: Measured, *, other_hardware: bool) -> dict[str, Any]:
    """Return a cell of a report, with the records of its runs."""
    records = [{"run": at.record, "file": at.file, "line": at.line} for at in found.locations]
    cell = complete_json(found, other_hardware=other_hardware)
    return {**cell, "session": found.plan_id, "records": records}


def ratios_json(session: Session) -> list[dict[str, Any]]:
    """Return the ratio of each two cells of one task and kind, once. Cells are named by key."""
    return [
        {"cell": cell.key, "to": to.key, **fields(ratio, "ratio interval")}
        for cell, to, ratio in session.ratios()
    ]


def report_json(
    measured: Sequence[Measured], elsewhere: Callable[[Measured], bool]
) -> dict[str, Any]:
    """Return the cells of a report, in this order, and the ratio of each two of one session.

    ``elsewhere``: was a cell measured on other hardware than its profile's?
    """
    shown = {(each.plan_id, each.cell.key) for each in measured if each.fps is not None}
    sessions = {each.plan_id: each.session for each in measured}
    return {
        "schema": SCHEMA,
        "cells": [measured_json(each, other_hardware=elsewhere(each)) for each in measured],
        "ratios": [
            {"session": name, **ratio}
            for name, session in sessions.items()
            for ratio in ratios_json(session)
            if {(name, ratio["cell"]), (name, ratio["to"])} <= shown
        ],
    }


def export_json(
    measured: Sequence[Measured], elsewhere: Callable[[Measured], bool]
) -> dict[str, Any]:
    """Return ``report_json`` whose cells also have the columns of the flat table."""
    document = report_json(measured, elsewhere)
    both = zip(measured, document["cells"], strict=True)
    return {**document, "cells": [{**of_cell(found), **cell} for found, cell in both]}


# ---------------------------------------------------------------- rows of a flat table


def of_runs(
    records: Sequence[Record], locations: Mapping[str, Location], selection: Selection
) -> list[dict[str, Any]]:
    """Return a row per recorded run; failed runs and those of refused rows have no figure."""
    return [
        _run_row(run, selection.badge(run.cell), locations.get(run.run_id))
        for run in records
        if isinstance(run, Run) and not run.arm
    ]


def of_slices(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Yield a row per timed slice of each run: when, how long, and what was counted in it."""
    for run in records:
        if not isinstance(run, Run) or run.failure is not None or run.arm:
            continue
        own = {"run": run.run_id, "plan": run.plan_id, "key": run.cell.key, **fields(run, "round")}
        own |= fields(run.cell, "machine env task backend numenv frame_skip")
        windows = run.measured
        columns = (windows.start_ns, windows.ns, windows.calls, windows.steps, windows.resets)
        for number, (start, ns, calls, steps, resets) in enumerate(zip(*columns, strict=True)):
            yield {
                **own,
                "slice": number,
                "start_ns": start,
                "ns": ns,
                "calls": calls,
                "steps": steps,
                "resets": resets,
                "invalid": windows.invalid.get(str(number), ""),
            }


def neutralised(frame: DataFrame) -> DataFrame:
    """Put an apostrophe before each text that a spreadsheet would run as a formula."""
    return frame.map(lambda value: f"'{value}" if _is_formula(value) else value)


def _is_formula(value: object) -> bool:
    return isinstance(value, str) and (value + " ").lstrip(" \n\v\f").startswith(_FORMULA)


def of_cell(found: Measured) -> dict[str, Any]:
    """Return a measurement that a report shows: FPS, interval, costs, flags."""
    summary = found.summary
    low, high = summary.interval or (None, None)
    files = lines_by_file(found.locations).items()
    standing = None if found.fps is None else found.session.standings.get(found.cell.key)
    adjusted = found.adjusted.interval if found.adjusted else None
    adjusted_low, adjusted_high = adjusted or (None, None)
    return {
        "key": found.cell.key,
        **_cell_columns(summary.cell),
        "fps": summary.fps,
        "fps_low": low,
        "fps_high": high,
        "adjusted_fps": found.adjusted.rate if found.adjusted else None,
        "adjusted_low": adjusted_low,
        "adjusted_high": adjusted_high,
        "rank": standing.rank if standing else None,
        "ties": " ".join(standing.ties) if standing else "",
        "doubt": found.doubt,
        "steps_per_second": summary.steps_per_second,
        **_cost_columns(summary),
        "runs": len(summary.runs),
        "flags": " ".join(summary.flags),
        "equal_work": found.badge,
        "failure": summary.failure.reason if summary.failure else "",
        "when_utc": found.when,
        "plan": found.plan_id,
        "run_ids": " ".join(summary.runs),
        # epyc-vm/2026-11-20T12-41-47Z.jsonl:7,31,52
        "records": " ".join(f"{file}:{','.join(map(str, lines))}" for file, lines in files),
    }


def _cost_columns(summary: Summary) -> dict[str, Any]:
    """A flat row's columns of costs: empty where unknown."""
    costs = summary.costs or Costs()
    latency, unstopped = costs.latency, pooled(costs.without_stops)
    return {
        "start_s": costs.start_s,
        "first_step_s": costs.first_step_s,
        **{
            f"{phase}_{state}_s": getattr(costs.start_up[phase], f"{state}_s")
            if costs.start_up
            else None
            for phase in PHASES
            for state in ("cold", "warm")
        },
        "reset_s": costs.reset_s,
        "latency_p50_s": latency.p50_s if latency else None,
        "latency_p95_s": latency.p95_s if latency else None,
        "latency_p99_s": latency.p99_s if latency else None,
        "latency_slowest_share": latency.slowest_share if latency else None,
        "fairness": costs.service.fairness if costs.service else None,
        "age_p50": costs.service.age_p50 if costs.service else None,
        "age_p99": costs.service.age_p99 if costs.service else None,
        "without_stops": unstopped.ratio if unstopped else None,
        "frames_per_cpu_s": summary.frames_per_cpu_s,
        "cpu_energy_j": costs.energy.cpu_j if costs.energy else None,
        "gpu_energy_j": costs.energy.gpu_j if costs.energy else None,
        "frames_per_joule": costs.energy.frames_per_joule if costs.energy else None,
        "peak_memory_bytes": costs.memory_bytes,
        "fixed_memory_bytes": costs.memory.fixed_bytes if costs.memory else None,
        "memory_bytes_per_env": costs.memory.bytes_per_env if costs.memory else None,
        "largest_env_instances": costs.memory.largest if costs.memory else None,
        "peak_gpu_memory_bytes": costs.gpu_memory_bytes,
    }


def _run_row(run: Run, badge: str, at: Location | None) -> dict[str, Any]:
    figure = None if run.failure else rate(run)
    return {
        **_cell_columns(run.cell),
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
        **fields(run, "quick round seed started_utc"),
        "plan": run.plan_id,
        "run": run.run_id,
        "file": at.file if at else "",
        "line": at.line if at else None,
    }


def _cell_columns(cell: Cell) -> dict[str, Any]:
    variant = " ".join(f"{key}={shown(value)}" for key, value in sorted(cell.variant.items()))
    return {
        **fields(cell, "machine env task backend kind"),
        "variant": variant,
        **fields(cell, "numenv env_instances frame_skip"),
    }
