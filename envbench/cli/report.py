"""``envbench report``: fill the tables of results/README.md, or of another document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from envbench.cli.load_results import Loaded, load_folder
from envbench.cli.options import RESULTS, flag, valued
from envbench.cli.output import print_json, tell, warn
from envbench.errors import EnvbenchError, UsageError
from envbench.machine import catalogue
from envbench.report.data_export import SCHEMA, measured_json
from envbench.report.disk import draw_stale, read_text, stale, write_text
from envbench.report.markdown.contents import BlockContent, block_contents
from envbench.report.markdown.document import Filled, extended, filled, fresh
from envbench.report.plots.draw import Kind
from envbench.report.tables.footnotes import elsewhere
from envbench.results.selection import Selection
from envbench.results.shown import Measured
from envbench.text import counted


@click.command()
@RESULTS
@valued(
    "--into",
    click.Path(path_type=Path),
    "PATH",
    "Fill the marked tables of this document instead. Repeatable.",
    multiple=True,
)
@valued(
    "--output",
    click.Path(path_type=Path, allow_dash=True),
    "PATH",
    "Write a whole new page here instead of filling README.md of the results.",
)
@click.option(
    "--format",
    "wanted",
    type=click.Choice(["markdown", "html"]),
    default="markdown",
    show_default=True,
    help="html: write one self-contained file, results/report.html or --output.",
)
@flag("--png", "Also draw the plots as PNG.")
@flag("--check", "Write nothing; exit with 1 if a file is out of date.")
@flag("--json", "Print the cells as one JSON document on stdout.", "as_json")
def report(
    results: Path,
    into: tuple[Path, ...],
    output: Path | None,
    wanted: str,
    png: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Fill the tables of results/README.md with each cell's newest complete measurement.

    Only text between two equal lines such as <!-- Atari - Laptop --> changes. A figure there for
    which there is no result is kept. With --json alone, no file is written.
    """
    if as_json and str(output) == "-":
        raise UsageError("--json and --output - would both write to stdout: choose one.")
    if wanted == "html" and (into or as_json or png):
        raise UsageError("--format html can be combined only with --output and --check.")
    loaded = load_folder(results)
    if wanted == "html":
        files = {output or results / "report.html": _html(loaded)}
    else:
        files = _documents(loaded.selection, results, into, output, only_named=as_json)
    kinds: list[Kind] = ["svg", "png"] if png else ["svg"]
    if check:
        _check(
            files, kinds, f"envbench report{' --png' * png}{' --format html' * (wanted == 'html')}"
        )
    else:
        _write(files, kinds)
    if as_json:
        _print_cells(loaded.selection.measured)


def _html(loaded: Loaded) -> Filled:
    from envbench.report.html.page import html_page

    return Filled(text=html_page(loaded.selection, catalogue().profiles, loaded.records))


def _documents(
    selection: Selection,
    results: Path,
    into: tuple[Path, ...],
    output: Path | None,
    *,
    only_named: bool,
) -> dict[Path, Filled]:
    """The new contents of each file. All are made before one is written."""
    known = catalogue()
    warn(known.warnings)
    found = block_contents(selection, known.profiles)
    files = {path: _filled(read_text(path), path, found) for path in into}
    if output is not None:
        files[output] = _filled(fresh(found), output, found)
    elif not into and not only_named:
        page = results / "README.md"
        text = extended(read_text(page), str(page), found) if page.exists() else fresh(found)
        files[page] = _filled(text, page, found, own=True)
    return files


def _filled(
    text: str, path: Path, found: Mapping[str, BlockContent], *, own: bool = False
) -> Filled:
    outcome = filled(text, str(path), found, own=own)
    warn(outcome.warnings)
    return outcome


def _check(files: Mapping[Path, Filled], kinds: Sequence[Kind], command: str) -> None:
    """Raise where a file is out of date, with the command that updates it."""
    old = [path for path, new in files.items() if _differs(path, new.text)]
    for path, new in files.items():
        old += [drawn for drawn, _, _ in stale(path, new.pictures, kinds)]
    if count := sum(len(new.misspelt) for new in files.values()):
        markers = "a marker is" if count == 1 else f"{count} markers are"
        raise EnvbenchError(f"{markers} misspelt: the warnings above name the lines.")
    if old:
        raise EnvbenchError(
            f"out of date: {', '.join(map(str, old))}.", hint=f"To update: {command}"
        )
    for path in files:
        tell(f"{path} is up to date.")


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or read_text(path) != text


def _write(files: Mapping[Path, Filled], kinds: Sequence[Kind]) -> None:
    for path, new in files.items():
        if str(path) == "-":
            click.echo(new.text, nl=False)
            continue
        for drawn in draw_stale(
            path, new.pictures, kinds
        ):  # first: a document never links to nothing
            tell(f"wrote {drawn}")
        wrote = "wrote" if write_text(path, new.text) else "unchanged:"
        count = f" ({counted(new.figures, 'figure')})" if new.figures else ""
        tell(f"{wrote} {path}{count}")


def _print_cells(measured: Iterable[Measured]) -> None:
    profiles = catalogue().profiles
    cells = [
        measured_json(each, other_hardware=elsewhere(each, profiles.get(each.summary.cell.machine)))
        for each in measured
    ]
    print_json({"schema": SCHEMA, "cells": cells}, indent=-1)
