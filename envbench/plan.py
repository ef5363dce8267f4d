"""PURE: what was asked for, turned into cells, rounds and a plan. No I/O, no clock.

A plan's ``spec`` is the hash of what was asked: the cells, how often and how each is measured,
the seed. The same command gives the same spec; that is how an interrupted plan is found again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from envbench import backends, frames
from envbench.backends import Backend
from envbench.model import Cell, Family, Job, Plan, Protocol, Run, digest
from envbench.settings import check_shares

QUICK = Protocol(warmup_min_s=1.0, warmup_max_s=1.0, measured_s=3.0)
DEFAULT_DURATION_S = 40.0
MOST_WINDOWS = 10_000  # of a run, so that its record stays well under the store's bound


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how often: the command line's ``--duration``, ``--total-step`` and the like.

    ``duration_s`` and ``total_steps`` are of a cell over all its runs.
    """

    duration_s: float = DEFAULT_DURATION_S
    total_steps: int | None = None
    repeats: int | None = None
    quick: bool = False
    seed: int = 0

    def repeats_of(self, backend: Backend) -> int:
        """Fresh processes a cell: the backend's default (1 for a quick one), or as asked."""
        asked = self.repeats or (1 if self.quick else backend.repeats)
        return min(asked, self.total_steps) if self.total_steps else asked

    def protocol_of(self, backend: Backend) -> Protocol:
        """The protocol of each run; ``calls`` is still the cell's whole budget (see ``job``)."""
        if self.quick:
            return msgspec.structs.replace(QUICK, calls=self.total_steps)
        seconds = self.duration_s / self.repeats_of(backend)
        window_s = max(Protocol().window_s, seconds / MOST_WINDOWS)
        return Protocol(window_s=window_s, measured_s=seconds, calls=self.total_steps)


def make_cell(
    machine: str,
    family: Family,
    task: str,
    backend: Backend,
    numenv: int,
    given: Mapping[str, str],
    frame_skip: float | None = None,
) -> Cell:
    """The cell with every setting resolved; raises for a setting that the backend lacks."""
    settings, variant = backends.resolve_settings(backend, family, given, task)
    check_shares(backend, numenv, settings)
    return Cell(
        machine=machine,
        env=family,
        task=task,
        backend=backend.name,
        numenv=numenv,
        env_instances=backends.env_instances(backend, numenv, settings),
        frame_skip=frames.frames_per_step(family, task, frame_skip),
        settings=settings,
        variant=variant,
        kind=backend.kind,
        accelerator=backend.accelerator,
    )


def make_plan(cells: Sequence[Cell], measure: Measure, **identity: object) -> Plan:
    """A plan of these cells. ``identity`` fills the plan's own fields: id, start, hashes."""
    used = {cell.backend: backends.get(cell.backend) for cell in cells}
    repeats = {name: measure.repeats_of(backend) for name, backend in used.items()}
    protocol = {name: measure.protocol_of(backend) for name, backend in used.items()}
    asked = [cells, repeats, protocol, measure.quick, measure.seed]
    return Plan(
        spec=digest(asked),
        cells=list(cells),
        repeats=repeats,
        protocol=protocol,
        quick=measure.quick,
        seed=measure.seed,
        **identity,  # type: ignore[arg-type]
    )


def make_job(plan: Plan, cell: Cell, round_: int, run_id: str) -> Job:
    """One run's order. Cells of a round share the seed, so that they get the same actions."""
    protocol = plan.protocol[cell.backend]
    if protocol.calls is not None:
        share = calls_of_round(protocol.calls, plan.repeats[cell.backend], round_)
        protocol = msgspec.structs.replace(protocol, calls=share)
    seed = seed_of_round(plan.seed, round_)
    return order(cell, run_id=run_id, seed=seed, protocol=protocol)


def order(cell: Cell, **given: Any) -> Job:
    """A job for a cell; ``given`` are the job's other fields: run_id, seed, mode, protocol …"""
    return Job(
        **{
            "adapter": given.get("adapter") or backends.get(cell.backend).adapter,
            "family": cell.env,
            "task": cell.task,
            "numenv": cell.numenv,
            "env_instances": cell.env_instances,
            "frame_skip": cell.frame_skip,
            "settings": cell.settings,
            "protocol": Protocol(),
            **given,
        }
    )


def seed_of_round(seed: int, round_: int) -> int:
    """Different in every round, the same for every cell of it.

    Environment i of a cell is seeded with this plus i, so that seeds of rounds lie far apart.
    """
    return (seed * 1000 + round_) * 0x2545F491 % 2**31  # an odd factor: no two are the same


def calls_of_round(total: int, repeats: int, round_: int) -> int:
    """This round's share of a cell's vector steps; the shares add up to the total exactly."""
    return total // repeats + (round_ < total % repeats)


def remaining(plan: Plan, order: Sequence[tuple[int, Cell]], runs: Sequence[Run]) -> list[int]:
    """Indexes into ``order`` still to be run: neither done nor of a cell that has failed.

    An interrupted run is as none; a failed one ends its cell, because what failed for a reason
    of its own would fail again.
    """
    ended = [run for run in runs if not interrupted(run) and run.plan_id == plan.plan_id]
    done = {(run.round, digest(run.cell)) for run in ended}
    failed = {digest(run.cell) for run in ended if run.failure}
    keys = [(round_, digest(cell)) for round_, cell in order]
    return [
        index
        for index, (round_, key) in enumerate(keys)
        if (round_, key) not in done and key not in failed
    ]


def interrupted(run: Run) -> bool:
    """Was this run stopped from outside, by a person or the system?"""
    return run.failure is not None and run.failure.reason == "interrupted"
