"""``envbench import``: add figures that others published to the results. ``envbench export``: write
the measurements as a flat table, for pandas, R or a spreadsheet, or as a JSON document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from envbench.cli.options import RESULTS, option
from envbench.cli.report import elsewhere_by
from envbench.cli.terminal import json_text, tell, warn
from envbench.cli.value_types import FilePath, Output
from envbench.errors import EnvbenchError, UsageError
from envbench.machine import catalogue
from envbench.report.data_export import SCHEMA, export_json, neutralised, of_cell, of_runs
from envbench.report.output_files import read_text, write_bytes, write_text
from envbench.results import published_csv, store
from envbench.results.folder import load_folder
from envbench.results.measured_cells import Measured
from envbench.text import counted

FOLDER = "published"
FORMATS = ("csv", "json", "jsonl", "parquet")


@click.command("import")
@click.argument("files", type=FilePath(), nargs=-1, required=True, metavar="FILE…")
@RESULTS
def import_csv(files: tuple[Path, ...], results: Path) -> None:
    """Add published figures from CSV files to the results.

    The columns are machine, env, task, backend, numenv, fps, frame_skip and source. The column fps
    already includes frame_skip. A machine needs no profile. The figures get tables of their own,
    marked as published, with their source. No comparison uses them. Importing a file again replaces
    the figures of an earlier file of the same name.
    """
    names = [re.sub(r"[^0-9A-Za-z._-]", "-", path.stem)[:60] + ".jsonl" for path in files]
    parsed = [published_csv.parse(read_text(path), str(path)) for path in files]
    taken = dict(zip(names, parsed, strict=True))
    if len(taken) < len(files):
        raise UsageError("two of these files have the same name: rename one of them.")
    folder = store.check_folder(results, FOLDER)
    for name, figures in taken.items():
        text = "".join(f"{msgspec.json.encode(each).decode()}\n" for each in figures)
        written = write_text(folder / name, text)
        count = counted(len(figures), "figure")
        tell(f"{'wrote' if written else 'unchanged:'} {folder / name} ({count})")
    tell("`envbench report` shows them in tables of their own.")


@click.command()
@RESULTS
@option(
    "--output PATH",
    "Write this file. Its ending selects the format.  [default: CSV on stdout]",
    Output(allow_dash=True),
    default="-",
    show_default=False,
)
@option(
    "--format [csv|json|jsonl|parquet]",
    "json: a document with cells and ratios. jsonl: a row per line.  [default: by the file's "
    "ending, else csv]",
    click.Choice(FORMATS),
    also="wanted",
)
@option("--runs", "Write a row per recorded run instead of per cell.")
def export(results: Path, output: Path, wanted: str | None, runs: bool) -> None:
    """Write a flat table of the measurements that a report shows, one row per cell.

    With --format json, write a document that also has the ratios of each two cells of a session.
    """
    kind = _kind(output, wanted)
    found = load_folder(results, warn, every_window=runs)
    measured = found.selection.measured
    rows = (
        of_runs(found.records, found.locations, found.selection)
        if runs
        else [of_cell(each) for each in measured]
    )
    if not rows:
        raise UsageError(
            f"nothing was measured in {results}: there is nothing to export.",
            hint="Published figures are not exported; they are in the files that were imported.",
        )
    if str(output) == "-" and kind == "parquet":
        raise UsageError("parquet cannot be written to stdout.", hint="Name a file: --output FILE")
    if kind == "json":
        document = {"schema": SCHEMA, "runs": rows} if runs else _document(measured)
        data = f"{json_text(document, indent=-1)}\n".encode()
    else:
        data = _encoded(rows, kind)
    if str(output) == "-":
        click.echo(data, nl=False)
    else:
        write_bytes(output, data)
        tell(f"wrote {output} ({counted(len(rows), 'row')})")


def _kind(output: Path, wanted: str | None) -> str:
    """The format. The ending of the file may not contradict it."""
    ending = output.suffix[1:].lower()
    kind = wanted or (ending if ending in FORMATS else "csv")
    if ending not in ("", "txt", kind):
        raise UsageError(
            f"the ending of {output} does not fit the format {kind}.",
            hint=f"End it with .{kind}, or choose another --format.",
        )
    return kind


def _document(measured: Sequence[Measured]) -> dict[str, Any]:
    known = catalogue()
    warn(known.warnings)
    return export_json(measured, elsewhere_by(known.profiles))


def _encoded(rows: Sequence[Mapping[str, Any]], kind: str) -> bytes:
    """The table as bytes of this format. Unknown values are empty."""
    from pandas import DataFrame

    frame = DataFrame(rows)
    for name in rows[0]:  # pandas makes decimals of whole numbers beside empty values
        known = [row[name] for row in rows if row[name] is not None]
        if known and all(type(value) is int for value in known):
            frame[name] = frame[name].astype("Int64")
    if kind == "parquet":
        try:
            return frame.to_parquet(index=False)
        except ImportError as error:
            raise EnvbenchError(
                "parquet needs pyarrow, which is not installed.", hint="pip install pyarrow"
            ) from error
    if kind == "csv":
        text = neutralised(frame).to_csv(index=False)
    else:
        text = frame.to_json(orient="records", lines=True, force_ascii=False)
    return text.encode("utf-8", "surrogateescape")
