"""What ``envbench check`` shows: its plan; its verdicts as a table, as JSON and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from envbench.backends import row_label
from envbench.cli.terminal import cell_name, clock, percent, print_json, table, tell, tell_failure
from envbench.decisions.slowdown import Stage, Stages, alarms
from envbench.engine.availability import package_differences
from envbench.engine.campaign import Campaign
from envbench.engine.target import Target
from envbench.errors import CELL_FAILED, INCONCLUSIVE
from envbench.experiments.check.sources import Source
from envbench.experiments.check.stages import CellVerdict, Sizes, overall
from envbench.model import ArmFact, Cell, PairsDesign, Plan, Rule, digest, fields
from envbench.text import counted, listed, printable
from envbench.text import markdown as as_markdown

Verdicts = Sequence[CellVerdict]
Differences = Mapping[str, Sequence[str]]  # of packages, by backend

SCHEMA = 1
HEADS = ("task", "backend", "numenv")
IDENTITY = "machine env task backend numenv env_instances settings"
LONGEST_NOTE = 4000  # letters of a text in the summary of a pull request
OFTEN = 1000  # an episode in so many steps: its reset may matter
UNSEEN, USELESS = 0.5, 0.9  # shares of speed lost if a cost doubles, and if it grows tenfold
MEANS: dict[str, str] = {
    "PASS": "the usual pace did not slow down by the tolerance or more",
    "REGRESSION": "steps are slower by more than the margin, or a cost grew by more than it may",
    "IMPROVEMENT": "faster by more than the margin",
    "INCONCLUSIVE": "neither a slowdown nor its absence is certain: use more pairs "
    "(`--pairs`), or a quieter machine (`envbench doctor`)",
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
    rows = [[*_row_heads(cell), percent(share)] for cell, share in found]
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
        return [f"{verdict}: {first}", *others]
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
                **fields(each, "verdict slower stages failures steps resets"),
                **fields(each, "compared different engines"),
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
        f"{design.pairs} pairs of processes per cell and stage; margin {percent(rule.margin)}, "
        f"tolerance {percent(rule.tolerance)}, costs {percent(rule.cost_tolerance)}.\n"
        + "".join(
            f"\n{escaped(name)}: {escaped(', '.join(each))}\n"
            for name, each in differences.items()
            if each
        )
    )


def sentences(plan: Plan, verdicts: Verdicts) -> list[str]:
    """What was found, a sentence per cell: about the only one, and about each that did not pass.
    If all of several passed, about the slowest. An alarm that did not repeat has a sentence of its
    own."""
    rule, made = plan.design_as(PairsDesign).rule or Rule(), []
    for each in verdicts:
        name = _place(each.cell)
        if each.stages and (len(verdicts) == 1 or each.verdict != "PASS"):
            other = ", and its results differ (see below)" if each.different else ""
            made.append(f"{name}: {_found(each, rule)}{other}.")
        other_pace = each.verdict == "IMPROVEMENT" or {"steps", "all steps"} & {*each.slower}
        if other_pace and each.resets * OFTEN > each.steps:
            made.append(
                f"{name}: these steps contain the automatic resets of "
                f"{counted(each.resets, 'episode')}, so a change of `step` or `reset` alone is "
                "another percentage."
            )
        if each.different and plan.sides_are_one:
            made.append(
                f"{name}: the results of both sides differ at the end of {each.different:,} of the "
                f"{each.compared:,} slices, although they are the same code: the task is not "
                "reproducible by its seed."
            )
        elif each.different:
            made.append(
                f"{name}: the candidate's observations, rewards or ends differ from the baseline's "
                f"at the end of {each.different:,} of the {each.compared:,} slices, with the same "
                "seed and actions. Either it does other work, perhaps with another version of an "
                "engine that reports none, or the task is not reproducible by its seed."
            )
        if len(each.stages) == 2 and each.verdict != "REGRESSION":
            made.append(f"{name}: {_not_repeated(*each.stages)}")
    if len(verdicts) > 1 and all(each.verdict == "PASS" for each in verdicts):
        slowest = min(verdicts, key=lambda each: each.stages[-1]["steps"].ratio)
        changed = _changed("steps", slowest.stages[-1]["steps"])
        made.append(f"{_place(slowest.cell)} (the slowest of {len(verdicts)} cells): {changed}.")
    return made


def _place(cell: Cell) -> str:
    """``On Pong-v5, For-loop at 1 environment``"""
    label = row_label(cell.backend, cell.variant)
    return f"On {cell.task}, {label} at {counted(cell.numenv, 'environment')}"


def _not_repeated(first: Stages, last: Stages) -> str:
    """Why an alarm of stage one did not count, or left the verdict open."""
    once, again = (sorted(alarms(each), key=list(each).index) for each in (first, last))
    found = listed([_changed(each, first[each]) for each in once])
    repeated = listed([_changed(each, last[each]) for each in once if each in last])
    second = f"Stage two, with as many fresh pairs and the arms exchanged: {repeated or 'unknown'}."
    if again:
        other = listed([_changed(each, last[each]) for each in again])
        return f"the two stages had different alarms. Stage one: {found}. Stage two: {other}."
    if not set(once) <= set(last):
        return f"an alarm could not be measured again. Stage one: {found}. {second}"
    return f"an alarm did not repeat, so it does not count. Stage one: {found}. {second}"


def _found(found: CellVerdict, rule: Rule) -> str:
    last = found.stages[-1]
    if found.verdict == "PASS":
        ruled_out = f"no slowdown of the usual pace by {percent(rule.tolerance)} or more"
        return f"{ruled_out}: {_changed('steps', last['steps'])}"
    if found.verdict == "REGRESSION":
        redundant = {"all steps"} if "steps" in found.slower else set()
        return listed(
            [_changed(each, last[each]) for each in found.slower if each not in redundant]
        )
    if found.verdict == "INCONCLUSIVE":
        open_ones = [name for name, each in last.items() if each.verdict == "INCONCLUSIVE"]
        return "undecided: " + listed([_changed(e, last[e]) for e in open_ones or ["steps"]])
    return _changed("steps", last["steps"])


def _changed(name: str, stage: Stage) -> str:
    """``steps are about 12 % slower (10 to 13 %)``, ``memory is 1.50 times the baseline's (1.42 to
    1.58)``: with the 95 % interval."""
    if name not in ("steps", "all steps"):
        most, least = (1 / max(each, 1e-9) for each in stage.interval)
        return f"{name} is {1 / stage.ratio:.2f} times the baseline's ({least:.2f} to {most:.2f})"
    least, most = 1 - stage.interval[1], 1 - stage.interval[0]  # slower by
    shown = f"{name} are about {_share(1 - stage.ratio)}"
    if least <= 0 <= most:
        return f"{shown} ({_share(most)} to {_share(least)})"
    ends = sorted([least, most], key=abs)
    low, high = (_percentage(each) for each in ends)
    if low == high:  # a narrow interval needs more digits
        low, high = (_percentage(each, more=1) for each in ends)
    return f"{shown} ({low} to {high} %)"


def _share(slower: float) -> str:
    """``12 % slower``, ``0.4 % faster``."""
    return f"{_percentage(slower)} % {'slower' if slower > 0 else 'faster'}"


def _percentage(slower: float, more: int = 0) -> str:
    return f"{100 * abs(slower):.{more + (abs(slower) < 0.1)}f}"


def _part(found: CellVerdict) -> str:
    """Which part of an episode the slices saw."""
    if not found.resets:
        return "no episode ended, so the steps contain no reset"
    return f"{counted(found.resets, 'episode')} ended in {found.steps:,} steps (both arms)"


def _work(found: CellVerdict) -> str:
    """Do both arms the same work?"""
    if not found.compared:
        return ": ".join(filter(None, ["work not compared", " and ".join(found.engines)]))
    if found.different:
        return f"other results at the end of {found.different:,} of {found.compared:,} slices"
    return f"equal results after each of {found.compared:,} slices"


def _arm_json(plan: Plan, arm: ArmFact) -> dict[str, str]:
    """An arm for the document. ``worker`` is the hash of all code that its workers load."""
    own = {key: code for key, code in plan.code.items() if key.startswith(f"{arm.name}/")}
    return {"source": arm.source, "worker": digest(sorted(own.values())), "place": arm.place}


def _table(verdicts: Verdicts, escape: Callable[[str], str] = str, tablefmt: str = "simple") -> str:
    heads = ["verdict", "steps, candidate / baseline", "95 %", "all steps", "notes"]
    rows = [[escape(str(text)) for text in _row(each)] for each in verdicts]
    return table(rows, [*HEADS, *heads], tablefmt=tablefmt)


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
    beside = found.slower[1:] if found.slower[:1] == ["steps"] else found.slower
    notes = [f"{name} ×{1 / last[name].ratio:.2f}" for name in beside if name in last]
    steps, every = last["steps"], last.get("all steps")
    differ = every and steps.verdict == "INCONCLUSIVE" and steps.high < every.interval[0]
    if differ:
        notes.append("the usual pace is slower, all steps together are not")
    for name, stage in last.items():
        if stage.verdict == "INCONCLUSIVE" and not (differ and name == "steps"):
            finds = f"smallest detectable slowdown {percent(stage.detectable)}"
        elif name not in ("steps", "all steps", *found.slower) and stage.detectable > UNSEEN:
            growth = 1 / max(1 - USELESS, 1 - stage.detectable)
            finds = f"only growth to {growth:.1f} times or more would be found"
        else:
            continue
        noisy = f"too noisy to judge with {stage.pairs} pairs"
        notes.append(f"{name}: {noisy if stage.detectable > USELESS else finds}")
    notes += [_part(found), _work(found)] if found.steps else []
    notes += [f"invalid slices ({reason}): {count}" for reason, count in found.invalid.items()]
    return ", ".join(notes)


def _row_heads(cell: Cell) -> list[Any]:
    return [f"{cell.env} {cell.task}", cell.backend, cell.numenv]
