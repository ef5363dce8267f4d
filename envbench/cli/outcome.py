"""What a ``run`` came to: a table for a person, or one JSON document."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from envbench.cli import tell
from envbench.cli.progress import shown
from envbench.errors import CELL_FAILED
from envbench.text import printable

if TYPE_CHECKING:
    from envbench.engine.session import Outcome
    from envbench.stats.summary import Summary


def show(outcome: Outcome[list[Summary]], *, as_json: bool) -> int:
    """The cells measured so far; the exit code."""
    summaries = outcome.findings
    if as_json:
        other = outcome.site.other_hardware
        click.echo(document(outcome.plan.plan_id, summaries, other_hardware=other))
    elif summaries:
        _show(outcome)
    return CELL_FAILED if any(each.failure for each in summaries) else 0


def _show(outcome: Outcome[list[Summary]]) -> None:
    summaries = outcome.findings
    click.echo(table(summaries))
    _say_notes(summaries)
    _say_stand_ins(outcome)
    for alike in _failed_alike(summaries):
        _explain(alike)
    _say_next(outcome)


def table(summaries: Sequence[Summary]) -> str:
    """One line per cell."""
    from tabulate import tabulate

    from envbench.backends import row_label

    rows = []
    for summary in summaries:
        cell = summary.cell
        name = printable(f"{cell.env} {cell.task}")
        label = printable(row_label(cell.backend, cell.shown))
        rows.append([name, label, cell.numenv, *_figures(summary)])
    heads = ["task", "backend", "numenv", "FPS", "95 % interval", "steps/s", "notes"]
    return tabulate(
        rows,
        heads,
        disable_numparse=True,
        colalign=("left", "left", "right") + 3 * ("right",) + ("left",),
    )


def _say_notes(summaries: Sequence[Summary]) -> None:
    """What the words in the last column mean, on stderr."""
    from envbench.report.tables.footnotes import FLAGS

    for flag in dict.fromkeys(flag for summary in summaries for flag in summary.flags):
        tell(f"{flag}: {FLAGS[flag]}")


def _figures(summary: Summary) -> list[str]:
    if summary.fps is None or summary.steps_per_second is None:
        reason = summary.failure.reason if summary.failure else "?"
        return ["-", "-", "-", f"failed: {reason}"]
    interval = "none"
    if summary.interval:
        interval = " - ".join(map(shown, summary.interval))
    rates = shown(summary.fps), shown(summary.steps_per_second)
    return [rates[0], interval, rates[1], ", ".join(summary.flags)]


def _failed_alike(summaries: Sequence[Summary]) -> list[list[Summary]]:
    """The failed cells, those of one backend that failed for the same reason together."""
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for each in summaries:
        if each.failure:
            cause = (each.cell.env, each.cell.backend, each.failure.reason, each.failure.message)
            groups.setdefault(cause, []).append(each)
    return [*groups.values()]


def _say_next(outcome: Outcome[list[Summary]]) -> None:
    """Where it is recorded, and the next command."""
    summaries, recorded = outcome.findings, f"Recorded in {outcome.path}"
    if outcome.left or not any(summary.fps for summary in summaries):
        tell(f"{recorded}.")
        return
    results = outcome.path.parent.parent
    place = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
    only = ", where there is no measurement with an interval" if _no_interval(summaries) else ""
    tell(f"{recorded}; `{_program()} report{place}` puts it in the tables{only}.")


def _no_interval(summaries: Sequence[Summary]) -> bool:
    return not any(summary.interval for summary in summaries)


def _program() -> str:
    """envbench as it was called: it need not be on the PATH."""
    called = sys.argv[0]
    on_path = shutil.which("envbench")
    if on_path and os.path.realpath(on_path) == os.path.realpath(called):
        return "envbench"
    return called if os.path.basename(called) == "envbench" else "python -m envbench"


def _explain(alike: list[Summary]) -> None:
    """The cause, tail and next step of failed cells, on stderr."""
    summary, more = alike[0], len(alike) - 1
    failure = summary.failure
    assert failure is not None
    where = f" in {failure.phase}" if failure.phase not in ("", failure.reason) else ""
    after = f" after {failure.step:,} steps" if failure.step else ""
    others = f" (and {more} more cell{'s' if more > 1 else ''} of it)" if more else ""
    tell(f"\n{summary.cell.key}{others}: {failure.reason}{where}{after}")
    tell("  " + failure.message.replace("\n", "\n  "))
    if failure.stderr_tail:
        lines = printable(failure.stderr_tail).splitlines()[-15:]
        tell("\n".join("  | " + line for line in lines))
    if failure.hint:
        tell("  " + failure.hint)


def _say_stand_ins(outcome: Outcome[list[Summary]]) -> None:
    """Where a library no longer has the task: what ran in its place."""
    from envbench.experiments.run import runs
    from envbench.results.selection import ran

    every = runs(outcome.done, outcome.plan, outcome.campaign.facts)
    seen = {(run.cell.backend, ran(run), run.cell.task) for run in every}
    for backend, other, task in sorted(seen):
        if other:
            tell(f"{backend} ran {other} in place of {task}.")


def document(plan_id: str, summaries: Sequence[Summary], *, other_hardware: bool) -> str:
    """The ``--json`` document (docs/json.md)."""
    import msgspec

    from envbench.report.data_export import SCHEMA, cell_json

    cells = [cell_json(summary, other_hardware=other_hardware) for summary in summaries]
    whole = {"schema": SCHEMA, "plan": plan_id, "cells": cells}
    return msgspec.json.format(msgspec.json.encode(whole)).decode()
