"""Is a backend as fast in slices as when it steps without a stop? From recorded plans.

In its warm-up, each process steps alone for 2 to 4 s without a stop, in windows of 0.25 s. Then it
steps in short slices, and is stopped between them. This compares the two in the same process. Only
the first two seconds count: after them, only processes go on that are not steady yet.
"""

from __future__ import annotations

import math
from statistics import mean, stdev

import click
from ratios import read, show

from envbench.model import Run

BIN_S, BINS = 0.5, 4
SHORTEST_NS = 150_000_000  # shorter windows find out how many steps fit into one
FEWEST = 100  # processes of a row
SLOWER = 0.10  # in the last bin: this share below the rate in slices

Row = list[list[float]]  # the logarithms of the ratios of each bin


def ratios_of(run: Run) -> list[tuple[int, float]]:
    """The bin of each window of the warm-up, and its rate relative to the rate in slices."""
    slices, warm = run.measured, run.warmup
    rate, end = sum(slices.steps) / sum(slices.ns), run.times.warmup_ns if run.times else 0
    found = []
    for start, ns, steps in zip(warm.start_ns, warm.ns, warm.steps, strict=True):
        place = int((start + ns / 2) / (BIN_S * 1e9))
        if ns >= SHORTEST_NS and start + ns <= end and place < BINS and steps:
            found.append((place, math.log(steps / ns / rate)))
    return found


def shown(logs: list[float]) -> str:
    """The mean in per cent, with its 95 % interval."""
    half = 1.96 * stdev(logs) / math.sqrt(len(logs))
    return f"{100 * math.expm1(mean(logs)):+.1f} ±{100 * half:.1f} %"


@click.command()
def main() -> None:
    """Fill the table."""
    rows: dict[str, Row] = {}
    for recorded in read():
        for run in recorded.runs:
            if run.failure is None and not run.arm and sum(run.measured.steps) and run.alternated:
                row = rows.setdefault(run.cell.backend, [[] for _ in range(BINS)])
                for place, log in ratios_of(run):
                    row[place].append(log)
    table: list[list[object]] = []
    for name, row in sorted(rows.items()):
        if min(map(len, row)) >= FEWEST:
            slower = mean(log < math.log(1 - SLOWER) for log in row[-1])
            table.append([name, f"{len(row[-1]):,}", *map(shown, row), f"{100 * slower:.0f} %"])
    heads = [f"{BIN_S * i:g} to {BIN_S * (i + 1):g} s" for i in range(BINS)]
    show("back-to-back", table, ["backend", "windows", *heads, "over 10 % slower at the end"])


if __name__ == "__main__":
    main()
