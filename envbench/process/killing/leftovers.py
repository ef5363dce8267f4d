"""Find and remove what a killed envbench left: temporary folders and processes of dead owners.

The process that makes a folder removes it, and its guardians end the workers. If it is killed, its
guardians do both; but they can be killed or stopped, too. So a folder's name says who owns it, and
every process of a worker inherits a number that says it, too (``Owner.number``), in two places:

    envbench-<owner>-<random>        ENVBENCH_TRIAL=<number>        the limit of file locks

``sweep`` ends the processes and removes the folders of this user whose owner is dead. It misses a
process that has lost its parent and both numbers. On systems without /proc it ends nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from envbench.errors import StorageError
from envbench.process.killing import guardian

POLL_S = 0.01
GUARDIAN_S = 3.0  # a guardian may need this long to end its worker
MARK = "ENVBENCH_TRIAL"
_MARKS = re.compile(rf"(?:\A|\0){MARK}=([0-9a-f]{{16}})(?=\0|\Z)".encode())
_OWNER = r"([0-9a-f]{8})-([0-9a-f]{8})-([0-7][0-9a-f]{7})-([0-9a-f]{16})"


class Owner(NamedTuple):
    """An envbench process. Its process id is valid in its own namespace only.

    0 is an unknown namespace or start.
    """

    user: int
    namespace: int
    pid: int
    start: int

    def __str__(self) -> str:
        """``user-namespace-pid-start``. Its length is fixed: it shifts the worker's stack."""
        return f"{self.user:08x}-{self.namespace:08x}-{self.pid:08x}-{self.start:016x}"

    @classmethod
    def parse(cls, text: str, before: str = "", after: str = "") -> Owner | None:
        """Return the inverse of ``str``, between two patterns; None for any other text."""
        match = re.fullmatch(before + _OWNER + after, text)
        return cls(*(int(number, 16) for number in match.groups())) if match else None

    def number(self, tree: int) -> int:
        """Identify it and one of its trees. The bits: check, pid, start modulo 1024, tree."""
        return self._checked((self.pid << 10 | self.start % 1024) << 8 | tree % 256)

    def _checked(self, low: int) -> int:
        text = f"{self.user}-{self.start and self.namespace}-{low}"
        check = hashlib.blake2b(text.encode(), digest_size=3).digest()
        return int.from_bytes(check) >> 1 << 40 | low  # 63 bits, as a limit may have

    def of_number(self, number: int) -> Owner | None:
        """Return the owner with this number; None if its user or namespace is not this owner's."""
        known = 0 not in self[1:] and number == self._checked(number & 0xFFFFFFFFFF)
        owner = self._replace(pid=number >> 18 & 0x3FFFFF, start=number >> 8 & 1023)
        return owner if known else None

    @property
    def is_dead(self) -> bool:
        """Has this process certainly ended? A zombie counts as ended.

        It is never certain for processes of other users and other namespaces (containers).
        """
        if not self.namespace or self[:2] != (os.getuid(), _namespace()):
            return False
        try:
            process = guardian.read_process(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:  # for example because no file descriptor is free
            return False
        return process.state in "ZX" or bool(self.start and (process.start - self.start) % 1024)


def this_process() -> Owner:
    """Return this process, as an owner."""
    start = 0
    with contextlib.suppress(OSError):
        start = guardian.read_process(os.getpid()).start
    return Owner(user=os.getuid(), namespace=_namespace(), pid=os.getpid(), start=start)


def _namespace() -> int:
    """The process namespace; unknown if /proc shows the processes of another one."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            return os.stat("/proc/self/ns/pid").st_ino
    return 0


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
    """Return the error that says that ``place`` cannot be written."""
    return StorageError(
        f"the temporary folder {place} cannot be written: {trouble.strerror or trouble}.",
        hint="Make room there, or name another folder with TMPDIR. What was measured is kept.",
    )


def sweep(place: Path) -> None:
    """End the processes and remove the folders in ``place`` of this user's dead owners.

    A folder that names no start is removed after a day, too. Processes end first, because they may
    still write to the folders. A guardian whose controller has just died gets ``GUARDIAN_S`` to end
    its worker. Errors are not reported.
    """
    with contextlib.suppress(OSError):
        if guardian.LINUX:
            end(functools.partial(_processes_of_dead_owners, {}), GUARDIAN_S)
        for folder in place.iterdir():
            owner = Owner.parse(folder.name, "envbench-", r"-\w+")
            with contextlib.suppress(OSError):  # another process sweeps, too
                status = folder.lstat()
                old = owner and not owner.start and time.time() - status.st_mtime > 86400
                if owner and (old or owner.is_dead) and status.st_uid == os.getuid():
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


def _processes_of_dead_owners(known: dict[int, int]) -> list[int]:
    """The processes with a dead owner, also stopped ones, and all their descendants. ``known`` has
    the start times of those found before, so that they are found even after they left the tree.
    Not those of a living owner, nor those of an owner that this process or an ancestor has."""
    here, every = this_process(), guardian.all_processes()
    table = {pid: process for pid, process in every.items() if process.state not in "ZX"}
    owners = {pid: {here.of_number(each) for each in numbers(pid)} - {None} for pid in table}
    living = {p for p, found in owners.items() if any(e and not e.is_dead for e in found)}
    trees = {p: {p} | guardian.below(p, table, living) for p in {*table} - living if owners[p]}
    spared = {each for pid, tree in trees.items() if here.pid in tree for each in owners[pid]}
    ours = {pid for pid, process in table.items() if known.get(pid) == process.start}
    ours = ours.union(*(tree for pid, tree in trees.items() if not owners[pid] & spared))
    known.update((pid, table[pid].start) for pid in ours)
    return sorted(ours)


def numbers(pid: int) -> set[int]:
    """Return the numbers that a process has inherited: its limit of file locks, and the mark in the
    environment that it was started with. Empty if it has ended or hides them."""
    found = set()
    with contextlib.suppress(OSError):
        found.add(resource.prlimit(pid, guardian.RLIMIT_LOCKS)[0])
        found.update(int(e, 16) for e in _MARKS.findall(Path(f"/proc/{pid}/environ").read_bytes()))
    return found


def end(find: Callable[[], Iterable[int]], grace_s: float = 0.0) -> None:
    """After the grace period, kill what ``find`` finds until it finds nothing."""
    deadline = time.monotonic() + grace_s
    while (left := find()) and time.monotonic() < deadline + guardian.PATIENCE_S:
        if time.monotonic() >= deadline:
            for pid in left:
                with contextlib.suppress(OSError):  # it has ended, or is another user's
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
