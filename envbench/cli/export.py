"""``envbench export``: the measurements as a flat table, for pandas, R or a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbench.cli.options import RESULTS

if TYPE_CHECKING:
    from pandas import DataFrame

FORMATS = ("csv", "json", "jsonl", "parquet")


@click.command()
@RESULTS
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    default=Path("-"),
    help="A file; its ending says which format.  [default: CSV on stdout]",
)
@click.option(
    "--format",
    "wanted",
    type=click.Choice(FORMATS),
    help="json is one document, jsonl one a line.  [default: by the file's ending, else csv]",
)
@click.option("--runs", is_flag=True, help="A row a run, of every run on record, not a row a cell.")
def export(results: Path, output: Path, wanted: str | None, runs: bool) -> None:
    """Write the measurements that a report shows as a flat table: a row a cell."""
    from envbench.cli.records import recorded
    from envbench.errors import UsageError
    from envbench.report.data_export import neutralised, of_cells, of_runs
    from envbench.report.disk import write_text

    kind = _kind(output, wanted)
    found = recorded(results)
    if runs:
        frame = of_runs(found.records, found.locations, found.selection)
    else:
        frame = of_cells(found.selection.measured)
    if frame.empty:
        raise UsageError(
            f"nothing was measured in {results}: there is nothing to export.",
            hint="Published figures stay as they were imported.",
        )
    if kind == "parquet":
        _write_parquet(output, frame)
    else:
        text = neutralised(frame).to_csv(index=False) if kind == "csv" else _json(frame, kind)
        if str(output) == "-":
            click.echo(text, nl=False)
            return
        write_text(output, text)
    click.echo(f"wrote {output} ({len(frame)} rows)", err=True)


def _kind(output: Path, wanted: str | None) -> str:
    """The format; a file's ending may not name another."""
    from envbench.errors import UsageError

    ending = output.suffix[1:].lower()
    kind = wanted or (ending if ending in FORMATS else "csv")
    if ending not in ("", "txt", kind):
        raise UsageError(
            f"{output} would hold {kind}, which its ending contradicts.",
            hint=f"End it in {', '.join(f'.{each}' for each in FORMATS)}.",
        )
    return kind


def _json(frame: DataFrame, kind: str) -> str:
    lines = kind == "jsonl"
    text = frame.to_json(orient="records", lines=lines, force_ascii=False)
    return text if lines else f"{text}\n"


def _write_parquet(output: Path, frame: DataFrame) -> None:
    import io

    from envbench.errors import EnvbenchError, UsageError
    from envbench.report.disk import write_bytes

    if str(output) == "-":
        raise UsageError("parquet goes into a file.", hint="Name one: --output cells.parquet")
    file = io.BytesIO()
    try:
        frame.to_parquet(file, index=False)
    except ImportError as error:
        raise EnvbenchError(
            "parquet needs pyarrow, which is not installed.", hint="pip install pyarrow"
        ) from error
    write_bytes(output, file.getvalue())
