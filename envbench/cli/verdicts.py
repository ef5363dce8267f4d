"""What a check says: its plan, how it goes, and its verdicts for a person, a program and CI."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.cli.progress import clock
from envbench.text import printable

if TYPE_CHECKING:
    from envbench.check.arms import Source
    from envbench.check.checking import CellVerdict
    from envbench.check.procedure import Sizes
    from envbench.check.regression import Stage
    from envbench.model import Cell, Check, Pair

SCHEMA = 1
UNSEEN = 0.5  # a cost that could double (its reciprocal halves) without being seen is told
MEANS: dict[str, str] = {
    "PASS": "a slowdown of the steps' usual pace by the tolerance is ruled out",
    "REGRESSION": "steps are slower by more than the margin, or a cost grew by more than it may",
    "IMPROVEMENT": "faster by more than the margin",
    "INCONCLUSIVE": "neither a slowdown nor its absence is sure: more pairs (`--precise`), or a "
    "quieter machine (`envbench doctor`)",
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
        tell(f"{_name(cell)}: an alarm. Once more, with fresh pairs.")


def exit_code(verdicts: Sequence[CellVerdict]) -> int:
    from envbench.check.checking import overall
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
    differences: Mapping[str, Sequence[str]],
    *,
    as_json: bool,
    summary: Path | None,
) -> None:
    """On stdout, and where CI shows Markdown. ``differences``: each backend's arms' packages."""
    from envbench.check.checking import overall

    if as_json:
        click.echo(document(check, verdicts, differences))
    else:
        click.echo(_table(verdicts, "simple"))
        click.echo(f"{overall(verdicts)}: {MEANS[overall(verdicts)]}.")
    for each in verdicts:
        for arm, failure in each.failures.items():
            tell(f"{_name(each.cell)}: the {arm} failed in {failure.phase!r}: {failure.message}")
            if failure.hint:
                tell(f"  {failure.hint}")
            for line in printable(failure.stderr_tail).splitlines()[-15:]:
                tell(f"  | {line}")
    tell(f"Recorded in {path}.")
    if summary is not None:
        _add(summary, markdown(check, verdicts, differences))


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
    from envbench.check.checking import overall

    found = overall(verdicts)
    if as_json:
        cells = [
            {
                **_identity(each.cell),
                "verdict": each.verdict,
                "stages": each.stages,
                "failures": each.failures,
            }
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


def document(
    check: Check, verdicts: Sequence[CellVerdict], differences: Mapping[str, Sequence[str]]
) -> str:
    """The verdicts as one JSON document."""
    from envbench.check.checking import overall

    return _json(
        {
            "schema": SCHEMA,
            "check": check.check_id,
            "verdict": overall(verdicts),
            "baseline": check.baseline,
            "candidate": check.candidate,
            "pairs": check.pairs,
            "differences": differences,
            "cells": [
                {
                    **_identity(each.cell),
                    "verdict": each.verdict,
                    "slower": each.slower,
                    "stages": each.stages,
                    "failures": each.failures,
                    "spoilt": each.spoilt,
                }
                for each in verdicts
            ],
        }
    )


def markdown(
    check: Check, verdicts: Sequence[CellVerdict], differences: Mapping[str, Sequence[str]]
) -> str:
    """For a pull request's page."""
    from envbench.check.checking import overall

    found = overall(verdicts)
    arms = f"{check.baseline.source} → {check.candidate.source}"
    return (
        f"### envbench check: {found}\n\n{_plain(arms)}: {MEANS[found]}.\n\n"
        f"{_table(verdicts, 'github')}\n\n"
        f"{check.pairs} pairs of processes a cell and stage; margin {_percent(check.margin)}, "
        f"tolerance {_percent(check.tolerance)}, costs {_percent(check.cost_tolerance)}.\n"
        + "".join(
            f"\n{_plain(name)}: {_plain(', '.join(each))}\n"
            for name, each in differences.items()
            if each
        )
    )


def _table(verdicts: Sequence[CellVerdict], style: str) -> str:
    from tabulate import tabulate

    heads = ["task", "backend", "numenv", "verdict", "steps, candidate / baseline", "95 %",
             "all steps", "notes"]  # fmt: skip
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
        return [*what, "-", "-", "-", "; ".join(failed)]
    last = found.stages[-1]
    steps = last["steps"]
    low, high = steps.interval
    every = f"{last['all steps'].ratio:.3f}" if "all steps" in last else "-"
    return [*what, f"{steps.ratio:.3f}", f"{low:.3f} - {high:.3f}", every, _notes(found, last)]


def _notes(found: CellVerdict, last: dict[str, Stage]) -> str:
    beside = found.slower[1:] if found.slower[:1] == ["steps"] else found.slower
    told = [f"{name} ×{1 / last[name].ratio:.2f}" for name in beside if name in last]
    differ = _differ(last)
    if differ:
        told.append("a slower usual pace, but not slower in all")
    for name in ("all steps",) if differ else ("steps", "all steps"):
        if name in last and last[name].verdict == "INCONCLUSIVE":
            told.append(f"{name}: could have seen a slowdown of {_percent(last[name].detectable)}")
    for name, stage in last.items():
        if name not in ("steps", "all steps") and stage.detectable > UNSEEN:
            told.append(
                f"{name}: only ×{1 / max(1e-3, 1 - stage.detectable):.1f} could have been seen"
            )
    if len(found.stages) == 2 and found.verdict != "REGRESSION":
        told.append("an alarm that did not come again")
    told += [f"slices spoilt by {reason}: {count}" for reason, count in found.spoilt.items()]
    return ", ".join(told)


def _differ(last: dict[str, Stage]) -> bool:
    """Did all steps speak against an alarm of the usual pace?"""
    steps, every = last["steps"], last.get("all steps")
    return every is not None and steps.verdict == "INCONCLUSIVE" and steps.high < every.interval[0]


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
