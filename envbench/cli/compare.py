"""``envbench compare A B``: two results files, machines or backends, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli.options import AS_JSON, RESULTS, family_option, machine_option
from envbench.errors import UnknownName, UsageError
from envbench.model import FAMILIES

if TYPE_CHECKING:
    from envbench.report.comparison import By, Comparison, Pair
    from envbench.results.shown import Measured
    from envbench.stats.intervals import Interval


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@RESULTS
@family_option("This family only: atari, mujoco or gym.")
@machine_option("This machine only.")
@AS_JSON
def compare(
    first: str, second: str, results: Path, family: str | None, machine: str | None, as_json: bool
) -> None:
    """B over A, cell by cell: the ratio of frames per second and its 95 % interval.

    A and B are both results files (or folders of them), both machines, or both backends (or rows,
    by the label that the tables give them). `~` marks what is within the noise: between two times
    of measuring the machine's drift of 10 % is in it. To find out whether a change made something
    slower, use `envbench check`, not two files.
    """
    from envbench.report.comparison import compare as paired

    if family is not None and family not in FAMILIES:
        raise UnknownName("env family", family, list(FAMILIES))
    ours, theirs, by = _sides(first, second, results)
    machines = sorted({found.summary.cell.machine for found in [*ours, *theirs]})
    ours, theirs = _kept(ours, family, machine), _kept(theirs, family, machine)
    asked = (f" of {family}" if family else "") + (f" on {machine}" if machine else "")
    for name, side in ((first, ours), (second, theirs)):
        if not side:
            raise UsageError(
                f"{name} has no results{asked}: there is nothing to compare.",
                hint=f"Machines with results: {', '.join(machines) or 'none'}.",
            )
    found = paired(ours, theirs, by)
    if not found.pairs:
        raise UsageError(
            f"{first} and {second} have no cell in common: they have {len(ours)} and "
            f"{len(theirs)} cells.",
            hint="`envbench export` lists them.",
        )
    if as_json:
        _print_json(found, first, second)
    else:
        _print_table(found, first, second)


def _sides(first: str, second: str, results: Path) -> tuple[list[Measured], list[Measured], By]:
    from envbench import backends
    from envbench.cli.records import read
    from envbench.report.comparison import by_backend, by_cell, by_machine, rows_of
    from envbench.results import store

    paths = [Path(first), Path(second)]
    if all(path.exists() for path in paths):
        return _of_path(paths[0]), _of_path(paths[1]), by_cell
    measured = read(store.files(results)).selection.measured
    names = {found.summary.cell.machine for found in measured}
    if {first, second} <= names:
        return _kept(measured, None, first), _kept(measured, None, second), by_machine
    rows = {*backends.registry(), *(found.label for found in measured)}
    if {first, second} <= rows:
        return rows_of(measured, first), rows_of(measured, second), by_backend
    known = {*names, *rows}
    for name in (first, second):
        if name not in known and not Path(name).exists():
            raise UnknownName("results file, machine or backend", name, sorted(known))
    raise UsageError(
        f"{first} and {second} are not of one kind.",
        hint="Compare two results files, two machines, or two backends.",
    )


def _of_path(path: Path) -> list[Measured]:
    from envbench.cli.records import read
    from envbench.results import store

    paths = [path] if path.is_file() else store.files(path) or sorted(path.glob("*.jsonl"))
    return read(paths).selection.measured


def _kept(side: list[Measured], family: str | None, machine: str | None) -> list[Measured]:
    cells = [(found, found.summary.cell) for found in side]
    return [
        found
        for found, cell in cells
        if family in (None, cell.env) and machine in (None, cell.machine)
    ]


# ---------------------------------------------------------------- shown


def _print_table(found: Comparison, first: str, second: str) -> None:
    from tabulate import tabulate

    from envbench.cli import tell
    from envbench.report.comparison import NOTES
    from envbench.text import printable

    heads = ["cell", "A", "B", "B / A", "95 % interval", ""]
    rows = [_row(pair) for pair in found.pairs]
    tell(f"A: {first}\nB: {second}")
    click.echo(printable(tabulate(rows, heads, disable_numparse=True, colalign=["left"] * 6)))
    mean, count = found.geometric_mean, len(found.counted)
    if mean is not None:
        span = found.mean_interval
        reach = "no interval" if span is None else f"95 % interval {_span(span)}"
        ratios = "1 ratio" if count == 1 else f"{count} ratios"
        click.echo(f"geometric mean of {ratios}: {mean:.3f} ({reach})")
    for pair in found.pairs:
        for told in pair.unlike.values():
            tell(f"not comparable: {pair.second.summary.cell.key}: {told}.")
    for note in dict.fromkeys(note for pair in found.pairs for note in pair.notes):
        count = sum(note in pair.notes for pair in found.pairs)
        tell(f"{count} of {len(found.pairs)} {NOTES[note]}.")
    if any(pair.verdict == "?" and not pair.unlike for pair in found.pairs):
        tell("?: no interval, for want of five processes on both sides.")
    for name, side in (("A", found.only_first), ("B", found.only_second)):
        if side:
            tell(f"only in {name}: {len(side)} cell{'s' if len(side) > 1 else ''}.")


def _row(pair: Pair) -> list[str]:
    cells = [pair.first.summary.cell, pair.second.summary.cell]
    name = cells[0].key
    if cells[0].backend != cells[1].backend or cells[0].shown != cells[1].shown:
        name = f"{cells[0].machine} {cells[0].env}/{cells[0].task}/{cells[0].numenv}"
    speeds = [pair.first.summary.fps, pair.second.summary.fps]
    figures = ["-" if fps is None else f"{fps:.2f}" for fps in speeds]
    ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
    span = "" if pair.interval is None else _span(pair.interval)
    return [name, *figures, ratio, span, "not comparable" if pair.unlike else pair.verdict]


def _span(interval: Interval) -> str:
    return "{:.3f} - {:.3f}".format(*interval)


def _print_json(found: Comparison, first: str, second: str) -> None:
    import msgspec

    span = found.mean_interval
    whole = {
        "schema": 1,
        "a": first,
        "b": second,
        "cells": [_pair_json(pair) for pair in found.pairs],
        "geometric_mean": found.geometric_mean,
        "geometric_mean_interval": None if span is None else list(span),
        "counted": len(found.counted),
        "only_in_a": len(found.only_first),
        "only_in_b": len(found.only_second),
    }
    click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())


def _pair_json(pair: Pair) -> dict[str, Any]:
    from envbench.report.data_export import cell_json

    return {
        "a": cell_json(pair.first.summary),
        "b": cell_json(pair.second.summary),
        "ratio": pair.ratio,
        "interval": None if pair.interval is None else list(pair.interval),
        "verdict": pair.verdict,
        "not_comparable": list(pair.unlike.values()),
        "notes": pair.notes,
    }
