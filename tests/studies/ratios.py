"""How precisely does ``envbench run`` compare cells? The table of docs/studies.md.

    python tests/studies/ratios.py

Each file in ``results/studies/ratios`` is one recorded plan of ``envbench run``, and so are the
committed results of the machines with two cores. For each, this prints the half-widths of the 95 %
intervals of all ratios of two cells of one task, from the block model: of backends in one process,
and where a backend of several processes is involved. For two plans of the same cells on one
computer, it also prints how many ratios agree: their logarithms differ by at most the root of the
sum of the squared half-widths. The third table leaves out one block at a time: how many ratios
within it are inside the 95 % interval that the other blocks predict, by pair of classes?

*From slices* is how uncertain the rate of a process is because its slices differ: the root mean
square over the processes of a class. It comes from differences of successive slices (von Neumann,
Annals of Mathematical Statistics 12, 1941), so it has no slow drift, which blocks cancel. Where it
is about as large as what is *left between processes*, processes hardly differ, and only more
measured time would help.

The fourth table compares the speed in slices with the speed without a stop, of every recorded
process (``envbench.stats.without_stops``). The last one shows how far honest cells are from the
limits of the rules that doubt figures (``envbench.results.plausible``).

To add a plan, run it with ``--results``, and copy its file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from statistics import mean, median, quantiles
from typing import NamedTuple

import click
from blocks_simulated import leave_one_out
from document import fill
from tabulate import tabulate

from envbench import backends
from envbench.decisions.pace import FASTEST_UNCHECKED, SLOWEST_WARM_UP, fastest_unchecked
from envbench.decisions.session import Session, key_of
from envbench.model import Run, RunDesign, Windows
from envbench.results.folder import load_files
from envbench.results.measured_cells import Measured
from envbench.results.plausible import counted_runs
from envbench.stats.reset_rates import FACTOR, FEWEST, per_step, resets
from envbench.stats.without_stops import WithoutStops, pooled, without_stops

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = [RESULTS / "studies" / "ratios", *(RESULTS / each for each in ("epyc-vm", "xeon-vm"))]


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


class Recorded(NamedTuple):
    """One of a plan's cells, with its plan and session; all cells and runs of that plan."""

    found: Measured
    cells: list[Measured]
    runs: list[Run]


def read() -> list[Recorded]:
    """Each plan of ``envbench run`` that has figures."""
    files = [path for folder in FOLDERS for path in sorted(folder.glob("*.jsonl"))]
    every = [load_files([path], lambda _: None, every_window=True) for path in files]
    return [
        Recorded(
            each.selection.measured[0],
            each.selection.measured,
            [it for it in each.records if isinstance(it, Run)],
        )
        for each in every
        if each.selection.measured
    ]


def slice_error(windows: Windows) -> float:
    """The standard error of a process's log rate, from successive differences of its slices."""
    logs = [math.log(n / ns) for n, ns in zip(windows.steps, windows.ns, strict=True) if n]
    return math.sqrt(mean((b - a) ** 2 for a, b in pairwise(logs)) / 2 / len(logs))


def from_slices(recorded: Recorded) -> str:
    """The root mean square of ``slice_error`` over the processes of each class."""
    classes = recorded.found.session.classes
    errors: dict[str, list[float]] = {}
    for run in recorded.runs:
        kind = classes.get(key_of(run))
        if run.failure is None and kind and len(run.measured.ns) > 1:
            errors.setdefault(kind, []).append(slice_error(run.measured) ** 2)
    return spread({name: math.sqrt(mean(each)) for name, each in errors.items()})


def spread(by_class: Mapping[str, float]) -> str:
    """Such as "pool 2.1 %, one-thread 0.9 %"."""
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in sorted(by_class.items()))


def row(recorded: Recorded) -> list[object]:
    """The row of one plan."""
    found = recorded.found
    design, session = found.plan.design_as(RunDesign), found.session
    protocol, slice_s = design.protocol["for-loop"], design.slice_s["for-loop"]
    measured_s = protocol.measured_s * design.repeats["for-loop"]
    return [
        began(found),
        (found.plan.git_commit or "unknown")[:7] + ("+" if found.plan.git_dirty else ""),
        found.cell.task,
        len(session.cells),
        f"{measured_s:g} s",
        f"{slice_s:g} s",
        shown(half_widths(session, processes=False)),
        shown(half_widths(session, processes=True)),
        spread(session.model.error_spread),
        from_slices(recorded),
    ]


