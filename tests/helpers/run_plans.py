"""Plans of ``run``, for tests of its blocks."""

from __future__ import annotations

from typing import Any

import msgspec

from envbench import backends
from envbench.engine.experiment import Options, Site
from envbench.engine.target import make_cell, target_of
from envbench.experiments.run.rounds import Measure, RunExperiment
from envbench.machine import fingerprint
from envbench.machine.profile_file import Profile, Table
from envbench.model import Cell, Plan

RUN = RunExperiment()


def cell(backend: str = "for-loop", numenv: int = 2, task: str = "Pong-v5", **given: str) -> Cell:
    return make_cell("laptop", "atari", task, backends.get(backend), numenv, given)


def site(*gpus: str) -> Site:
    machine = msgspec.structs.replace(fingerprint(), gpus=[*gpus])
    profile = Profile(name="laptop", title="Laptop", atari=Table(numenv=[1], rows=["for-loop"]))
    return Site(profile=profile, fingerprint=machine, options=Options())


def plan(
    cells: list[Cell] | None = None,
    seed: int = 0,
    gpus: tuple[str, ...] = (),
    free_gib: int = 64,
    **measure: Any,
) -> Plan:
    cells = cells or [cell()]
    targets = [target_of(each) for each in cells]
    return Plan(
        plan_id="p1",
        experiment="run",
        spec="s",
        cells=cells,
        design=RunExperiment(measure=Measure(**measure)).design(targets, site(*gpus)),
        behaviour={each.backend.name: each.backend.behaviour for each in targets},
        free_memory=free_gib * 2**30,
        seed=seed,
        fingerprint="f",
        started_utc="2026-01-02T03-04-05Z",
        command=["envbench", "run"],
        envbench_version="0",
    )
