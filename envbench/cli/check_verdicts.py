"""What ``envbench check`` shows: its plan; its verdicts as a table, as JSON and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from envbench.cli.check_sentences import part, sentences, work
from envbench.cli.terminal import (
    cell_name,
    clock,
    print_json,
    share_text,
    table,
    tell,
    tell_failure,
)
from envbench.decisions.slowdown import Stage
from envbench.engine.availability import package_differences
from envbench.engine.campaign import Campaign
from envbench.engine.target import Target
from envbench.errors import CELL_FAILED, INCONCLUSIVE
from envbench.experiments.check.cells import Sizes
from envbench.experiments.check.sources import Source
from envbench.experiments.check.verdicts import CellVerdict, overall
from envbench.model import ArmFact, Cell, PairsDesign, Plan, Rule, digest, fields
from envbench.text import counted, printable
from envbench.text import markdown as as_markdown

Verdicts = Sequence[CellVerdict]
Differences = Mapping[str, Sequence[str]]  # of packages, by backend

SCHEMA = 1
HEADS = ("task", "backend", "numenv")
IDENTITY = "machine env task backend numenv env_instances settings"
LONGEST_NOTE = 4000  # letters of a text in the summary of a pull request
UNSEEN, USELESS = 0.5, 0.9  # shares of speed lost if a cost doubles, and if it grows tenfold
MORE = "use more pairs (`--pairs`), or a quieter machine (`envbench doctor`)"
MEANS: dict[str, str] = {
    "PASS": "the usual pace did not slow down by the tolerance or more",
    "REGRESSION": "steps are slower by more than the margin, or a cost grew by more than "
    "`--cost-tolerance`",
    "IMPROVEMENT": "the steps are faster by more than the margin",
    "INCONCLUSIVE": f"neither a slowdown nor its absence is certain: {MORE}",
    "BROKEN": "the baseline or the candidate failed",
}
EXIT_CODES = {"REGRESSION": CELL_FAILED, "BROKEN": CELL_FAILED, "INCONCLUSIVE": INCONCLUSIVE}


# ---------------------------------------------------------------- the plan


def show_plan(
    targets: Sequence[Target], planned: Sizes, sides: Mapping[str, Source], *, as_json: bool
) -> None:
    """Show what would be measured, and how small a slowdown that would find."""
    found = [(each.cell, planned.detectable[each.cell.key]) for each in targets]
    sources = {name: str(source) for name, source in sides.items()}
    if as_json:
        cells = [{**fields(cell, IDENTITY), "detectable": share} for cell, share in found]
        sizes = fields(planned, "pairs seconds")
        print_json({"schema": SCHEMA, **sources, **sizes, "cells": cells})
        return
    rows = [[*_row_heads(cell), share_text(share)] for cell, share in found]
    for name, source in sources.items():
        click.echo(f"{name + ':':10} {printable(source)}")
    click.echo(
        f"{planned.pairs} pairs per cell, about {clock(planned.seconds)} for "
        f"{counted(len(found), 'cell')}; a cell with an alarm takes twice as long.\n\n"
        f"{table(rows, [*HEADS, 'finds a slowdown of'])}\n\n"
        "(in 95 of 100 checks, if pairs vary as on the machine of docs/check.md; "
        "`envbench doctor` measures how they vary here)"
    )


# ---------------------------------------------------------------- verdicts


def show(
    outcome: Campaign[Any],
    verdicts: Verdicts,
    *,
    against: Path | None = None,
    as_json: bool,
    summary: Path | None,
) -> int:
    """Show the verdicts on stdout and append them to ``summary``. Returns the exit code.

    ``against``: the stored baseline that they were compared with; then they are only advice.
    """
    differences = package_differences(outcome.arms)
    if as_json:
        print_json(document(outcome.plan, verdicts, differences, against))
    else:
        said = _said(outcome.plan, verdicts, against)
        click.echo("\n".join([*map(printable, said), "", _table(verdicts)]))
    for each in verdicts:
        for arm, failure in each.failures.items():
            title = f"{cell_name(each.cell)}: the {arm} failed in {failure.phase!r}: "
            tell_failure(title, failure)
    if against:
        tell(_advice(against))
    tell(f"Recorded in {outcome.journal.path}.")
    if summary is not None:
        _append(summary, markdown(outcome.plan, verdicts, differences, against))
    return EXIT_CODES.get(overall(verdicts), 0)


def _said(plan: Plan, verdicts: Verdicts, against: Path | None) -> list[str]:
    """The verdict in a sentence, followed by the others. Of a single cell: ``REGRESSION: On
    Pong-v5, For-loop at 1 environment: steps are about 12 % slower (10 to 13 %).``"""
    found = overall(verdicts)
    verdict = f"{found}{' (advisory)' if against else ''}"
    first, *others = sentences(plan, verdicts) or [""]
    if len(verdicts) == 1 and verdicts[0].stages:
        todo = [f"To decide it, {MORE}."] if found == "INCONCLUSIVE" else []
        return [f"{verdict}: {first}", *todo, *others]
    failed = {arm for each in verdicts for arm in each.failures}
    if found == "BROKEN" and len(failed) == 1:
        return [f"{verdict}: the {failed.pop()} failed.", *([first] if first else []), *others]
    count = sum(each.verdict == found for each in verdicts)
    of = f"{count} of {counted(len(verdicts), 'cell')}: " if count < len(verdicts) else ""
    return [f"{verdict}: {of}{MEANS[found]}.", *([first] if first else []), *others]


def _advice(against: Path) -> str:
    return (
        f"Advisory: {printable(str(against))} was measured at another time, and a machine can "
        "change in ways that a reference kernel does not show. To be sure, measure baseline and "
        "candidate in one run: --baseline, --baseline-python, --baseline-ref."
    )


def _append(summary: Path, text: str) -> None:
    """Append the verdict. A file that cannot be written (a pipe without a reader) is a warning."""
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        with open(os.open(summary, flags, 0o666), "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        tell(f"Warning: {summary} cannot be written: {error.strerror}.")


def document(
    plan: Plan, verdicts: Verdicts, differences: Differences, against: Path | None = None
) -> dict[str, Any]:
    """The ``--json`` document (docs/json.md)."""
    stored = {"advisory": True, "against": str(against)} if against else {}
    return {
        "schema": SCHEMA,
        **stored,
        "check": plan.plan_id,
        "verdict": overall(verdicts),
        "sentences": _said(plan, verdicts, against),
        **{arm.name: _arm_json(plan, arm) for arm in plan.arms},
        "pairs": plan.design_as(PairsDesign).pairs,
        "differences": differences,
        "cells": [
            {
                **fields(each.cell, IDENTITY),
                **fields(each, "verdict slower stages failures steps resets ended"),
                **fields(each, "compared different parts parts_different each_step"),
                **fields(each, "differing engines"),
                "invalid": each.invalid,
            }
            for each in verdicts
        ],
    }


def markdown(
    plan: Plan, verdicts: Verdicts, differences: Differences, against: Path | None = None
) -> str:
    """The summary for the page of a pull request."""
    found, design = overall(verdicts), plan.design_as(PairsDesign)
    escaped = partial(as_markdown, limit=LONGEST_NOTE)
    figures = _table(verdicts, escaped, tablefmt="github")
    said = "".join(f"* {escaped(each)}\n" for each in sentences(plan, verdicts))
    figures = f"{said}\n{figures}" if said else figures
    if against:
        advice = escaped(_advice(against))
        return f"### envbench check: {found} (advisory)\n\n{advice}\n\n{figures}\n"
    rule = design.rule or Rule()
    arms = " → ".join(arm.source for arm in plan.arms)
    return (
        f"### envbench check: {found}\n\n{escaped(arms)}: {MEANS[found]}.\n\n{figures}\n\n"
        f"{design.pairs} pairs of processes per cell and stage; margin {share_text(rule.margin)}, "
        f"tolerance {share_text(rule.tolerance)}, costs {share_text(rule.cost_tolerance)}.\n"
        + "".join(
            f"\n{escaped(name)}: {escaped(', '.join(each))}\n"
            for name, each in differences.items()
            if each
        )
    )


def _arm_json(plan: Plan, arm: ArmFact) -> dict[str, str]:
    """An arm for the document. ``worker`` is the hash of all code that its workers load."""
    own = {key: code for key, code in plan.code.items() if key.startswith(f"{arm.name}/")}
    return {"source": arm.source, "worker": digest(sorted(own.values())), "place": arm.place}


def _table(verdicts: Verdicts, escape: Callable[[str], str] = str, **style: Any) -> str:
    heads = ["verdict", "steps, candidate / baseline", "95 %", "all steps", "notes"]
    rows = [[escape(str(text)) for text in _row(each)] for each in verdicts]
    return table(rows, [*HEADS, *heads], **style)


def _row(found: CellVerdict) -> list[Any]:
    what = [*_row_heads(found.cell), found.verdict]
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
    beside = [name for name in found.slower if name in last and name not in ("steps", "all steps")]
    notes = [f"{name} ×{1 / last[name].ratio:.2f}" for name in beside]
    steps, every = last["steps"], last.get("all steps")
    differ = every and steps.verdict == "INCONCLUSIVE" and steps.high < every.interval[0]
    if differ:
        notes.append("the usual pace is slower, all steps together are not")
    for name, stage in last.items():
        if stage.verdict == "INCONCLUSIVE" and not (differ and name == "steps"):
            finds = f"smallest detectable slowdown {share_text(stage.detectable)}"
        elif name not in ("steps", "all steps", *found.slower) and stage.detectable > UNSEEN:
            growth = 1 / max(1 - USELESS, 1 - stage.detectable)
            finds = f"only growth to {growth:.1f} times or more would be found"
        else:
            continue
        noisy = f"too noisy to judge with {stage.pairs} pairs"
        notes.append(f"{name}: {noisy if stage.detectable > USELESS else finds}")
    notes += [part(found), work(found)] if found.steps else []
    notes += [f"invalid slices ({reason}): {count}" for reason, count in found.invalid.items()]
    return ", ".join(notes)


def _row_heads(cell: Cell) -> list[Any]:
    return [f"{cell.env} {cell.task}", cell.backend, cell.numenv]
