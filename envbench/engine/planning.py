"""A plan: what was asked for, and everything about the machine and the code that it depends on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from envbench import __version__, families
from envbench.engine.campaign import new_id
from envbench.engine.experiment import Experiment, Site
from envbench.engine.preflight import Arm, Cannot
from envbench.engine.request import Target
from envbench.engine.resume import STAMP
from envbench.machine.cpus import quota_cpus, usable_cores
from envbench.model import Arm as ArmFact
from envbench.model import Plan, digest
from envbench.process.worker_code import code_hash


def make_plan(
    experiment: Experiment[object],
    targets: Sequence[Target],
    site: Site,
    arms: Mapping[str, Arm | Cannot],
    sources: Mapping[str, str],
) -> Plan:
    """The plan of an experiment, here and now. ``sources``: what named arms are, by name."""
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
        code=dict(_code(experiment.modes, ready)),
        runtimes={key: arm.runtime.hash for key, arm in ready.items() if arm.runtime is not None},
        started_utc=now.strftime(STAMP),
        command=["envbench", *sys.argv[1:]],
        envbench_version=__version__,
        git_commit=commit,
        git_dirty=dirty,
    )


def _place(name: str, ready: Mapping[str, Arm]) -> str:
    """A hash of the interpreters of that arm: another commit or requirement, another place."""
    own = {k.removeprefix(f"{name}/"): arm.python for k, arm in ready.items() if arm.name == name}
    return digest(sorted(own.items()))


def _code(modes: Sequence[str], ready: Mapping[str, Arm]) -> Iterator[tuple[str, str]]:
    """The code that the workers load, by arm and mode."""
    for key, arm in ready.items():
        family = families.get(key.split("/")[-2]).worker
        for mode in modes:
            root = arm.worker.parents[1]
            yield f"{key}/{mode}", code_hash(arm.backend.adapter, mode, root, family)


def git_state() -> tuple[str | None, bool | None]:
    """Commit and dirtiness of the envbench that runs, where it runs from a git checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None, None

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return commit, bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None
