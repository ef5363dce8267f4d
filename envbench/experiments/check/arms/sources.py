"""One side of a comparison: an interpreter with its packages, and the worker's code.

A ``Source`` is what a person asked for. An interpreter is used as it is. Requirements are
installed, with the same Python, over those of the backend, or else over the measuring packages of
the current interpreter, pinned to their versions here. The tree of a git ref is installed in the
same way. An empty source is the backend's own interpreter. Packages that are installed last may
change the versions of the others. In envbench's own repository a ref also brings its own worker.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from importlib import metadata
from pathlib import Path

import msgspec

from envbench import runtimes
from envbench.backends import Backend
from envbench.engine.availability import Arm, Say
from envbench.engine.request import Target
from envbench.errors import UsageError
from envbench.experiments.check.arms.copies import WORKING_TREE, checked_out, commit_of, kept_copy
from envbench.process.execute import WORKER
from envbench.runtimes.installer import name_of

# The packages of the default runtime: requirements.txt
DEFAULT = ("numpy", "gymnasium", "ale-py", "mujoco", "envpool", "opencv-python-headless", "imageio")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for. An empty one is the backend's own interpreter."""

    python: str = ""
    requirements: list[str] = []
    ref: str = ""

    def __str__(self) -> str:
        named = "the working tree" if self.ref == WORKING_TREE else self.ref
        parts = [self.python, ", ".join(self.requirements), named]
        return " ".join(part for part in parts if part) or "the current interpreter"


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What all backends of a side share: an interpreter, or requirements that are ``added`` to
    the backend's (copies and a checkout, by path), and the worker's code."""

    name: str
    source: str
    python: str
    added: list[str]
    worker: Path


def refuse_impossible(name: str, source: Source) -> None:
    """``UsageError`` for a source that cannot be an arm, before any time is spent on it."""
    if source.python:
        runtimes.interpreter(source.python, f"--{name}-python")
    if source.ref:
        commit_of(source.ref, f"--{name}-ref")
    for requirement in source.requirements:
        if _local(requirement) is None and not name_of(requirement):
            raise UsageError(
                f"--{name}: {requirement!r} is not a requirement.",
                hint="Write one as envpool==1.2.4, or give the path of a wheel or of a project.",
            )


def prepare(name: str, source: Source) -> Prepared:
    """A copy of the source as it is now: files may be edited while a check runs."""
    tree = checked_out(source.ref, f"--{name}-ref") if source.ref else None
    own_worker = tree / "envbench/worker_path/envbench_worker/__main__.py" if tree else WORKER
    return Prepared(
        name=name,
        source=str(source),
        python=runtimes.interpreter(source.python, f"--{name}-python") if source.python else "",
        added=[*map(_copied, source.requirements), *([str(tree)] if tree else [])],
        worker=own_worker if own_worker.exists() else WORKER,
    )


def make(prepared: Prepared, target: Target, say: Say) -> Arm:
    """The arm for a target's backend. Makes its runtime if necessary (``Unavailable``)."""
    backend, cell = target.backend, target.cell
    python = prepared.python
    if not python:
        added = prepared.added
        base = _without(backend, cell.env, cell.workload, added) if added else backend
        python = runtimes.make(base, say, cell.env, cell.workload, over=added).python
    return Arm(
        name=prepared.name,
        source=prepared.source,
        backend=backend,
        python=python,
        worker=prepared.worker,
    )


def _without(backend: Backend, family: str, workload: str, added: list[str]) -> Backend:
    """The backend without the requirements that ``added`` replaces."""
    replaced = {_name(each) for each in added}
    needed = backend.requirements_of(family, workload) or _pinned()
    base = [each for each in needed if _name(each) not in replaced]
    return msgspec.structs.replace(backend, requirements=base, needs=[])


def _pinned() -> list[str]:
    """The measuring packages of this interpreter, in their versions here."""
    pinned = []
    for name in DEFAULT:
        with contextlib.suppress(metadata.PackageNotFoundError):
            pinned.append(f"{name}=={metadata.version(name)}")
    return pinned


def _copied(requirement: str) -> str:
    """The path of a copy of a wheel or folder; any other requirement as it is."""
    path = _local(requirement)
    return requirement if path is None else str(kept_copy(path))


def _local(requirement: str) -> Path | None:
    """The absolute path of a wheel or a folder; None for a requirement from an index."""
    looks_like_path = os.sep in requirement or requirement.endswith(".whl")
    if not looks_like_path or "://" in requirement or " @ " in requirement:
        return None
    path = Path(requirement).expanduser()
    if not path.exists():
        raise UsageError(f"{requirement} is neither a requirement nor a file that exists.")
    return Path(os.path.abspath(path))


def _name(requirement: str) -> str:
    """``ale-py`` of ``ale_py==0.11``, of ``/wheels/ale_py-0.11-cp311-….whl`` and of a project."""
    if os.path.isdir(requirement):
        with contextlib.suppress(OSError, ValueError, KeyError):
            project = Path(requirement, "pyproject.toml").read_text(encoding="utf-8")
            requirement = str(tomllib.loads(project)["project"]["name"])
    return name_of(requirement) or requirement
