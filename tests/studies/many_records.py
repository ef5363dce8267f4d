"""How long does a report of 100,000 runs take, and how much memory?

    python tests/studies/many_records.py                    # Markdown, then HTML
    python tests/studies/many_records.py --runs 10000 --machines 1

Copies of the committed plans of one machine fill a temporary folder: each copy has another day, and
they are spread evenly over several machines. Then ``envbench report`` reads all of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import count
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
SOURCE = "epyc-vm"
FIRST = date(2027, 1, 1)


def plans() -> list[tuple[str, bytes, int]]:
    """The day, the text and the number of runs of each committed file with figures."""
    texts = [path.read_bytes() for path in sorted((ROOT / "results" / SOURCE).glob("*.jsonl"))]
    every = [(text, text.count(b'"trial_id"')) for text in texts if b'"experiment":"run"' in text]
    return [(text.partition(b'"started_utc":"')[2][:10].decode(), text, n) for text, n in every]


def copies(runs: int, machines: int) -> Iterator[tuple[str, str, bytes]]:
    """The machine, file name and text of each copy, until there are that many runs."""
    made, source = 0, plans()
    for number in count():
        if made >= runs:
            return
        day, text, own = source[number // machines % len(source)]
        other = str(FIRST + timedelta(days=number))
        machine = f"m{number % machines}"
        text = text.replace(day.encode(), other.encode())
        text = text.replace(f'"machine":"{SOURCE}"'.encode(), f'"machine":"{machine}"'.encode())
        made += own
        yield machine, f"{other}-{number}.jsonl", text


def reported(folder: Path, form: str) -> tuple[float, float, int]:
    """Seconds, peak memory in GB, and the exit code of ``envbench report`` in a new process."""
    words = ["-m", "envbench", "report", "--results", str(folder), "--format", form]
    began = time.monotonic()
    child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, *words])
    _, status, used = os.wait4(child, 0)
    return time.monotonic() - began, used.ru_maxrss / 1e6, os.waitstatus_to_exitcode(status)


@click.command()
@click.option("--runs", default=100_000, show_default=True)
@click.option("--machines", default=10, show_default=True)
def main(runs: int, machines: int) -> None:
    """Fill a folder, and report it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "results"
        made, size = 0, 0
        for machine, file, text in copies(runs, machines):
            (folder / machine).mkdir(parents=True, exist_ok=True)
            (folder / machine / file).write_bytes(text)
            made, size = made + text.count(b'"trial_id"'), size + len(text)
        click.echo(f"{made:,} runs of {machines} machines, {size / 1e6:,.0f} MB")
        for form, ending in (("markdown", "md"), ("html", "html")):
            seconds, gigabytes, code = reported(folder, form)
            size = sum(each.stat().st_size for each in folder.glob(f"*.{ending}"))
            click.echo(
                f"{form}: {seconds:.1f} s, {gigabytes:.2f} GB, {size / 1e6:.2f} MB, code {code}"
            )


if __name__ == "__main__":
    main()
