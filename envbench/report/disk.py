"""Documents on disk: read them whole, replace them whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from envbench.errors import StorageError, UsageError

MAX_DOCUMENT_BYTES = 64 * 2**20


def read_text(path: Path) -> str:
    """A document's text; bytes that are no UTF-8 survive the way back (``write_text``)."""
    try:
        if not path.is_file():
            raise UsageError(f"{path} is not a file.", hint="Name a file that is there.")
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise UsageError(f"{path} is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB.")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from error


def read_bytes(path: Path) -> bytes:
    """What a file of ours holds; nothing where there is none, or it is too large to be one."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_DOCUMENT_BYTES:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


def write_text(path: Path, text: str) -> bool:
    """Put the text there atomically, keeping the file's mode; False where it stands already.

    A link is followed: the document that it names is replaced, not the link.
    """
    return write_bytes(path, text.encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, data: bytes) -> bool:
    """The same with bytes."""
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
            f"cannot write {path}: {error.strerror or error}. It stands as it was.",
            hint="Make it writable, or write elsewhere with --output FILE.",
        ) from error
    return True


def _replace(target: Path, data: bytes) -> None:
    mode = 0o644
    if target.exists():
        mode = target.stat().st_mode & 0o7777
        os.close(os.open(target, os.O_WRONLY))  # a write-protected document stays
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
