"""``envbench compare A B``: compare two results files, machines or backends, cell by cell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from envbench import backends, families
from envbench.cli.options import AS_JSON, RESULTS, family_option, machine_option
from envbench.cli.terminal import print_json, table, tell, warn
from envbench.cli.value_types import Text
from envbench.errors import UnknownName, UsageError
from envbench.model import fields
from envbench.report.comparison import (
    NOTES,
    By,
    Comparison,
    Pair,
    by_backend,
    by_cell,
    by_machine,
    rows_of,
)
from envbench.report.comparison import compare as paired
from envbench.report.data_export import complete_json
from envbench.results import store
from envbench.results.folder import load_files
from envbench.results.measured_cells import Measured
from envbench.results.relations import Relations, of_two_sides
from envbench.results.selection import Selection
from envbench.stats.intervals import Interval, half_width
from envbench.text import counted, printable, rounded, times, times_from_to


@click.command()
@click.argument("first", type=Text(), metavar="A")
@click.argument("second", type=Text(), metavar="B")
@RESULTS
@family_option("Compare only this env family.")
@machine_option("Compare only this machine.")
@AS_JSON
def compare(
    first: str, second: str, results: Path, family: str | None, machine: str | None, as_json: bool
) -> None:
    """Show the frames per second of B divided by those of A, with a 95 % interval per cell.

    A and B are two results files (or folders of them), two machines, or two backends (or two row
    labels of the tables). `~` marks a ratio that is within the noise. If A and B come from
    different sessions, the interval contains the drift between sessions, as the records show it.
    To find out whether a change made something slower, use `envbench check` instead.
    """
    ours, theirs, by, relations = _sides(first, second, results)
    if family and family not in {found.cell.env for found in [*ours, *theirs]}:
        families.get(family)  # refuses an unknown name
    machines = sorted({found.cell.machine for found in [*ours, *theirs]})
    ours, theirs = _filtered(ours, family, machine), _filtered(theirs, family, machine)
    only = (f" of {family}" if family else "") + (f" on {machine}" if machine else "")
    for name, side in ((first, ours), (second, theirs)):
        if not side:
            raise UsageError(
                f"{name} has no results{only}: there is nothing to compare.",
                hint=f"Machines with results: {', '.join(machines) or 'none'}.",
            )
    found = paired(ours, theirs, by, relations)
    if not found.pairs:
        raise UsageError(
            f"{first} ({counted(len(ours), 'cell')}) and {second} "
            f"({counted(len(theirs), 'cell')}) have no cell in common.",
            hint="`envbench export` lists all cells. Compare two sides that share one.",
        )
    if as_json:
        sentence = _sentence(first, second, found)
        print_json({"schema": 1, "a": first, "b": second, "sentence": sentence, **_json(found)})
    else:
        if sentence := _sentence(first, second, found):
            click.echo(f"{printable(sentence)}\n")
        tell(f"A: {first}\nB: {second}")
        _print_table(found)


def _sides(
    first: str, second: str, results: Path
) -> tuple[list[Measured], list[Measured], By, Relations]:
    """The measurements of A and of B, what pairs them, and how sessions relate."""
    paths = [Path(first), Path(second)]
    if all(path.exists() for path in paths):
        if paths[0].samefile(paths[1]):
            raise _same(first, second)
        every = [_files(path) for path in paths]
        a, b = (load_files(each, warn).selection for each in every)
        if _hosts(a) & _hosts(b):  # sessions of both sides show the drift
            joint = load_files(list(dict.fromkeys([*every[0], *every[1]])), lambda _: None)
            return a.measured, b.measured, by_cell, joint.selection.relations
        return a.measured, b.measured, by_cell, of_two_sides(a.relations, b.relations)
    if _labels().get(first, first) == _labels().get(second, second):
        raise _same(first, second)
    selection = load_files(store.files(results), warn).selection
    measured, relations = selection.measured, selection.relations
    names = {found.cell.machine for found in measured}
    if {first, second} <= names:
        sides = [_filtered(measured, None, name) for name in (first, second)]
        return sides[0], sides[1], by_machine, relations
    rows = {*backends.registry(), *(found.label for found in measured)}
    if {first, second} <= rows:
        return rows_of(measured, first), rows_of(measured, second), by_backend, relations
    known = {*names, *rows}
    for name in (first, second):
        if name not in known and not Path(name).exists():
            raise UnknownName("results file, machine or backend", name, sorted(known))
    raise UsageError(
        f"{first} and {second} are of different kinds.",
        hint="Compare two results files, two machines, or two backends.",
    )


def _same(first: str, second: str) -> UsageError:
    names = first if first == second else f"{first} and {second}"
    return UsageError(
        f"both sides are the same: {names}.",
        hint="Compare two different results files, machines, or backends.",
    )


def _hosts(side: Selection) -> set[str]:
    return {found.fingerprint.host if found.fingerprint else "" for found in side.measured}


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else store.files(path) or sorted(path.glob("*.jsonl"))


def _filtered(side: list[Measured], family: str | None, machine: str | None) -> list[Measured]:
    side = [found for found in side if family in (None, found.cell.env)]
    return [found for found in side if machine in (None, found.cell.machine)]


def _labels() -> dict[str, str]:
    """The row of each backend."""
    return {name: backends.row_label(name, {}) for name in backends.registry()}


def _sentence(first: str, second: str, found: Comparison) -> str:
    """``EnvPool (async) is 1.35 × EnvPool (sync) (1.12 to 1.63) on average: faster in 13 of 16
    cells, within the noise in 3.``"""
    if found.geometric_mean is None:
        return ""
    span = times_from_to(found.geometric_mean, found.mean_interval)
    words = {"faster": "faster in", "slower": "slower in", "~": "within the noise in",
             "?": "no interval in"}  # fmt: skip
    counts = Counter(pair.verdict for pair in found.counted)
    first_count, *others = [f"{text} {counts[v]}" for v, text in words.items() if counts[v]]
    of = f" of {counted(len(found.counted), 'cell')}"
    verdicts = ", ".join([first_count + of, *others])
    first, second = (_labels().get(name, name) for name in (first, second))
    mean = " on average" if len(found.counted) > 1 else ""
    quick = any(e.quick for pair in found.counted for e in (pair.first, pair.second))
    caution = " This is provisional: some figures were measured quickly." if quick else ""
    ratio = f"{times(found.geometric_mean)} {first}{span and f' ({span})'}"
    beside = all(pair.kernel_ratio for pair in found.counted)
    to = "Relative to the reference kernel, " if beside else ""
    return f"{to}{second} is {ratio}{mean}: {verdicts}.{caution}"


def _print_table(found: Comparison) -> None:
    click.echo(table(map(_row, found.pairs), ["cell", "A", "B", "B / A", "95 % interval", ""]))
    if found.geometric_mean is not None:
        span = _span(found.mean_interval)
        reach = f"95 % interval {span}" if span else "no interval"
        ratios = counted(len(found.counted), "ratio")
        click.echo(f"geometric mean of {ratios}: {found.geometric_mean:.3f} ({reach})")
    for pair in found.pairs:
        for reason in pair.unlike:
            tell(f"not comparable: {pair.second.cell.key}: {reason}.")
    for note in dict.fromkeys(note for pair in found.pairs for note in pair.notes):
        count = sum(note in pair.notes for pair in found.pairs)
        tell(f"{count} of {counted(len(found.pairs), 'pair')} {NOTES[note]}.")
    if kernels := [pair.kernel_ratio for pair in found.pairs if pair.kernel_ratio]:
        low, high = (f"{each(kernels):.2f}" for each in (min, max))
        speed = low if low == high else f"{low} to {high}"
        tell(
            f"B / A of {counted(len(kernels), 'pair')} is relative to the reference kernel, which "
            f"shows how fast the machine was. The kernel ran {speed} × as fast in B as in A."
        )
    if any(pair.verdict == "?" and not pair.unlike for pair in found.pairs):
        tell(
            "?: there is no interval. A side has fewer than five processes, or two sessions of one "
            "host have no common reference kernel, or the records do not show how much the host "
            "drifts between sessions."
        )
    for name, side in (("A", found.only_first), ("B", found.only_second)):
        if side:
            tell(f"only in {name}: {counted(len(side), 'cell')}.")


def _row(pair: Pair) -> list[str]:
    cell, other = pair.first.cell, pair.second.cell
    name = cell.key
    if (cell.backend, cell.variant) != (other.backend, other.variant):
        name = f"{cell.machine} {cell.env}/{cell.task}/{cell.numenv}"
    together = pair.first.plan_id == pair.second.plan_id
    figures = [_figure(each, together=together) for each in (pair.first, pair.second)]
    ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
    verdict = "not comparable" if pair.unlike else pair.verdict
    return [name, *figures, ratio, _span(pair.interval), verdict]


def _figure(found: Measured, *, together: bool) -> str:
    """Adjusted, if both sides are of one session, whose cells alternated."""
    if found.figure is None or found.fps is None:
        return "-"
    figure, half = found.figure, found.half
    if not together:
        figure, half = found.fps, half_width(found.summary.interval)
    return f"{rounded(figure, half)}{' (quick)' if found.quick else ''}"


def _span(interval: Interval | None) -> str:
    return "{:.3f} - {:.3f}".format(*interval) if interval else ""


def _json(found: Comparison) -> dict[str, Any]:
    return {
        "cells": [
            {
                "a": complete_json(pair.first),
                "b": complete_json(pair.second),
                **fields(pair, "ratio interval verdict kernel_ratio"),
                "not_comparable": pair.unlike,
                "notes": pair.notes,
            }
            for pair in found.pairs
        ],
        "geometric_mean": found.geometric_mean,
        "geometric_mean_interval": found.mean_interval,
        "counted": len(found.counted),
        "only_in_a": len(found.only_first),
        "only_in_b": len(found.only_second),
    }
