"""The cells of the HTML page as plain values: what opens where a reader asks where it is from.

Its runs with their windows, files and lines; flags, settings, packages, command. Windows are
those of each cell's shown plan alone. Of a cell that ``envbench verify`` refused, no figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envbench.equal_work.judge import judge
from envbench.model import Plan, Record, Run, RuntimeFact
from envbench.report.tables.footnotes import FLAGS, elsewhere, hardware
from envbench.report.tables.subjects import Subject
from envbench.results.archive import Origin
from envbench.results.shown import Measured
from envbench.stats.summary import rate
from envbench.text import one_line


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


def opened(found: Measured, subject: Subject, held: Archive) -> dict[str, Any]:
    """One cell, for the page's script to show."""
    summary, cell, plan = found.summary, found.summary.cell, found.plan
    low, high = summary.interval or (None, None)
    runs = [held.runs[run_id] for run_id in summary.runs if run_id in held.runs]
    return {
        "machine": subject.machine,
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
        "flags": _flags(found, subject),
        "command": one_line(shlex.join(plan.command), 4000),
        "envbench": one_line(_version(plan)),
        "plan": one_line(plan.plan_id),
        **_runtime(held.runtimes.get(found.runtime)),
        "runs": [_run(run, held.origins, refused=found.refused) for run in runs],
    }


def _flags(found: Measured, subject: Subject) -> list[str]:
    told = [FLAGS[flag].replace("`", "") for flag in found.summary.flags]
    if found.summary.failure is not None:
        failure = found.summary.failure
        told.append(f"No figure: {failure.reason}: {one_line(failure.message)}")
    verified = subject.verified.get(found.label)
    if verified is not None:
        verdict, at = judge(verified), subject.verified_at.get(found.label)
        where = f" ({one_line(at.place)})" if at else ""
        told.append(
            f"{verdict.badge} {one_line(verdict.audit)}; {one_line(verdict.lock_step)}.{where}"
        )
    if elsewhere(found, subject.profile) and found.fingerprint is not None:
        told.append(f"Measured on other hardware: {hardware(found.fingerprint)}.")
    return told


def _runtime(fact: RuntimeFact | None) -> dict[str, Any]:
    if fact is None:
        return {"python": "unknown", "packages": {}}
    return {
        "python": one_line(f"{fact.implementation} {fact.python}"),
        "packages": {one_line(name): one_line(version) for name, version in fact.packages.items()},
    }


def _version(plan: Plan) -> str:
    return f"{plan.envbench_version}, commit {plan.git_commit or 'unknown'}"


def _run(run: Run, origins: Mapping[str, Origin], *, refused: bool) -> dict[str, Any]:
    return {
        "id": one_line(run.run_id),
        "where": one_line(origins[run.run_id].place) if run.run_id in origins else "",
        "failure": f"{run.failure.reason}: {one_line(run.failure.message)}" if run.failure else "",
        "round": run.round,
        "seed": run.seed,
        "started": one_line(run.started_utc),
        **({"windows": []} if refused else _figures(run)),
    }


def _figures(run: Run) -> dict[str, Any]:
    times, memory = run.times, run.peak_memory_bytes
    return {
        "fps": None if run.failure else rate(run).fps,
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
            one_line(windows.invalid.get(str(index), "")),
            warmup,
        ]
        for index, (start, ns, steps) in enumerate(
            zip(windows.start_ns, windows.ns, windows.steps, strict=False)
        )
    ]
