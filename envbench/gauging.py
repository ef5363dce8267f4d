"""A cell measured against the reference kernel, which slows down where the machine does.

Stored, such gauges are a baseline for another day (``envbench baseline save``, ``envbench check
--against``). The kernel follows a machine's clock, and less so its caches, its memory and its
other cores: what is found is advice.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from envbench import arms, check_plan, regression, store
from envbench.backends import get
from envbench.campaign import new_id, worker_hash
from envbench.errors import EnvbenchError
from envbench.model import Cell, Gauge, Job, Protocol
from envbench.pairing import Arm, side_of, step_in_turn
from envbench.plan import order, seed_of_round
from envbench.preflight import runtime_fact
from envbench.regression import Rule, Stage

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


def compared(now: Sequence[Gauge], then: Sequence[Gauge], rule: Rule) -> Stage:
    """The cell's rate relative to the kernel's, now over then."""
    return regression.against([_relative(g) for g in now], [_relative(g) for g in then], rule)


def _relative(found: Gauge) -> float:
    """log of the cell's steps a second over the kernel's, of slices that no signal spoilt."""
    kernel, cell = found.kernel.measured, found.measured.measured
    kept = [k for k in range(len(cell.ns)) if str(k) not in kernel.invalid | cell.invalid]
    kept = kept if 2 * len(kept) >= len(cell.ns) else list(range(len(cell.ns)))
    rates = [
        sum(each.steps[k] for k in kept) / sum(each.ns[k] for k in kept) for each in (cell, kernel)
    ]
    return math.log(rates[0] / rates[1])


def same_cells(gauges: Sequence[Gauge]) -> dict[str, list[Gauge]]:
    """By what was measured, whatever the machine profile is called."""
    groups: dict[str, list[Gauge]] = {}
    for each in gauges:
        cell = msgspec.structs.replace(each.cell, machine="")
        groups.setdefault(str(msgspec.to_builtins(cell)), []).append(each)
    return groups
