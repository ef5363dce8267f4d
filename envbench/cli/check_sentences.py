"""The sentences of ``envbench check``: what was found, which part of an episode, whose work."""

from __future__ import annotations

from collections.abc import Sequence

from envbench.backends import row_label
from envbench.cli.terminal import share_text
from envbench.decisions.slowdown import Stage, Stages, alarms
from envbench.experiments.check.verdicts import CellVerdict
from envbench.model import Cell, Plan
from envbench.text import counted, listed

OFTEN = 1000  # one episode in this many steps: its reset may matter


def sentences(plan: Plan, verdicts: Sequence[CellVerdict]) -> list[str]:
    """What was found, a sentence per cell: about the only one, and about each that did not pass.
    If all of several passed, about the slowest. An alarm that did not repeat has a sentence of its
    own, and so have cells whose work was not compared."""
    made = []
    for each in verdicts:
        name = _place(each.cell)
        if each.stages and (len(verdicts) == 1 or each.verdict != "PASS"):
            other = ", and the candidate's results differ (see below)" if each.differing else ""
            made.append(f"{name}: {_found(each)}{other}.")
        other_pace = each.verdict == "IMPROVEMENT" or {"steps", "all steps"} & {*each.slower}
        if other_pace and each.resets * OFTEN > each.steps:
            episodes = counted(each.resets, "episode")
            if each.ended:
                episodes = " and ".join(f"{n:,} ({arm})" for arm, n in each.ended.items())
                episodes += " episodes"
            made.append(
                f"{name}: the steps include the automatic resets of {episodes}. So a change in "
                "`step` or `reset` alone is a different percentage."
            )
        if each.differing and plan.sides_are_one:
            made.append(
                f"{name}: the results of both sides differ {_where(each)}, although they are the "
                "same code: the task is not reproducible by its seed."
            )
        elif each.differing:
            made.append(
                f"{name}: the candidate's {listed(each.differing)} differ from the baseline's "
                f"{_where(each)}, with the same seed and actions. Either it does other work "
                "(perhaps its engine has another version, which it does not report), or the task "
                "is not reproducible by its seed."
            )
        if len(each.stages) == 2 and each.verdict != "REGRESSION":
            made.append(f"{name}: {_not_repeated(*each.stages)}")
    if len(verdicts) > 1 and all(each.verdict == "PASS" for each in verdicts):
        slowest = min(verdicts, key=lambda each: each.stages[-1]["steps"].ratio)
        changed = _changed("steps", slowest.stages[-1]["steps"])
        made.append(f"{_place(slowest.cell)} (the slowest of {len(verdicts)} cells): {changed}.")
    uncompared: dict[str, list[str]] = {}
    for each in verdicts:
        if each.steps and not each.compared:
            uncompared.setdefault(work(each), []).append(_place(each.cell))
    return [*made, *(f"{listed(places)}: {why}." for why, places in uncompared.items())]


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


def _found(found: CellVerdict) -> str:
    last = found.stages[-1]
    if found.verdict == "PASS":
        slowdown = f"a slowdown of the usual pace by {share_text(found.tolerance)} or more"
        return f"{slowdown} is ruled out: {_changed('steps', last['steps'])}"
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
    same = not float(_percentage(1 - stage.ratio))
    shown = f"{name} are about {'as fast' if same else _share(1 - stage.ratio)}"
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


def part(found: CellVerdict) -> str:
    """Which part of an episode the slices saw."""
    if not found.resets:
        return "no episode ended, so the steps contain no reset"
    if not found.ended:
        return f"{counted(found.resets, 'episode')} ended in {found.steps:,} steps"
    both = " + ".join(f"{count:,}" for count in found.ended.values())
    return f"{both} episodes ended in {found.steps:,} steps (baseline + candidate)"


def work(found: CellVerdict) -> str:
    """Do both arms the same work?"""
    if not found.compared:
        why = f"the arms have {' and '.join(found.engines)}" if found.engines else found.uncompared
        return f"results not compared ({why})" if why else "results not compared"
    if found.differing:
        return f"other results {_where(found)}"
    more = f" and in each of {found.each_step:,} more steps" if found.each_step else ""
    return f"equal results after each of {found.compared:,} slices{more}"


def _where(found: CellVerdict) -> str:
    """Where the results differ."""
    slices = f"at the end of {found.different:,} of {found.compared:,} slices"
    parts = f"in {found.parts_different:,} of {counted(found.parts, 'part')}"
    parts += " in which each step was compared"
    places = [slices if found.different else "", parts if found.parts_different else ""]
    return " and ".join(filter(None, places))
