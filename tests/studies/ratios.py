"""How precisely does ``envbench run`` compare cells? The table of docs/measurement.md.

    python tests/studies/ratios.py

Each file in ``results/studies/ratios`` is one recorded plan of ``envbench run``, and so are the
committed results of the machine with two cores. For each, this prints the half-widths of the 95 %
intervals of all ratios of two cells of one task, from the block model: of backends in one process,
and where a backend of several processes is involved. For two plans of the same cells, it also
prints how many ratios agree: their logarithms differ by at most the root of the sum of the squared
half-widths. The third table leaves out one block at a time: how many ratios within it are inside
the 95 % interval that the other blocks predict, by pair of classes?
To add a plan, run it with ``--results``, and copy its file.
"""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles

import click
from blocks_simulated import leave_one_out
from document import fill
from tabulate import tabulate

from envbench.decisions.session import Session
from envbench.model import RunDesign
from envbench.results.folder import load_files
from envbench.results.measured_cells import Measured

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = RESULTS / "studies" / "ratios", RESULTS / "epyc-vm"
MEASUREMENT = Path(__file__).parents[2] / "docs" / "measurement.md"


Logs = dict[tuple[str, str], tuple[float, float]]  # cells -> logarithm of the ratio, half-width


def ratios(session: Session, *, processes: bool) -> Logs:
    """Ratios with or without a backend of several processes."""
    found = {}
    for cell, to, ratio in session.ratios():
        several = "processes" in (session.classes[cell.key], session.classes[to.key])
        if several == processes and ratio.interval is not None:
            half = math.log(ratio.interval[1] / ratio.interval[0]) / 2
            pair = sorted([cell.key, to.key])
            sign = 1 if pair[0] == cell.key else -1
            found[pair[0], pair[1]] = sign * math.log(ratio.ratio), half
    return found


def half_widths(session: Session, *, processes: bool) -> list[float]:
    """In per cent."""
    every = ratios(session, processes=processes).values()
    return [100 * math.expm1(half) for _, half in every]


def agreement(one: Session, other: Session, *, processes: bool) -> str:
    """How many ratios of two sessions agree within their combined intervals."""
    first, second = (ratios(each, processes=processes) for each in (one, other))
    common = first.keys() & second.keys()
    agree = sum(
        abs(first[key][0] - second[key][0]) <= math.hypot(first[key][1], second[key][1])
        for key in common
    )
    apart = [100 * abs(math.expm1(first[key][0] - second[key][0])) for key in common]
    if not common:
        return "-"
    return f"{100 * agree / len(common):.1f} % of {len(common):,} ({median(apart):.1f} %)"


def shown(widths: list[float]) -> str:
    if len(widths) < 2:
        return "-"
    return f"±{median(widths):.1f} %, ±{quantiles(widths, n=10)[-1]:.1f} %"


def read() -> list[Measured]:
    """One of each plan's cells, with its plan and session."""
    files = [path for folder in FOLDERS for path in sorted(folder.glob("*.jsonl"))]
    every = [load_files([path], lambda _: None).selection.measured for path in files]
    return [measured[0] for measured in every if measured]


def row(found: Measured) -> list[object]:
    """The row of one plan."""
    design, session = found.plan.design_as(RunDesign), found.session
    protocol, slice_s = design.protocol["for-loop"], design.slice_s["for-loop"]
    measured_s = protocol.measured_s * design.repeats["for-loop"]
    spread = ", ".join(f"{name} {100 * s:.1f} %" for name, s in session.model.error_spread.items())
    return [
        began(found),
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
    plans = read()
    show("ratios", [row(each) for each in plans], heads)
    rows = [
        [
            began(one),
            began(other),
            *(agreement(one.session, other.session, processes=each) for each in (False, True)),
        ]
        for one, other in combinations(plans, 2)
        if one.session.cells.keys() == other.session.cells.keys()
        and one.plan.design == other.plan.design
    ]
    heads = ["one plan (UTC)", "the other", "one process", "several processes"]
    show("ratios-again", rows, heads)

    heads = ["began (UTC)", "classes", "ratios", "inside the 95 % interval"]
    show("held-out", [line for each in plans for line in held_out(each)], heads)


def held_out(found: Measured) -> list[list[object]]:
    """A row per pair of classes. The reference kernels count, too."""
    rows = []
    for (one, other), inside in sorted(leave_one_out(found.session.rates).items()):
        share = f"{100 * sum(inside) / len(inside):.1f} %" if inside else "-"
        rows.append([began(found), f"{one}, {other}", len(inside), share])
    return rows


def began(found: Measured) -> str:
    return found.plan.started_utc[:16].replace("T", " ")


def show(name: str, rows: list[list[object]], heads: list[str]) -> None:
    """Print a table, and fill it into the docs."""
    text = tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)
    click.echo(text)
    fill(name, text if rows else "No plan has been measured twice yet.", MEASUREMENT)


if __name__ == "__main__":
    main()
