"""``envbench run``: measure one cell, or all cells of a profile, and show the figures."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import click
from msgspec.structs import replace

from envbench import families
from envbench.backends import row_label
from envbench.backends.builtin import PRESETS
from envbench.cli.conduct import builds_text, conduct
from envbench.cli.options import (
    AS_JSON,
    FilePath,
    Number,
    completing,
    grouped,
    measured_cells,
    measuring_options,
    numenv_option,
    option,
    refuse_together,
)
from envbench.cli.terminal import cell_name, clock, print_json, table, tell, tell_failure
from envbench.decisions.session import Session
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.engine.flame import flame_graph, profiler
from envbench.engine.request import CellRequest
from envbench.errors import CELL_FAILED, UNAVAILABLE, EnvbenchError, StorageError, UsageError
from envbench.experiments.preview import Preview, preview
from envbench.experiments.run import DEFAULT_DURATION_S, Figures, Measure, RunExperiment, runs
from envbench.machine import catalogue
from envbench.model import MOST_ROUNDS, Cell, fields
from envbench.report.data_export import SCHEMA, cell_json, ratios_json
from envbench.report.tables.conclusion import conclusions
from envbench.report.tables.costs import duration
from envbench.report.tables.footnotes import FLAGS
from envbench.report.tables.machine_results import machine_results
from envbench.results import store
from envbench.results.folder import load_files
from envbench.results.measured_cells import judged
from envbench.results.selection import Selection, ran
from envbench.stats.intervals import half_width
from envbench.stats.summary import Summary
from envbench.text import counted, disk, printable, rounded

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
        click.IntRange(1, 10**12),
        also="total_steps",
    ),
    option(
        "--repeats N",
        "Blocks per cell, each with a fresh process.  [default: 5 for most backends]",
        click.IntRange(1, MOST_ROUNDS),
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

    Cells alternate in short slices, so that all see the same noise. One cell takes about a
    minute. By default, measure every family that the profile lists, with every backend that can
    run here except `ceiling`, at the numbers of environments in the profile. To resume a stopped
    run, run the same command again.
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
        found = preview(experiment, options)
        _show_plan(found, as_json=as_json)
        sys.exit(UNAVAILABLE if found.lacking and experiment.named else 0)

    @cache  # `run` verifies nothing
    def selected(machine: str) -> Selection:
        return load_files(store.files(options.results, machine), lambda _: None).selection

    conduct(
        experiment,
        options,
        partial(_show, as_json=as_json, selected=selected, profile=profile),
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
        click.echo("No earlier result says how long so many vector steps take.")
    if found.builds:
        click.echo(builds_text(found.builds))
    for each in found.lacking:
        click.echo(f"{each.backend} is left out ({each.env}): {each.reason}. To fix it: {each.fix}")


def _show(
    outcome: Campaign[Figures],
    *,
    as_json: bool,
    selected: Callable[[str], Selection],
    profile: Path | None = None,
) -> int:
    """Show the cells measured so far. Returns the exit code."""
    verified = selected(outcome.plan.cells[0].machine)
    found = load_files([outcome.journal.path], lambda _: None).selection  # the complete cells
    own = [each for each in found.measured if each.plan_id == outcome.plan.plan_id]
    checked = {each.cell.key: each for each in own}
    every = {each.cell.key: each for each in outcome.findings.summaries}
    every |= {key: each.summary for key, each in checked.items() if key in every}
    summaries = [judged(each, verified.badge(each.cell)) for each in every.values()]
    doubts = {key: each.doubt for key, each in checked.items() if each.doubt}
    ranked = {each.cell.key for each in summaries if each.fps is not None}
    ranked &= checked.keys() - doubts.keys()  # an unfinished cell has not seen all of the session
    session = outcome.findings.session
    session = session.without(session.cells.keys() - ranked)
    conclusion = conclusions(found, catalogue().profiles)
    if as_json:
        other = outcome.other_hardware
        document = {
            "schema": SCHEMA,
            "plan": outcome.plan.plan_id,
            "cells": [
                cell_json(each, session, other_hardware=other, doubt=doubts.get(each.cell.key, ""))
                for each in summaries
            ],
            "ratios": ratios_json(session),
            "conclusions": [each.json() for each in conclusion],
        }
        print_json(document)
    elif summaries:
        for each in conclusion:
            click.echo(f"{printable(each.sentence)}\n")
        click.echo(_table(summaries, session))
        if costs := _own_costs(summaries):
            click.echo(f"\n{costs}")
        for word in dict.fromkeys(word for summary in summaries for word in summary.flags):
            tell(f"{word}: {FLAGS[word]}")
        _tell_doubts(doubts)
        _tell_unverified(found)
        _tell_stand_ins(outcome)
        _tell_failures(summaries)
        _tell_next_command(outcome, summaries)
    failed = any(each.failure for each in summaries)
    if profile is not None and outcome.stopped is None:
        failed |= not _profiled(
            outcome, [each.cell for each in summaries if not each.failure], profile
        )
    return CELL_FAILED if failed else 0


def _profiled(outcome: Campaign[Figures], cells: Sequence[Cell], folder: Path) -> bool:
    """Write a flame graph of each cell. If that fails, say so: the figures are recorded."""
    for cell in cells:
        tell(f"Profiling {cell_name(cell)} …")
        try:
            tell(f"wrote {flame_graph(outcome.executor, outcome.arms, cell, folder)}")
        except EnvbenchError as error:
            tell(f"{error}\n{error.hint}")
            return False
    return True


def _tell_unverified(found: Selection) -> None:
    """Say which plugins are not recommended because nothing shows that their work is equal."""
    rows = {
        (each.cell.backend, each.cell.env, each.cell.task)
        for results in machine_results(found, catalogue().profiles).values()
        for each in results.with_figures
        if results.unverified(each)
    }
    for backend, env, task in sorted(rows):
        words = shlex.join(["--env", env, "--task", task, "--backend", backend])
        tell(
            f"{backend} is not recommended: nothing shows that its work is equal. "
            f"`envbench verify {words}` compares it."
        )


def _table(summaries: Sequence[Summary], session: Session) -> str:
    rows = []
    for summary in summaries:
        cell = summary.cell
        label = row_label(cell.backend, cell.variant)
        rows.append([f"{cell.env} {cell.task}", label, cell.numenv, *_figures(summary, session)])
    heads = ["task", "backend", "numenv", "FPS", "rank at numenv", "steps/s", "notes"]
    return table(rows, heads, colalign=("left", "left", *4 * ("right",), "left"))


def _figures(summary: Summary, session: Session) -> list[str]:
    """The FPS and its interval, compared with the other cells if they alternated."""
    if summary.fps is None or summary.steps_per_second is None:
        reason = summary.failure.reason if summary.failure else "?"
        return ["-", "-", "-", f"failed: {reason}"]
    standing = session.standings.get(summary.cell.key)
    fps, interval = summary.fps, summary.interval
    if adjusted := session.adjusted(summary.cell):
        fps, interval = adjusted.rate, adjusted.interval
    rank = standing.text if standing and adjusted and interval else ""
    steps = rounded(fps / summary.cell.frame_skip)
    return [rounded(fps, half_width(interval)), rank, steps, ", ".join(summary.flags)]


def _own_costs(summaries: Sequence[Summary]) -> str:
    """What a person's own environments cost besides their steps; "" if none is measured."""
    rows = []
    for each in summaries:
        cell, costs = each.cell, each.costs
        if costs is None or not families.of_record(cell.env).own_tasks:
            continue
        steps, line = costs.latency, costs.memory
        latencies = [steps.p50_s, steps.p99_s] if steps else [None, None]
        times = [*latencies, costs.reset_s]
        sizes = [costs.memory_bytes, line.bytes_per_env if line else None]
        rows.append(
            [cell.task, row_label(cell.backend, cell.variant), cell.numenv]
            + [duration(each) or "-" for each in times]
            + ["-" if each is None else disk(each / 1e6) for each in sizes]
        )
    heads = ["task", "backend", "numenv", "vector step: median", "99 %", "reset of all", "memory"]
    right = ("left", "left", *6 * ("right",))
    return table(rows, [*heads, "per environment"], colalign=right) if rows else ""


