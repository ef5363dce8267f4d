"""Pictures on disk: drawn anew only where the file is not what was drawn of the picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from envbench.report.curves import FOLDER, Picture
from envbench.report.drawing import drawn
from envbench.report.files import read_bytes, write_bytes
from envbench.report.plots import Kind
from envbench.report.stamp import shows, stamped

Stale = tuple[Path, Picture, Kind]


def stale(document: Path, pictures: Iterable[Picture], kinds: Sequence[Kind]) -> list[Stale]:
    """The files beside a document that are missing, damaged, or show what was before.

    Of a picture that was once drawn as PNG, too, the PNG counts whether it is asked for or not.
    """
    # where a link leads, there the document is
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
    """Draw what is stale; the files as they are written."""
    found = stale(document, pictures, kinds)
    drawings = drawn([(picture, kind) for _, picture, kind in found])
    for (path, picture, _), drawing in zip(found, drawings, strict=True):
        write_bytes(path, stamped(drawing.data, picture.digest))
        yield path
