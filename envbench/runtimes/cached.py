"""The cache on disk: runtimes and copies, how large they are, and how to remove them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

from envbench import backends
from envbench.errors import StorageError
from envbench.runtimes.installer import python_in
from envbench.runtimes.interpreters import MARKER, cache_folder, find, one_per_runtime

State = Literal["in use", "not in use", "incomplete"]

CHECK = "check"  # the backend of what `check` copied
COPIES = {"copies": "(a copy of a file or folder)", "refs": "(a checkout of a commit)"}


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the cache. ``state``: a backend uses it; no backend does, such as one that
    ``check`` built or that is of older requirements; or it was never finished. What ``check``
    copied has the backend ``CHECK``."""

    folder: Path
    backend: str
    requirements: list[str]
    disk_mb: float
    state: State


class _Marker(msgspec.Struct, frozen=True):
    backend: str = ""
    requirements: list[str] = []


def cached() -> list[Cached]:
    """Every runtime of the cache, by folder, and what ``check`` copied."""
    place = cache_folder()
    used = {
        Path(find(backend, {}, family).python)
        for backend in backends.registry().values()
        for family in one_per_runtime(backend)
    }
    copies = [_copy(each) for name in COPIES for each in _folders(place.parent / name)]
    return [*(_cached(each, used) for each in _folders(place)), *copies]


def _folders(place: Path) -> list[Path]:
    return [each for each in sorted(place.glob("*")) if each.is_dir()] if place.is_dir() else []


def _copy(folder: Path) -> Cached:
    """A folder or a commit that ``check`` compared."""
    what = [COPIES[folder.parent.name]]
    size = _size(folder) / 1e6
    return Cached(folder=folder, backend=CHECK, requirements=what, disk_mb=size, state="not in use")


def _cached(folder: Path, used: Iterable[Path]) -> Cached:
    state: State = "in use" if python_in(folder) in used else "not in use"
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except (OSError, msgspec.MsgspecError):
        marker, state = _Marker(folder.name.rpartition("-")[0]), "incomplete"
    return Cached(
        folder=folder,
        backend=marker.backend,
        requirements=marker.requirements,
        disk_mb=_size(folder) / 1e6,
        state=state,
    )


def _size(*folders: Path) -> int:
    """Bytes of their files, each once: uv links files of several runtimes to one copy."""
    sizes: dict[tuple[int, int], int] = {}
    for path in (path for folder in folders for path in folder.rglob("*")):
        with suppress(OSError):  # another process has removed it
            found = path.lstat()
            sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def together_mb(entries: Iterable[Cached]) -> float:
    """Megabytes of several runtimes. What they share counts once."""
    return _size(*(each.folder for each in entries)) / 1e6


def remove(entries: Iterable[Cached]) -> list[Cached]:
    """Remove these runtimes. Returns those that another process is making now, which stay."""
    kept = []
    for each in entries:
        lock = FileLock(f"{each.folder}.lock")
        try:
            with lock.acquire(timeout=0):
                (each.folder / MARKER).unlink(missing_ok=True)  # a half-removed one is not ready
                shutil.rmtree(each.folder)
            Path(lock.lock_file).unlink(missing_ok=True)
        except Timeout:
            kept.append(each)
        except OSError as error:
            raise StorageError(f"{each.folder} cannot be removed: {error}.") from error
    return kept
