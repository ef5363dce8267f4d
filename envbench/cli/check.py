"""``envbench check``: did it get slower? A baseline and a candidate that step alternately.

Exit codes: 0 where every cell passes or is faster, 1 for a regression or a broken arm, 2 for wrong
usage, 3 where an arm cannot be made here, 4 where it stayed inconclusive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from envbench.cli import tell
from envbench.cli.option_types import Number, Seconds
from envbench.cli.options import (
    AS_JSON,
    CHECKED_BACKENDS,
    CHECKED_FAMILY,
    CHECKED_NUMENV,
    cells_asked,
    measuring,
)
from envbench.errors import UsageError

if TYPE_CHECKING:
    from envbench.engine.experiment import Options
    from envbench.engine.request import CellRequest
    from envbench.engine.session import Outcome
    from envbench.experiments.check.stages import CheckExperiment
    from envbench.model import Failure

Command = Callable[..., None]
_SHARE = Number(0.0005, 0.5)


def _arm_options(name: str, what: str) -> Callable[[Command], Command]:
    """The three ways to say what an arm is."""
    options = [
        click.option(
            f"--{name}",
            metavar="REQUIREMENT",
            multiple=True,
            help=f"{what}: with this in it, such as envpool==1.2.4, or a wheel. Repeatable.",
        ),
        click.option(
            f"--{name}-python",
            metavar="PATH",
            help=f"{what}: this interpreter, with what is in it.",
        ),
        click.option(
            f"--{name}-ref",
            metavar="REF",
            help=f"{what}: the project of this git working tree at a branch, tag or commit.",
        ),
    ]

    def decorate(command: Command) -> Command:
        return reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


@click.command()
@_arm_options("baseline", "The old side")
@_arm_options("candidate", "The new side")
@cells_asked(CHECKED_FAMILY, CHECKED_BACKENDS, CHECKED_NUMENV)
@click.option(
    "--margin",
    type=_SHARE,
    default=0.01,
    show_default=True,
    help="A slowdown up to this share does not count.",
)
@click.option(
    "--tolerance",
    type=_SHARE,
    default=0.05,
    show_default=True,
    help="PASS rules out a slowdown of this share, and of all steps four times as much.",
)
@click.option(
    "--cost-tolerance",
    type=Number(0.01, 10),
    default=0.25,
    show_default=True,
    help="How much more start-up, first step, resets and memory may cost.",
)
@click.option(
    "--false-alarm",
    type=Number(1e-6, 0.1),
    default=0.001,
    show_default=True,
    help="Chance of a false alarm of the steps per stage, one-sided; of costs ten times that.",
)
@click.option(
    "--pairs",
    type=click.IntRange(5, 1000),
    help="Pairs of fresh processes per cell and stage.  [default: 13, or by --budget]",
)
@click.option(
    "--budget",
    type=Seconds(10, 86400),
    metavar="SECONDS",
    help="As many pairs as fit into this time, where no alarm is raised.",
)
@click.option(
    "--precise", is_flag=True, help="As many pairs as find a slowdown of 2 %, at most 130."
)
@click.option(
    "--against",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A stored baseline (`envbench baseline save`) of this machine: advice only.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and end.")
@click.option(
    "--summary",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="GITHUB_STEP_SUMMARY",
    help="Add the verdicts to this file as Markdown.  [default: GitHub's step summary]",
)
@measuring()
@AS_JSON
def check(
    cells: CellRequest,
    options: Options,
    baseline: tuple[str, ...],
    baseline_python: str | None,
    baseline_ref: str | None,
    candidate: tuple[str, ...],
    candidate_python: str | None,
    candidate_ref: str | None,
    margin: float,
    tolerance: float,
    cost_tolerance: float,
    false_alarm: float,
    pairs: int | None,
    budget: float | None,
    precise: bool,
    against: Path | None,
    only_plan: bool,
    summary: Path | None,
    as_json: bool,
) -> None:
    """Did it get slower? Baseline and candidate step alternately, in pairs of fresh processes.

    \b
    envbench check --baseline envpool==1.2.4 --candidate envpool==1.2.5 --backend envpool-sync \\
        --env atari --numenv 8
    envbench check --baseline-python old/bin/python --candidate-python new/bin/python
    envbench check --baseline-ref main

    A side that is not named is the current interpreter; beside a git ref, the working tree (the
    files that git knows). Without --env, --backend and --numenv the profile's cells under `check`
    are compared. The same command resumes a check that was stopped.
    """
    from envbench.cli.conduct import conduct
    from envbench.cli.verdicts import show, show_plan
    from envbench.engine.session import site_of
    from envbench.experiments.check.arms.sources import Source
    from envbench.experiments.check.size import Size
    from envbench.experiments.check.stages import CheckExperiment
    from envbench.model import Rule

    if tolerance <= margin:
        raise click.UsageError("--tolerance has to be greater than --margin.")
    if sum(value not in (None, False) for value in (pairs, budget, precise)) > 1:
        raise click.UsageError("--pairs, --budget and --precise exclude each other.")
    _check_summary(summary)
    rule = Rule(
        margin=margin,
        tolerance=tolerance,
        cost_tolerance=cost_tolerance,
        false_alarm=false_alarm,
    )
    experiment = CheckExperiment(
        cells=cells,
        baseline=Source.given(baseline_python, baseline, baseline_ref),
        candidate=Source.given(candidate_python, candidate, candidate_ref),
        rule=rule,
        size=Size(pairs=pairs, budget=budget, precise=precise),
    )
    if against is not None:
        _refuse_beside_against(experiment, fresh=options.fresh, only_plan=only_plan)
        _against(experiment, options, against, as_json=as_json, summary=summary)
    _check_sides(experiment)
    if only_plan:
        targets = experiment.choose(site_of(options)).targets
        planned = experiment.size.of(targets, rule)
        show_plan(targets, planned, experiment.sides, as_json=as_json)
        return
    shown = partial(show, as_json=as_json, summary=summary)
    conduct(experiment, options, lambda outcome: shown(outcome, outcome.findings))


# ---------------------------------------------------------------- what is refused beforehand


def _check_summary(path: Path | None) -> None:
    if path is None:
        return
    place = path if path.exists() else path.absolute().parent
    if not os.access(place, os.W_OK):
        raise UsageError(
            f"--summary: {path} cannot be written.", hint="Its folder has to exist already."
        )


def _check_sides(experiment: CheckExperiment) -> None:
    """Refuse what cannot be an arm, and say what may surprise."""
    from envbench.experiments.check.arms.git_tree import WORKING_TREE
    from envbench.experiments.check.arms.sources import refuse_impossible

    sides = experiment.sides
    for name, source in sides.items():
        if source.python and (source.ref or source.requirements):
            raise click.UsageError(f"--{name}-python is taken as it is: nothing is installed.")
    for name, source in sides.items():
        refuse_impossible(name, source)
    if WORKING_TREE in [source.ref for source in sides.values()]:
        _note_untracked()
    if len({str(source) for source in sides.values()}) == 1:
        tell("Note: both sides are the same, so the result shows only this machine's noise.")


def _note_untracked() -> None:
    from envbench.experiments.check.arms.git_tree import untracked
    from envbench.text import printable

    if left_out := untracked():
        shown = ", ".join(map(printable, left_out[:3])) + (", …" if len(left_out) > 3 else "")
        tell(f"Note: untracked files are not included: {shown}. Add them with git add.")


def _refuse_beside_against(experiment: CheckExperiment, *, fresh: bool, only_plan: bool) -> None:
    from envbench.experiments.check.arms.sources import Source

    named: list[Source] = [experiment.baseline, experiment.candidate]
    if any(source != Source() for source in named):
        raise click.UsageError("--against cannot be combined with --baseline or --candidate.")
    if experiment.cells.settings or fresh:
        raise click.UsageError("--against measures the file's cells anew, with their settings.")
    if only_plan or experiment.size.precise:
        raise click.UsageError(
            "--against cannot promise what it finds: it does not know how the machine has changed "
            "since. --plan and --precise are for two sides in one run."
        )


def _against(
    experiment: CheckExperiment, options: Options, old: Path, *, as_json: bool, summary: Path | None
) -> NoReturn:
    """Compare with figures of another time: advice, and said to be that."""
    from envbench.cli.conduct import conduct
    from envbench.cli.verdicts import show
    from envbench.experiments.check import against
    from envbench.machine import fingerprint

    then = against.read(old, experiment.cells, fingerprint(), tell)
    anew = against.anew(then, experiment.rule, experiment.size)

    def show_advice(outcome: Outcome[dict[str, Failure]]) -> int:
        verdicts = against.verdicts(outcome, then, experiment.rule)
        return show(outcome, verdicts, against=old, as_json=as_json, summary=summary)

    conduct(anew, options, show_advice)
