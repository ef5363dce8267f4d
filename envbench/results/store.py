"""Write results: ``results/<machine>/<utc-start>.jsonl``, one file per plan.

``Journal`` writes such a file, and ``read`` (from ``envbench.results.reading``) reads it.

Errors: ``StorageError`` if the disk or its permissions do not allow it, or if the file was deleted,
moved or replaced; ``UsageError`` for a name or folder that may not be written to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import msgspec

from envbench.errors import StorageError, UsageError
from envbench.model import EndedRecord, Stored
from envbench.results.reading import MAX_LINE_BYTES as MAX_LINE_BYTES
from envbench.results.reading import read as read

LOCK_TIMEOUT_S = 10.0
LONGEST_NAME = 255  # bytes, of a folder or file
BY_PRODUCTS = "by-products"  # a folder of each machine, with files named by their hash
PART = ".part-"  # the folder of an incomplete one: this, and the name of the journal's file

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_ENCODER = msgspec.json.Encoder()


def check_folder(results: Path, machine: str) -> Path:
    """``results/machine``, after a check that it can be written. Leaves nothing behind.

    If the folder is missing, the nearest existing folder above must be writable; ``Journal.create``
    makes the missing ones. The same holds for the by-products in it. Refused: a name that is not a
    plain file name, and a link to another folder.
    """
    check_name(machine)
    for folder in (results / machine, results / machine / BY_PRODUCTS):
        leads_to = os.path.realpath(folder)
        if leads_to != os.path.join(os.path.realpath(results), folder.relative_to(results)):
            raise UsageError(
                f"{folder} is a link that leads to {leads_to}: results are not written there.",
                hint="Remove the link, or name the folder you mean with --results.",
            )
        with _writing(folder):
            if any(len(os.fsencode(part)) > LONGEST_NAME for part in folder.parts):
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            places = (folder, *folder.parents)
            nearest = next(each for each in places if each.exists() or each.is_symlink())
            with tempfile.TemporaryFile(dir=nearest):
                pass
    return results / machine


def check_name(machine: str) -> None:
    """Raise ``UsageError`` if a machine's name cannot be the name of its folder."""
    if not _NAME.fullmatch(machine):
        raise UsageError(
            f"{machine[:80]!r} is not a machine's name: at most 64 letters, digits, dots, - and _."
        )


def files(results: Path, machine: str | None = None) -> list[Path]:
    """Every results file, or those of one machine, by machine and then by start."""
    try:
        folders = results.iterdir() if results.is_dir() else []  # glob hides what is not readable
        own = [each for each in folders if machine in (None, each.name)]
        paths = [path for each in own for path in in_folder(each)]
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # that is not the folder's fault
        raise StorageError(
            f"cannot read results from {results}: {error.strerror or error}.",
            hint="Name another folder with --results DIR.",
        ) from error
    # Without the suffix ``…Z`` comes before ``…Z-2`` of the same second (``Journal.create``).
    return sorted(paths, key=lambda path: (path.parent.name, path.stem))


def in_folder(folder: Path) -> list[Path]:
    """The results files of one folder. A folder or a pipe with such a name does not count."""
    return [path for path in sorted(folder.glob("*.jsonl")) if path.is_file()]


def option(results: Path) -> str:
    """The option that a suggested command needs for this folder of results."""
    return "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into a ``StorageError`` that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageError(
                f"no space to write {path} ({error.strerror}). Earlier records are intact.",
                hint="Free some space and run the same command again. It resumes.",
            ) from error
        raise StorageError(
            f"cannot write results to {path}: {error.strerror or error}.",
            hint="Make it a folder that can be written, or name another one with --results DIR.",
        ) from error


