"""What results hold, for every command that shows it; what was skipped in them is told."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from envbench.cli import tell
from envbench.errors import UsageError

if TYPE_CHECKING:
    from envbench.model import Record
    from envbench.report.selection import Selection

_FIRST_RUN = "envbench run --env atari --backend envpool-async --numenv 8"


class Recorded(NamedTuple):
    """The records, what of them is shown, and the file and line of each run by its id."""

    records: list[Record]
    selection: Selection
    origins: dict[str, str]


def read(paths: Sequence[Path]) -> Recorded:
    """What these files hold."""
    from envbench import store
    from envbench.model import Run
    from envbench.report.selection import select

    records: list[Record] = []
    origins: dict[str, str] = {}
    for path in paths:
        reading = store.read(path)
        records += [record for _, record in reading.records]
        for line, record in reading.records:
            if isinstance(record, Run):
                origins.setdefault(record.run_id, f"{path}:{line}")
        warn(reading.warnings)
    selection = select(records)
    warn(selection.warnings)
    return Recorded(records, selection, origins)


def recorded(results: Path) -> Recorded:
    """What a folder of results holds; ``UsageError`` where that is nothing to show."""
    from envbench import store

    found = read(store.files(results))
    if not (found.selection.measured or found.selection.published):
        begun = "no finished measurements" if found.records else "no results"
        there = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
        raise UsageError(f"there are {begun} in {results}.", hint=f"Make some: {_FIRST_RUN}{there}")
    return found


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        tell(f"Warning: {warning}")
