"""The machine's measuring lock: two measurements at once would disturb each other.

``acquire`` holds it for a ``with`` block. The lock is the kernel's (``flock``, through filelock),
so it is free as soon as its holder dies, however it dies. A file beside it holds a line of text
about the holder. This note is only for people: it may be missing or out of date.

The lock file is in the system's temporary folder, where every user can reach it.
``ENVBENCH_LOCK_FILE`` names another place, for containers that share a machine and for tests.
Its folder must exist. What exists at that place must be a plain file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from envbench.errors import LockHeld, StorageError
from envbench.text import one_line

if TYPE_CHECKING:
    from filelock import BaseFileLock

POLL_S = 1.0  # a waiting process must not disturb the measurement that it waits for
_NOTE_LIMIT = 400  # characters
# Do not follow a link that another user put into a shared folder, and do not block on a FIFO.
_NO_FOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK


def default_path() -> Path:
    """Return one place for all users of this machine, whatever each one's TMPDIR is."""
    if named := os.environ.get("ENVBENCH_LOCK_FILE"):
        return Path(named)
    shared = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
    return Path(shared) / "envbench.lock"


WAIT = (
    "Two measurements at once would disturb each other. Add --wait to start when the other has "
    "finished."
)
LATER = "Run the command again when it has finished."


@contextlib.contextmanager
def acquire(
    *,
    wait: bool,
    on_wait: Callable[[str], None] = lambda _: None,
    path: Path | None = None,
    hint: str = WAIT,
) -> Iterator[None]:
    """Hold the lock for the block.

    If it is held and ``wait`` is true, call ``on_wait`` once with the holder, and wait. If
    ``wait`` is false, raise ``LockHeld``, which names the holder and gives the ``hint``.
    ``StorageError`` where the lock file cannot be created or used.
    """
    from filelock import FileLock

    place = path or default_path()
    lock = FileLock(place, mode=0o666, fallback_to_soft=False)
    if not _take(lock):
        who = holder(place) or f"it holds {place}"
        if not wait:
            if who.startswith(f"process {os.getpid()} "):
                who, hint = "another thread of this process", "Measure one after the other."
            raise LockHeld(f"another envbench is measuring on this machine: {who}.", hint=hint)
        on_wait(f"Waiting for another envbench on this machine: {who}")
        while not _take(lock):
            time.sleep(POLL_S)
    try:
        _write_note(place)
        yield
    finally:
        _write_note(place, empty=True)
        lock.release()


def _take(lock: BaseFileLock) -> bool:
    """Take the lock; False where another process holds it."""
    from filelock import Timeout

    place = Path(lock.lock_file)
    try:
        place.parent.stat()  # where it is missing, filelock would create it
        if place.exists() and not place.is_file():  # the note would lie in /dev
            raise OSError("it is not a plain file")
        lock.acquire(blocking=False)
    except Timeout:
        if os.path.lexists(place):
            return False
        # filelock also gives up, without a reason, where a folder accepts no new file (/proc)
        raise _unusable(place, OSError(errno.ENOENT, os.strerror(errno.ENOENT))) from None
    except OSError as error:
        raise _unusable(place, error) from error
    return True


def _unusable(place: Path, error: OSError) -> StorageError:
    verb, hint = "used", "Set ENVBENCH_LOCK_FILE to a plain file, or remove a link at this path."
    reason = error.strerror or str(error)
    if not os.path.lexists(place):
        verb = "created"
        hint = "Set ENVBENCH_LOCK_FILE to a file in a folder that you can write to."
        if isinstance(error, FileNotFoundError) and not os.path.isdir(place.parent):
            reason = f"the folder {place.parent} does not exist"
            hint = "Create that folder, or set ENVBENCH_LOCK_FILE to a file in one that exists."
    return StorageError(f"the measuring lock {place} cannot be {verb}: {reason}.", hint=hint)


def holder(place: Path) -> str:
    """Return the process in the note beside the lock; empty where there is no note."""
    try:
        fd = os.open(_note(place), os.O_RDONLY | _NO_FOLLOW)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return one_line(file.read(_NOTE_LIMIT), _NOTE_LIMIT)
    except OSError:
        return ""


def _note(place: Path) -> Path:
    return place.with_name(place.name + ".holder")


def _write_note(place: Path, *, empty: bool = False) -> None:
    """Write who holds the lock, or that no one does. It is no error if this fails."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    command = one_line(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]), 300)
    note = "" if empty else f"process {os.getpid()} ({command}, since {now})"
    flags = os.O_WRONLY | os.O_TRUNC | _NO_FOLLOW
    with contextlib.suppress(OSError):
        # a sticky folder refuses O_CREAT on another user's file
        fd = os.open(_note(place), flags if _note(place).exists() else flags | os.O_CREAT, 0o666)
        with open(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(note)
            os.fchmod(file.fileno(), 0o666)  # whatever the umask is; only its owner may change it
