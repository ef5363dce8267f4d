"""The order for a trial's worker, and its reply."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from envbench import runtimes
from envbench.engine.availability import TRIES, Arm
from envbench.engine.target import Target
from envbench.model import Job, Trial
from envbench.process.alternate import Launch
from envbench.process.one_job import execute
from envbench.process.reply import Reply

OBSERVED = 200  # lock-steps that show if observations follow actions, where episodes are compared


def make_job(trial: Trial, target: Target, run_id: str) -> Job:
    """The order for a trial's worker."""
    family = target.family
    standard = family.standards.get(trial.cell.kind)
    return Job(
        run_id=run_id,
        adapter=target.backend.adapter,
        family=family.name,
        family_code=family.worker,
        own_task=family.own_tasks,
        together=trial.verify.together if trial.mode == "verify" else 0,
        observed=OBSERVED if standard and standard.episodes else None,
        follows_by=_follows_by(target),
        midway=_follows_by(target) == "state" and standard is not None and not standard.stack,
        **shared_fields(trial, Job),
        **shared_fields(trial.cell, Job),
    )


def _follows_by(target: Target) -> Literal["state", "seed", ""]:
    """How the reference follows this target's environments; "" for other engines and tasks."""
    cell, family = target.cell, target.family
    known = cell.kind == "env" and not target.backend.own_engine
    return family.follows_by if known and not family.uncompared(cell.kind, cell.task) else ""


def shared_fields(value: Struct, kind: type[Struct]) -> dict[str, Any]:
    """The fields of a value that another kind of value also has."""
    names = set(value.__struct_fields__) & set(kind.__struct_fields__)
    return {name: getattr(value, name) for name in names}


def launch(trial: Trial, arm: Arm) -> Launch:
    """The process of a trial. Only ``verify`` keeps compiled programs: ``run`` times compiling."""
    kept = runtimes.kept_programs(arm.python) if trial.mode == "verify" else {}
    return Launch(
        job=make_job(trial, arm.target, trial.cell.key),
        python=arm.python,
        environment={**kept, **os.environ, **runtimes.environment(arm.backend)},
        worker=arm.worker,
    )


def reply_of(launch: Launch, files: Mapping[str, bytes]) -> Reply:
    """The reply of a worker that is started again if something outside kills it."""
    for _ in range(TRIES):
        found = execute(**asdict(launch), files=files)
        if found.failure is None or not found.failure.killed:
            break
    return found