class Journal:
    """One results file that is open for writing, until ``close`` or the end of a ``with``.

    It holds an exclusive lock of the file, so two campaigns never continue the same plan.
    ``append`` writes one record as one line and flushes it to disk. A write that fails is undone,
    so earlier records stay whole. The next append ends a line that a power cut left incomplete. It
    refuses to write if ``path`` no longer leads to the file that was opened, or if lines are
    missing. While the file is open, no other file can get its inode number.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        from filelock import lock_descriptor

        self.path = path
        self._descriptor = descriptor
        self._size = 0  # bytes after the last append: the file may not be smaller
        self.close = weakref.finalize(self, os.close, descriptor)
        # The lock is on the results file itself, without a lock file. It ends with the descriptor.
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() > deadline:
                raise StorageError(
                    f"another process has been writing to {path} for {LOCK_TIMEOUT_S:.0f} s.",
                    hint="Another envbench measures the same plan: wait for its end, or use "
                    "--fresh.",
                )
            time.sleep(0.01)

    @classmethod
    def create(cls, results: Path, machine: str, stamp: str) -> Self:
        """A new file in ``results/machine`` for a plan that started at ``stamp``.

        Missing folders are made. A second file with the same stamp gets ``-2``.
        """
        folder = check_folder(results, machine)
        stem = re.sub(r"[^0-9A-Za-z.+-]", "-", stamp)[:40] or "plan"
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(1, 1000):
                path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
                with contextlib.suppress(FileExistsError):
                    return cls(path, os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644))
        raise StorageError(f"{folder} already holds a thousand files that started at {stamp}.")

    @classmethod
    def open(cls, path: Path) -> Self:
        """The existing file at ``path``. A link, and a folder that is a link, are refused."""
        check_folder(path.absolute().parents[1], path.absolute().parent.name)
        if path.is_symlink():
            raise UsageError(
                f"{path} is a link that leads to {os.path.realpath(path)}: it is not changed.",
                hint="Replace the link with the file, or begin a new plan with --fresh.",
            )
        with _writing(path):
            return cls(path, os.open(path, _FLAGS))

    def append(self, record: Stored) -> None:
        """Add one record as one line and flush it to disk. After an error nothing is added."""
        line = _ENCODER.encode(record) + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise StorageError(
                f"a record of {len(line)} bytes is too long for a line of {self.path}: "
                f"at most {MAX_LINE_BYTES} bytes can be read back."
            )
        with _writing(self.path):
            size = self._check_unchanged()
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a power cut left the last line incomplete: end it first
            try:
                if os.write(self._descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)
                raise
            self._size = self._check_unchanged()

    def end(self, plan_id: str, how: Literal["concluded", "abandoned"]) -> None:
        """Record that a plan was concluded or abandoned."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.append(EndedRecord(plan_id=plan_id, how=how, ended_utc=now))

    def begin(self, records: Iterable[Stored]) -> None:
        """Add the first records of a plan. If that fails, an empty file is removed."""
        try:
            for record in records:
                self.append(record)
        except StorageError:
            with contextlib.suppress(OSError):
                if self.path.stat().st_size == 0:
                    self.path.unlink()
            raise

    def keep(self, name: str, content: bytes) -> None:
        """Store a by-product beside the results. It gets its name when it is complete."""
        folder = self.path.parent / BY_PRODUCTS
        place = folder / f"{PART}{self.path.name}"
        with _writing(folder / name):
            shutil.rmtree(place, ignore_errors=True)  # its writer is dead: this file is locked
            folder.mkdir(exist_ok=True)
            if (folder / name).exists():  # the name is a hash of the content
                return
            place.mkdir()
            try:
                with (place / name).open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(place / name, folder / name)
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def _check_unchanged(self) -> int:
        """The file's size in bytes. Refuses if the path leads elsewhere or lines are missing."""
        mine = os.fstat(self._descriptor)
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            happened = "moved away" if mine.st_nlink else "deleted"
        else:
            if not os.path.samestat(mine, there):
                happened = "replaced by another file"
            elif mine.st_size < self._size:
                happened = "shortened"
            else:
                return mine.st_size
        raise StorageError(
            f"{self.path} was {happened} while envbench was writing to it. "
            "Measuring stops here: no result can be recorded in it.",
            hint="Leave the results alone while envbench measures, and run the command again.",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def is_open(path: Path) -> bool:
    """Does any ``Journal`` hold this file's lock?"""
    from filelock import lock_descriptor

    with path.open("rb") as file:
        return not lock_descriptor(file.fileno(), blocking=False)
