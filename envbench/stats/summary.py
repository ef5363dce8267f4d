"""Rates and intervals. Pure: no files, no clock, nothing printed.

What a rate counts (MEASUREMENT.md): frames per second = total frames / total time over a run's
measured windows, never a mean of rates. A window leaves the total only for an outside signal that
was recorded beside it:

* a *suspended* window (the machine slept in it) never counts;
* any other invalid window (steal, throttling) does not count, unless the windows that are left
  hold under half of the measured time: then all of them count and the run is ``disturbed``.
  Dropping the majority would report the few lucky moments of a busy machine.

A run whose figures are zero, negative, not finite or impossible has no rate: ``Rate.invalid``
says why. It makes its cell a failure, never a fast one.

The interval of a cell is a 95 % t-interval on the logarithms of its runs' rates (most of the
variance lies between processes, and speeds vary by factors). It surrounds the geometric mean of
the rates. Under five runs there is none: two or three processes say too little about the spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from envbench.model import LARGEST_FPS, Cell, Failure, Run
from envbench.stats.intervals import RUNS_FOR_INTERVAL, interval

QUICK_S = 3.0  # what a quick run measures; a shorter one is no more than a look either
OTHER_LOAD_SHARE = 0.10  # of the machine's cores, taken by others while windows were open

# Every flag, in the order in which a cell bears them. Their sentences: ``report.tables.footnotes``.
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
    """A run's totals over the windows that count. Where ``invalid`` is not empty: no figure."""

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
    """The rate of one run that ended well."""
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
    return totals if sane else Rate(invalid="its figure is zero, or beyond what any machine does")


def _impossible(run: Run) -> str:
    """Why the windows cannot be what a run measured, or nothing."""
    windows = run.measured
    columns = (windows.ns, windows.steps, windows.calls, windows.resets)
    if not windows.ns:
        return "no window was measured"
    if len({len(column) for column in columns}) != 1:
        return "its windows are incomplete"
    if min(windows.ns) <= 0:
        return "a window took no time, or less"
    if min(map(min, columns)) < 0 or not run.cell.frame_skip > 0:
        return "it counts less than nothing"
    if sum(windows.steps) > sum(windows.calls) * run.cell.numenv:
        return "it claims more steps than its calls can return"
    return ""


def _reason(run: Run, window: int) -> str:
    return run.measured.invalid.get(str(window), "")


def _time(run: Run, windows: Iterable[int]) -> int:
    return sum(run.measured.ns[i] for i in windows)


# ---------------------------------------------------------------- one cell


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a run costs before and besides its steps: medians of seconds, the most of bytes.

    ``start_s`` is import and build, ``first_step_s`` the first step with any compile, and
    ``first_steps_s`` the shortest and the longest: libraries keep what they compiled on disk.
    """

    start_s: float | None
    first_step_s: float | None
    first_steps_s: tuple[float, float] | None
    memory_bytes: int | None
    gpu_memory_bytes: int | None


def costs(runs: Sequence[Run]) -> Costs:
    """The costs of one cell's finished runs; None where no run tells."""
    times = [run.times for run in runs if run.times is not None]
    first = [each.first_step_ns / 1e9 for each in times]
    return Costs(
        start_s=_median([(each.import_ns + each.build_ns) / 1e9 for each in times]),
        first_step_s=_median(first),
        first_steps_s=(min(first), max(first)) if first else None,
        memory_bytes=max((run.peak_memory_bytes or 0 for run in runs), default=0) or None,
        gpu_memory_bytes=max((run.peak_gpu_memory_bytes or 0 for run in runs), default=0) or None,
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the runs of one cell in one plan come to.

    ``fps`` and ``steps_per_second`` are None exactly where ``failure`` is not. ``interval`` is in
    frames per second. ``runs`` are ids of the runs that count, or of all where the cell failed;
    ``speeds`` the frames per second of each that counts. ``frames_per_cpu_s``: frames over the CPU
    seconds of the worker's processes in the same windows.
    """

    cell: Cell
    fps: float | None
    steps_per_second: float | None
    interval: tuple[float, float] | None
    runs: list[str]
    flags: list[str]
    failure: Failure | None
    costs: Costs | None = None
    speeds: tuple[float, ...] = ()
    frames_per_cpu_s: float | None = None


def summarise(runs: Sequence[Run], *, cpus: int = 1, alone: bool = False) -> Summary:
    """The summary of one cell's runs in one plan (at least one run).

    One failed or impossible run makes the cell a failure: the others may have got through by
    luck. Interrupted runs do not count, unless there is nothing else. ``cpus`` are the logical ones
    of the whole machine (what ``other-load`` is measured against); ``alone``: the plan had this
    cell only.
    """
    finished = [run for run in runs if run.failure is None or run.failure.reason != "interrupted"]
    rates = [rate(run) for run in finished if run.failure is None]
    failure = _failure(finished or runs, rates)
    if failure is not None:
        return Summary(
            cell=runs[0].cell,
            fps=None,
            steps_per_second=None,
            interval=None,
            runs=[run.run_id for run in runs],
            flags=[],
            failure=failure,
        )
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
        failure=None,
        costs=costs(finished),
        speeds=tuple(speeds),
        frames_per_cpu_s=_frames_per_cpu_s(finished),
    )


def _frames_per_cpu_s(runs: Sequence[Run]) -> float | None:
    """Of all measured windows, as the sensor counts them; None where a run has no sensor."""
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
        "no-reset": any(_saw_no_reset(run) for run in runs),
        "disturbed": any(each.disturbed for each in rates),
        "throttled": throttled or any(reason.startswith("throttl") for reason in reasons),
        "steal": any(reason.startswith("steal") for reason in reasons),
        "other-load": any(_others_were_busy(run, cpus) for run in runs),
    }
    return {flag for flag, present in found.items() if present}


def _saw_no_reset(run: Run) -> bool:
    """Raw physics has no episodes to end."""
    return run.cell.kind != "physics" and not any(run.measured.resets)


def _others_were_busy(run: Run, cpus: int) -> bool:
    """Whether others used over a tenth of the machine's CPU time while windows were open."""
    available = sum(run.measured.ns) / 1e9 * max(1, cpus)
    return (run.load.other_cpu_s or 0.0) > OTHER_LOAD_SHARE * available
