"""Make a plan: what was asked for, and everything about the machine and the code it depends on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from envbench import __version__, families
from envbench.engine.availability import Arm, Unavailable
from envbench.engine.campaign import new_id
from envbench.engine.experiment import Experiment, Site
from envbench.engine.git import git_state
from envbench.engine.request import Target
from envbench.engine.resume import STAMP
from envbench.machine.host import quota_cpus, usable_cores
from envbench.model import Arm as ArmFact
from envbench.model import Plan, digest
from envbench.process.worker_code import code_hash


def make_plan(
    experiment: Experiment[object],
    targets: Sequence[Target],
    site: Site,
    arms: Mapping[str, Arm | Unavailable],
    sources: Mapping[str, str],
) -> Plan:
    """The plan of an experiment, here and now. ``sources`` describes the named arms, by name."""
    now = datetime.now(UTC)
    cells, design = [each.cell for each in targets], experiment.design(targets)
    ready = {key: arm for key, arm in arms.items() if isinstance(arm, Arm)}
    commit, dirty = git_state()
    seed = site.options.seed
    return Plan(
        plan_id=new_id(now),
        experiment=experiment.name,
        spec=digest([experiment.name, cells, design, dict(sources), seed]),
        cells=cells,
        design=design,
        behaviour={each.backend.name: each.backend.behaviour for each in targets},
        arms=[
            ArmFact(name=name, source=source, place=_place(name, ready))
            for name, source in sources.items()
        ],
        logical_cpus=site.fingerprint.logical_cpus,
        cores=usable_cores(),
        quota=quota_cpus(),
        seed=seed,
        fingerprint=digest(site.fingerprint),
        code={
            f"{key}/{mode}": _code_hash(key, arm, mode)
            for key, arm in ready.items()
            for mode in experiment.modes
        },
        runtimes={key: arm.runtime.hash for key, arm in ready.items() if arm.runtime is not None},
        started_utc=now.strftime(STAMP),
        command=["envbench", *sys.argv[1:]],
        envbench_version=__version__,
        git_commit=commit,
        git_dirty=dirty,
    )


def _place(name: str, ready: Mapping[str, Arm]) -> str:
    """A hash of the arm's interpreters: another commit or requirement has another place."""
    own = {k.removeprefix(f"{name}/"): arm.python for k, arm in ready.items() if arm.name == name}
    return digest(sorted(own.items()))


def _code_hash(key: str, arm: Arm, mode: str) -> str:
    """Of the code that the arm's workers load in that mode. ``key`` is of ``arm_key``."""
    family = families.get(key.split("/")[-2]).worker
    return code_hash(arm.backend.adapter, mode, arm.worker.parents[1], family)
