"""``envbench report``: the tables of results/README.md, or of any document, from the results."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbench.errors import EnvbenchError, UsageError

if TYPE_CHECKING:
    from envbench.model import Record
    from envbench.report.document import Piece
    from envbench.report.selection import Measured, Selection

_FIRST_RUN = "envbench run --env atari --backend envpool-async --numenv 8"


@click.command()
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder that holds the results.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Fill the marked tables of this document instead; repeatable.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write the whole page here, fresh, instead of filling README.md of the results.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file is out of date.")
@click.option("--json", "as_json", is_flag=True, help="The cells as one JSON document on stdout.")
def report(
    results: Path, into: tuple[Path, ...], output: Path | None, check: bool, as_json: bool
) -> None:
    """Fill the tables of results/README.md with each cell's newest complete measurement.

    Only what stands between two equal lines such as <!-- Atari - Laptop --> is written; a figure
    there that no result stands behind stays as it is. With --json alone, no file is written.
    """
    if as_json and str(output) == "-":
        raise UsageError("--json and --output - would both write to stdout: choose one.")
    selection = _select(results)
    files = _files(selection, results, into, output, only_named=as_json)
    if check:
        _compare(files)
    else:
        _write(files)
    if as_json:
        _print_cells(selection.measured)


def _select(results: Path) -> Selection:
    return recorded(results)[1]


def recorded(results: Path) -> tuple[list[Record], Selection]:
    """What the results hold; what was skipped in them is told on stderr."""
    from envbench import store
    from envbench.report.selection import select

    records: list[Record] = []
    for path in store.files(results):
        reading = store.read(path)
        records += [record for _, record in reading.records]
        _warn(reading.warnings)
    selection = select(records)
    _warn(selection.warnings)
    if not (selection.measured or selection.published):
        begun = "no finished measurements" if records else "no results"
        there = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
        raise UsageError(f"there are {begun} in {results}.", hint=f"Make some: {_FIRST_RUN}{there}")
    return records, selection


def _files(
    selection: Selection,
    results: Path,
    into: tuple[Path, ...],
    output: Path | None,
    *,
    only_named: bool,
) -> dict[Path, tuple[str, int]]:
    """Each file's new text and number of figures; nothing is written before all are made."""
    from envbench.machine import catalogue
    from envbench.report.document import fresh
    from envbench.report.files import read_text
    from envbench.report.pieces import pieces

    known = catalogue()
    _warn(known.warnings)
    found = pieces(selection, known.profiles)
    files = {path: _filled(read_text(path), path, found) for path in into}
    if output is not None:
        files[output] = _filled(fresh(found), output, found)
    elif not into and not only_named:
        files[results / "README.md"] = _results_page(results / "README.md", found)
    return files


def _results_page(page: Path, found: Mapping[str, Piece]) -> tuple[str, int]:
    from envbench.report.document import extended, fresh
    from envbench.report.files import read_text

    text = extended(read_text(page), str(page), found) if page.exists() else fresh(found)
    return _filled(text, page, found)


def _filled(text: str, path: Path, found: Mapping[str, Piece]) -> tuple[str, int]:
    from envbench.report.document import filled

    outcome = filled(text, str(path), found)
    _warn(outcome.warnings)
    return outcome.text, outcome.figures


def _compare(files: Mapping[Path, tuple[str, int]]) -> None:
    from envbench.report.files import read_text

    stale = [
        str(path)
        for path, (text, _) in files.items()
        if not path.exists() or read_text(path) != text
    ]
    if stale:
        raise EnvbenchError(
            f"out of date: {', '.join(stale)}.", hint="envbench report brings it up to date."
        )
    for path in files:
        click.echo(f"{path} is up to date.", err=True)


def _write(files: Mapping[Path, tuple[str, int]]) -> None:
    from envbench.report.files import write_text

    for path, (text, figures) in files.items():
        if str(path) == "-":
            click.echo(text, nl=False)
            continue
        written = write_text(path, text)
        count = "1 figure" if figures == 1 else f"{figures} figures"
        click.echo(f"{'wrote' if written else 'unchanged:'} {path} ({count})", err=True)


def _print_cells(measured: Iterable[Measured]) -> None:
    import msgspec

    from envbench.machine import catalogue
    from envbench.report.cells import SCHEMA, cell_json
    from envbench.report.notes import elsewhere

    profiles = catalogue().profiles
    cells = [
        cell_json(
            each.summary, other_hardware=elsewhere(each, profiles.get(each.summary.cell.machine))
        )
        for each in measured
    ]
    click.echo(msgspec.json.encode({"schema": SCHEMA, "cells": cells}).decode())


def _warn(warnings: Iterable[str]) -> None:
    from envbench.text import printable

    for warning in warnings:
        click.echo(f"Warning: {printable(warning)}", err=True)
