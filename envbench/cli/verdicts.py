"""What a check says: its plan, how it goes, and its verdicts for a person, a program and CI."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.cli.progress import clock
from envbench.text import printable

if TYPE_CHECKING:
    from envbench.arms import Source
    from envbench.check_plan import Sizes
    from envbench.checking import CellVerdict
    from envbench.model import Cell, Check, Pair
    from envbench.regression import Stage

SCHEMA = 1
MEANS: dict[str, str] = {
    "PASS": "a slowdown of the tolerance is ruled out",
    "REGRESSION": "slower by more than the margin",
    "IMPROVEMENT": "faster by more than the margin",
    "INCONCLUSIVE": "too noisy to say: more pairs, or a quieter machine (`envbench doctor`)",
    "BROKEN": "an arm failed",
}


class Told:
    """A line a pair on stderr; nothing while slices are made."""

    def __init__(self, planned: Sizes) -> None:
        self.planned = planned
        self.total = self.done = 0

    def started(self, pairs: int) -> None:
        self.total, self.began = pairs, time.monotonic()
        tell(f"{pairs} pairs of processes to go, about {clock(self.planned.seconds)}")

    def pair_ended(self, pair: Pair) -> None:
        self.done += 1
        cell = pair.cell
        what = f"{cell.env} {cell.task} {cell.backend} × {cell.numenv}"
        each = (time.monotonic() - self.began) / self.done
        left = clock(max(0, self.total - self.done) * each)
        failed = pair.baseline.failure or pair.candidate.failure
        how = (
            f"{failed.reason}: {(failed.message.splitlines() or [''])[0][:200]}"
            if failed
            else "done"
        )
        tell(f"[{self.done}/{self.total}] {what}, stage {pair.stage}: {how}; {left} to go")

    def alarm(self, cell: Cell, pairs: int) -> None:
        self.total += pairs
        tell(f"{cell.env} {cell.task} {cell.backend} × {cell.numenv}: slower, it seems; again.")


def exit_code(verdicts: Sequence[CellVerdict]) -> int:
    from envbench.checking import overall
    from envbench.errors import CELL_FAILED, INCONCLUSIVE

    codes = {"REGRESSION": CELL_FAILED, "BROKEN": CELL_FAILED, "INCONCLUSIVE": INCONCLUSIVE}
    return codes.get(overall(verdicts), 0)


# ---------------------------------------------------------------- the plan


def plan_table(cells: Sequence[Cell], planned: Sizes, sources: tuple[Source, Source]) -> str:
    from tabulate import tabulate

    rows = [
        [_task(cell), cell.backend, cell.numenv, _percent(planned.detectable[cell.key])]
        for cell in cells
    ]
    heads = ["task", "backend", "numenv", "finds a slowdown of"]
    return "\n".join(
        [
            f"baseline:  {printable(str(sources[0]))}",
            f"candidate: {printable(str(sources[1]))}",
            f"{planned.pairs} pairs a cell, about {clock(planned.seconds)} for {planned.cells} "
            f"cells; a cell that raises an alarm takes as long again.",
            "",
            tabulate(rows, heads, disable_numparse=True),
            "",
            "(in 95 of 100 checks, where pairs spread as on the machine of docs/check.md; "
            "this machine's own spread: `envbench doctor`)",
        ]
    )


def plan_json(cells: Sequence[Cell], planned: Sizes, sources: tuple[Source, Source]) -> str:
    return _json(
        {
            "schema": SCHEMA,
            "baseline": str(sources[0]),
            "candidate": str(sources[1]),
            "pairs": planned.pairs,
            "seconds": planned.seconds,
            "cells": [
                {**_identity(cell), "detectable": planned.detectable[cell.key]} for cell in cells
            ],
        }
    )


# ---------------------------------------------------------------- verdicts


def show(
    check: Check,
    verdicts: Sequence[CellVerdict],
    path: Path,
    *,
    as_json: bool,
    summary: Path | None,
) -> None:
    """On stdout, and where CI shows Markdown."""
    from envbench.checking import overall

    if as_json:
        click.echo(document(check, verdicts))
    else:
        click.echo(_table(verdicts, "simple"))
        click.echo(f"{overall(verdicts)}: {MEANS[overall(verdicts)]}.")
    for each in verdicts:
        for arm, failure in each.failures.items():
            tell(f"{_name(each.cell)}: the {arm} failed in {failure.phase!r}: {failure.message}")
            if failure.hint:
                tell(f"  {failure.hint}")
    tell(f"Recorded in {path}.")
    if summary is not None:
        _add(summary, markdown(check, verdicts))


def _add(summary: Path, text: str) -> None:
    """A summary that cannot be written takes no verdict away."""
    try:
        with summary.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        tell(f"Warning: {summary} cannot be written: {error.strerror}.")


def show_advice(
    verdicts: Sequence[CellVerdict],
    old: Path,
    path: Path,
    *,
    as_json: bool,
    summary: Path | None,
) -> None:
    """Of a comparison with figures of another time."""
    from envbench.checking import overall

    found = overall(verdicts)
    if as_json:
        cells = [
            {**_identity(each.cell), "verdict": each.verdict, "stages": each.stages}
            for each in verdicts
        ]
        whole = {"schema": SCHEMA, "advisory": True, "against": str(old), "verdict": found}
        click.echo(_json({**whole, "cells": cells}))
    else:
        click.echo(_table(verdicts, "simple"))
        click.echo(f"{found} (advisory): {MEANS[found]}.")
    advice = (
        f"Advisory: {printable(str(old))} was measured at another time, and a machine changes by "
        "more than a reference kernel tells. To be sure, compare the two sides in one run: "
        "--baseline, --baseline-python, --baseline-ref."
    )
    tell(advice)
    tell(f"Recorded in {path}.")
    if summary is not None:
        table = _table(verdicts, "github")
        _add(summary, f"### envbench check: {found} (advisory)\n\n{_plain(advice)}\n\n{table}\n")


def document(check: Check, verdicts: Sequence[CellVerdict]) -> str:
    """The verdicts as one JSON document."""
    from envbench.checking import overall

    return _json(
        {
            "schema": SCHEMA,
            "check": check.check_id,
            "verdict": overall(verdicts),
            "baseline": check.baseline,
            "candidate": check.candidate,
            "pairs": check.pairs,
            "cells": [
                {
                    **_identity(each.cell),
                    "verdict": each.verdict,
                    "slower": each.slower,
                    "stages": each.stages,
                    "failures": each.failures,
                }
                for each in verdicts
            ],
        }
    )


def markdown(check: Check, verdicts: Sequence[CellVerdict]) -> str:
    """For a pull request's page."""
    from envbench.checking import overall

    found = overall(verdicts)
    arms = f"{check.baseline.source} → {check.candidate.source}"
    return (
        f"### envbench check: {found}\n\n{_plain(arms)}: {MEANS[found]}.\n\n"
        f"{_table(verdicts, 'github')}\n\n"
        f"{check.pairs} pairs of processes a cell and stage; margin {_percent(check.margin)}, "
        f"tolerance {_percent(check.tolerance)}, costs {_percent(check.cost_tolerance)}.\n"
    )


