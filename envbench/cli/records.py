"""What results hold, for every command that shows it. What was skipped in them is a warning."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from envbench.cli import tell
from envbench.errors import UsageError

if TYPE_CHECKING:
    from envbench.model import Record
    from envbench.results.archive import Location
    from envbench.results.selection import Selection

_FIRST_RUN = "envbench run --env atari --backend envpool-async --numenv 8"


class Recorded(NamedTuple):
    """The records, what of them is shown, and where each run and verification is stored, by id."""

    records: list[Record]
    selection: Selection
    locations: dict[str, Location]


def read(paths: Sequence[Path], results: Path | None = None) -> Recorded:
    """What these files hold. Their names are relative to the folder ``results``."""
    from envbench.results import store
    from envbench.results.archive import Location, joined
    from envbench.results.selection import select

    records: list[Record] = []
    locations: dict[str, Location] = {}
    for path in paths:
        reading = store.read(path)
        archive = joined(reading.records)
        records += archive.records
        name = (path if results is None else path.relative_to(results)).as_posix()
        for known, line in archive.lines.items():
            locations.setdefault(known, Location(known, name, line))
        warn(reading.warnings)
        warn(f"{path}: {warning}" for warning in archive.warnings)
        gc.freeze()  # records stay to the end: nothing is gained by looking through them again
    selection = select(records, locations)
    warn(selection.warnings)
    return Recorded(records, selection, locations)


def recorded(results: Path) -> Recorded:
    """What a folder of results holds; ``UsageError`` where that is nothing to show."""
    from envbench.results import store

    found = read(store.files(results), results)
    if not (found.selection.measured or found.selection.published):
        begun = "no finished measurements" if found.records else "no results"
        there = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
        raise UsageError(f"there are {begun} in {results}.", hint=f"Make some: {_FIRST_RUN}{there}")
    return found


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        tell(f"Warning: {warning}")
