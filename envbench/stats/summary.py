"""Rates and intervals. Pure: no files, no clock, nothing printed.

Frames per second = total frames / total time over a run's measured windows, never a mean of rates
(docs/measurement.md). A window is left out only if a recorded outside signal made it invalid:

* a *suspended* window (the machine slept in it) never counts;
* any other invalid window (steal, throttling) does not count, unless the valid ones hold under half
  of the measured time. Then all of them count and the run is ``disturbed``: dropping the majority
  would report the few lucky moments of a busy machine;
* in a run that alternated, all windows count except suspended ones. The others of its block shared
  the disturbance. Without its slow slices, it alone would look faster.

A run whose figures are zero, negative, not finite or impossible has no rate. ``Rate.invalid`` says
why, and the cell fails.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from envbench.model import LARGEST_FPS, Cell, Failure, Run, Windows
from envbench.stats.costs import Costs, costs
from envbench.stats.intervals import RUNS_FOR_INTERVAL, interval

QUICK_S = 2.0  # the measured time of a quick figure; one of a shorter time is quick, too
OTHER_LOAD_SHARE = 0.10  # of the machine's CPU time, used by others while windows were open


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
    """Return the rate of one run that did not fail."""
    windows = run.measured
    if trouble := _impossible(windows, run.cell.numenv):
        return Rate(invalid=trouble)
    places = range(len(windows.ns) if windows.invalid else 0)
    invalid = {i: why for i in places if (why := windows.invalid.get(str(i)))}
    asleep = [i for i, why in invalid.items() if why.startswith("suspend")]
    awake_ns, valid_ns = (_without(windows.ns, each) for each in (asleep, invalid))
    disturbed = 2 * valid_ns < awake_ns
    every = disturbed or run.alternated
    steps = _without(windows.steps, asleep if every else invalid)
    if steps == 0:
        return Rate(invalid="no step was made in any window that counts")
    frames, seconds = steps * run.cell.frame_skip, (awake_ns if every else valid_ns) / 1e9
    # In this order, because numbers from elsewhere may be too large for a division.
    if not (frames <= LARGEST_FPS * seconds and frames / seconds > 0):
        return Rate(invalid="its figure is zero or impossibly high")
    return Rate(steps=steps, seconds=seconds, frames=frames, disturbed=disturbed)


def _without(column: Sequence[int], windows: Collection[int]) -> int:
    """The sum of a column, without these windows."""
    return sum(column) - (sum(column[i] for i in windows) if windows else 0)


def _impossible(windows: Windows, numenv: int) -> str:
    """Why no run can have measured these windows; "" where one can."""
    if not windows.ns:
        return "no window was measured"
    if not windows.whole:
        return "its windows are incomplete"
    if min(windows.ns) <= 0:
        return "a window took no time or negative time"
    if min(map(min, (windows.steps, windows.calls, windows.resets))) < 0:
        return "a count is negative"
    if sum(windows.steps) > sum(windows.calls) * numenv:
        return "it reports more steps than its calls can return"
    return ""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of one cell's runs in one plan.

    ``fps`` and ``steps_per_second`` are None if the cell failed, and only then. ``interval`` is in
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

    @property
    def quick(self) -> bool:
        """Whether it was measured with ``--quick``, or for less time."""
        return "quick" in self.flags


def summarise(runs: Sequence[Run], *, cpus: int = 1, alone: bool = False) -> Summary:
    """Summarise one cell's runs in one plan (at least one run).

    One failed or impossible run makes the cell a failure: the others may have succeeded by luck.
    Interrupted runs do not count, unless there are no others. ``cpus`` is the number of
    CPUs that they could use (for ``other-load``); ``alone``: the plan had no other cell.
    """
    finished = [run for run in runs if run.failure is None or run.failure.reason != "interrupted"]
    rates = [rate(run) for run in finished if run.failure is None]
    failures = [run.failure for run in finished or runs if run.failure is not None]
    for reason in (each.invalid for each in rates if each.invalid):
        failures.append(Failure(reason="invalid-figure", phase="measure", message=reason))
    if failures:
        return Summary(cell=runs[0].cell, runs=[run.run_id for run in runs], failure=failures[0])
    seconds = math.fsum(each.seconds for each in rates)
    speeds = [each.frames / each.seconds for each in rates]
    return Summary(
        cell=runs[0].cell,
        fps=sum(each.frames for each in rates) / seconds,
        steps_per_second=sum(each.steps for each in rates) / seconds,
        interval=None if any(run.quick for run in finished) else interval(speeds),
        runs=[run.run_id for run in finished],
        flags=_flags(finished, rates, cpus, alone=alone),
        speeds=tuple(speeds),
        frames_per_cpu_s=_frames_per_cpu_s(finished),
    )


def with_costs(summary: Summary, runs: Sequence[Run]) -> Summary:
    """The summary of these runs, with their costs, unless the cell failed. They take longer to find
    than everything else in it."""
    if summary.failure is not None:
        return summary
    finished = [run for run in runs if run.run_id in set(summary.runs)]
    interrupted = [run for run in runs if run.run_id not in set(summary.runs)]
    return replace(summary, costs=costs(finished, interrupted))


def _frames_per_cpu_s(runs: Sequence[Run]) -> float | None:
    """Over all measured windows, invalid ones too; None where a run has no CPU time, or an
    impossible one."""
    cpu_s = [run.load.cpu_s for run in runs if run.load.cpu_s and run.load.cpu_s > 0]
    if len(cpu_s) < len(runs):
        return None
    frames = math.fsum(sum(run.measured.steps) * run.cell.frame_skip for run in runs)
    seconds = math.fsum(cpu_s)
    return frames / seconds if frames <= LARGEST_FPS * seconds else None


def _flags(runs: Sequence[Run], rates: Sequence[Rate], cpus: int, *, alone: bool) -> list[str]:
    """In the order in which a cell shows them. ``report.tables.footnotes`` has their sentences."""
    reasons = {reason for run in runs for reason in run.measured.invalid.values()}
    throttled = any((run.load.throttled_periods or 0) > 0 for run in runs)
    short = sum(sum(run.measured.ns) for run in runs) < QUICK_S * 1e9
    quick, few = short or any(run.quick for run in runs), len(runs) < RUNS_FOR_INTERVAL
    found = {
        "quick": quick,
        "few-runs": few and not quick,
        "one-go": alone and not few and not quick,
        "no-alternation": all(run.without_others for run in runs),
        "unsteady": any(run.steady is False for run in runs),
        # Raw physics has no episodes, so it never resets.
        "no-reset": any(r.cell.kind != "physics" and not any(r.measured.resets) for r in runs),
        "disturbed": any(each.disturbed for each in rates),
        "throttled": throttled or any(reason.startswith("throttl") for reason in reasons),
        "steal": any(reason.startswith("steal") for reason in reasons),
        "other-load": any(_others_were_busy(run, cpus) for run in runs),
    }
    return [flag for flag, raised in found.items() if raised]


def _others_were_busy(run: Run, cpus: int) -> bool:
    available = sum(run.measured.ns) / 1e9 * max(1, cpus)
    return (run.load.other_cpu_s or 0.0) > OTHER_LOAD_SHARE * available
