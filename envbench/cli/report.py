"""``envbench report``: fill the tables of results/README.md, or of another document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import click

from envbench.cli.options import RESULTS, option
from envbench.cli.terminal import print_json, tell, warn
from envbench.cli.value_types import FilePath, Output
from envbench.errors import EnvbenchError, UsageError
from envbench.machine import Profiles, catalogue
from envbench.report.contents import BlockContent, block_contents
from envbench.report.data_export import report_json
from envbench.report.markdown.document import Filled, extended, filled, fresh, is_plain
from envbench.report.output_files import draw_stale, read_text, stale, surplus, write_text
from envbench.report.plots.draw import Kind
from envbench.report.tables.footnotes import elsewhere
from envbench.results.folder import load_folder
from envbench.results.measured_cells import Measured
from envbench.text import counted


@click.command()
@RESULTS
@option(
    "--into PATH",
    "Fill the marked tables of this document instead. Repeatable.",
    FilePath(),
    many=tuple,
)
@option(
    "--output PATH",
    "Write a whole new page to this file. Do not fill README.md of the results.",
    Output(allow_dash=True),
)
@option(
    "--format [markdown|html]",
    "html: write one self-contained file, results/report.html or --output.",
    click.Choice(["markdown", "html"]),
    also="wanted",
    default="markdown",
)
@option(
    "--figures [rounded|plain]",
    "rounded: 20,700 ±2 %. plain: 20735.12.  [default: rounded; --into: as the document has them]",
    click.Choice(["rounded", "plain"]),
)
@option("--png", "Also draw the plots as PNG.")
@option("--check", "Write nothing; exit with 1 if a file is out of date.")
@option("--json", "Print the cells as one JSON document on stdout.", also="as_json")
def report(
    results: Path,
    into: tuple[Path, ...],
    output: Path | None,
    wanted: str,
    figures: str | None,
    png: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Fill the tables of results/README.md.

    Each table shows its newest session, and other cells' newest complete measurements. Only text
    between two identical lines such as <!-- Atari - Laptop --> changes. A figure whose record is
    gone is kept. With --json alone, no file is written.
    """
    html = wanted == "html"
    if as_json and str(output) == "-":
        raise UsageError("--json and --output - would both write to stdout: choose one.")
    if check and str(output) == "-":
        raise UsageError("--check compares files: it cannot be combined with --output -.")
    if html and (into or as_json or png or figures):
        raise UsageError("--format html can be combined only with --output and --check.")
    loaded, known = load_folder(results, warn), catalogue()
    warn(known.warnings)
    if html:
        from envbench.report.html.page import html_page

        page = html_page(loaded.selection, known.profiles)
        files = {output or results / "report.html": Filled(text=page)}
    else:
        own = None if into or output or (as_json and not check) else results / "README.md"
        contents = cache(partial(block_contents, loaded.selection, known.profiles))
        files = _documents(
            lambda text: contents(plain=figures == "plain" or (not figures and is_plain(text))),
            into,
            output,
            own,
        )
    kinds: list[Kind] = ["svg", "png"] if png else ["svg"]
    if check:
        _check(files, kinds)
    else:
        _write(files, kinds)
    if as_json:
        document = report_json(loaded.selection.measured, elsewhere_by(known.profiles))
        print_json(document, indent=-1)


def elsewhere_by(profiles: Profiles) -> Callable[[Measured], bool]:
    """Was a cell measured on hardware that does not match its profile?"""
    return lambda found: elsewhere(found, profiles.get(found.cell.machine))


def _documents(
    contents: Callable[[str], Mapping[str, BlockContent]],
    into: Sequence[Path],
    new: Path | None,
    own: Path | None,
) -> dict[Path, Filled]:
    """The new text of every document: those of ``into``, the ``new`` one, the results' ``own``.

    ``contents`` of a document have its style.
    """
    files = {}
    for path in into:
        text = read_text(path)
        files[path] = filled(text, str(path), contents(text), own=False)
    if new:
        files[new] = filled(fresh(contents("")), str(new), contents(""), own=False)
    if own:
        found = contents("")
        text = extended(read_text(own), str(own), found) if own.exists() else fresh(found)
        files[own] = filled(text, str(own), found, own=True)
    for each in files.values():
        warn(each.warnings)
    return files


def _check(files: Mapping[Path, Filled], kinds: Sequence[Kind]) -> None:
    """Raise where a file is out of date."""
    old = [path for path, new in files.items() if not path.exists() or read_text(path) != new.text]
    for path, new in files.items():
        old += [drawn for drawn, _, _ in stale(path, new.pictures, kinds)]
        old += [] if new.current is None else surplus(path, new.current)
    if count := sum(len(new.misspelt) for new in files.values()):
        markers = counted(count, "misspelt marker")
        raise EnvbenchError(f"{markers}: the warnings above name the lines.")
    if names := ", ".join(dict.fromkeys(map(str, old))):
        raise EnvbenchError(f"out of date: {names}.", hint="To update, run this without --check.")
    for path in files:
        tell(f"{path} is up to date.")


def _write(files: Mapping[Path, Filled], kinds: Sequence[Kind]) -> None:
    for path, new in files.items():
        if str(path) == "-":
            click.echo(new.text, nl=False)
            continue
        for drawn in draw_stale(path, new.pictures, kinds):  # first: no link is ever broken
            tell(f"wrote {drawn}")
        for drawn in [] if new.current is None else surplus(path, new.current):
            drawn.unlink()
            tell(f"removed {drawn}: no results for it")
        wrote = "wrote" if write_text(path, new.text) else "unchanged:"
        count = f" ({counted(new.figures, 'figure')})" if new.figures else ""
        tell(f"{wrote} {path}{count}")
