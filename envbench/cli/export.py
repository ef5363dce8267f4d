"""``envbench export``: the measurements as CSV or JSON lines, for pandas, R or a spreadsheet."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder that holds the results.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    default=Path("-"),
    help="A file; its ending says which format.  [default: CSV on stdout]",
)
@click.option(
    "--format",
    "wanted",
    type=click.Choice(["csv", "jsonl"]),
    help="CSV, or one JSON document a line.  [default: by the file's ending, else csv]",
)
@click.option("--runs", is_flag=True, help="A row a run, of every run on record, not a row a cell.")
def export(results: Path, output: Path, wanted: str | None, runs: bool) -> None:
    """Write the measurements that a report shows as a flat table: a row a cell."""
    from envbench.cli.records import recorded
    from envbench.report.files import write_text
    from envbench.report.frame import neutralised, of_cells, of_runs

    found = recorded(results)
    frame = of_runs(found.records) if runs else of_cells(found.selection.measured)
    if (wanted or ("jsonl" if output.suffix in (".jsonl", ".json") else "csv")) == "csv":
        text = neutralised(frame).to_csv(index=False)
    else:
        text = frame.to_json(orient="records", lines=True, force_ascii=False)
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    write_text(output, text)
    click.echo(f"wrote {output} ({len(frame)} rows)", err=True)
