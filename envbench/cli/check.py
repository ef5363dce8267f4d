"""``envbench check``: find out whether a change made environments slower.

Exit codes: 0 where every cell passes or is faster, 1 for a regression or a broken arm, 2 for wrong
usage, 3 where an arm cannot be made here, 4 for an inconclusive check.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from envbench.cli.check_output import show, show_plan
from envbench.cli.options import (
    AS_JSON,
    Option,
    checked_cells,
    flag,
    grouped,
    measuring_options,
    refuse_together,
    repeated,
    valued,
)
from envbench.cli.output import tell
from envbench.cli.parse import Number, Seconds
from envbench.cli.run_experiment import conduct
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.engine.session import site_of
from envbench.errors import UsageError
from envbench.experiments.check import baseline as stored
from envbench.experiments.check.arms.copies import WORKING_TREE, untracked
from envbench.experiments.check.arms.sources import Source, refuse_impossible
from envbench.experiments.check.stages import CheckExperiment, Size
from envbench.machine import fingerprint
from envbench.model import Failure, Rule
from envbench.text import printable


def _arm_options(arm: str, title: str) -> Option:
    """The three ways to choose an arm, as an argument with the arm's name: a ``Source``."""
    return grouped(
        arm,
        Source,
        repeated(
            f"--{arm}",
            str,
            "REQUIREMENT",
            f"{title}: install this, such as envpool==1.2.4 or a wheel. Repeatable.",
            f"{arm}_requirements",
            callback=lambda context, parameter, values: list(values),
        ),
        valued(f"--{arm}-python", str, "PATH", f"{title}: use this interpreter and its packages."),
        valued(
            f"--{arm}-ref",
            str,
            "REF",
            f"{title}: use the project in this git working tree at a branch, tag or commit.",
        ),
        prefix=f"{arm}_",
    )


def _share(name: str, low: float, high: float, default: float, text: str) -> Option:
    return valued(name, Number(low, high), "SHARE", text, default=default)


_RULE = grouped(
    "rule",
    Rule,
    _share("--margin", 0.0005, 0.5, 0.01, "Ignore a slowdown up to this share."),
    _share(
        "--tolerance", 0.0005, 0.5, 0.05,
        "PASS rules out a slowdown of this share (of the time of all steps: four times as much).",
    ),
    _share(
        "--cost-tolerance", 0.01, 10, 0.25,
        "How much more start-up, first step, resets and memory may cost.",
    ),
    _share(
        "--false-alarm", 1e-6, 0.1, 0.001,
        "One-sided chance of a false alarm per stage for the steps; costs have ten times as much.",
    ),
)  # fmt: skip
_SIZE = grouped(
    "size",
    Size,
    valued(
        "--pairs", click.IntRange(5, 1000), "N",
        "Pairs of fresh processes per cell and stage.  [default: 13, or by --budget]",
    ),
    valued(
        "--budget", Seconds(10, 86400), "SECONDS",
        "Use as many pairs as fit into this time if no alarm is raised.",
    ),
    flag("--precise", "Use as many pairs as find a slowdown of 2 %, at most 130."),
)  # fmt: skip
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@_arm_options("baseline", "The old side")
@_arm_options("candidate", "The new side")
@checked_cells()
@_RULE
@_SIZE
@valued(
    "--against",
    _FILE,
    "FILE",
    "Compare with a baseline that `envbench baseline save` stored on this machine. The verdict is "
    "only advice.",
)
@flag("--plan", "Show what would be measured, and exit.", "only_plan")
@valued(
    "--summary",
    _FILE,
    "FILE",
    "Append the verdicts to this file as Markdown.  [default: GitHub's step summary]",
    envvar="GITHUB_STEP_SUMMARY",
)
@measuring_options(runtimes=False)
@AS_JSON
def check(
    baseline: Source,
    candidate: Source,
    cells: CellRequest,
    rule: Rule,
    size: Size,
    options: Options,
    against: Path | None,
    only_plan: bool,
    summary: Path | None,
    as_json: bool,
) -> None:
    """Find out whether a change made environments slower.

    A baseline and a candidate step alternately, in pairs of fresh processes.

    \b
    envbench check --baseline envpool==1.2.4 --candidate envpool==1.2.5 --backend envpool-sync \\
        --env atari --numenv 8
    envbench check --baseline-python old/bin/python --candidate-python new/bin/python
    envbench check --baseline-ref main

    The default for each side is the current interpreter; next to a git ref, it is the working tree
    (tracked files only). By default, compare the cells that the profile lists under `check`. If you
    give --env, --backend, --numenv or --task, the others mean all. To resume a stopped check, give
    the same command again.
    """
    if rule.tolerance <= rule.margin:
        raise click.UsageError("--tolerance has to be greater than --margin.")
    refuse_together("--pairs", "--budget", "--precise")
    _check_summary(summary)
    experiment = CheckExperiment(
        cells=cells, baseline=baseline, candidate=candidate, rule=rule, size=size
    )
    if against is not None:
        _refuse_beside_against(experiment, fresh=options.fresh, only_plan=only_plan)
        _check_against(experiment, options, against, as_json=as_json, summary=summary)
    _check_sides(experiment)
    if only_plan:
        targets = experiment.choose(site_of(options)).targets
        planned = size.of(targets, rule)
        show_plan(targets, planned, experiment.sides, as_json=as_json)
        return
    shown = partial(show, as_json=as_json, summary=summary)
    conduct(experiment, options, lambda outcome: shown(outcome, outcome.findings))


