"""Documents and pictures as files: read as a whole, replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

from envbench.errors import StorageError, UsageError
from envbench.report.plots.draw import Kind, drawn
from envbench.report.plots.picture import FOLDER, Picture


def read_text(path: Path) -> str:
    """Read a document's text; ``write_text`` restores bytes that are not UTF-8."""
    try:
        if not path.is_file():
            raise UsageError(f"{path} is not a file.", hint="Name an existing file.")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from error


def write_text(path: Path, text: str) -> bool:
    """Replace the file that a path or link names, keeping its mode. False if it had the text."""
    return write_bytes(path, text.encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, data: bytes) -> bool:
    """``write_text`` for bytes."""
    try:
        target = _target(path)
        if target.is_file() and target.read_bytes() == data:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}. The file was not changed.",
            hint="Make it writable, or name another place.",
        ) from error
    return True


def _target(path: Path) -> Path:
    """The file that a path or a link names. Refuses a folder, a device and a loop of links."""
    target = Path(os.path.realpath(path))
    if (os.path.lexists(target) and not target.is_file()) or str(target).startswith("/proc/"):
        what = "a folder" if path.is_dir() else "not a file"
        raise UsageError(f"{path} is {what}.", hint="Name a file. For stdout: --output -")
    return target


def _replace(target: Path, data: bytes) -> None:
    mode = 0o644
    if target.exists():
        mode = target.stat().st_mode & 0o7777
        os.close(os.open(target, os.O_WRONLY))  # refuse to replace a read-only document
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as near:
        whole = Path(near, target.name)
        with whole.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        whole.chmod(mode)
        whole.replace(target)


# ---------------------------------------------------------------- pictures

Stale = tuple[Path, Picture, Kind]


def _beside(document: Path) -> Path:
    """The folder of a document's pictures. It lies beside the file that a link names."""
    target = _target(document)
    return (target if document.is_symlink() else document).parent / FOLDER


def stale(document: Path, pictures: Iterable[Picture], kinds: Sequence[Kind]) -> list[Stale]:
    """Return the files beside a document that are missing, damaged, or show another picture.

    An existing PNG counts even where ``kinds`` does not have it.
    """
    beside = _beside(document)  # a bad path is refused here, before any plot is written
    found: list[Stale] = []
    for picture in pictures:
        for kind in get_args(Kind):
            path = beside / f"{picture.name}.{kind}"
            exists = path.is_file()
            current = shows(path.read_bytes(), picture.digest) if exists else kind not in kinds
            if not current:
                found.append((path, picture, kind))
    return found


def draw_stale(page: Path, pictures: Iterable[Picture], kinds: Sequence[Kind]) -> Iterator[Path]:
    """Draw the stale files; yield each one that is written."""
    found = stale(page, pictures, kinds)
    drawings = drawn([(picture, kind) for _, picture, kind in found])
    for (path, picture, _), drawing in zip(found, drawings, strict=True):
        write_bytes(path, stamped(drawing, picture.digest))
        yield path


def surplus(document: Path, pictures: Iterable[Picture]) -> list[Path]:
    """Return what earlier reports drew beside a document and none of these pictures shows."""
    digests = {picture.name: picture.digest for picture in pictures}
    found = []
    for path in sorted(_beside(document).glob("*.*")):
        data = path.read_bytes() if path.is_file() else b""
        if _STAMP.search(data[-200:]) and not shows(data, digests.get(path.stem, "")):
            found.append(path)
    return found


_STAMP = re.compile(rb"<!-- envbench picture \w+ \w+ -->\n\Z")


def stamped(drawing: bytes, digest: str) -> bytes:
    """Add a last line to a drawing: the ``digest`` of its picture, and a checksum of its bytes."""
    checksum = hashlib.sha256(drawing).hexdigest()[:16]
    return drawing + f"<!-- envbench picture {digest} {checksum} -->\n".encode()


def shows(data: bytes, digest: str) -> bool:
    """Whether a file is, byte for byte, the drawing of this picture."""
    return stamped(data[: -len(stamped(b"", digest))], digest) == data
