"""What ``envbench run`` shows afterwards: conclusions, figures, costs, and what to do next."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path

import click

from envbench import families
from envbench.backends import row_label
from envbench.backends.specification import shown
from envbench.cli.terminal import (
    cell_name,
    print_json,
    program,
    table,
    tell,
    tell_error,
    tell_failures,
)
from envbench.decisions.session import Session
from envbench.engine.campaign import Campaign
from envbench.errors import CELL_FAILED, EnvbenchError
from envbench.experiments.run.flame import flame_graph
from envbench.experiments.run.rounds import Figures, runs
from envbench.machine import catalogue
from envbench.model import Cell
from envbench.report.by_machine import machine_results
from envbench.report.conclusion import Conclusion, conclusions
from envbench.report.data_export import SCHEMA, cell_json, ratios_json
from envbench.report.tables.footnotes import FLAGS
from envbench.report.tables.note import spot_checks
from envbench.results import store
from envbench.results.folder import load_files
from envbench.results.measured_cells import judged
from envbench.results.selection import Selection, ran
from envbench.stats.intervals import half_width
from envbench.stats.summary import Summary
from envbench.text import (
    counted,
    duration,
    listed,
    memory,
    printable,
    rounded,
    without_interval,
)


def show(
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
    conclusion = [
        each for each in conclusions(found, catalogue().profiles) if _is_complete(each, checked)
    ]
    if as_json:
        other = outcome.other_hardware
        document = {
            "schema": SCHEMA,
            "plan": outcome.plan.plan_id,
            "cells": [
                cell_json(
                    each,
                    session,
                    checked.get(each.cell.key),
                    badge=verified.badge(each.cell),
                    other_hardware=other,
                )
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
        if spots := [each for each in own if each.spot]:
            tell(spot_checks(spots))
        _tell_doubts(doubts)
        for line in unverified(found):
            tell(line)
        _tell_stand_ins(outcome)
        tell_failures((each.cell, each.failure) for each in summaries)
        _tell_next_command(outcome, summaries)
    failed = any(each.failure for each in summaries)
    if profile is not None and outcome.stopped is None:
        failed |= not _profiled(
            outcome, [each.cell for each in summaries if not each.failure], profile
        )
    return CELL_FAILED if failed else 0


def _is_complete(found: Conclusion, complete: Container[str]) -> bool:
    """Are all cells of the conclusion's table complete? Otherwise a row may lead because the others
    are still being measured."""
    own = found.results
    table = own.env, own.task, own.section
    cells = (each for each in found.best.plan.cells if (each.env, each.task, each.section) == table)
    return all(each.key in complete for each in cells)


def _profiled(outcome: Campaign[Figures], cells: Sequence[Cell], folder: Path) -> bool:
    """Write a flame graph of each cell. If that fails, say so: the figures are recorded."""
    for cell in cells:
        tell(f"Profiling {cell_name(cell)} …")
        try:
            tell(f"wrote {flame_graph(outcome.executor, outcome.arms, cell, folder)}")
        except EnvbenchError as error:
            tell_error("", error)
            return False
    return True


def unverified(found: Selection) -> list[str]:
    """Say which plugins are not recommended because nothing shows that their work is equal: a line
    for those of one task and cause."""
    plugins: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for results in machine_results(found, catalogue().profiles).values():
        for each in results.with_figures:
            if results.unverified(each):
                verified = results.verified.get(each.label)
                failed = verified is not None and verified.verification.failure is not None
                cause = "failed" if failed else "other code" if verified else ""
                key = (cause, each.cell.env, each.cell.task, *_variant(each.cell))
                plugins[key][each.cell.backend] = None
    return [_unverified(sorted(names), *key) for key, names in sorted(plugins.items())]


def _variant(cell: Cell) -> list[str]:
    """The options that choose its row, not only its backend."""
    words = [each for k, v in cell.own_settings.items() for each in ("--set", f"{k}={shown(v)}")]
    skip = cell.variant.get("frame_skip")
    return words if skip is None else [*words, "--frame-skip", f"{skip}"]


def _unverified(names: Sequence[str], cause: str, env: str, task: str, *variant: str) -> str:
    one = len(names) == 1
    its, it, they_were = ("its", "it", "it was") if one else ("their", "them", "they were")
    why = {
        "": f"nothing shows that {its} work is equal",
        "failed": f"{its} last verification failed",
        "other code": f"{they_were} verified with other code",
    }[cause]
    words = shlex.join(["--env", env, "--task", task, "--backend", ",".join(names), *variant])
    again = " again" if cause else ""
    return (
        f"{listed(names)} {'is' if one else 'are'} not recommended: {why}. "
        f"`envbench verify {words}` compares {it}{again}."
    )


def _table(summaries: Sequence[Summary], session: Session) -> str:
    rows = []
    ranked = not any(each.quick for each in summaries)  # the fastest cells may be the quick ones
    for summary in summaries:
        cell = summary.cell
        names = [f"{cell.env} {cell.task}", row_label(cell.backend, cell.variant), cell.numenv]
        rows.append([*names, *_figures(summary, session, ranked=ranked)])
    heads = ["task", "backend", "numenv", "FPS", "rank at numenv", "steps/s", "notes"]
    return table(rows, heads, colalign=("left", "left", *4 * ("right",), "left"))


def _figures(summary: Summary, session: Session, *, ranked: bool) -> list[str]:
    """The FPS and its interval, compared with the other cells if they alternated."""
    if summary.fps is None or summary.steps_per_second is None:
        reason = summary.failure.reason if summary.failure else "?"
        return ["-", "-", "-", f"failed: {reason}"]
    standing = session.standings.get(summary.cell.key)
    fps, interval = summary.fps, summary.interval
    if adjusted := session.adjusted(summary.cell):
        fps, interval = adjusted.rate, adjusted.interval
    rank = standing.text if standing and ranked and adjusted and interval else ""
    half = half_width(interval)
    steps = without_interval(fps / summary.cell.frame_skip, half)
    return [rounded(fps, half), rank, steps, ", ".join(summary.flags)]


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
            + [text or "-" for text in [*map(duration, times), *map(memory, sizes)]]
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


def _tell_next_command(outcome: Campaign[Figures], summaries: Sequence[Summary]) -> None:
    """Say where the results are recorded, and which command shows them in tables."""
    recorded = f"Recorded in {outcome.journal.path}"
    if outcome.left or not any(summary.fps for summary in summaries):
        tell(f"{recorded}.")
        return
    results = outcome.journal.path.parent.parent
    report = f"{program()} report{store.option(results)}"
    tell(
        f"{recorded}. `{report} --format html` shows it on a page, and `{report}` in the tables of "
        f"{results / 'README.md'}."
    )
    if all(each.quick for each in summaries if each.fps):
        tell("Quick figures never replace longer measurements in a report.")
