"""What a killed envbench left: the owner of a temporary folder or a process, alive or dead.

The process that makes a folder removes it, and its guardians end the workers. If it is killed, its
guardians do both; but they can be killed or stopped, too. So a folder's name, and the environment
of every process of a worker (``MARK``), say who owns it:

    envbench-<owner>-<random>        ENVBENCH_TRIAL=<owner>-<random>

``sweep`` ends the processes and removes the folders of this user whose owner is dead. It misses a
process that was started without the mark. On systems without /proc it finds nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from envbench.errors import StorageError
from envbench.process.killing.guardian import PATIENCE_S, read_process

MARK = "ENVBENCH_TRIAL"
POLL_S = 0.01
GUARDIAN_S = 3.0  # a guardian may need this long to end its worker
_OWNER = r"([0-9a-f]{8})-([0-9a-f]{8})-([0-7][0-9a-f]{7})-([0-9a-f]{16})"


class Owner(NamedTuple):
    """An envbench process. Its number is valid in its own process namespace only.

    0 is an unknown namespace or start.
    """

    user: int
    namespace: int
    pid: int
    start: int

    def __str__(self) -> str:
        """``user-namespace-pid-start``, of a fixed length, because it shifts the worker's stack."""
        return f"{self.user:08x}-{self.namespace:08x}-{self.pid:08x}-{self.start:016x}"

    @classmethod
    def parse(cls, text: str, before: str = "", after: str = "") -> Owner | None:
        """The inverse of ``str``, between two patterns; None for any other text."""
        match = re.fullmatch(before + _OWNER + after, text)
        return cls(*(int(number, 16) for number in match.groups())) if match else None

    @property
    def is_dead(self) -> bool:
        """Has this process certainly ended? A zombie counts as ended.

        It is never certain for processes of other users and other namespaces (containers).
        """
        here = (self.user, self.namespace) == (os.getuid(), _namespace())
        if not here or 0 in (self.namespace, self.start):
            return False
        try:
            process = read_process(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:  # for example because no file descriptor is free
            return False
        return process.start != self.start or process.state in "ZX"


def this_process() -> Owner:
    """This process, as an owner."""
    start = 0
    with contextlib.suppress(OSError):
        start = read_process(os.getpid()).start
    return Owner(user=os.getuid(), namespace=_namespace(), pid=os.getpid(), start=start)


def _namespace() -> int:
    """The process namespace; unknown if /proc shows the processes of another one."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            return os.stat("/proc/self/ns/pid").st_ino
    return 0


# ---------------------------------------------------------------- folders


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


def no_room(place: Path, trouble: OSError) -> StorageError:
    """The error that says that ``place`` cannot be written."""
    return StorageError(
        f"the temporary folder {place} cannot be written: {trouble.strerror or trouble}.",
        hint="Make room there, or name another folder with TMPDIR. What was measured is kept.",
    )


def sweep(place: Path) -> None:
    """End the processes and remove the folders in ``place`` of this user's dead owners.

    A guardian whose controller has just died gets ``GUARDIAN_S`` to end its worker. Processes end
    first, because they may still write to the folders. Errors are not reported.
    """
    with contextlib.suppress(OSError):
        end(_processes_of_dead_owners, GUARDIAN_S)
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
    """Restore permissions that a worker may have removed from the folder and those inside it."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                _unlock(Path(entry.path))


# ---------------------------------------------------------------- processes


def _processes_of_dead_owners() -> list[int]:
    """The process ids. Includes stopped processes, but none with the mark of this process."""
    owners = {pid: owner for pid in psutil.pids() if (owner := _owner(pid))}
    dead = {each for each in owners.values() if each.is_dead} - {owners.get(os.getpid())}
    return [pid for pid, owner in owners.items() if owner in dead]


def _owner(pid: int) -> Owner | None:
    """The owner that the process's mark names; None if it has no valid mark."""
    marks = [each for each in environment(pid) if each.startswith(f"{MARK}=".encode())]
    return Owner.parse(os.fsdecode(b"".join(marks)), f"{MARK}=", "-[0-9a-f]{32}")


def environment(pid: int) -> set[bytes]:
    """The variables that a process was started with; none if it has ended or hides them.

    (psutil's ``environ`` stops at an empty entry.)
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return set(file.read().split(b"\0"))
    return set()


def end(find: Callable[[], Iterable[int]], grace_s: float = 0.0) -> None:
    """After the grace period, kill what ``find`` finds until it finds nothing."""
    deadline = time.monotonic() + grace_s
    while (left := find()) and time.monotonic() < deadline + PATIENCE_S:
        if time.monotonic() >= deadline:
            for pid in left:
                with contextlib.suppress(OSError):  # it has ended, or is another user's
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
