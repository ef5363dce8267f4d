"""What results hold, for every command that shows it; what was skipped in them is told."""

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
    from envbench.report.origin import Origin
    from envbench.report.selection import Selection

_FIRST_RUN = "envbench run --env atari --backend envpool-async --numenv 8"


class Recorded(NamedTuple):
    """The records, what of them is shown, and where each run and verification stands, by its id."""

    records: list[Record]
    selection: Selection
    origins: dict[str, Origin]


def read(paths: Sequence[Path], results: Path | None = None) -> Recorded:
    """What these files hold. Their names are told relative to the folder ``results``."""
    from envbench import store
    from envbench.report.origin import Origin
    from envbench.report.selection import select

    records: list[Record] = []
    origins: dict[str, Origin] = {}
    for path in paths:
        reading = store.read(path)
        records += [record for _, record in reading.records]
        name = (path if results is None else path.relative_to(results)).as_posix()
        for line, record in reading.records:
            if known := _id(record):
                origins.setdefault(known, Origin(known, name, line))
        warn(reading.warnings)
        gc.freeze()  # records stay to the end: nothing is gained by looking through them again
    selection = select(records, origins)
    warn(selection.warnings)
    return Recorded(records, selection, origins)


def _id(record: Record) -> str:
    """Of what a report's figures are computed from; "" of what it only refers to."""
    from envbench.model import Run, Verification

    if isinstance(record, Run):
        return record.run_id
    return record.verification_id if isinstance(record, Verification) else ""


def recorded(results: Path) -> Recorded:
    """What a folder of results holds; ``UsageError`` where that is nothing to show."""
    from envbench import store

    found = read(store.files(results), results)
    if not (found.selection.measured or found.selection.published):
        begun = "no finished measurements" if found.records else "no results"
        there = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
        raise UsageError(f"there are {begun} in {results}.", hint=f"Make some: {_FIRST_RUN}{there}")
    return found


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        tell(f"Warning: {warning}")
