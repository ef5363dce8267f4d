"""Documents on disk: read as a whole, replaced as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from envbench.errors import StorageError, UsageError

MAX_DOCUMENT_BYTES = 64 * 2**20


def read_text(path: Path) -> str:
    """A document's text; ``write_text`` restores bytes that are not UTF-8."""
    try:
        if not path.is_file():
            raise UsageError(f"{path} is not a file.", hint="Name an existing file.")
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise UsageError(f"{path} is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB.")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from error


def read_bytes(path: Path) -> bytes:
    """The file's content; empty where it cannot be read or is too large to be envbench's."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_DOCUMENT_BYTES:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


def write_text(path: Path, text: str) -> bool:
    """Replace the file atomically, keeping its mode; False where it already has this text.

    A link is kept: the document that it names is replaced.
    """
    return write_bytes(path, text.encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, data: bytes) -> bool:
    """``write_text`` for bytes."""
    try:
        target = Path(os.path.realpath(path))
        if (target.exists() and not target.is_file()) or str(target).startswith("/proc/"):
            raise UsageError(f"{path} is not a file.", hint="For stdout: --output -")
        if target.is_file() and target.read_bytes() == data:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}. The file was not changed.",
            hint="Make it writable, or write elsewhere with --output FILE.",
        ) from error
    return True


def _replace(target: Path, data: bytes) -> None:
    mode = 0o644
    if target.exists():
        mode = target.stat().st_mode & 0o7777
        os.close(os.open(target, os.O_WRONLY))  # refuse to replace a read-only document
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
