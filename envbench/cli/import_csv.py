"""``envbench import``: figures that others have published, from a CSV file into the results."""

from __future__ import annotations

import re
from pathlib import Path

import click

from envbench.cli.options import RESULTS

FOLDER = "published"


@click.command("import")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE…")
@RESULTS
def import_csv(files: tuple[Path, ...], results: Path) -> None:
    """Take published figures from CSV files into the results.

    The columns are machine, env, task, backend, numenv, fps, frame_skip, source; fps has frame_skip
    multiplied in already. A machine needs no profile. The figures fill tables of their own,
    marked as published with their source, and never enter a comparison. A file imported again
    replaces what the one of its name brought.
    """
    import msgspec

    from envbench.cli import tell
    from envbench.errors import UsageError
    from envbench.report.disk import read_text, write_text
    from envbench.results import published_csv, store

    taken = {_stem(path): published_csv.parse(read_text(path), str(path)) for path in files}
    if len(taken) < len(files):
        raise UsageError("two of these files have one name: rename one, a name is kept once.")
    folder = store.check_folder(results, FOLDER)
    for stem, figures in taken.items():
        target = folder / f"{stem}.jsonl"
        text = "".join(f"{msgspec.json.encode(each).decode()}\n" for each in figures)
        written = write_text(target, text)
        count = "1 figure" if len(figures) == 1 else f"{len(figures)} figures"
        tell(f"{'wrote' if written else 'unchanged:'} {target} ({count})")
    tell("`envbench report` puts them into tables of their own.")


def _stem(path: Path) -> str:
    return re.sub(r"[^0-9A-Za-z._-]", "-", path.stem)[:60]
