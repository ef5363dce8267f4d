"""What a check says: its plan, and its verdicts for a person, a program and CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.cli.progress import clock, name_of
from envbench.text import printable

if TYPE_CHECKING:
    from envbench.engine.request import Target
    from envbench.engine.session import Outcome
    from envbench.experiments.check.arms.sources import Source
    from envbench.experiments.check.size import Sizes
    from envbench.experiments.check.stages import CellVerdict
    from envbench.model import Arm, Cell, Plan
    from envbench.stats.regression import Stage

SCHEMA = 1
UNSEEN = 0.5  # a cost that could double (its reciprocal halves) without being seen is noted
MEANS: dict[str, str] = {
    "PASS": "a slowdown of the steps' usual pace by the tolerance is ruled out",
    "REGRESSION": "steps are slower by more than the margin, or a cost grew by more than it may",
    "IMPROVEMENT": "faster by more than the margin",
    "INCONCLUSIVE": "neither a slowdown nor its absence is certain: try more pairs "
    "(`--precise`), or a quieter machine (`envbench doctor`)",
    "BROKEN": "an arm failed",
}


def exit_code(verdicts: Sequence[CellVerdict]) -> int:
    """0 where every cell passes or is faster, 1 for a regression or a broken arm, 4 unclear."""
    from envbench.errors import CELL_FAILED, INCONCLUSIVE
    from envbench.experiments.check.stages import overall

    codes = {"REGRESSION": CELL_FAILED, "BROKEN": CELL_FAILED, "INCONCLUSIVE": INCONCLUSIVE}
    return codes.get(overall(verdicts), 0)


# ---------------------------------------------------------------- the plan


def show_plan(
    targets: Sequence[Target], planned: Sizes, sides: Mapping[str, Source], *, as_json: bool
) -> None:
    """What would be measured, and what that would find."""
    cells = [each.cell for each in targets]
    sources = {name: str(source) for name, source in sides.items()}
    if as_json:
        click.echo(_plan_json(cells, planned, sources))
    else:
        click.echo(_plan_table(cells, planned, sources))


def _plan_table(cells: Sequence[Cell], planned: Sizes, sources: Mapping[str, str]) -> str:
    from tabulate import tabulate

    rows = [
        [_task(cell), cell.backend, cell.numenv, _percent(planned.detectable[cell.key])]
        for cell in cells
    ]
    heads = ["task", "backend", "numenv", "finds a slowdown of"]
    return "\n".join(
        [
            *(f"{name + ':':10} {printable(source)}" for name, source in sources.items()),
            f"{planned.pairs} pairs per cell, about {clock(planned.seconds)} for {planned.cells} "
            f"cell{'' if planned.cells == 1 else 's'}; one with an alarm takes as long again.",
            "",
            tabulate(rows, heads, disable_numparse=True),
            "",
            "(in 95 of 100 checks, where pairs spread as on the machine of docs/check.md; "
            "this machine's own spread: `envbench doctor`)",
        ]
    )


def _plan_json(cells: Sequence[Cell], planned: Sizes, sources: Mapping[str, str]) -> str:
    return _json(
        {
            "schema": SCHEMA,
            **sources,
            "pairs": planned.pairs,
            "seconds": planned.seconds,
            "cells": [
                {**_identity(cell), "detectable": planned.detectable[cell.key]} for cell in cells
            ],
        }
    )


# ---------------------------------------------------------------- verdicts


def show(
    outcome: Outcome[Any],
    verdicts: Sequence[CellVerdict],
    *,
    against: Path | None = None,
    as_json: bool,
    summary: Path | None,
) -> int:
    """On stdout, and where CI shows Markdown. Returns the exit code.

    ``against``: the file whose figures of another time they were compared with; that is advice.
    """
    from envbench.experiments.check.stages import overall

    differences = outcome.package_differences
    found, advisory = overall(verdicts), " (advisory)" if against else ""
    if as_json:
        click.echo(document(outcome.plan, verdicts, differences, against))
    else:
        click.echo(_table(verdicts, "simple"))
        click.echo(f"{found}{advisory}: {MEANS[found]}.")
    for each in verdicts:
        for arm, failure in each.failures.items():
            tell(f"{name_of(each.cell)}: the {arm} failed in {failure.phase!r}: {failure.message}")
            if failure.hint:
                tell(f"  {failure.hint}")
            for line in printable(failure.stderr_tail).splitlines()[-15:]:
                tell(f"  | {line}")
    if against:
        tell(_advice(against))
    tell(f"Recorded in {outcome.path}.")
    if summary is not None:
        _add(summary, markdown(outcome.plan, verdicts, differences, against))
    return exit_code(verdicts)


def _advice(against: Path) -> str:
    return (
        f"Advisory: {printable(str(against))} was measured at another time, and a machine can "
        "change in ways that a reference kernel does not show. To be sure, compare both sides in "
        "one run: --baseline, --baseline-python, --baseline-ref."
    )


def _add(summary: Path, text: str) -> None:
    """Where a summary cannot be written, the verdict stands."""
    try:
        with summary.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        tell(f"Warning: {summary} cannot be written: {error.strerror}.")


def document(
    plan: Plan,
    verdicts: Sequence[CellVerdict],
    differences: Mapping[str, Sequence[str]],
    against: Path | None = None,
) -> str:
    """The verdicts as one JSON document."""
    from envbench.engine.pairs import design_of
    from envbench.experiments.check.stages import overall

    return _json(
        {
            "schema": SCHEMA,
            **({"advisory": True, "against": str(against)} if against else {}),
            "check": plan.plan_id,
            "verdict": overall(verdicts),
            **{arm.name: _arm_json(plan, arm) for arm in plan.arms},
            "pairs": design_of(plan).pairs,
            "differences": differences,
            "cells": [
                {
                    **_identity(each.cell),
                    "verdict": each.verdict,
                    "slower": each.slower,
                    "stages": each.stages,
                    "failures": each.failures,
                    "spoilt": each.invalid,
                }
                for each in verdicts
            ],
        }
    )


def markdown(
    plan: Plan,
    verdicts: Sequence[CellVerdict],
    differences: Mapping[str, Sequence[str]],
    against: Path | None = None,
) -> str:
    """For a pull request's page."""
    from envbench.engine.pairs import design_of
    from envbench.experiments.check.stages import overall
    from envbench.model import Rule

    found, design = overall(verdicts), design_of(plan)
    if against:
        return (
            f"### envbench check: {found} (advisory)\n\n{_plain(_advice(against))}\n\n"
            f"{_table(verdicts, 'github')}\n"
        )
    rule = design.rule or Rule()
    arms = " → ".join(arm.source for arm in plan.arms)
    return (
        f"### envbench check: {found}\n\n{_plain(arms)}: {MEANS[found]}.\n\n"
        f"{_table(verdicts, 'github')}\n\n"
        f"{design.pairs} pairs of processes per cell and stage; margin {_percent(rule.margin)}, "
        f"tolerance {_percent(rule.tolerance)}, costs {_percent(rule.cost_tolerance)}.\n"
        + "".join(
            f"\n{_plain(name)}: {_plain(', '.join(each))}\n"
            for name, each in differences.items()
            if each
        )
    )


