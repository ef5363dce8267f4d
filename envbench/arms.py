"""The two sides of a check: an interpreter with its packages, and the worker's code.

An arm is asked for (``Source``) by an interpreter, which is taken as it is; by requirements, which
are installed over those of the backend (or over the measuring packages of the current interpreter,
pinned to their versions here) into a runtime made as every isolated runtime is; by a git ref, whose
tree is installed in the same way; or by nothing, which is the backend's own interpreter. In
envbench's own repository a ref brings the worker of that ref, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from importlib import metadata
from io import BytesIO
from pathlib import Path

import msgspec

from envbench import runtimes
from envbench.backends import Backend
from envbench.errors import SetupFailed, UsageError
from envbench.model import Settings
from envbench.pairing import Arm
from envbench.runner import WORKER

MEASURING = (  # what the default runtime measures with: requirements.txt
    "numpy",
    "gymnasium",
    "ale-py",
    "mujoco",
    "envpool",
    "opencv-python-headless",
    "imageio",
)
WORKING_TREE = "."  # as a ref: the files that git knows, as they are now
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^]]*\])?\s*($|[=<>!~@;(])")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for; empty: the interpreter that the backend runs in anyway."""

    python: str = ""
    requirements: list[str] = []
    ref: str = ""

    def __str__(self) -> str:
        named = "the working tree" if self.ref == WORKING_TREE else self.ref
        parts = [self.python, ", ".join(self.requirements), named]
        return " ".join(part for part in parts if part) or "the current interpreter"


def look_at(name: str, source: Source) -> None:
    """Refuse (``UsageError``) what cannot be an arm, before any time is spent on it."""
    if source.python:
        runtimes.interpreter(source.python, f"--{name}-python")
    if source.ref:
        _commit(source.ref)
    for requirement in source.requirements:
        if _absolute(requirement) == requirement and not _REQUIREMENT.match(requirement):
            raise UsageError(
                f"--{name}: {requirement!r} is no requirement.",
                hint="One is written envpool==1.2.4, or is the path of a wheel or of a project.",
            )


def make(name: str, source: Source, backend: Backend, say: Callable[[str], None]) -> Arm:
    """The arm for a backend; makes its runtime where it has to be made (``SetupFailed``).

    ``environment`` of the arm is without the settings' own variables: see ``with_settings``.
    """
    if source.python:
        python = runtimes.interpreter(source.python, f"--{name}-python")
        return Arm(name=name, python=python, environment={})
    tree = checked_out(source.ref) if source.ref else None
    added = [*map(_absolute, source.requirements), *([str(tree)] if tree else [])]
    if not added:
        found = runtimes.find(backend, {})
        ready = found if found.ready else runtimes.make(backend, say)
        return Arm(name=name, python=ready.python, environment={})
    made = runtimes.make(_with_requirements(backend, added), say)
    return Arm(name=name, python=made.python, environment={}, worker=_worker_of(tree))


def with_settings(arm: Arm, backend: Backend, settings: Settings) -> Arm:
    """The arm with the variables that a worker of this backend and these settings sees."""
    environment = {**os.environ, **runtimes.environment(backend, settings)}
    return msgspec.structs.replace(arm, environment=environment)


# ---------------------------------------------------------------- requirements


def _with_requirements(backend: Backend, added: list[str]) -> Backend:
    """The backend with these requirements in the place of its own of the same names."""
    named = {_name(each) for each in added}
    base = [each for each in backend.requirements or _pinned() if _name(each) not in named]
    return msgspec.structs.replace(backend, requirements=[*base, *added])


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


def _absolute(requirement: str) -> str:
    """A wheel or a folder by its whole path: the installer runs elsewhere."""
    looks_like_path = os.sep in requirement or requirement.endswith(".whl")
    if not looks_like_path or "://" in requirement or " @ " in requirement:
        return requirement
    path = Path(requirement).expanduser()
    if not path.exists():
        raise UsageError(f"{requirement} is neither a requirement nor a file that is here.")
    return str(path.absolute())


def _name(requirement: str) -> str:
    """``ale-py`` of ``ale_py==0.11`` and of ``/wheels/ale_py-0.11-cp311-….whl``."""
    last = requirement.rpartition("/")[2] if requirement.endswith(".whl") else requirement
    found = _NAME.match(last.partition("-")[0] if requirement.endswith(".whl") else last)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else requirement


# ---------------------------------------------------------------- git


def checked_out(ref: str) -> Path:
    """The project's tree at that ref, in the cache, by its commit."""
    commit = _commit(ref)
    folder = runtimes.cache_folder().parent / "refs" / commit
    if not folder.is_dir():
        archive = _git("archive", "--format=tar", commit)
        partial = folder.with_name(f"{commit}.{os.getpid()}")
        partial.mkdir(parents=True)
        with tarfile.open(fileobj=BytesIO(archive)) as tree:
            tree.extractall(partial, filter="data")
        partial.rename(folder)
    if not (folder / "pyproject.toml").exists() and not (folder / "setup.py").exists():
        raise UsageError(f"{ref} has no pyproject.toml or setup.py at its top: nothing to install.")
    return folder


def _commit(ref: str) -> str:
    if ref == WORKING_TREE:
        nobody = ("-c", "user.name=envbench", "-c", "user.email=envbench@localhost")
        return _git(*nobody, "stash", "create").decode().strip() or _commit("HEAD")
    return _git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()


def _git(*words: str) -> bytes:
    try:
        done = subprocess.run(["git", *words], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupFailed(f"git did not run: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(
            f"git {' '.join(words[:2])}: {said[-1] if said else 'it failed'}",
            hint="A ref is a branch, a tag or a commit of the git working tree you stand in.",
        )
    return done.stdout


def _worker_of(tree: Path | None) -> Path:
    """In envbench's own repository, the worker of that ref."""
    theirs = tree / "envbench" / "worker_path" / "envbench_worker" / "__main__.py" if tree else None
    return theirs if theirs is not None and theirs.exists() else WORKER