@click.command()
def main() -> None:
    """Fill the table."""
    heads = ["began (UTC)", "commit", "task", "cells", "per cell", "slice", "one process"]
    heads += ["several processes", "left between processes", "from slices"]
    recorded = read()
    show("ratios", [row(each) for each in recorded], heads)
    plans = [each.found for each in recorded]
    rows = [
        [
            began(one),
            began(other),
            *(agreement(one.session, other.session, processes=each) for each in (False, True)),
        ]
        for one, other in combinations(plans, 2)
        if host(one) == host(other)
        and {each.key for each in one.plan.cells} == {each.key for each in other.plan.cells}
        and one.plan.design == other.plan.design
    ]
    heads = ["one plan (UTC)", "the other", "one process", "several processes"]
    show("ratios-again", rows, heads)

    show("held-out", held_out(plans), ["classes", "plans", "ratios", "inside the 95 % interval"])
    tasks = list(dict.fromkeys(found.cell.task for found in plans))
    heads = ["backend", *(f"{task}, processes" for task in tasks)]
    show("without-stops", unstopped(recorded, tasks), heads)
    show("honest", honest(recorded), ["of a cell", "cells", "lowest", "highest", "doubted"])


def unstopped(recorded: list[Recorded], tasks: list[str]) -> list[list[object]]:
    """A row per backend: its speed without a stop, relative to its slices, in each task."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for run in (run for each in recorded for run in each.runs):
        ratio = without_stops(run) if run.failure is None else None
        if ratio:
            ratios.setdefault(run.cell.backend, {}).setdefault(run.cell.task, []).append(ratio)
    return [
        [backend, *(change(pooled(own.get(task, []))) for task in tasks)]
        for backend, own in sorted(ratios.items())
    ]


def honest(recorded: list[Recorded]) -> list[list[object]]:
    """A row per rule that doubts figures: what the recorded cells, all honest, have. Each plan is
    of one task."""
    unstopped, unchecked, reset = [], [], []
    for plan in recorded:
        reference = per_step(
            [
                resets(run)
                for each in plan.cells
                if each.cell.backend == "for-loop"
                for run in each.runs
            ]
        )
        for each in plan.cells:
            mean = pooled([ratio for run in each.runs if (ratio := without_stops(run)) is not None])
            if mean is not None:
                unstopped.append(mean.ratio)
            if (fastest := fastest_unchecked(counted_runs(each))) is not None:
                unchecked.append(fastest)
            own = [resets(run) for run in each.runs]
            enough = sum(of.resets for of in own) >= FEWEST
            compared = each.cell.backend != "ceiling" and backends.same_work(each.cell)
            if reference and enough and compared:
                reset.append(per_step(own) / reference)
    rules = [
        ("speed without a stop / in slices", unstopped, f"< {SLOWEST_WARM_UP:g}"),
        ("fastest process / those with a spot check", unchecked, f"> {FASTEST_UNCHECKED:g}"),
        ("resets per step / the reference's", reset, f"apart by {FACTOR:g} or more"),
    ]
    return [
        [name, f"{len(found):,}", f"{min(found):.2f}", f"{max(found):.2f}", limit]
        for name, found, limit in rules
    ]


def change(found: WithoutStops | None) -> str:
    """Such as "-9.1 (-11.0 to -7.2) %, 120"."""
    if found is None or found.interval is None:
        return ""
    every = found.interval[0], found.ratio, found.interval[1]
    low, middle, high = (100 * (each - 1) for each in every)
    return f"{middle:+.1f} ({low:+.1f} to {high:+.1f}) %, {found.processes}"


def held_out(plans: list[Measured]) -> list[list[object]]:
    """A row per pair of classes, over all plans. The reference kernels count, too."""
    every: dict[tuple[str, str], list[list[bool]]] = {}
    for found in plans:
        for classes, inside in leave_one_out(found.session.rates).items():
            if inside:
                every.setdefault(classes, []).append([*inside])
    rows = []
    for (one, other), of_plans in sorted(every.items()):
        inside = [each for own in of_plans for each in own]
        share = f"{100 * sum(inside) / len(inside):.1f} %"
        rows.append([f"{one}, {other}", len(of_plans), f"{len(inside):,}", share])
    return rows


def host(found: Measured) -> str:
    """The computer that was measured; its ratios are not those of another one."""
    return found.fingerprint.host if found.fingerprint else ""


def began(found: Measured) -> str:
    return found.plan.started_utc[:16].replace("T", " ")


def show(name: str, rows: list[list[object]], heads: list[str]) -> None:
    """Print a table, and fill it into the docs."""
    text = tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)
    click.echo(text)
    fill(name, text if rows else "No plan has been measured twice yet.")


if __name__ == "__main__":
    main()
