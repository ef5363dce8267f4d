"""The machine's measuring lock: two measurements at once would spoil each other.

``acquire`` holds it for a ``with`` block. The lock is the kernel's (``flock``), so it is free the
moment its holder dies, however it dies. Who holds it is told by a file beside it, which is
information for a person and nothing else: it may be missing or stale, never trusted.

It lies in the system's temporary folder, where every user can reach it. ``ENVBENCH_LOCK_FILE``
names another place: for containers that share a machine, and for tests.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
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

    ``wait``: where it is taken, call ``on_wait`` once with who holds it, and wait; else raise
    ``LockHeld``, which names the holder. ``StorageError`` where the lock cannot be used at all.
    """
    from filelock import FileLock, Timeout

    place = path or default_path()
    lock = FileLock(place, mode=0o666, poll_interval=POLL_S)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise _held(place) from None
        on_wait(f"waiting for another envbench on this machine: {_who(place)}")
        lock.acquire()
    except OSError as trouble:
        raise StorageError(
            f"the measuring lock {place} cannot be used: {trouble.strerror or trouble}",
            hint="Remove that file, or name another with ENVBENCH_LOCK_FILE.",
        ) from trouble
    try:
        _write_holder(place)
        yield
    finally:
        _write_holder(place, empty=True)
        lock.release()


def holder(path: Path | None = None) -> Holder | None:
    """Who wrote the note beside the lock last; None where it says nothing sensible."""
    try:
        fd = os.open(_note(path or default_path()), os.O_RDONLY | _no_follow())
        with open(fd, "rb") as file:
            return msgspec.json.decode(file.read(_HOLDER_LIMIT), type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _held(place: Path) -> LockHeld:
    return LockHeld(
        f"another envbench is measuring on this machine: {_who(place)}",
        hint="Two at once would spoil each other. Add --wait to start when it has finished.",
    )


def _who(place: Path) -> str:
    found = holder(place)
    return str(found) if found else f"it holds {place}"


def _note(place: Path) -> Path:
    return place.with_name(place.name + ".holder")


def _no_follow() -> int:
    """No link of another user's in a shared folder leads us astray, and no FIFO holds us up."""
    return getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _write_holder(place: Path, *, empty: bool = False) -> None:
    """Say who holds the lock, or that nobody does. A note that cannot be written is no fault."""
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
