"""Temporary folders that name their owner, so that none is left for ever.

The process that makes a folder removes it. A process that was killed cannot, and its guardian,
which would do it instead, can be killed too. So a folder's name says whose it is:

    envbench-<user>-<process namespace>-<process>-<start time>-<random>

``sweep`` removes the folders of this user whose process is dead. A process number is given out
again, but not with the same start time. A number means something in its own namespace only
(Linux: containers that share /tmp), so folders of other namespaces stay.
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
from envbench.process.process_table import start_time

_NAME = re.compile(r"envbench-(?P<user>\d+)-(?P<space>\d+)-(?P<pid>\d+)-(?P<start>\d+)-\w+")


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """A new private folder, removed at the end whatever has become of it.

    Raises ``StorageError`` if it cannot be made. The first call of a process sweeps.
    """
    place = _temporary_folder()
    _sweep_once(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(), dir=place))
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
    """Remove what dead processes of this user left in ``place``. Trouble is not reported."""
    if start_time(os.getpid()) is None:  # processes have no start times here
        return
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name and _is_own(name, entry) and start_time(int(name["pid"])) != int(name["start"]):
                _remove(Path(entry.path))


def _is_own(name: re.Match[str], entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        info = entry.stat(follow_symlinks=False)
        owner_is_us = info.st_uid == os.getuid() == int(name["user"])
        return owner_is_us and int(name["space"]) == _process_namespace()
    return False


def _prefix() -> str:
    owner = (os.getuid(), _process_namespace(), os.getpid(), start_time(os.getpid()) or 0)
    return f"envbench-{'-'.join(map(str, owner))}-"


def _process_namespace() -> int:
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0


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
