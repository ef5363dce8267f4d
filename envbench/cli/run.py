"""``envbench run``: measure one cell, or all cells of a profile, and show the figures."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import click

from envbench.backends import row_label
from envbench.cli.options import (
    AS_JSON,
    flag,
    grouped,
    measured_cells,
    measuring_options,
    numenv_option,
    refuse_together,
    repeated,
    valued,
)
from envbench.cli.output import print_json, rate_text, table, tell, tell_failure
from envbench.cli.parse import Seconds, complete_presets, core_list
from envbench.cli.run_experiment import conduct
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.errors import CELL_FAILED
from envbench.experiments.run import DEFAULT_DURATION_S, Measure, RunExperiment, runs
from envbench.report.data_export import SCHEMA, cell_json
from envbench.report.tables.footnotes import FLAGS
from envbench.results.selection import ran
from envbench.stats.summary import Summary
from envbench.text import counted

OVERCOMMIT = valued(
    "--overcommit",
    str,
    "X",
    "Environments in flight per environment received (async EnvPool).  [default: 3]",
    "in_flight",
)
NUMA_NODES = repeated(
    "--numa-node",
    core_list,
    "CORES",
    "Cores of one node, such as 0-3, for envpool-numa. Repeatable.  [default: the system's nodes]",
    "nodes",
    callback=lambda context, parameter, nodes: "/".join(nodes),
)
PRESET = valued(
    "--preset",
    str,
    "NAME",
    "Use a named set of settings: envpool-published.",
    shell_complete=complete_presets,
)
_MEASURE = grouped(
    "measure",
    Measure,
    valued(
        "--duration",
        Seconds(1, 86400),
        "SECONDS",
        f"Measured seconds per cell, over all its runs.  [default: {DEFAULT_DURATION_S:g}]",
        "duration_s",
    ),
    valued(
        "--total-step",
        click.IntRange(1, 10**12),
        "K",
        "Vector steps per cell, over all its runs, instead of a duration.",
        "total_steps",
    ),
    valued(
        "--repeats",
        click.IntRange(1, 1000),
        "N",
        "Fresh processes per cell.  [default: 5 for most backends]",
    ),
    flag("--quick", "Measure one process for 3 s per cell, without an interval."),
)


@click.command()
@measured_cells(numenv_option("the profile's ladder"), OVERCOMMIT, NUMA_NODES, PRESET)
@_MEASURE
@measuring_options(runtimes=True)
@AS_JSON
def run(cells: CellRequest, options: Options, measure: Measure, as_json: bool) -> None:
    """Measure how fast environments step on this machine.

    One cell takes about a minute. By default, measure Atari and MuJoCo with every backend that can
    run here, on the profile's ladder of numenv. To resume a stopped run, give the same command
    again.
    """
    refuse_together("--duration", "--total-step")
    refuse_together("--quick", "--duration")
    refuse_together("--quick", "--repeats")
    experiment = RunExperiment(cells=cells, measure=measure)
    conduct(experiment, options, partial(_show, as_json=as_json), partly=True)


# ---------------------------------------------------------------- output


def _show(outcome: Campaign[list[Summary]], *, as_json: bool) -> int:
    """Show the cells measured so far. Returns the exit code."""
    summaries = outcome.findings
    if as_json:
        _print_json(outcome)
    elif summaries:
        click.echo(_table(summaries))
        _tell_flags(summaries)
        _tell_stand_ins(outcome)
        for alike in _grouped_failures(summaries):
            _tell_failures(alike)
        _tell_next_command(outcome)
    return CELL_FAILED if any(each.failure for each in summaries) else 0


def _print_json(outcome: Campaign[list[Summary]]) -> None:
    """The ``--json`` document (docs/json.md)."""
    other = outcome.other_hardware
    cells = [cell_json(summary, other_hardware=other) for summary in outcome.findings]
    print_json({"schema": SCHEMA, "plan": outcome.plan.plan_id, "cells": cells})


def _table(summaries: Sequence[Summary]) -> str:
    rows = []
    for summary in summaries:
        cell = summary.cell
        label = row_label(cell.backend, cell.variant)
        rows.append([f"{cell.env} {cell.task}", label, cell.numenv, *_figures(summary)])
    heads = ["task", "backend", "numenv", "FPS", "95 % interval", "steps/s", "notes"]
    return table(rows, heads, colalign=("left", "left", *4 * ("right",), "left"))


def _figures(summary: Summary) -> list[str]:
    if summary.fps is None or summary.steps_per_second is None:
        reason = summary.failure.reason if summary.failure else "?"
        return ["-", "-", "-", f"failed: {reason}"]
    interval = " - ".join(map(rate_text, summary.interval)) if summary.interval else "none"
    fps, steps = rate_text(summary.fps), rate_text(summary.steps_per_second)
    return [fps, interval, steps, ", ".join(summary.flags)]


def _tell_flags(summaries: Sequence[Summary]) -> None:
    """Explain the words in the column of notes."""
    for word in dict.fromkeys(word for summary in summaries for word in summary.flags):
        tell(f"{word}: {FLAGS[word]}")


def _tell_stand_ins(outcome: Campaign[list[Summary]]) -> None:
    """Name the tasks that ran in place of ones that a library no longer has."""
    every = runs(outcome.done, outcome.plan, outcome.facts)
    seen = {(run.cell.backend, ran(run), run.cell.task) for run in every}
    for backend, other, task in sorted(seen):
        if other:
            tell(f"{backend} ran {other} in place of {task}.")


def _grouped_failures(summaries: Sequence[Summary]) -> list[list[Summary]]:
    """The failed cells; those of one backend that failed for the same reason are one group."""
    groups = defaultdict(list)
    for each in summaries:
        if failure := each.failure:
            cause = (each.cell.env, each.cell.backend, failure.reason, failure.message)
            groups[cause].append(each)
    return [*groups.values()]


def _tell_failures(alike: list[Summary]) -> None:
    """Show cells that failed for the same reason as one failure."""
    summary, more = alike[0], len(alike) - 1
    failure = summary.failure
    assert failure is not None
    where = f" in {failure.phase}" if failure.phase not in ("", failure.reason) else ""
    after = f" after {failure.step:,} steps" if failure.step else ""
    others = f" (and {counted(more, 'more cell')})" if more else ""
    tell_failure(f"\n{summary.cell.key}{others}: {failure.reason}{where}{after}\n", failure)


def _tell_next_command(outcome: Campaign[list[Summary]]) -> None:
    """Where the results are recorded, and the command that shows them in tables."""
    summaries, recorded = outcome.findings, f"Recorded in {outcome.journal.path}"
    if outcome.left or not any(summary.fps for summary in summaries):
        tell(f"{recorded}.")
        return
    results = outcome.journal.path.parent.parent
    place = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
    some = any(summary.interval for summary in summaries)
    only = "" if some else " where they have no measurement with an interval"
    tell(f"{recorded}; `{_program()} report{place}` puts it in the tables{only}.")


def _program() -> str:
    """envbench as the user called it, which need not be on the PATH."""
    called = sys.argv[0]
    on_path = shutil.which("envbench")
    if on_path and os.path.realpath(on_path) == os.path.realpath(called):
        return "envbench"
    return called if os.path.basename(called) == "envbench" else "python -m envbench"
