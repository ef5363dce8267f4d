"""A cell measured against the reference kernel, which slows down where the machine does.

Stored, such gauges are a baseline for another day (``envbench baseline save``, ``envbench check
--against``): see ``envbench.check.stored_baseline``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from envbench import store
from envbench.backends import get
from envbench.campaign import new_id, worker_hash
from envbench.check import arms, procedure, regression
from envbench.check.pairing import Arm, side_of, step_in_turn
from envbench.check.resuming import changed_since
from envbench.errors import EnvbenchError
from envbench.model import Cell, Failure, Gauge, Job, Protocol
from envbench.plan import order, seed_of_round
from envbench.preflight import runtime_fact

MOST_PAUSE_S = 3600  # after which a measurement that was stopped is begun anew
KERNEL = "envbench_worker.adapters.reference:Reference"


def kernel_job(run_id: str, protocol: Protocol, cpus: Sequence[int]) -> Job:
    """The reference kernel's own job, on those cores."""
    return Job(
        run_id=run_id,
        adapter=KERNEL,
        family="gym",
        task="reference",
        numenv=1,
        env_instances=1,
        frame_skip=1,
        settings={},
        seed=0,
        protocol=protocol,
        cpus=list(cpus),
    )


def kernel_arm(name: str) -> Arm:
    """The kernel runs in envbench's own interpreter."""
    return Arm(name=name, python=sys.executable, environment=os.environ)


class CellFailed(EnvbenchError):
    """The cell has no figure. ``failure`` says why."""

    def __init__(self, cell: Cell, failure: Failure) -> None:
        super().__init__(f"{cell.key}: {failure.message}", hint=failure.hint)
        self.failure = failure


def gauge(
    cell: Cell,
    arm: Arm,
    number: int,
    *,
    seed: int,
    fingerprint: str,
    cpus: Sequence[int],
    path: Path,
) -> Gauge:
    """One pair of the kernel and the cell, stored. ``CellFailed``, or ``EnvbenchError`` where the
    kernel itself fails."""
    now = datetime.now(UTC)
    protocol = procedure.protocol()
    own = seed_of_round(seed, number)
    blocks, slice_s = procedure.slicing(procedure.BLOCKS, procedure.SLICE_S, cell.backend)
    run_id, turns = new_id(now), regression.turns(blocks, own)
    jobs = (
        kernel_job(run_id, protocol, cpus),
        order(cell, run_id=run_id, seed=own, protocol=protocol, cpus=list(cpus)),
    )
    measured = arms.with_settings(arm, get(cell.backend), cell.settings)
    replies = step_in_turn(jobs, (kernel_arm("kernel"), measured), turns, slice_s)
    kernel, own_reply = replies
    if own_reply.failure is not None:
        raise CellFailed(cell, own_reply.failure)
    if kernel.failure is not None:
        raise EnvbenchError(
            f"the reference kernel failed: {kernel.failure.message}", hint=kernel.failure.hint
        )
    for reply in replies:
        store.append(path, runtime_fact(reply))
    made = Gauge(
        gauge_id=run_id,
        cell=cell,
        number=number,
        seed=own,
        turns=turns,
        cpus=list(cpus),
        started_utc=now.isoformat(timespec="milliseconds"),
        fingerprint=fingerprint,
        worker=worker_hash(),
        kernel=side_of(replies[0]),
        measured=side_of(replies[1]),
    )
    store.append(path, made)
    return made


def unfinished(
    path: Path, wanted: Sequence[Cell], *, seed: int, fingerprint: str, pythons: Sequence[str]
) -> list[Gauge]:
    """What a measurement of these cells that was stopped in its midst has in that file: to go on.

    ``wanted``: every cell of every round, in order. Empty where the file is of something else,
    is whole, was left for over an hour, or where code has changed since.
    """
    gauges = [record for _, record in store.read(path).records if isinstance(record, Gauge)]
    cells = [each.cell for each in gauges]
    if not gauges or len(gauges) >= len(wanted) or cells != list(wanted[: len(gauges)]):
        return []
    worker = worker_hash()
    known = [
        (each.seed, each.fingerprint, each.worker)
        == (seed_of_round(seed, each.number), fingerprint, worker)
        for each in gauges
    ]
    began, last = (datetime.fromisoformat(each.started_utc) for each in (gauges[0], gauges[-1]))
    old = (datetime.now(UTC) - last).total_seconds() > MOST_PAUSE_S
    if old or not all(known):
        return []
    changed = any(changed_since(python, began.timestamp()) for python in pythons)
    return [] if changed else gauges
