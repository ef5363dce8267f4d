"""Results files as records, and the measurements that are selected from them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from envbench.errors import UsageError
from envbench.machine import catalogue
from envbench.model import Record, Run, RuntimeFact, Verification, Windows
from envbench.results import store
from envbench.results.joining import joined
from envbench.results.measured_cells import Location, without_figures
from envbench.results.selection import Selection, select

Warn = Callable[[Iterable[str]], None]


class Loaded(NamedTuple):
    """Records, the measurements selected from them, and where each record is stored, by id.

    Nothing in it has a figure that ``envbench verify`` refused.
    """

    records: list[Record]
    selection: Selection
    locations: dict[str, Location]


def load_files(
    paths: Sequence[Path], warn: Warn, results: Path | None = None, *, every_window: bool = False
) -> Loaded:
    """The contents of these files, and what the other files of their folders verified.

    Their recorded names are relative to the folder ``results``. ``every_window``: also keep the
    windows of runs that are not shown. This needs several times the memory.
    """
    with _no_collection():
        return _load(paths, warn, results, every_window=every_window)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: reading makes many objects, and no garbage to collect. It
    leaves them alone afterwards, too."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _load(paths: Sequence[Path], warn: Warn, results: Path | None, *, every_window: bool) -> Loaded:
    records: list[Record] = []
    locations: dict[str, Location] = {}
    places: dict[str, Path] = {}  # the file of each record
    for path in paths:
        reading = store.read(path)
        archive = joined(reading.records)
        records += archive.records if every_window else map(_slim, archive.records)
        name = (path if results is None else path.relative_to(results)).as_posix()
        for known, line in archive.lines.items():
            locations.setdefault(known, Location(known, name, line))
            places.setdefault(known, path)
        warn([*reading.warnings, *(f"{path}: {warning}" for warning in archive.warnings)])
    folders = dict.fromkeys(path.parent for path in paths)
    for path in (each for folder in folders for each in store.in_folder(folder)):
        if path not in paths:
            reading = store.read(path)
            warn(reading.warnings)
            found = joined(reading.records).records
            records += [each for each in found if isinstance(each, Verification | RuntimeFact)]
    hosts = {name: each.match.host for name, each in catalogue().profiles.items()}

    @lru_cache(maxsize=2)  # cells of one table are mostly of one file
    def read_again(path: Path) -> dict[str, Run]:
        again = joined(store.read(path).records).records
        return {each.run_id: each for each in again if isinstance(each, Run)}

    def whole(runs: Sequence[Run]) -> list[Run]:
        return [read_again(places[each.run_id]).get(each.run_id, each) for each in runs]

    named = {name: host for name, host in hosts.items() if host}
    selection = select(records, locations, named, tuple if every_window else whole)
    warn(selection.warnings)
    shown = [
        without_figures(each) if isinstance(each, Run) and selection.refuses(each.cell) else each
        for each in records
    ]
    return Loaded(shown, selection, locations)


def _slim(record: Record) -> Record:
    """A record with what the selection needs of it. Runs have many windows, and few are shown."""
    if not isinstance(record, Run):
        return record
    return msgspec.structs.replace(
        record,
        warmup=Windows(),
        resets=Windows(),
        short_calls=Windows(),
        latency=None,
        returns=None,
    )


def load_folder(results: Path, warn: Warn, *, every_window: bool = False) -> Loaded:
    """The contents of a folder of results. Raises ``UsageError`` where it has nothing to show."""
    found = load_files(store.files(results), warn, results, every_window=every_window)
    if not (found.selection.measured or found.selection.published):
        verified = [each.cell for each in found.records if isinstance(each, Verification)]
        if verified:
            begun = "findings of `envbench verify`, but no figures beside which to show them"
            names = ",".join(dict.fromkeys(each.backend for each in verified))
            first = f"envbench run --env {verified[0].env} --backend {names} --numenv 1,4"
        else:
            begun = "no finished measurements" if found.records else "no results"
            first = "envbench run --env atari --backend envpool-async --numenv 8"
        hint = f"Make some: {first}{store.option(results)}"
        raise UsageError(f"the folder {results} has {begun}.", hint=hint)
    return found
