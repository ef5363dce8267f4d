"""Makes an arm of a check: an interpreter with its packages, and the worker's code.

A ``Source`` is what a person asked for. An interpreter is used as it is. Requirements, or the tree
of a git ref, are installed on top of the backend's own requirements. A backend without any gets the
packages of the default runtime, in the current interpreter's versions. The Python is the backend's,
or else the current one. Packages that are installed last may change the versions of the others. An
empty source is the backend's own interpreter. In envbench's repository a ref has its own worker.

Wheels, folders and checkouts are copied into the cache. Each copy is named by its content, so each
version gets a runtime of its own, even if a wheel was rebuilt or a folder was edited in place.
A checkout is a repository that shares the working tree's objects. So packages can take their
version from git, and submodules are available.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from envbench import families, runtimes
from envbench.backends import Backend
from envbench.engine.availability import Arm, Say
from envbench.engine.git import git
from envbench.engine.target import Target
from envbench.errors import UsageError
from envbench.model import digest
from envbench.process.one_job import WORKER
from envbench.runtimes.installer import distribution, name_of
from envbench.runtimes.interpreters import cache_folder

WORKING_TREE = "."  # as a ref: the files that git knows, as they are now
_AUTHOR = ("-c", "user.name=envbench", "-c", "user.email=envbench@localhost")
_IGNORED = ("__pycache__", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_IGNORED_AT_THE_TOP = (".venv", "venv", "build", "dist", ".tox", "node_modules")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for. An empty one is the backend's own interpreter."""

    python: str = ""
    requirements: list[str] = []
    ref: str = ""

    def __str__(self) -> str:
        named = "the working tree" if self.ref == WORKING_TREE else self.ref
        parts = [self.python, ", ".join(self.requirements), named]
        return " ".join(part for part in parts if part) or "the backend's own interpreter"


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What all backends of an arm share: an interpreter, or requirements that are ``added`` to the
    backend's (a copy or checkout by its path), and the worker's code."""

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
    hint = "Write one as envpool==1.2.4, or give the path of a wheel or of a project."
    for requirement in source.requirements:
        path = _local(requirement)
        if path is None and not name_of(requirement):
            raise UsageError(f"--{name}: {requirement!r} is not a requirement.", hint=hint)
        if path is not None and path.is_dir():
            _refuse_no_project(path, f"--{name} {requirement}", hint)


def _refuse_no_project(folder: Path, arm: str, hint: str) -> None:
    if not any((folder / name).exists() for name in ("pyproject.toml", "setup.py")):
        raise UsageError(f"{arm} has no pyproject.toml or setup.py: nothing to install.", hint=hint)


def prepare(name: str, source: Source) -> Prepared:
    """Copy the source as it is now: files may be edited while a check runs."""
    copied = [
        each if (path := _local(each)) is None else str(kept_copy(path))
        for each in source.requirements
    ]
    tree = checked_out(source.ref, f"--{name}-ref") if source.ref else None
    # A ref of envbench runs its own worker, which older versions keep in another folder.
    own_workers = tree.glob("envbench/*/envbench_worker/__main__.py") if tree else iter(())
    return Prepared(
        name=name,
        source=str(source),
        python=runtimes.interpreter(source.python, f"--{name}-python") if source.python else "",
        added=[*copied, *([str(tree)] if tree else [])],
        worker=next(own_workers, WORKER),
    )


def make(prepared: Prepared, target: Target, say: Say) -> Arm:
    """Return the arm for a target's backend. Make its runtime if necessary (``Unavailable``)."""
    backend, cell = target.backend, target.cell
    python = prepared.python
    if not python:
        added = prepared.added
        base = without(backend, cell.env, cell.workload, added) if added else backend
        python = runtimes.make(base, say, cell.env, cell.workload, over=added).python
    return Arm(
        name=prepared.name,
        source=prepared.source,
        target=target,
        python=python,
        worker=prepared.worker,
    )


def without(backend: Backend, family: str, workload: str, added: list[str]) -> Backend:
    """Return the backend without the requirements that ``added`` replaces; their extras stay."""
    replaced = {_name(each) for each in added}
    needed = backend.requirements_of(family, workload) or _pinned(backend, family)
    base = [each for each in needed if _name(each) not in replaced]
    base += [each[: each.index("]") + 1] for each in needed if each not in base and "[" in each]
    return msgspec.structs.replace(backend, requirements=base, needs=[])


def _pinned(backend: Backend, family: str) -> list[str]:
    """What the backend needs for the family in this interpreter, in the versions here."""
    own = families.of_record(family).packages if backend.library == "gymnasium" else []
    library = distribution(backend.library)
    pinned = []
    for name in dict.fromkeys(["numpy", "gymnasium", *own, library]):
        with contextlib.suppress(metadata.PackageNotFoundError):
            pinned.append(f"{name}=={metadata.version(name)}")
    return pinned


def _local(requirement: str) -> Path | None:
    """The absolute path of a wheel or a folder; None for a requirement from an index."""
    relative = requirement in (os.curdir, os.pardir)
    looks_like_path = relative or os.sep in requirement or requirement.endswith(".whl")
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


