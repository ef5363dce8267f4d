"""What a cell costs besides its steps per second: start-up, resets, memory. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from envbench.model import Run, Windows
from envbench.stats.latency import Latency, latency
from envbench.stats.memory import MemoryLine
from envbench.stats.service import Service, service
from envbench.stats.without_stops import without_stops

PHASES = ("import", "build", "first_step")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Seconds of one phase of the start, compile included.

    ``cold``: of the cell's first process in its session, in which a library may have to compile or
    to read from disk. ``warm``: the median of its later processes; None if there are none.
    """

    cold_s: float
    warm_s: float | None


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Joules of the whole machine while windows of steps were open. None: a run has no counter."""

    cpu_j: float | None
    gpu_j: float | None
    frames_per_joule: float


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of a cell: the median of seconds, the maximum of bytes. None: not recorded.

    ``start_s`` is import and build, ``first_step_s`` the first step including any compile, and
    ``first_steps_s`` its shortest and longest time: libraries cache compiled code on disk. Time in
    which a process was stopped for others is not included. ``start_up`` has each of ``PHASES``.
    ``memory``: of the row's cells in this session; see ``envbench.results.memory_lines``.
    ``reset_s``: the mean seconds of a reset of all environments. ``without_stops``: of each process
    that has one, its rate without a stop / in slices (``envbench.stats.without_stops``).
    """

    start_s: float | None = None
    first_step_s: float | None = None
    first_steps_s: tuple[float, float] | None = None
    start_up: dict[str, Phase] | None = None
    memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    memory: MemoryLine | None = None
    latency: Latency | None = None
    service: Service | None = None
    reset_s: float | None = None
    energy: Energy | None = None
    without_stops: tuple[float, ...] = ()


def costs(runs: Sequence[Run], interrupted: Sequence[Run] = ()) -> Costs:
    """Return the costs of one cell's finished runs. One that was ``interrupted`` may have been the
    first of its session."""
    # A spot check may come before the first timed step, and keeps its results in memory.
    plain = [run for run in runs if not run.spot]
    # Quick runs start beside each other.
    starts = [
        _running_s(run, "import_ns") + _running_s(run, "build_ns")
        for run in runs
        if run.times and not run.quick
    ]
    first = [_running_s(run, "first_step_ns") for run in plain if run.times and not run.quick]
    return Costs(
        start_s=median(starts) if starts else None,
        first_step_s=median(first) if first else None,
        first_steps_s=(min(first), max(first)) if first else None,
        start_up=_start_up(runs, interrupted),
        memory_bytes=max((run.peak_memory_bytes or 0 for run in plain), default=0) or None,
        gpu_memory_bytes=max((run.peak_gpu_memory_bytes or 0 for run in plain), default=0) or None,
        latency=latency(run.latency for run in runs if run.latency),
        service=service(run.returns for run in runs if run.returns),
        reset_s=_reset_s([run.resets for run in runs]),
        energy=_energy(runs),
        without_stops=tuple(ratio for ratio in map(without_stops, runs) if ratio),
    )


def _start_up(runs: Sequence[Run], interrupted: Sequence[Run]) -> dict[str, Phase] | None:
    """None where the first process of the session has no plain times: it was interrupted, failed,
    or had a spot check, which may come before the first step."""

    def began(run: Run) -> tuple[int, str]:
        return run.round, run.started_utc

    timed = sorted((run for run in runs if run.times and not run.quick), key=began)
    if not timed or timed[0].spot or began(timed[0]) > min(map(began, (*runs, *interrupted))):
        return None
    first, *later = timed
    found = {}
    for phase in PHASES:
        # A spot check may come before the first step, but not before import and build.
        warm = [_running_s(e, f"{phase}_ns") for e in later if phase != "first_step" or not e.spot]
        cold = _running_s(first, f"{phase}_ns")
        found[phase] = Phase(cold_s=cold, warm_s=median(warm) if warm else None)
    return found


def _energy(runs: Sequence[Run]) -> Energy | None:
    """Over all measured windows, invalid ones too; None if no counter was read in every run."""
    cpu = [run.load.cpu_energy_j for run in runs if run.load.cpu_energy_j is not None]
    gpu = [run.load.gpu_energy_j for run in runs if run.load.gpu_energy_j is not None]
    cpu_j, gpu_j = (
        math.fsum(each) if len(each) == len(runs) and math.fsum(each) > 0 else None
        for each in (cpu, gpu)
    )
    total = (cpu_j or 0.0) + (gpu_j or 0.0)
    frames = math.fsum(sum(run.measured.steps) * run.cell.frame_skip for run in runs)
    return Energy(cpu_j=cpu_j, gpu_j=gpu_j, frames_per_joule=frames / total) if total else None


def _running_s(run: Run, phase: str) -> float:
    """Seconds of a phase, without those in which other processes of the block started."""
    ns: int = getattr(run.times, phase)
    return max(0, ns - run.stopped_ns.get(phase, 0)) / 1e9


def _reset_s(slices: Sequence[Windows]) -> float | None:
    """Total time / number of resets, without slices in which the machine slept."""
    known = [
        (ns, calls)
        for each in slices
        for index, (ns, calls) in enumerate(zip(each.ns, each.calls, strict=True))
        if not each.invalid.get(str(index), "").startswith("suspend")
    ]
    calls = sum(each for _, each in known)
    return sum(ns for ns, _ in known) / calls / 1e9 if calls > 0 else None
