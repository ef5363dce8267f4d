"""Read results for the commands that show them. Says what was skipped in a file."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from envbench.cli.output import results_option, warn
from envbench.errors import UsageError
from envbench.model import Record
from envbench.results import store
from envbench.results.reading import joined
from envbench.results.selection import Selection, select
from envbench.results.shown import Location


class Loaded(NamedTuple):
    """Records, the measurements selected from them, and where each run and verification is stored,
    by id."""

    records: list[Record]
    selection: Selection
    locations: dict[str, Location]


def load_files(paths: Sequence[Path], results: Path | None = None) -> Loaded:
    """The contents of these files. Their recorded names are relative to the folder ``results``."""
    records: list[Record] = []
    locations: dict[str, Location] = {}
    for path in paths:
        reading = store.read(path)
        archive = joined(reading.records)
        records += archive.records
        name = (path if results is None else path.relative_to(results)).as_posix()
        for known, line in archive.lines.items():
            locations.setdefault(known, Location(known, name, line))
        warn([*reading.warnings, *(f"{path}: {warning}" for warning in archive.warnings)])
        gc.freeze()  # records live to the end: the collector need not look at them again
    selection = select(records, locations)
    warn(selection.warnings)
    return Loaded(records, selection, locations)


def load_folder(results: Path) -> Loaded:
    """The contents of a folder of results. Raises ``UsageError`` where it has nothing to show."""
    found = load_files(store.files(results), results)
    if not (found.selection.measured or found.selection.published):
        begun = "no finished measurements" if found.records else "no results"
        first = "envbench run --env atari --backend envpool-async --numenv 8"
        hint = f"Make some: {first}{results_option(results)}"
        raise UsageError(f"there are {begun} in {results}.", hint=hint)
    return found
