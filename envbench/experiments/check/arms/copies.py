"""Copies of what a person compares, in the cache: wheels, folders, and the project at a git ref.

Each copy is named by its content. A rebuilt wheel keeps its name, an edited folder its path, and
the working tree has another commit each time; so each version gets a runtime of its own.

A checkout is a repository of its own that borrows the working tree's objects. So packages that take
their version from git can, and submodules are there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envbench.engine.git import git
from envbench.errors import UsageError
from envbench.model import digest
from envbench.runtimes.interpreters import cache_folder

WORKING_TREE = "."  # as a ref: the files that git knows, as they are now
_AUTHOR = ("-c", "user.name=envbench", "-c", "user.email=envbench@localhost")
_PROJECT = ("pyproject.toml", "setup.py")
_IGNORED = ("__pycache__", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_IGNORED_AT_THE_TOP = (".venv", "venv", "build", "dist", ".tox", "node_modules")


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A locked place for a copy that gets its name when it is complete."""
    from filelock import FileLock

    partial = folder.with_name(f"{folder.name}.partial")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
        yield partial
        shutil.rmtree(partial, ignore_errors=True)


def kept_copy(path: Path) -> Path:
    """A copy of the file or folder, the same one for the same content."""
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
    """A hash of all files, except those of git: they are no part of a version."""
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
    return lambda place, names: (at_the_top if Path(place) == top else everywhere)(place, names)


# ---------------------------------------------------------------- git


def commit_of(ref: str, option: str) -> str:
    """The commit that an option names; ``UsageError`` if there is none."""
    if ref == WORKING_TREE:
        stash = git(*_AUTHOR, "stash", "create", purpose=f"{option}: the working tree")
        return stash or commit_of("HEAD", option)
    commit = f"{ref}^{{commit}}"
    purpose = f"{option} {ref}: there is no such commit"
    return git("rev-parse", "--quiet", "--verify", "--end-of-options", commit, purpose=purpose)


def untracked() -> list[str]:
    """Untracked files of the current folder, without ignored ones."""
    words = ("ls-files", "--others", "--exclude-standard")
    return git(*words, purpose="the working tree").splitlines()


def checked_out(ref: str, option: str) -> Path:
    """A folder with the project of the current folder, as it was at that ref."""
    commit = commit_of(ref, option)
    below = git("rev-parse", "--show-prefix", purpose=option)
    tree = git("rev-parse", f"{commit}^{{tree}}", purpose=option)
    folder = cache_folder().parent / "refs" / digest([tree, _top()])
    with _unfinished(folder) as partial:
        if not folder.is_dir():
            _check_out(commit, partial)
            partial.rename(folder)
    if not any((folder / below / name).exists() for name in _PROJECT):
        where = f"in {below}" if below else "at its top"
        raise UsageError(
            f"{option} {ref} has no pyproject.toml or setup.py {where}: nothing to install.",
            hint="Run envbench in the folder of the project.",
        )
    return folder / below


def _check_out(commit: str, folder: Path) -> None:
    """``git clone --shared`` takes no commit without a branch, and no shallow repository."""
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
        _submodules(*inside)


def _submodules(*inside: str) -> None:
    """They are fetched from where the working tree has them from."""
    try:
        origin = git("remote", "get-url", "origin")
    except UsageError:
        origin = _top()
    git(*inside, "remote", "add", "origin", origin, purpose="submodules")
    update = ("submodule", "update", "--quiet", "--init", "--recursive")
    git(*inside, *update, purpose="submodules")


def _top() -> str:
    return git("rev-parse", "--show-toplevel", purpose="the working tree")
