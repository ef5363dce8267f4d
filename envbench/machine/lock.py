"""The machine's measuring lock: two measurements at once would disturb each other.

``acquire`` holds it for a ``with`` block. The lock is the kernel's (``flock``), so it is free the
moment its holder dies, however it dies. A file beside it says who holds it. That file is
information for a person only: it may be missing or out of date, and nothing depends on it.

The lock file is in the system's temporary folder, where every user can reach it.
``ENVBENCH_LOCK_FILE`` names another place: for containers that share a machine, and for tests.
Its folder must exist.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from envbench.errors import LockHeld, StorageError
from envbench.text import one_line

POLL_S = 1.0  # a waiter must not disturb the measurement that it waits for
_HOLDER_LIMIT = 16 * 1024


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who measures now."""

    pid: int
    command: str
    since: str  # UTC, ISO 8601

    def __str__(self) -> str:
        return f"process {self.pid} ({one_line(f'{self.command}, since {self.since}', 300)})"


def default_path() -> Path:
    """One place for all users of this machine, whatever each one's TMPDIR is."""
    named = os.environ.get("ENVBENCH_LOCK_FILE")
    if named:
        return Path(named)
    shared = Path("/tmp") if os.name == "posix" else Path(tempfile.gettempdir())
    usable = os.access(shared, os.W_OK | os.X_OK)
    return (shared if usable else Path(tempfile.gettempdir())) / "envbench.lock"


@contextlib.contextmanager
def acquire(
    *, wait: bool, on_wait: Callable[[str], None] = lambda _: None, path: Path | None = None
) -> Iterator[None]:
    """Hold the lock for the block.

    If it is held and ``wait`` is true, call ``on_wait`` once with who holds it, and wait. If
    ``wait`` is false, raise ``LockHeld``, which names the holder. ``StorageError`` where the lock
    file cannot be created or opened.
    """
    from filelock import unlock_descriptor

    place = path or default_path()
    descriptor = _try_lock(place)
    if descriptor is None:
        if not wait:
            raise _held(place)
        on_wait(f"waiting for another envbench on this machine: {_who(place)}")
        while descriptor is None:
            time.sleep(POLL_S)
            descriptor = _try_lock(place)
    try:
        _write_holder(place)
        yield
    finally:
        _write_holder(place, empty=True)
        unlock_descriptor(descriptor)
        os.close(descriptor)


def _try_lock(place: Path) -> int | None:
    """An open descriptor that holds the lock, or None where another process holds it."""
    from filelock import lock_descriptor

    while True:
        descriptor = _open(place)
        kept = False
        try:
            if not lock_descriptor(descriptor, blocking=False):
                return None
            kept = _leads_to(place, descriptor)
            if kept:
                return descriptor
        except OSError as error:
            raise _unusable(place, "locked", error) from error
        finally:
            if not kept:
                os.close(descriptor)


def _leads_to(place: Path, descriptor: int) -> bool:
    """False where the file was deleted after it was opened: its lock excludes no one."""
    try:
        return os.path.samestat(os.stat(place, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _open(place: Path) -> int:
    """The lock file's descriptor; the file is created if it is missing."""
    flags = os.O_RDWR | _no_follow()
    while True:
        try:
            descriptor = os.open(place, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            pass
        except OSError as error:
            raise _unusable(place, "created", error) from error
        else:
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, 0o666)  # for all users, whatever the umask
            return descriptor
        try:
            # without O_CREAT, which a sticky folder refuses on another user's file
            return os.open(place, flags)
        except FileNotFoundError:
            continue  # deleted in between
        except OSError as error:
            raise _unusable(place, "opened", error) from error


def _unusable(place: Path, done: str, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    hint = "Remove that file, or set ENVBENCH_LOCK_FILE to another one."
    if done == "created":
        hint = "Set ENVBENCH_LOCK_FILE to a file in a folder that you can write to."
        if isinstance(error, FileNotFoundError) and not os.path.isdir(place.parent):
            reason = f"the folder {place.parent} does not exist"
            hint = "Create that folder, or set ENVBENCH_LOCK_FILE to a file in one that exists."
    return StorageError(f"the measuring lock {place} cannot be {done}: {reason}.", hint=hint)


def holder(path: Path | None = None) -> Holder | None:
    """Who wrote the note beside the lock last; None where the note is missing or makes no sense."""
    try:
        fd = os.open(_note(path or default_path()), os.O_RDONLY | _no_follow())
        with open(fd, "rb") as file:
            return msgspec.json.decode(file.read(_HOLDER_LIMIT), type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _held(place: Path) -> LockHeld:
    return LockHeld(
        f"another envbench is measuring on this machine: {_who(place)}",
        hint="Two at once would disturb each other. Add --wait to start when it has finished.",
    )


def _who(place: Path) -> str:
    found = holder(place)
    return str(found) if found else f"it holds {place}"


def _note(place: Path) -> Path:
    return place.with_name(place.name + ".holder")


def _no_follow() -> int:
    """Do not follow a link that another user put into a shared folder, or block on a FIFO."""
    return getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _write_holder(place: Path, *, empty: bool = False) -> None:
    """Write who holds the lock, or that no one does. A note that cannot be written is no fault."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:1000]
    note = Holder(pid=os.getpid(), command=command, since=now)
    flags = os.O_WRONLY | os.O_TRUNC | _no_follow()
    with contextlib.suppress(OSError):
        # O_CREAT on another user's existing file is refused in a sticky folder
        fd = os.open(_note(place), flags if _note(place).exists() else flags | os.O_CREAT, 0o666)
        with open(fd, "wb") as file:
            file.write(b"" if empty else msgspec.json.encode(note))
            if os.name == "posix":
                os.fchmod(file.fileno(), 0o666)  # whatever the umask; the creator's to do
