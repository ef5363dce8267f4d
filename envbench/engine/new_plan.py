"""A new plan: what was asked for, and everything that its outcome depends on.

That is the machine, the interpreters, the code of the workers, their packages and, if the measured
code can be edited, every file that an interpreter may import. A campaign looks again between its
blocks (``identity``), and ``resume`` compares the plan with an unfinished one.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envbench import __version__, runtimes
from envbench.engine.availability import Arm, Arms
from envbench.engine.experiment import Experiment, Site
from envbench.engine.git import git_state
from envbench.engine.target import Target
from envbench.machine.host import free_memory, quota_cpus, usable_cores
from envbench.machine.known_profiles import PACKAGE, checkout
from envbench.model import ArmFact, Plan, arm_key, digest
from envbench.process.code_hash import code_hash

STAMP = "%Y-%m-%dT%H-%M-%SZ"  # of a plan's start, and of its file
CODE = (".py", ".so", ".pyd", ".dylib", ".pth")
OTHER = ("__pycache__", "site-packages")  # folders in which no package is importable by its path
OWN_SOURCE = checkout(PACKAGE) or PACKAGE  # envbench's own code, which is not measured


def make_plan(
    experiment: Experiment[object], targets: Sequence[Target], site: Site, arms: Arms
) -> Plan:
    """What was asked for, and what the outcome depends on: the machine, the code, the packages."""
    now = datetime.now(UTC)
    cells, design = [each.cell for each in targets], experiment.design(targets, site)
    ready = [arm for arm in arms.values() if arm.failure is None]
    sources = {arm.name: arm.source for arm in arms.values() if arm.source}
    used = [e.backend for e in targets] + [e.backend for e in arms.values()]  # with the kernels
    commit, dirty = git_state()
    seed = site.options.seed
    return Plan(
        plan_id=new_id(now),
        experiment=experiment.name,
        spec=digest([experiment.name, experiment.purpose, cells, design, sources, seed]),
        cells=cells,
        design=design,
        behaviour={each.name: each.behaviour for each in used},
        arms=[
            ArmFact(name=name, source=source, place=_place(name, ready))
            for name, source in sources.items()
        ],
        logical_cpus=site.fingerprint.logical_cpus,
        cores=usable_cores(),
        quota=quota_cpus(),
        free_memory=free_memory(),
        seed=seed,
        fingerprint=digest(site.fingerprint),
        **identity(experiment, arms),
        runtimes={arm.key: arm.runtime.hash for arm in ready if arm.runtime is not None},
        started_utc=now.strftime(STAMP),
        command=[*site.options.command] or ["envbench", *sys.argv[1:]],
        envbench_version=__version__,
        git_commit=commit,
        git_dirty=dirty,
    )


def _place(name: str, ready: Sequence[Arm]) -> str:
    """A hash of the folders of the arm's interpreters, which differ between commits and
    requirements. (Not of paths: one folder has an interpreter under several names.)"""
    own = [each for each in ready if each.name == name]
    return digest(sorted((arm_key("", e.cell), str(Path(e.python).parent)) for e in own))


def new_id(now: datetime) -> str:
    """Return a unique id that sorts by time."""
    return f"{now.strftime(STAMP)}-{secrets.token_hex(3)}"


# ---------------------------------------------------------------- what runs


def identity(experiment: Experiment[object], arms: Mapping[str, Arm]) -> dict[str, Any]:
    """What runs now: the fields of a plan that name the code and where it is, by ``arm_key``.

    A place is a folder, not a path of an interpreter: a folder has one under several names.
    """
    ready = [arm for arm in arms.values() if arm.failure is None]
    own = [arm for arm in ready if arm.to_probe]  # the reference kernels are envbench's
    watches = experiment.watches_code or any(arm.target.family.own_tasks for arm in own)
    watched = own if watches else []
    imports = {python: _hash_of_imports(python) for python in {arm.python for arm in watched}}
    return {
        "code": {
            f"{arm.key}/{mode}": _code_hash(arm, mode) for arm in ready for mode in experiment.modes
        },
        "places": {arm.key: digest(os.path.realpath(Path(arm.python).parent)) for arm in ready},
        "imports": {arm.key: imports[arm.python] for arm in watched},
    }


def _code_hash(arm: Arm, mode: str) -> str:
    """The hash of the code that the arm's workers load in that mode, and of their variables."""
    family_code = arm.target.family.worker
    code = code_hash(arm.backend.adapter, mode, arm.worker.parents[1], family_code)
    return digest([code, runtimes.environment(arm.backend)])


def _hash_of_imports(python: str) -> str:
    files = code_files(python)
    return digest(sorted((os.fsencode(p), s.st_ino, s.st_size, s.st_mtime_ns) for p, s in files))


def code_files(python: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every file of code on the interpreter's import path, under the real path of its folder."""
    seen = {os.path.realpath(OWN_SOURCE)}  # each folder once: links may form a loop
    import_path = runtimes.ask(python, "import sys; print(*sys.path, sep='\\n')").splitlines()
    waiting = [os.path.realpath(each) for each in import_path]
    while waiting:
        if (folder := waiting.pop()) in seen:
            continue
        seen.add(folder)
        with suppress(OSError), os.scandir(folder) as entries:  # it may not exist
            for each in entries:
                if each.name.endswith(CODE) and each.is_file():
                    yield each.path, each.stat()
                elif each.name[0] != "." and each.name not in OTHER and each.is_dir():
                    waiting.append(os.path.realpath(each) if each.is_symlink() else each.path)
