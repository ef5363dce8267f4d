"""One side of a comparison: an interpreter with its packages, and the worker's code.

A ``Source`` says what a person asked for. An interpreter is taken as it is. Requirements are
installed over those of the backend (or over the measuring packages of the current interpreter,
pinned to their versions here) into a runtime made as every isolated runtime is, with the same
Python. The tree of a git ref is installed in the same way. Nothing means the backend's own
interpreter. Packages that are installed last may change the versions of the others.
In envbench's own repository a ref brings the worker of that ref, too.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import msgspec

from envbench import runtimes
from envbench.backends import Backend
from envbench.engine.preflight import Arm
from envbench.engine.request import Target
from envbench.errors import UsageError
from envbench.experiments.check.arms import git_tree
from envbench.experiments.check.arms.git_tree import WORKING_TREE
from envbench.experiments.check.arms.local_copies import kept_copy
from envbench.process.execute import WORKER
from envbench.runtimes.requirements import name_of

MEASURING = (  # what the default runtime measures with: requirements.txt
    "numpy",
    "gymnasium",
    "ale-py",
    "mujoco",
    "envpool",
    "opencv-python-headless",
    "imageio",
)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for; empty: the interpreter that the backend runs in anyway."""

    python: str = ""
    requirements: list[str] = []
    ref: str = ""

    @classmethod
    def given(cls, python: str | None, requirements: Sequence[str], ref: str | None) -> Source:
        """By the options of one side."""
        return cls(python=python or "", requirements=list(requirements), ref=ref or "")

    def __str__(self) -> str:
        named = "the working tree" if self.ref == WORKING_TREE else self.ref
        parts = [self.python, ", ".join(self.requirements), named]
        return " ".join(part for part in parts if part) or "the current interpreter"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every backend: an interpreter, or what is installed over the rest
    (copies and a checkout, by their paths), and the worker's code."""

    name: str
    python: str
    added: list[str]
    worker: Path


def refuse_impossible(name: str, source: Source) -> None:
    """``UsageError`` for what cannot be an arm, before any time is spent on it."""
    if source.python:
        runtimes.interpreter(source.python, f"--{name}-python")
    if source.ref:
        git_tree.commit_of(source.ref, f"--{name}-ref")
    for requirement in source.requirements:
        if _local(requirement) is None and not name_of(requirement):
            raise UsageError(
                f"--{name}: {requirement!r} is not a requirement.",
                hint="Write one as envpool==1.2.4, or give the path of a wheel or of a project.",
            )


def keep(name: str, source: Source) -> Kept:
    """What is asked for, as it is now: files may be edited while a check runs."""
    tree = git_tree.checked_out(source.ref, f"--{name}-ref") if source.ref else None
    return Kept(
        name=name,
        python=runtimes.interpreter(source.python, f"--{name}-python") if source.python else "",
        added=[*map(_kept, source.requirements), *([str(tree)] if tree else [])],
        worker=_worker_of(tree),
    )


def make(kept: Kept, target: Target, say: Callable[[str], None]) -> Arm:
    """The arm for a target's backend. Makes its runtime if there is none yet (``SetupFailed``)."""
    backend, cell = target.backend, target.cell
    if kept.python:
        python = kept.python
    elif kept.added:
        base = _without(backend, cell.env, cell.workload, kept.added)
        python = runtimes.make(base, say, over=kept.added).python
    else:
        python = runtimes.make(backend, say, cell.env, cell.workload).python
    return Arm(name=kept.name, backend=backend, python=python, worker=kept.worker)


# ---------------------------------------------------------------- requirements


def _without(backend: Backend, family: str, workload: str, added: list[str]) -> Backend:
    """The backend without those of its requirements that are named anew."""
    named = {_name(each) for each in added}
    needed = backend.requirements_of(family, workload) or _pinned()
    base = [each for each in needed if _name(each) not in named]
    return msgspec.structs.replace(backend, requirements=base, needs=[])


def _pinned() -> list[str]:
    """The measuring packages of this interpreter, as they are here."""
    versions: Mapping[str, str] = {
        name: metadata.version(name) for name in MEASURING if _is_installed(name)
    }
    return [f"{name}=={version}" for name, version in versions.items()]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _kept(requirement: str) -> str:
    """A wheel or a folder as it is now: a copy whose path says what is in it."""
    path = _local(requirement)
    return requirement if path is None else str(kept_copy(path))


def _local(requirement: str) -> Path | None:
    """The whole path of a wheel or a folder; None of what an index has."""
    looks_like_path = os.sep in requirement or requirement.endswith(".whl")
    if not looks_like_path or "://" in requirement or " @ " in requirement:
        return None
    path = Path(requirement).expanduser()
    if not path.exists():
        raise UsageError(f"{requirement} is neither a requirement nor a file that is here.")
    return Path(os.path.abspath(path))


def _name(requirement: str) -> str:
    """``ale-py`` of ``ale_py==0.11``, of ``/wheels/ale_py-0.11-cp311-….whl`` and of a project."""
    if os.path.isdir(requirement):
        requirement = _project_name(Path(requirement)) or requirement
    return name_of(requirement) or requirement


def _project_name(folder: Path) -> str:
    """What its pyproject.toml calls it; empty where that does not say."""
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        return str(tomllib.loads(text).get("project", {}).get("name", ""))
    except (OSError, ValueError):
        return ""


def _worker_of(tree: Path | None) -> Path:
    """In envbench's own repository, the worker of that ref."""
    theirs = tree / "envbench" / "worker_path" / "envbench_worker" / "__main__.py" if tree else None
    return theirs if theirs is not None and theirs.exists() else WORKER