# ---------------------------------------------------------------- wrong usage


def _check_summary(path: Path | None) -> None:
    if path is None:
        return
    place = path if path.exists() else path.absolute().parent
    if not os.access(place, os.W_OK):
        raise UsageError(
            f"--summary: {path} cannot be written.", hint="Its folder has to exist already."
        )


def _check_sides(experiment: CheckExperiment) -> None:
    """Refuse an arm that cannot be made; mention choices that may surprise."""
    sides = experiment.sides
    for name, source in sides.items():
        if source.python and (source.ref or source.requirements):
            raise click.UsageError(
                f"--{name}-python cannot be combined with --{name} or --{name}-ref: "
                "envbench installs nothing into it."
            )
    for name, source in sides.items():
        refuse_impossible(name, source)
    if any(source.ref == WORKING_TREE for source in sides.values()) and (left_out := untracked()):
        shown = ", ".join(map(printable, left_out[:3])) + (", …" if len(left_out) > 3 else "")
        tell(f"Note: untracked files are not included: {shown}. Add them with git add.")
    if len({str(source) for source in sides.values()}) == 1:
        tell("Note: both sides are the same, so the result shows only this machine's noise.")


def _refuse_beside_against(experiment: CheckExperiment, *, fresh: bool, only_plan: bool) -> None:
    named: list[Source] = [experiment.baseline, experiment.candidate]
    if any(source != Source() for source in named):
        raise click.UsageError("--against cannot be combined with --baseline or --candidate.")
    if experiment.cells.settings or fresh:
        raise click.UsageError(
            "--against cannot be combined with --set or --fresh: it always measures the file's "
            "cells afresh, with their settings."
        )
    if only_plan or experiment.size.precise:
        raise click.UsageError(
            "--against cannot be combined with --plan or --precise: the machine may have changed "
            "since the baseline was saved, so what the check can find is not known beforehand."
        )


def _check_against(
    experiment: CheckExperiment, options: Options, old: Path, *, as_json: bool, summary: Path | None
) -> NoReturn:
    """Compare with a stored baseline; the verdict is advice."""
    then = stored.read(old, experiment.cells, fingerprint(), tell)
    anew = stored.anew(then, experiment.rule, experiment.size)

    def show_advice(outcome: Campaign[dict[str, Failure]]) -> int:
        verdicts = stored.verdicts(outcome, then, experiment.rule)
        return show(outcome, verdicts, against=old, as_json=as_json, summary=summary)

    conduct(anew, options, show_advice)
