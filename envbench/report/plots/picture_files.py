"""Pictures on disk: redrawn only where the file is not the drawing of the picture."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from envbench.report.disk import read_bytes, write_bytes
from envbench.report.plots.draw import Kind, drawn
from envbench.report.plots.picture import FOLDER, Picture

Stale = tuple[Path, Picture, Kind]


def stale(document: Path, pictures: Iterable[Picture], kinds: Sequence[Kind]) -> list[Stale]:
    """The files beside a document that are missing, damaged, or show another picture.

    An existing PNG counts even where ``kinds`` does not have it.
    """
    # The plots are beside the document that a link names.
    beside = document.resolve().parent if document.is_symlink() else document.parent
    found: list[Stale] = []
    for picture in pictures:
        for kind in ("svg", "png"):
            path = beside / FOLDER / f"{picture.name}.{kind}"
            wanted = kind in kinds or path.exists()
            if wanted and not shows(read_bytes(path), picture.digest):
                found.append((path, picture, kind))
    return found


def write(document: Path, pictures: Iterable[Picture], kinds: Sequence[Kind]) -> Iterator[Path]:
    """Draw the stale files; yield each one that is written."""
    found = stale(document, pictures, kinds)
    drawings = drawn([(picture, kind) for _, picture, kind in found])
    for (path, picture, _), drawing in zip(found, drawings, strict=True):
        write_bytes(path, stamped(drawing.data, picture.digest))
        yield path


PNG = b"\x89PNG"
IEND = 12  # bytes of a PNG's last chunk
LENGTH = 16  # hexadecimal digits of the checksum


def stamped(data: bytes, digest: str) -> bytes:
    """A drawn file with a stamp of the picture's ``digest`` and of all its bytes."""
    cut = len(data) - _end(data)
    return data[:cut] + _stamp(data, digest) + data[cut:]


def shows(data: bytes, digest: str) -> bool:
    """Whether it is, byte for byte, the drawing of this picture."""
    cut = len(data) - _end(data)
    begin = cut - len(_stamp(data, digest))
    return begin > 0 and stamped(data[:begin] + data[cut:], digest) == data


def _stamp(data: bytes, digest: str) -> bytes:
    total = hashlib.sha256(data).hexdigest()[:LENGTH]
    stamp = f"envbench picture {digest} {total}".encode("ascii")
    if data.startswith(PNG):
        return _chunk(b"tEXt", b"Comment\0" + stamp)
    return b"<!-- " + stamp + b" -->\n"


def _end(data: bytes) -> int:
    return IEND if data.startswith(PNG) else 0


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