# ---------------------------------------------------------------- copies


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A locked place for a copy that gets its name when it is complete. Removes what processes
    that were killed left of theirs."""
    from filelock import FileLock, Timeout

    partial = folder.with_name(f"{folder.name}.partial")
    folder.parent.mkdir(parents=True, exist_ok=True)
    for each in folder.parent.glob("*.partial"):
        with contextlib.suppress(Timeout), FileLock(each.with_suffix(".lock"), blocking=False):
            shutil.rmtree(each, ignore_errors=True)
    with FileLock(f"{folder}.lock"):
        shutil.rmtree(partial, ignore_errors=True)  # its process was killed since
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def kept_copy(path: Path) -> Path:
    """Copy the file or folder. The same content has the same copy."""
    copies = cache_folder().parent / "copies"
    with _unfinished(copies / path.name) as partial:
        new = partial / path.name
        if path.is_dir():
            shutil.copytree(path, new, ignore=_ignored(path), symlinks=True)
        else:
            partial.mkdir()
            shutil.copy2(path, new)
        folder = copies / _content(new)
        if not folder.exists():
            partial.rename(folder)
    return folder / path.name


def _content(path: Path) -> str:
    """A hash of all files, except those of git, which do not belong to a version."""
    content = hashlib.sha256(path.name.encode())
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        name = file.relative_to(path)
        if file.is_file() and ".git" not in name.parts:
            content.update(os.fsencode(name) + b"\0")
            with file.open("rb") as opened:
                content.update(hashlib.file_digest(opened, "sha256").digest())
    return content.hexdigest()[:16]


def _ignored(top: Path) -> Callable[[str, list[str]], set[str]]:
    everywhere = shutil.ignore_patterns(*_IGNORED)
    at_the_top = shutil.ignore_patterns(*_IGNORED, *_IGNORED_AT_THE_TOP)
    cache = cache_folder().parent.resolve()  # it may lie in the folder that is copied into it
    own = {cache, *(cache / name for name in ("copies", "refs", "runtimes"))}

    def ignored(place: str, names: list[str]) -> set[str]:
        rule = at_the_top if Path(place) == top else everywhere
        folder = Path(place).resolve()
        return {*rule(place, names), *(name for name in names if folder / name in own)}

    return ignored


# ---------------------------------------------------------------- git


def commit_of(ref: str, option: str) -> str:
    """Return the commit that an option names; ``UsageError`` if there is none."""
    if ref == WORKING_TREE:
        stash = git(*_AUTHOR, "stash", "create", purpose=f"{option}: the working tree")
        return stash or commit_of("HEAD", option)
    commit = f"{ref}^{{commit}}"
    purpose = f"{option} {ref}: there is no such commit"
    return git("rev-parse", "--quiet", "--verify", "--end-of-options", commit, purpose=purpose)


def untracked() -> list[str]:
    """Untracked files of the current folder, without ignored ones and Python's caches."""
    words = ("ls-files", "--others", "--exclude-standard", "--exclude=__pycache__")
    return git(*words, purpose="the working tree").splitlines()


def checked_out(ref: str, option: str) -> Path:
    """Return a folder with the project of the current folder, as it was at that ref."""
    commit = commit_of(ref, option)
    below = git("rev-parse", "--show-prefix", purpose=option)
    tree = git("rev-parse", f"{commit}^{{tree}}", purpose=option)
    folder = cache_folder().parent / "refs" / digest([tree, _top()])
    with _unfinished(folder) as partial:
        if not folder.is_dir():
            _check_out(commit, partial)
            partial.rename(folder)
    what = f"{option} {ref}" + (f", folder {below}," if below else "")
    _refuse_no_project(folder / below, what, "Run envbench in the folder of the project.")
    return folder / below


def _check_out(commit: str, folder: Path) -> None:
    """Make a repository with this commit. ``git clone --shared`` needs a branch and all history."""
    purpose = "a checkout"
    git("init", "--quiet", str(folder), purpose=purpose)
    objects = Path(git("rev-parse", "--git-path", "objects", purpose=purpose)).absolute()
    (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    shallow = Path(git("rev-parse", "--git-path", "shallow", purpose=purpose))
    if shallow.exists():
        shutil.copy(shallow, folder / ".git" / "shallow")
    inside = ("-C", str(folder), "-c", "advice.detachedHead=false")
    git(*inside, "checkout", "--quiet", "--detach", commit, purpose=purpose)
    tags = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/tags", purpose="tags")
    for tag in tags.splitlines():
        git(*inside, "update-ref", *tag.split(" "), purpose="tags")
    if (folder / ".gitmodules").exists():
        try:  # the URLs of submodules that the working tree uses
            origin = git("remote", "get-url", "origin")
        except UsageError:
            origin = _top()
        git(*inside, "remote", "add", "origin", origin, purpose="submodules")
        update = ("submodule", "update", "--quiet", "--init", "--recursive")
        git(*inside, *update, purpose="submodules")


def _top() -> str:
    return git("rev-parse", "--show-toplevel", purpose="the working tree")
