"""Copies of a user's wheels and projects in the cache, named by their content.

A rebuilt wheel keeps its name, and an edited folder its path. A copy named by its content gives
each version a runtime of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from envbench.runtimes.interpreters import cache_folder

_IGNORED = ("__pycache__", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_IGNORED_AT_THE_TOP = (".venv", "venv", "build", "dist", ".tox", "node_modules")


def kept_copy(path: Path) -> Path:
    """A copy of the file or folder, the same one for the same content."""
    from filelock import FileLock

    folder = cache_folder().parent / "copies" / _content(path)
    folder.mkdir(parents=True, exist_ok=True)
    copy, partial = folder / path.name, folder / "partial"
    with FileLock(f"{folder}.lock"):
        if not copy.exists():
            shutil.rmtree(partial, ignore_errors=True)
            if path.is_dir():
                shutil.copytree(path, partial / path.name, ignore=_ignored(path), symlinks=True)
            else:
                partial.mkdir()
                shutil.copy2(path, partial)
            (partial / path.name).rename(copy)
    return copy


def _content(path: Path) -> str:
    content = hashlib.sha256(path.name.encode())
    for name, file in _files(path):
        content.update(name.encode(errors="surrogateescape") + b"\0")
        with file.open("rb") as opened:
            content.update(hashlib.file_digest(opened, "sha256").digest())
    return content.hexdigest()[:16]


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Every file that is copied, in order, but not those of git: they are no part of a version."""
    if not path.is_dir():
        yield "", path
        return
    ignored = _ignored(path)
    for place, folders, names in os.walk(path):
        left_out = ignored(place, [*folders, *names]) | {".git"}
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(set(names) - left_out):
            file = Path(place, name)
            if file.is_file():
                yield str(file.relative_to(path)), file


def _ignored(top: Path) -> Callable[[str, list[str]], set[str]]:
    everywhere = shutil.ignore_patterns(*_IGNORED)
    at_the_top = shutil.ignore_patterns(*_IGNORED, *_IGNORED_AT_THE_TOP)
    return lambda place, names: (at_the_top if Path(place) == top else everywhere)(place, names)
