"""A cell measured against the reference kernel, which slows down where the machine does.

Stored, such gauges are a baseline for another day (``envbench baseline save``, ``envbench check
--against``): see ``envbench.stored_baseline``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from envbench import arms, check_plan, regression, store
from envbench.backends import get
from envbench.campaign import new_id, worker_hash
from envbench.errors import EnvbenchError
from envbench.model import Cell, Gauge, Job, Protocol
from envbench.pairing import Arm, side_of, step_in_turn
from envbench.plan import order, seed_of_round
from envbench.preflight import runtime_fact

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


def gauge(
    cell: Cell, arm: Arm, number: int, *, seed: int, blocks: int, slice_s: float, fingerprint: str,
    cpus: Sequence[int], path: Path,
) -> Gauge:  # fmt: skip
    """One pair of the kernel and the cell, stored. ``EnvbenchError`` where either fails."""
    now = datetime.now(UTC)
    protocol = check_plan.protocol(slice_s)
    own = seed_of_round(seed, number)
    run_id, turns = new_id(now), regression.turns(blocks, own)
    jobs = (
        kernel_job(run_id, protocol, cpus),
        order(cell, run_id=run_id, seed=own, protocol=protocol, cpus=list(cpus)),
    )
    measured = arms.with_settings(arm, get(cell.backend), cell.settings)
    replies = step_in_turn(jobs, (kernel_arm("kernel"), measured), turns)
    for reply in replies:
        if reply.failure is not None:
            failure = reply.failure
            raise EnvbenchError(f"{cell.key}: {failure.message}", hint=failure.hint)
        if reply.python:
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
