"""Wheels and projects of a person's own, copied into the cache under what is in them.

A rebuilt wheel keeps its name, and an edited folder its path. The copy is named by its content, so
that each version gets a runtime of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from envbench.runtimes.interpreters import cache_folder

_NO_SOURCES = ("__pycache__", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_NOR_AT_THE_TOP = (".venv", "venv", "build", "dist", ".tox", "node_modules")


def kept_copy(path: Path) -> Path:
    """A copy of the file or folder, the same one for the same content."""
    from filelock import FileLock

    folder = cache_folder().parent / "copies" / _content(path)
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / path.name
    with FileLock(f"{folder}.lock"):
        if not copy.exists():
            partial = folder / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            if path.is_dir():
                shutil.copytree(path, partial, ignore=_left_out(path), symlinks=True)
                partial.rename(copy)
            else:
                partial.mkdir()
                shutil.copy2(path, partial / path.name)
                (partial / path.name).rename(copy)
    return copy


def _content(path: Path) -> str:
    found = hashlib.sha256(path.name.encode())
    for name, file in _files(path):
        found.update(name.encode(errors="surrogateescape") + b"\0")
        with file.open("rb") as opened:
            found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()[:16]


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Every file that would be copied, in order; but not git's own, of which a version is made."""
    if not path.is_dir():
        yield "", path
        return
    ignored = _left_out(path)
    for place, folders, names in os.walk(path):
        left_out = ignored(place, [*folders, *names]) | {".git"}
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(set(names) - left_out):
            file = Path(place, name)
            if file.is_file():
                yield str(file.relative_to(path)), file


def _left_out(top: Path) -> Callable[[str, list[str]], set[str]]:
    everywhere = shutil.ignore_patterns(*_NO_SOURCES)
    at_the_top = shutil.ignore_patterns(*_NO_SOURCES, *_NOR_AT_THE_TOP)

    def left_out(place: str, names: list[str]) -> set[str]:
        return set((at_the_top if Path(place) == top else everywhere)(place, names))

    return left_out
