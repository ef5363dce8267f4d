"""Temporary folders that name their owner, so that every one is removed in the end.

The process that makes a folder removes it. If it is killed, its guardian does; but the guardian
can be killed, too. So a folder's name says who owns it:

    envbench-<owner>-<random>

``sweep`` removes the folders of this user whose owner is dead, after it has ended the processes
of dead owners: they may still write there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from envbench.errors import StorageError
from envbench.process.orphans import Owner, end_processes_of_dead_owners, this_process


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """A new private folder, removed at the end.

    Raises ``StorageError`` if it cannot be made. The first call of a process sweeps.
    """
    try:
        _sweep_once(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=f"envbench-{this_process()}-"))
    except OSError as trouble:
        raise no_room(Path(tempfile.tempdir or "of this system"), trouble) from trouble
    try:
        yield folder
    finally:
        _remove(folder)


def no_room(place: Path, trouble: OSError | str) -> StorageError:
    """The error that says that ``place`` cannot be written."""
    why = trouble if isinstance(trouble, str) else trouble.strerror or str(trouble)
    return StorageError(
        f"the temporary folder {place} cannot be written: {why}.",
        hint="Make room there, or name another folder with TMPDIR. What was measured is kept.",
    )


def sweep(place: Path) -> None:
    """End the processes and remove the folders in ``place`` of this user's dead owners.

    Errors are not reported.
    """
    with contextlib.suppress(OSError):
        end_processes_of_dead_owners()
        for folder in place.iterdir():
            owner = Owner.parse(folder.name, "envbench-", r"-\w+")
            with contextlib.suppress(OSError):  # another process sweeps, too
                if owner and owner.is_dead and folder.lstat().st_uid == os.getuid():
                    _remove(folder)


_sweep_once = functools.cache(sweep)  # per process and place


def _remove(path: Path) -> None:
    """Remove a folder, or whatever has replaced it. Links are removed, not followed."""
    with contextlib.suppress(OSError, RecursionError):  # thousands of nested folders stay
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            _unlock(path)
            shutil.rmtree(path, ignore_errors=True)


def _unlock(folder: Path) -> None:
    """A worker may have taken permissions away from the folder or from folders inside it."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                _unlock(Path(entry.path))
