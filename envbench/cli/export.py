"""``envbench export``: write the measurements as a flat table, for pandas, R or a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbench.cli.load_results import load_folder
from envbench.cli.options import RESULTS, flag
from envbench.cli.output import tell
from envbench.errors import EnvbenchError, UsageError
from envbench.report.disk import write_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

FORMATS = ("csv", "json", "jsonl", "parquet")


@click.command()
@RESULTS
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    default=Path("-"),
    help="Write this file, in the format of its ending.  [default: CSV on stdout]",
)
@click.option(
    "--format",
    "wanted",
    type=click.Choice(FORMATS),
    help="json is one document; jsonl has one per line.  [default: by the file's ending, else csv]",
)
@flag("--runs", "Write a row per recorded run instead of per cell.")
def export(results: Path, output: Path, wanted: str | None, runs: bool) -> None:
    """Write the measurements that a report shows as a flat table, one row per cell."""
    from envbench.report.data_export import of_cells, of_runs

    kind = _kind(output, wanted)
    found = load_folder(results)
    frame = (
        of_runs(found.records, found.locations, found.selection)
        if runs
        else of_cells(found.selection.measured)
    )
    if frame.empty:
        raise UsageError(
            f"nothing was measured in {results}: there is nothing to export.",
            hint="Published figures are not exported; they are in the files that were imported.",
        )
    if str(output) != "-":
        write_bytes(output, _encoded(frame, kind))
        tell(f"wrote {output} ({len(frame)} rows)")
    elif kind == "parquet":
        raise UsageError(
            "parquet cannot be written to stdout.", hint="Name a file: --output cells.parquet"
        )
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
    from envbench.report.data_export import neutralised

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
