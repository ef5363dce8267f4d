"""The cells of the HTML page as plain values: what opens when a reader clicks a figure.

A cell has its runs with their windows, files and lines, and its flags, settings, packages and
command. Windows are those of the shown plan. A cell that ``envbench verify`` refused has no figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envbench.model import Plan, Record, Run, RuntimeFact
from envbench.report.tables.footnotes import FLAGS, elsewhere, hardware
from envbench.report.tables.machine_results import MachineResults
from envbench.results.join import Location
from envbench.results.shown import Measured
from envbench.stats.summary import rate
from envbench.text import one_line


@dataclass(frozen=True, kw_only=True)
class RunRecords:
    """Runs by id, runtimes by hash, and the location of each run's record."""

    runs: Mapping[str, Run]
    runtimes: Mapping[str, RuntimeFact]
    locations: Mapping[str, Location]


def run_records(records: Sequence[Record], locations: Mapping[str, Location]) -> RunRecords:
    return RunRecords(
        runs={each.run_id: each for each in records if isinstance(each, Run)},
        runtimes={each.hash: each for each in records if isinstance(each, RuntimeFact)},
        locations=locations,
    )


def opened(found: Measured, results: MachineResults, records: RunRecords) -> dict[str, Any]:
    """One cell, for the page's script to show."""
    summary, cell, plan = found.summary, found.cell, found.plan
    low, high = summary.interval or (None, None)
    runs = [records.runs[run_id] for run_id in summary.runs if run_id in records.runs]
    return {
        "machine": results.title,
        "env": cell.env,
        "task": one_line(cell.task),
        "label": one_line(found.label),
        "numenv": cell.numenv,
        "env_instances": cell.env_instances,
        "frame_skip": cell.frame_skip,
        "fps": summary.fps,
        "low": low,
        "high": high,
        "steps_per_second": summary.steps_per_second,
        "ran": one_line(found.ran),
        "settings": {one_line(k): one_line(str(v)) for k, v in cell.settings.items()},
        "flags": _flags(found, results),
        "command": one_line(shlex.join(plan.command), 4000),
        "envbench": one_line(_version(plan)),
        "plan": one_line(plan.plan_id),
        **_runtime(records.runtimes.get(found.runtime)),
        "runs": [_run(run, records.locations, refused=found.refused) for run in runs],
    }


def _flags(found: Measured, results: MachineResults) -> list[str]:
    sentences = [FLAGS[flag].replace("`", "") for flag in found.summary.flags]
    if failure := found.summary.failure:
        sentences.append(f"No figure: {failure.reason}: {one_line(failure.message)}")
    if verified := results.verified.get(found.label):
        verdict, at = verified.verdict, verified.location
        where = f" ({one_line(at.place)})" if at else ""
        sentences.append(
            f"{verdict.badge} {one_line(verdict.audit)}; {one_line(verdict.lock_step)}.{where}"
        )
    if elsewhere(found, results.profile) and found.fingerprint is not None:
        sentences.append(f"Not measured on the profile's hardware: {hardware(found.fingerprint)}.")
    return sentences


def _runtime(fact: RuntimeFact | None) -> dict[str, Any]:
    if fact is None:
        return {"python": "unknown", "packages": {}}
    return {
        "python": one_line(f"{fact.implementation} {fact.python}"),
        "packages": {one_line(name): one_line(version) for name, version in fact.packages.items()},
    }


def _version(plan: Plan) -> str:
    return f"{plan.envbench_version}, commit {plan.git_commit or 'unknown'}"


def _run(run: Run, locations: Mapping[str, Location], *, refused: bool) -> dict[str, Any]:
    location = locations.get(run.run_id)
    return {
        "id": one_line(run.run_id),
        "where": one_line(location.place) if location else "",
        "failure": f"{run.failure.reason}: {one_line(run.failure.message)}" if run.failure else "",
        "round": run.round,
        "seed": run.seed,
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
