"""``envbench import``: add figures that others published to the results."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec

from envbench.cli.options import RESULTS
from envbench.cli.output import tell
from envbench.errors import UsageError
from envbench.report.disk import read_text, write_text
from envbench.results import published_csv, store
from envbench.text import counted

FOLDER = "published"


@click.command("import")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE…")
@RESULTS
def import_csv(files: tuple[Path, ...], results: Path) -> None:
    """Add published figures from CSV files to the results.

    The columns are machine, env, task, backend, numenv, fps, frame_skip and source. The column fps
    already includes frame_skip. A machine needs no profile. The figures get tables of their own,
    marked as published, with their source. No comparison uses them. Importing a file again replaces
    the figures of an earlier file of the same name.
    """
    taken = {_stem(path): published_csv.parse(read_text(path), str(path)) for path in files}
    if len(taken) < len(files):
        raise UsageError("two of these files have the same name: rename one of them.")
    folder = store.check_folder(results, FOLDER)
    for stem, figures in taken.items():
        target = folder / f"{stem}.jsonl"
        text = "".join(f"{msgspec.json.encode(each).decode()}\n" for each in figures)
        written = write_text(target, text)
        count = counted(len(figures), "figure")
        tell(f"{'wrote' if written else 'unchanged:'} {target} ({count})")
    tell("`envbench report` shows them in tables of their own.")


def _stem(path: Path) -> str:
    return re.sub(r"[^0-9A-Za-z._-]", "-", path.stem)[:60]