def _tell_stand_ins(outcome: Campaign[Figures]) -> None:
    """Name the tasks that ran in place of ones that a library no longer has."""
    every = runs(outcome.done, outcome.plan, outcome.facts)
    seen = {(run.cell.backend, ran(run), run.cell.task) for run in every}
    for backend, other, task in sorted(seen):
        if other:
            tell(f"{backend} ran {other} in place of {task}.")


def _tell_doubts(doubts: Mapping[str, str]) -> None:
    """Say why figures are not ranked. A reason that several cells share, once."""
    keys = defaultdict(list)
    for key, doubt in doubts.items():
        keys[doubt].append(key)
    for doubt, (key, *more) in keys.items():
        others = f" (and {counted(len(more), 'more cell')})" if more else ""
        tell(f"{key}{others} is not ranked: {doubt}.")


def _tell_failures(summaries: Sequence[Summary]) -> None:
    """Show the failed cells. A reason that several cells of a backend share, once."""
    keys = defaultdict(list)
    for each in summaries:
        if failure := each.failure:
            cause = (each.cell.env, each.cell.backend, failure.reason, failure.message)
            keys[cause].append((each.cell.key, failure))
    for (key, failure), *more in keys.values():
        others = f" (and {counted(len(more), 'more cell')})" if more else ""
        where = f" in {failure.phase}" if failure.phase not in ("", failure.reason) else ""
        after = f" after {failure.step:,} steps" if failure.step else ""
        tell_failure(f"\n{key}{others}: {failure.reason}{where}{after}\n", failure)


def _tell_next_command(outcome: Campaign[Figures], summaries: Sequence[Summary]) -> None:
    """Say where the results are recorded, and which command shows them in tables."""
    recorded = f"Recorded in {outcome.journal.path}"
    if outcome.left or not any(summary.fps for summary in summaries):
        tell(f"{recorded}.")
        return
    called = "envbench" if shutil.which("envbench") else f"{sys.executable} -m envbench"
    report = f"{called} report{store.option(outcome.journal.path.parent.parent)}"
    some = any(summary.interval for summary in summaries)
    tell(
        f"{recorded}. `{report} --format html` shows it on a page, and `{report}` in the tables of "
        "README.md."
    )
    if not some:
        tell("Quick figures never replace longer measurements in a report.")
