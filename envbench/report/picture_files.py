"""Pictures on disk: drawn anew only where the file shows another picture, or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envbench.report.curves import FOLDER, Picture
from envbench.report.files import read_bytes, write_bytes
from envbench.report.plots import Kind, digest_in, draw


def stale(document: Path, picture: Picture, kinds: Sequence[Kind]) -> list[tuple[Path, Kind]]:
    """The files beside a document that do not show the picture as it is now."""
    # where a link leads, there the document is
    beside = document.resolve().parent if document.is_symlink() else document.parent
    paths = [(beside / FOLDER / f"{picture.name}.{kind}", kind) for kind in kinds]
    return [(path, kind) for path, kind in paths if digest_in(read_bytes(path)) != picture.digest]


def write(document: Path, picture: Picture, kinds: Sequence[Kind]) -> list[Path]:
    """Draw what is stale; the files that were written."""
    found = stale(document, picture, kinds)
    for path, kind in found:
        write_bytes(path, draw(picture, kind))
    return [path for path, _ in found]
