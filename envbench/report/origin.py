"""Where a record stands: its id, its file and its line, so that a figure leads to raw facts. PURE.

Files are told relative to the folder of results, whatever folder the command ran in: a report says
the same of the same records wherever it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Origin(NamedTuple):
    """A record's place. ``line`` counts from 1."""

    record: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """``epyc-vm/2026-11-20T12-41-47Z.jsonl:7``, as an editor opens it."""
        return f"{self.file}:{self.line}"


def lines_by_file(origins: Iterable[Origin]) -> dict[str, list[int]]:
    """The lines of each file, in order."""
    files: dict[str, list[int]] = {}
    for origin in origins:
        files.setdefault(origin.file, []).append(origin.line)
    return {file: sorted(lines) for file, lines in files.items()}
