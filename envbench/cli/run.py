"""``envbench run``: measure one cell, or all cells of a profile, and show the figures."""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import cache, partial
from pathlib import Path

import click
from msgspec.structs import replace

from envbench.backends import row_label
from envbench.backends.builtin import PRESETS
from envbench.cli.conduct import conduct, warn_of_left_out
from envbench.cli.options import (
    AS_JSON,
    completing,
    grouped,
    measured_cells,
    measuring_options,
    numenv_option,
    option,
    refuse_together,
)
from envbench.cli.progress import builds_text
from envbench.cli.run_figures import show
from envbench.cli.terminal import clock, print_json, table, tell
from envbench.cli.value_types import FilePath, Number, Whole
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.errors import UNAVAILABLE, StorageError, UsageError
from envbench.experiments.run.flame import profiler
from envbench.experiments.run.preview import Preview, preview
from envbench.experiments.run.rounds import DEFAULT_DURATION_S, Measure, RunExperiment
from envbench.machine import catalogue
from envbench.model import MOST_ROUNDS, fields
from envbench.report.data_export import SCHEMA
from envbench.results import store
from envbench.results.folder import load_files
from envbench.results.selection import Selection
from envbench.text import counted

OVERCOMMIT = option(
    "--overcommit X",
    "Environments in flight per environment in the batch.  [default: 3; ale-vector: 1]",
    also="in_flight",
)
NUMA_NODES = option(
    "--numa-node CORES",
    "Cores of one node, such as 0-3, for envpool-numa. Repeatable.  [default: the system's nodes]",
    also="nodes",
    many="/".join,
)
PRESET = option(
    "--preset NAME",
    "Use a named set of settings: envpool-published (those of EnvPool's own benchmark).",
    shell_complete=completing(lambda: PRESETS),
)
MEASURE = grouped(
    "measure",
    Measure,
    option(
        "--duration SECONDS",
        f"Measured seconds per cell, over all its runs.  [default: {DEFAULT_DURATION_S:g}]",
        Number(1, 86400),
        also="duration_s",
    ),
    option(
        "--total-step K",
        "Timed vector steps per cell, over all its runs, instead of a duration.",
        Whole(1, 10**12),
        also="total_steps",
    ),
    option(
        "--repeats N",
        "Blocks per cell, each with a fresh process.  [default: 5 for most backends]",
        Whole(1, MOST_ROUNDS),
    ),
    option("--quick", "Measure each cell in one block, for 2 s. There is no interval."),
)


@click.command()
@measured_cells(numenv_option("those in the profile"), OVERCOMMIT, NUMA_NODES, PRESET)
@MEASURE
@measuring_options(runtimes=True)
@option(
    "--profile DIRECTORY",
    "Afterwards, write a flame graph of each cell there, by py-spy.",
    FilePath(file_okay=False),
)
@option(
    "--plan", "Show the cells, the time and what must be built. Measure nothing.", also="only_plan"
)
@AS_JSON
def run(
    cells: CellRequest,
    options: Options,
    measure: Measure,
    profile: Path | None,
    only_plan: bool,
    as_json: bool,
) -> None:
    """Measure how fast environments step on this machine.

    Cells alternate in short slices, so that all see the same noise. Each takes about a minute. By
    default, measure what the profile lists: its families, backends and numbers of environments. A
    family that it does not list is measured with every backend that can run here except `ceiling`.
    To resume a stopped run, run the same command again.
    """
    refuse_together("--duration", "--total-step")
    refuse_together("--quick", "--duration", "--repeats")
    if measure.quick and not options.yes:
        options = replace(options, setup=False)  # a quick look builds nothing
    if profile is not None:
        if str(profile) in catalogue().profiles and not profile.exists():
            hint = f"To measure the profile of a machine: --machine {profile}."
            raise UsageError("--profile takes a folder for flame graphs.", hint=hint)
        profiler()  # or an error before anything is measured
        try:
            if not profile.exists():
                profile.mkdir(parents=True)
                profile.rmdir()  # made again for the first graph
        except OSError as error:
            raise StorageError(
                f"cannot write flame graphs to {profile}: {error.strerror or error}."
            ) from error
    experiment = RunExperiment(cells=cells, measure=measure)

    if only_plan:
        warn_of_left_out(options)
        found = preview(experiment, options)
        _show_plan(found, as_json=as_json)
        sys.exit(UNAVAILABLE if found.lacking and experiment.named else 0)

    @cache  # `run` verifies nothing
    def selected(machine: str) -> Selection:
        return load_files(store.files(options.results, machine), lambda _: None).selection

    conduct(
        experiment,
        options,
        partial(show, as_json=as_json, selected=selected, profile=profile),
        partly=True,
        refuses=lambda cell: selected(cell.machine).refuses(cell),
    )


def _show_plan(found: Preview, *, as_json: bool) -> None:
    if as_json:
        cells = [
            {"key": cell.key, **fields(cell, "env task backend numenv env_instances"), "seconds": s}
            for cell, s in zip(found.cells, found.cell_seconds, strict=True)
        ]
        plan = fields(found, "machine blocks seconds at_least builds lacking notes")
        print_json({"schema": SCHEMA, **plan, "cells": cells})
        return
    for note in found.notes:
        tell(note)
    rows: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for cell, seconds in zip(found.cells, found.cell_seconds, strict=True):
        label = row_label(cell.backend, cell.variant)
        rows[f"{cell.env} {cell.task}", label].append((cell.numenv, seconds))
    lines = [
        [*names, ", ".join(str(n) for n, _ in own), clock(sum(s for _, s in own))]
        for names, own in rows.items()
    ]
    if (kernels := found.seconds - sum(found.cell_seconds)) > 1:
        lines.append(["", "reference kernel", "", clock(kernels)])
    click.echo(table(lines, ["task", "backend", "numenv", "time"]))
    total = f"{counted(len(found.cells), 'cell')}; {counted(found.blocks, 'block')} to do"
    about = "at least" if found.at_least else "about"
    without = ", without the time to build" if found.builds else ""
    click.echo(f"\n{total} on {found.machine}: {about} {clock(found.seconds)}{without}.")
    if found.at_least:
        click.echo("No earlier result shows how long this many environments or vector steps take.")
    if found.builds:
        click.echo(builds_text(found.builds))
    for each in found.lacking:
        click.echo(f"{each.backend} is left out ({each.env}): {each.reason}. To fix it: {each.fix}")
