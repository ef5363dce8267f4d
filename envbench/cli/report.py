"""``envbench report``: the tables of results/README.md, or of any document, from the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbench.cli.options import RESULTS
from envbench.cli.records import recorded, warn
from envbench.errors import EnvbenchError, UsageError

if TYPE_CHECKING:
    from envbench.report.markdown.document import BlockContent, Filled
    from envbench.report.plots.draw import Kind
    from envbench.results.selection import Selection
from envbench.results.shown import Measured


@click.command()
@RESULTS
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
@click.option(
    "--format",
    "wanted",
    type=click.Choice(["markdown", "html"]),
    default="markdown",
    show_default=True,
    help="html: one file with everything in it, results/report.html unless --output says where.",
)
@click.option("--png", is_flag=True, help="Draw the plots as PNG, too.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file is out of date.")
@click.option("--json", "as_json", is_flag=True, help="The cells as one JSON document on stdout.")
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

    Only what stands between two equal lines such as <!-- Atari - Laptop --> is written; a figure
    there that no result stands behind stays as it is. With --json alone, no file is written.
    """
    if as_json and str(output) == "-":
        raise UsageError("--json and --output - would both write to stdout: choose one.")
    if wanted == "html":
        if into or as_json or png:
            raise UsageError("--format html goes with --output and --check alone.")
        return _html(results, output or results / "report.html", check=check)
    selection = recorded(results).selection
    files = _files(selection, results, into, output, only_named=as_json)
    kinds: list[Kind] = ["svg", "png"] if png else ["svg"]
    if check:
        _compare(files, kinds)
    else:
        _write(files, kinds)
    if as_json:
        _print_cells(selection.measured)
    return None


def _html(results: Path, output: Path, *, check: bool) -> None:
    from envbench.machine import catalogue
    from envbench.report.disk import write_text
    from envbench.report.html.cells import run_records
    from envbench.report.html.page import html_page

    found = recorded(results)
    records = run_records(found.records, found.locations)
    text = html_page(found.selection, catalogue().profiles, records)
    if check:
        return _tell(
            [output] if _differs(output, text) else [], [output], "envbench report --format html"
        )
    if str(output) == "-":
        return click.echo(text, nl=False)
    written = write_text(output, text)
    return click.echo(f"{'wrote' if written else 'unchanged:'} {output}", err=True)


def _files(
    selection: Selection,
    results: Path,
    into: tuple[Path, ...],
    output: Path | None,
    *,
    only_named: bool,
) -> dict[Path, Filled]:
    """Each file as it shall be; nothing is written before all are made."""
    from envbench.machine import catalogue
    from envbench.report.disk import read_text
    from envbench.report.markdown.contents import block_contents
    from envbench.report.markdown.document import fresh

    known = catalogue()
    warn(known.warnings)
    found = block_contents(selection, known.profiles)
    files = {path: _filled(read_text(path), path, found) for path in into}
    if output is not None:
        files[output] = _filled(fresh(found), output, found)
    elif not into and not only_named:
        files[results / "README.md"] = _results_page(results / "README.md", found)
    return files


def _results_page(page: Path, found: Mapping[str, BlockContent]) -> Filled:
    from envbench.report.disk import read_text
    from envbench.report.markdown.document import extended, fresh

    text = extended(read_text(page), str(page), found) if page.exists() else fresh(found)
    return _filled(text, page, found, own=True)


def _filled(
    text: str, path: Path, found: Mapping[str, BlockContent], *, own: bool = False
) -> Filled:
    from envbench.report.markdown.document import filled

    outcome = filled(text, str(path), found, own=own)
    warn(outcome.warnings)
    return outcome


def _compare(files: Mapping[Path, Filled], kinds: Sequence[Kind]) -> None:
    from envbench.report.plots.picture_files import stale

    old = [path for path, filled in files.items() if _differs(path, filled.text)]
    for path, filled in files.items():
        old += [drawn for drawn, _, _ in stale(path, filled.pictures, kinds)]
    if count := sum(len(filled.misspelt) for filled in files.values()):
        markers = "a marker is" if count == 1 else f"{count} markers are"
        raise EnvbenchError(f"{markers} misspelt: the warnings above name the lines.")
    _tell(old, files, "envbench report --png" if "png" in kinds else "envbench report")


def _differs(path: Path, text: str) -> bool:
    from envbench.report.disk import read_text

    return not path.exists() or read_text(path) != text


def _tell(old: Sequence[Path], checked: Iterable[Path], command: str) -> None:
    if old:
        raise EnvbenchError(
            f"out of date: {', '.join(map(str, old))}.",
            hint=f"{command} brings it up to date.",
        )
    for path in checked:
        click.echo(f"{path} is up to date.", err=True)


def _write(files: Mapping[Path, Filled], kinds: Sequence[Kind]) -> None:
    from envbench.report.disk import write_text
    from envbench.report.plots.picture_files import write

    for path, filled in files.items():
        if str(path) == "-":
            click.echo(filled.text, nl=False)
            continue
        # first: a document never links to what is not there
        for drawn in write(path, filled.pictures, kinds):
            click.echo(f"wrote {drawn}", err=True)
        written = write_text(path, filled.text)
        count = "1 figure" if filled.figures == 1 else f"{filled.figures} figures"
        told = f" ({count})" if filled.figures else ""  # a summary's are the tables' own
        click.echo(f"{'wrote' if written else 'unchanged:'} {path}{told}", err=True)


def _print_cells(measured: Iterable[Measured]) -> None:
    import msgspec

    from envbench.machine import catalogue
    from envbench.report.data_export import SCHEMA, measured_json
    from envbench.report.tables.footnotes import elsewhere

    profiles = catalogue().profiles
    cells = [
        measured_json(each, other_hardware=elsewhere(each, profiles.get(each.summary.cell.machine)))
        for each in measured
    ]
    click.echo(msgspec.json.encode({"schema": SCHEMA, "cells": cells}).decode())
