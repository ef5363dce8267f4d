"""Copies of a user's wheels and projects in the cache, named by their content.

A rebuilt wheel keeps its name, and an edited folder its path. A copy named by its content gives
each version a runtime of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from envbench.runtimes.interpreters import cache_folder

_IGNORED = ("__pycache__", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_IGNORED_AT_THE_TOP = (".venv", "venv", "build", "dist", ".tox", "node_modules")


def kept_copy(path: Path) -> Path:
    """A copy of the file or folder, the same one for the same content."""
    from filelock import FileLock

    copies = cache_folder().parent / "copies"
    partial = copies / f"{path.name}.partial"
    copies.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{partial}.lock"):
        shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
        new = partial / path.name
        if path.is_dir():
            shutil.copytree(path, new, ignore=_ignored(path), symlinks=True)
        else:
            partial.mkdir()
            shutil.copy2(path, new)
        folder = copies / _content(new)
        if not folder.exists():
            partial.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
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
