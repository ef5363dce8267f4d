"""Rates and intervals. Pure: no files, no clock, nothing printed.

Frames per second = total frames / total time over a run's measured windows, never a mean of rates
(docs/measurement.md). A window does not count only where a recorded outside signal made it invalid:

* a *suspended* window (the machine slept in it) never counts;
* any other invalid window (steal, throttling) does not count, unless the valid ones hold under half
  of the measured time. Then all of them count and the run is ``disturbed``: dropping the majority
  would report the few lucky moments of a busy machine.

A run whose figures are zero, negative, not finite or impossible has no rate. ``Rate.invalid`` says
why, and the cell fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from envbench.model import LARGEST_FPS, Cell, Failure, Run
from envbench.stats.intervals import RUNS_FOR_INTERVAL, interval

QUICK_S = 3.0  # the measured time of a quick run; a shorter run counts as quick, too
OTHER_LOAD_SHARE = 0.10  # of the machine's CPU time, used by others while windows were open

# Every flag, in the order in which a cell shows them. Their sentences: ``report.tables.footnotes``.
FLAGS = (
    "quick",
    "few-runs",
    "one-go",
    "unsteady",
    "no-reset",
    "disturbed",
    "throttled",
    "steal",
    "other-load",
)


# ---------------------------------------------------------------- one run


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A run's totals over the windows that count; no figure where ``invalid`` gives a reason."""

    steps: int = 0
    seconds: float = 0.0
    frames: int | float = 0
    disturbed: bool = False
    invalid: str = ""

    @property
    def fps(self) -> float | None:
        return None if self.invalid else self.frames / self.seconds

    @property
    def steps_per_second(self) -> float | None:
        return None if self.invalid else self.steps / self.seconds


def rate(run: Run) -> Rate:
    """The rate of one run that did not fail."""
    if trouble := _impossible(run):
        return Rate(invalid=trouble)
    awake = [i for i in range(len(run.measured.ns)) if not _reason(run, i).startswith("suspend")]
    valid = [i for i in awake if not _reason(run, i)]
    disturbed = 2 * _time(run, valid) < _time(run, awake)
    counted = awake if disturbed else valid
    steps, nanoseconds = sum(run.measured.steps[i] for i in counted), _time(run, counted)
    if steps == 0 or nanoseconds == 0:
        return Rate(invalid="no step was made in any window that counts")
    try:
        totals = Rate(
            steps=steps,
            seconds=nanoseconds / 1e9,
            frames=steps * run.cell.frame_skip,
            disturbed=disturbed,
        )
        sane = 0 < totals.frames / totals.seconds <= LARGEST_FPS
    except OverflowError:
        sane = False
    return totals if sane else Rate(invalid="its figure is zero or impossibly high")


def _impossible(run: Run) -> str:
    """Why no run can have measured these windows; "" where one can."""
    windows = run.measured
    columns = (windows.ns, windows.steps, windows.calls, windows.resets)
    if not windows.ns:
        return "no window was measured"
    if len({len(column) for column in columns}) != 1:
        return "its windows are incomplete"
    if min(windows.ns) <= 0:
        return "a window took no time or negative time"
    if min(map(min, columns)) < 0 or not run.cell.frame_skip > 0:
        return "a count is negative, or frame_skip is not positive"
    if sum(windows.steps) > sum(windows.calls) * run.cell.numenv:
        return "it reports more steps than its calls can return"
    return ""


def _reason(run: Run, window: int) -> str:
    return run.measured.invalid.get(str(window), "")


def _time(run: Run, windows: Iterable[int]) -> int:
    return sum(run.measured.ns[i] for i in windows)


