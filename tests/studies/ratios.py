"""How precisely does ``envbench run`` compare cells? The table of docs/measurement.md.

    python tests/studies/ratios.py

Each file in ``results/studies/ratios`` is one recorded plan of ``envbench run``. For each, this
prints the half-widths of the 95 % intervals of all ratios of two cells of one task, from the block
model: of backends in one process, and where a backend of several processes is involved. To add a
plan, run it with ``--results``, and copy its file.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median, quantiles

import click
from document import fill
from tabulate import tabulate

from envbench.decisions.session import Session
from envbench.model import RunDesign
from envbench.results.folder import load_files

FOLDER = Path(__file__).parents[2] / "results" / "studies" / "ratios"
MEASUREMENT = Path(__file__).parents[2] / "docs" / "measurement.md"


def half_widths(session: Session, *, processes: bool) -> list[float]:
    """Half-widths in per cent, of ratios with or without a backend of several processes."""
    found = []
    for cell, to, ratio in session.ratios():
        several = "processes" in (session.classes[cell.key], session.classes[to.key])
        if several == processes and ratio.interval is not None:
            found.append(100 * (math.sqrt(ratio.interval[1] / ratio.interval[0]) - 1))
    return found


def shown(widths: list[float]) -> str:
    if len(widths) < 2:
        return "-"
    return f"±{median(widths):.1f} %, ±{quantiles(widths, n=10)[-1]:.1f} %"


def row(path: Path) -> list[object]:
    """The row of one plan."""
    loaded = load_files([path], lambda _: None)
    found = loaded.selection.measured[0]
    design, session = found.plan.design_as(RunDesign), found.session
    protocol, slice_s = design.protocol[found.cell.backend], design.slice_s[found.cell.backend]
    measured_s = protocol.measured_s * design.repeats[found.cell.backend]
    spread = ", ".join(f"{name} {100 * s:.1f} %" for name, s in session.model.error_spread.items())
    return [
        found.plan.started_utc[:16].replace("T", " "),
        (found.plan.git_commit or "unknown")[:7] + ("+" if found.plan.git_dirty else ""),
        found.cell.task,
        len(session.cells),
        f"{measured_s:g} s",
        f"{slice_s:g} s",
        shown(half_widths(session, processes=False)),
        shown(half_widths(session, processes=True)),
        spread,
    ]


@click.command()
def main() -> None:
    """Fill the table."""
    heads = ["began (UTC)", "commit", "task", "cells", "per cell", "slice", "one process"]
    heads += ["several processes", "left between processes"]
    rows = [row(path) for path in sorted(FOLDER.glob("*.jsonl"))]
    text = tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)
    click.echo(text)
    fill("ratios", text, MEASUREMENT)


if __name__ == "__main__":
    main()
