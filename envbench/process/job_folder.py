"""Temporary folders that name their owner, so that none is left for ever.

The process that makes a folder removes it. A process that was killed cannot, and its guardian,
which would do it instead, can be killed too. So a folder's name says whose it is:

    envbench-<owner>-<random>

``sweep`` removes the folders of this user whose owner is dead, after it has ended the processes
of dead owners: they may still write there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from envbench.errors import StorageError
from envbench.process.orphans import end_processes_of_dead_owners
from envbench.process.owner import PATTERN, Owner, this_process

_NAME = re.compile(rf"envbench-({PATTERN})-\w+")


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """A new private folder, removed at the end whatever has become of it.

    Raises ``StorageError`` if it cannot be made. The first call of a process sweeps.
    """
    place = _temporary_folder()
    _sweep_once(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"envbench-{this_process()}-", dir=place))
    except OSError as trouble:
        raise no_room(place, trouble) from trouble
    try:
        yield folder
    finally:
        _remove(folder)


def no_room(place: Path, trouble: OSError | str) -> StorageError:
    """The error that says that ``place`` cannot be written."""
    why = trouble if isinstance(trouble, str) else trouble.strerror or str(trouble)
    return StorageError(
        f"the temporary folder {place} cannot be written: {why}.",
        hint="Make room there, or name another with TMPDIR; what was measured is kept.",
    )


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError as trouble:
        raise no_room(Path("of this system"), trouble) from trouble


@functools.cache
def _sweep_once(place: Path) -> None:
    """``sweep``, once per process and place."""
    sweep(place)


def sweep(place: Path) -> None:
    """End and remove what dead processes of this user left. Trouble is not reported.

    Their processes are found anywhere, their folders in ``place``.
    """
    end_processes_of_dead_owners()
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            owner = Owner.parse(name[1]) if name else None
            if owner and owner.is_dead and _is_own(entry):
                _remove(Path(entry.path))


def _is_own(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()
    return False


def _remove(path: Path) -> None:
    """Remove a folder, or what was put in its place. Links are removed, not followed."""
    with contextlib.suppress(OSError, RecursionError):  # thousands of nested folders are left
        if stat.S_ISDIR(path.lstat().st_mode):
            _unlock(path)
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _unlock(folder: Path) -> None:
    """A worker may have taken permissions away from the folder or from folders inside it."""
    with contextlib.suppress(OSError):
        folder.chmod(stat.S_IRWXU)
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                _unlock(Path(entry.path))