# ---------------------------------------------------------------- one cell


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of a run besides its steps: the median of seconds, the maximum of bytes.

    ``start_s`` is import and build, ``first_step_s`` the first step including any compile, and
    ``first_steps_s`` its shortest and longest time: libraries cache compiled code on disk.
    """

    start_s: float | None
    first_step_s: float | None
    first_steps_s: tuple[float, float] | None
    memory_bytes: int | None
    gpu_memory_bytes: int | None


def costs(runs: Sequence[Run]) -> Costs:
    """The costs of one cell's finished runs; None for what no run recorded."""
    times = [run.times for run in runs if run.times is not None]
    first = [each.first_step_ns / 1e9 for each in times]
    return Costs(
        start_s=median((each.import_ns + each.build_ns) / 1e9 for each in times) if times else None,
        first_step_s=median(first) if times else None,
        first_steps_s=(min(first), max(first)) if times else None,
        memory_bytes=max((run.peak_memory_bytes or 0 for run in runs), default=0) or None,
        gpu_memory_bytes=max((run.peak_gpu_memory_bytes or 0 for run in runs), default=0) or None,
    )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of one cell's runs in one plan.

    ``fps`` and ``steps_per_second`` are None exactly where ``failure`` is not. ``interval`` is in
    frames per second. ``runs`` are the ids of the runs that count, or of all where the cell failed;
    ``speeds`` are the frames per second of each run that counts. ``frames_per_cpu_s`` is frames per
    CPU second of the worker's processes.
    """

    cell: Cell
    runs: list[str]
    fps: float | None = None
    steps_per_second: float | None = None
    interval: tuple[float, float] | None = None
    flags: list[str] = field(default_factory=list)
    failure: Failure | None = None
    costs: Costs | None = None
    speeds: tuple[float, ...] = ()
    frames_per_cpu_s: float | None = None


def summarise(runs: Sequence[Run], *, cpus: int = 1, alone: bool = False) -> Summary:
    """The summary of one cell's runs in one plan (at least one run).

    One failed or impossible run makes the cell a failure: the others may have succeeded by luck.
    Interrupted runs do not count, unless there are no others. ``cpus`` is the number of logical
    CPUs of the machine (for ``other-load``); ``alone``: the plan had no other cell.
    """
    finished = [run for run in runs if run.failure is None or run.failure.reason != "interrupted"]
    rates = [rate(run) for run in finished if run.failure is None]
    failure = _failure(finished or runs, rates)
    if failure is not None:
        return Summary(cell=runs[0].cell, runs=[run.run_id for run in runs], failure=failure)
    seconds = math.fsum(each.seconds for each in rates)
    quick = any(run.quick for run in finished)
    speeds = [each.frames / each.seconds for each in rates]
    span = None if quick else interval(speeds)
    flags = _flags(finished, rates, cpus) | ({"one-go"} if alone and span else set())
    return Summary(
        cell=runs[0].cell,
        fps=sum(each.frames for each in rates) / seconds,
        steps_per_second=sum(each.steps for each in rates) / seconds,
        interval=span,
        runs=[run.run_id for run in finished],
        flags=[flag for flag in FLAGS if flag in flags],
        costs=costs(finished),
        speeds=tuple(speeds),
        frames_per_cpu_s=_frames_per_cpu_s(finished),
    )


def _frames_per_cpu_s(runs: Sequence[Run]) -> float | None:
    """Over all measured windows, as the sensor counts; None where a run has no CPU time."""
    cpu_s = [run.load.cpu_s for run in runs if run.load.cpu_s]
    if len(cpu_s) < len(runs):
        return None
    frames = math.fsum(sum(run.measured.steps) * run.cell.frame_skip for run in runs)
    return frames / math.fsum(cpu_s)


def _failure(runs: Sequence[Run], rates: Sequence[Rate]) -> Failure | None:
    for run in runs:
        if run.failure is not None:
            return run.failure
    for each in rates:
        if each.invalid:
            return Failure(reason="invalid-figure", phase="measure", message=each.invalid)
    return None


def _flags(runs: Sequence[Run], rates: Sequence[Rate], cpus: int) -> set[str]:
    reasons = {reason for run in runs for reason in run.measured.invalid.values()}
    throttled = any((run.load.throttled_periods or 0) > 0 for run in runs)
    quick = any(run.quick for run in runs)
    found = {
        "quick": quick,
        "few-runs": not quick and len(runs) < RUNS_FOR_INTERVAL,
        "unsteady": any(run.steady is False for run in runs),
        # Raw physics has no episodes, so it never resets.
        "no-reset": any(r.cell.kind != "physics" and not any(r.measured.resets) for r in runs),
        "disturbed": any(each.disturbed for each in rates),
        "throttled": throttled or any(reason.startswith("throttl") for reason in reasons),
        "steal": any(reason.startswith("steal") for reason in reasons),
        "other-load": any(_others_were_busy(run, cpus) for run in runs),
    }
    return {flag for flag, present in found.items() if present}


def _others_were_busy(run: Run, cpus: int) -> bool:
    available = sum(run.measured.ns) / 1e9 * max(1, cpus)
    return (run.load.other_cpu_s or 0.0) > OTHER_LOAD_SHARE * available