def _arm_json(plan: Plan, arm: Arm) -> dict[str, str]:
    """``worker`` is the hash of all the code that the arm's workers load."""
    from envbench.model import digest

    own = {key: code for key, code in plan.code.items() if key.startswith(f"{arm.name}/")}
    return {"source": arm.source, "worker": digest(sorted(own.values())), "place": arm.place}


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
    notes = [f"{name} ×{1 / last[name].ratio:.2f}" for name in beside if name in last]
    differ = _differ(last)
    if differ:
        notes.append("a slower usual pace, but not slower in all")
    for name in ("all steps",) if differ else ("steps", "all steps"):
        if name in last and last[name].verdict == "INCONCLUSIVE":
            notes.append(f"{name}: could have seen a slowdown of {_percent(last[name].detectable)}")
    for name, stage in last.items():
        if name not in ("steps", "all steps") and stage.detectable > UNSEEN:
            notes.append(
                f"{name}: only ×{1 / max(1e-3, 1 - stage.detectable):.1f} could have been seen"
            )
    if len(found.stages) == 2 and found.verdict != "REGRESSION":
        notes.append("an alarm that did not repeat")
    notes += [f"invalid slices ({reason}): {count}" for reason, count in found.invalid.items()]
    return ", ".join(notes)


def _differ(last: dict[str, Stage]) -> bool:
    """Did all steps speak against an alarm of the usual pace?"""
    steps, every = last["steps"], last.get("all steps")
    return every is not None and steps.verdict == "INCONCLUSIVE" and steps.high < every.interval[0]


def _identity(cell: Cell) -> dict[str, Any]:
    names = ("machine", "env", "task", "backend", "numenv", "env_instances", "settings")
    return {name: getattr(cell, name) for name in names}


def _task(cell: Cell) -> str:
    return f"{cell.env} {cell.task}"


def _plain(text: str) -> str:
    """A stranger's text in a Markdown table."""
    from envbench.report.escape import markdown as escaped

    return escaped(text)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value)).decode()
