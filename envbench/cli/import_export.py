"""``envbench import``: add figures that others published to the results. ``envbench export``: write
the measurements as a flat table, for pandas, R or a spreadsheet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from envbench.cli.options import RESULTS, FilePath, option
from envbench.cli.terminal import tell, warn
from envbench.errors import EnvbenchError, UsageError
from envbench.report.data_export import neutralised, of_cell, of_runs
from envbench.report.output_files import read_text, write_bytes, write_text
from envbench.results import published_csv, store
from envbench.results.folder import load_folder
from envbench.text import counted

if TYPE_CHECKING:
    from pandas import DataFrame

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
    FilePath(allow_dash=True, dir_okay=False),
    default="-",
    show_default=False,
)
@option(
    "--format [csv|json|jsonl|parquet]",
    "json is one document; jsonl has one per line.  [default: by the file's ending, else csv]",
    click.Choice(FORMATS),
    also="wanted",
)
@option("--runs", "Write a row per recorded run instead of per cell.")
def export(results: Path, output: Path, wanted: str | None, runs: bool) -> None:
    """Write a flat table of the measurements that a report shows, one row per cell."""
    from pandas import DataFrame

    kind = _kind(output, wanted)
    found = load_folder(results, warn, every_window=runs)
    frame = DataFrame(
        of_runs(found.records, found.locations, found.selection)
        if runs
        else [of_cell(each) for each in found.selection.measured]
    )
    if frame.empty:
        raise UsageError(
            f"nothing was measured in {results}: there is nothing to export.",
            hint="Published figures are not exported; they are in the files that were imported.",
        )
    if str(output) != "-":
        write_bytes(output, _encoded(frame, kind))
        tell(f"wrote {output} ({counted(len(frame), 'row')})")
    elif kind == "parquet":
        raise UsageError("parquet cannot be written to stdout.", hint="Name a file: --output FILE")
    else:
        click.echo(_encoded(frame, kind), nl=False)


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


def _encoded(frame: DataFrame, kind: str) -> bytes:
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
        text = frame.to_json(orient="records", lines=kind == "jsonl", force_ascii=False)
        text += "" if kind == "jsonl" else "\n"
    return text.encode("utf-8", "surrogateescape")
