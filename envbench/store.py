"""Append and read results: ``results/<machine>/<utc-start>.jsonl``, one file a plan.

Contract. ``append`` writes one record as one line, flushed to disk, under an exclusive lock of the
file itself (no lock file lies about); a write that fails is taken back, so that what was stored
before stays whole. A line torn by a power cut is closed off by the next append. ``read`` trusts
nothing: it is bounded in line and file size, decodes strictly, and turns each line that it
cannot accept into a warning that names file, line and reason; the other lines are returned.

Errors: ``StorageError`` where the disk or its permissions are in the way, ``UsageError`` for a
name or folder that may not be written to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from envbench.errors import StorageError, UsageError
from envbench.model import LARGEST_FPS, LARGEST_SKIP, SCHEMA, Plan, Published, Record, Run, bounded
from envbench.text import one_line

MAX_LINE_BYTES = 8 * 2**20
MAX_FILE_BYTES = 2 * 2**30
MAX_WARNINGS = 20  # a file; the rest is counted in one more
LOCK_TIMEOUT_S = 60.0

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_RUNS = 1_000_000  # of a plan: years of measuring
_DECODER = msgspec.json.Decoder(Record)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A file's good records with their line numbers (from 1), and a warning per bad line."""

    records: list[tuple[int, Record]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _Head(msgspec.Struct):
    schema: int = SCHEMA


# ---------------------------------------------------------------- folders and names


def check_folder(results: Path, machine: str) -> Path:
    """``results/machine``, made if missing and proved writable, before a minute is spent.

    Refused: a name that is no plain file name, and a folder that a link leads out of ``results``.
    """
    if not _NAME.fullmatch(machine):
        raise UsageError(
            f"{machine[:80]!r} is not a machine's name: letters, digits, dots, - and _; at most 64."
        )
    folder = results / machine
    leads_to = os.path.realpath(folder)
    if leads_to != os.path.join(os.path.realpath(results), machine):
        raise UsageError(
            f"{folder} is a link that leads to {leads_to}: results are not written there.",
            hint="Remove the link, or name the folder you mean with --results.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _refusal(folder, error) from error
    return folder


def new_file(results: Path, machine: str, started_utc: str) -> Path:
    """A fresh empty file for a plan that started then; a second one in that second gets ``-2``."""
    folder = check_folder(results, machine)
    stem = re.sub(r"[^0-9A-Za-z.+-]", "-", started_utc)[:40] or "plan"
    for number in range(1, 1000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            continue
        except OSError as error:
            raise _refusal(path, error) from error
        return path
    raise StorageError(f"{folder} already holds a thousand files that started at {started_utc}.")


def discard_empty(path: Path) -> None:
    """Remove a new file that nothing came into, as on a full disk."""
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def files(results: Path) -> list[Path]:
    """Every results file, by machine and then by start. None where there is no such folder."""
    found = (path for path in results.glob("*/*.jsonl") if path.is_file())
    return sorted(found, key=lambda path: (path.parent.name, *_started(path)))


def _started(path: Path) -> tuple[str, int]:
    """``…Z.jsonl`` came before ``…Z-2.jsonl``, which started in the same second (``new_file``)."""
    stamp, _, number = path.stem.partition("Z-")
    return stamp.removesuffix("Z"), int(number) if number.isdigit() else 1


def _refusal(path: Path, error: OSError) -> StorageError:
    if error.errno in _FULL:
        return StorageError(
            f"no space to write {path} ({error.strerror}). What was stored before is intact.",
            hint="Free some space and give the same command again: it goes on from there.",
        )
    if isinstance(error, FileExistsError):  # mkdir's word for a file in a folder's place
        return StorageError(
            f"{path} is there, but is no folder.",
            hint="Move it away, or name another folder with --results DIR.",
        )
    return StorageError(
        f"cannot write results to {path}: {error.strerror or error}.",
        hint="Make the folder writable, or name another one with --results DIR.",
    )


# ---------------------------------------------------------------- append


def append(path: Path, record: Record) -> None:
    """Add one record as one line and flush it to disk; all of it, or nothing and an error."""
    line = _ENCODER.encode(record) + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise StorageError(f"a record of {len(line)} bytes is longer than {path} may hold a line.")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)
        try:
            with _locked(descriptor, path):
                _append_line(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _refusal(path, error) from error


@contextmanager
def _locked(descriptor: int, path: Path) -> Iterator[None]:
    """Hold the data file's own lock: it ends with the process, and leaves no file behind."""
    from filelock import lock_descriptor, unlock_descriptor

    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() > deadline:
            raise StorageError(f"another process has held {path} for {LOCK_TIMEOUT_S:.0f} s.")
        time.sleep(0.002)
    try:
        yield
    finally:
        unlock_descriptor(descriptor)


def _append_line(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and _last_byte(descriptor, size) != b"\n":
        line = b"\n" + line  # a power cut tore the last line: it stays a line of its own
    try:
        written = os.write(descriptor, line)
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)


# ---------------------------------------------------------------- read


def read(path: Path) -> Reading:
    """The good records of one file. Raises ``StorageError`` only where it cannot be opened."""
    reading = Reading()
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            if info.st_size > MAX_FILE_BYTES or not stat.S_ISREG(info.st_mode):
                reason = "larger than 2 GiB" if stat.S_ISREG(info.st_mode) else "not a plain file"
                reading.warnings.append(f"{path}: left out, it is {reason}")
                return reading
            bad = _read_lines(file, path, reading)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    if bad > MAX_WARNINGS:
        reading.warnings.append(f"{path}: {bad - MAX_WARNINGS} more lines skipped")
    return reading


def _read_lines(file: BinaryIO, path: Path, reading: Reading) -> int:
    bad = 0
    for number, line in enumerate(_lines(file), start=1):
        outcome = _decode(line)
        if outcome is None:
            continue
        if not isinstance(outcome, str):
            reading.records.append((number, outcome))
            continue
        bad += 1
        if bad <= MAX_WARNINGS:
            reading.warnings.append(f"{path}:{number}: line skipped: {outcome}")
    return bad


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Each line; of one that is too long only its first bytes, one more than the limit."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(2**20)
        yield line


def _decode(line: bytes) -> Record | str | None:
    """The line's record, why it has none, or None where it is blank."""
    if len(line) > MAX_LINE_BYTES:
        return f"it is longer than {MAX_LINE_BYTES // 2**20} MiB"
    if not line.strip():
        return None
    try:
        record = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _why(line, error)
    if record.schema > SCHEMA:
        return _newer(record.schema)
    return _nonsense(record) or record


def _why(line: bytes, error: Exception) -> str:
    if not line.endswith(b"\n"):
        return "it is torn, as by a power cut in mid-write"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    try:
        schema = msgspec.json.decode(line, type=_Head).schema
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        schema = SCHEMA
    if schema > SCHEMA:
        return _newer(schema)
    # Decoders quote what they met: a stranger's text must not reach a terminal raw.
    return one_line(str(error), 200)


def _newer(schema: int) -> str:
    return f"a newer envbench wrote it (schema {schema}, this one knows {SCHEMA}): update envbench"


def _nonsense(record: Record) -> str:
    """What the types allow and no envbench writes."""
    if record.schema < 1:
        return f"there is no schema {record.schema}"
    free = getattr(record, "facts", None) or getattr(record, "work", None)
    if not bounded(free):
        return "a number in it is beyond 64 bits"
    if isinstance(record, Run):
        cell = record.cell
        if min(cell.numenv, cell.env_instances) < 1 or not cell.frame_skip > 0:
            return "numenv and env_instances are at least 1, frame_skip is over 0"
    if isinstance(record, Published) and not (
        record.numenv >= 1
        and 0 < record.fps <= LARGEST_FPS
        and 0 < record.frame_skip <= LARGEST_SKIP
    ):
        return "numenv is at least 1, fps and frame_skip are over 0, and not absurd"
    if isinstance(record, Plan):
        used = {cell.backend for cell in record.cells}
        if not used <= record.repeats.keys() & record.protocol.keys():
            return "a backend of its cells has no repeats or no protocol"
        if sum(record.repeats[cell.backend] for cell in record.cells) > MOST_RUNS:
            return f"it asks for more than {MOST_RUNS:,} runs"
    return ""