def _table(verdicts: Sequence[CellVerdict], style: str) -> str:
    from tabulate import tabulate

    heads = ["task", "backend", "numenv", "verdict", "candidate / baseline", "95 %", "notes"]
    rows = [_row(each) for each in verdicts]
    if style == "github":
        rows = [[_plain(str(text)) for text in row] for row in rows]
    return printable(tabulate(rows, heads, tablefmt=style, disable_numparse=True))


def _row(found: CellVerdict) -> list[Any]:
    cell = found.cell
    what = [_task(cell), cell.backend, cell.numenv, found.verdict]
    if not found.stages:
        failed = (
            f"{arm} failed: {(each.message.splitlines() or [''])[0][:120]}"
            for arm, each in found.failures.items()
        )
        return [*what, "-", "-", "; ".join(failed)]
    last = found.stages[-1]
    steps = last["steps"]
    low, high = steps.interval
    return [*what, f"{steps.ratio:.3f}", f"{low:.3f} - {high:.3f}", _notes(found, last)]


def _notes(found: CellVerdict, last: dict[str, Stage]) -> str:
    beside = found.slower[1:] if found.slower[:1] == ["steps"] else found.slower
    told = [f"{name} ×{1 / last[name].ratio:.2f}" for name in beside if name in last]
    for name, stage in last.items():
        if stage.verdict == "INCONCLUSIVE":
            told.append(f"{name}: could have seen a slowdown of {_percent(stage.detectable)}")
    if len(found.stages) == 2 and found.verdict != "REGRESSION":
        told.append("an alarm that did not come again")
    return ", ".join(told)


def _identity(cell: Cell) -> dict[str, Any]:
    names = ("machine", "env", "task", "backend", "numenv", "env_instances", "settings")
    return {name: getattr(cell, name) for name in names}


def _name(cell: Cell) -> str:
    return f"{cell.env} {cell.task} {cell.backend} × {cell.numenv}"


def _task(cell: Cell) -> str:
    return f"{cell.env} {cell.task}"


def _plain(text: str) -> str:
    """Text of a stranger's in a Markdown table."""
    from envbench.report.escape import markdown as escaped

    return escaped(text)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value)).decode()
