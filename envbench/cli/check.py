"""``envbench check``: did it get slower? A baseline and a candidate, stepping in turn.

Exit codes: 0 where every cell passes or is faster, 1 for a regression or a broken arm, 2 for wrong
usage, 3 where an arm cannot be made here, 4 where it stayed inconclusive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from envbench.cli.options import (
    AS_JSON,
    CHECKED_BACKENDS,
    CHECKED_FAMILY,
    CHECKED_NUMENV,
    MACHINE,
    RESULTS,
    SEED,
    SETTINGS,
    TASK,
    WAIT,
    Number,
    Seconds,
)

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
            default="",
            help=f"{what}: this interpreter, with what is in it.",
        ),
        click.option(
            f"--{name}-ref",
            metavar="REF",
            default="",
            help=f"{what}: the project of this git working tree at a branch, tag or commit.",
        ),
    ]

    def decorate(command: Command) -> Command:
        return reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


@click.command()
@_arm_options("baseline", "The old side")
@_arm_options("candidate", "The new side")
@CHECKED_FAMILY
@CHECKED_BACKENDS
@CHECKED_NUMENV
@TASK
@MACHINE
@SETTINGS
@click.option(
    "--margin",
    type=_SHARE,
    default=0.01,
    show_default=True,
    help="A slowdown up to this share is no regression.",
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
    help="Chance of a false alarm of the steps a stage, one-sided; of costs ten times that.",
)
@click.option(
    "--pairs",
    type=click.IntRange(5, 1000),
    help="Pairs of fresh processes a cell and stage.  [default: 13, or by --budget]",
)
@click.option(
    "--budget",
    type=Seconds(10, 86400),
    metavar="SECONDS",
    help="As many pairs as fit into this time, where no alarm is raised.",
)
@click.option(
    "--fresh", is_flag=True, help="Begin anew, even where such a check was left unfinished."
)
@click.option(
    "--against",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A stored baseline (`envbench baseline save`) of this machine: advice only.",
)
@click.option(
    "--precise", is_flag=True, help="As many pairs as find a slowdown of 2 %, 130 at most."
)
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and end.")
@click.option(
    "--summary",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="GITHUB_STEP_SUMMARY",
    help="Add the verdicts to this file as Markdown.  [default: GitHub's step summary]",
)
@SEED
@RESULTS
@WAIT
@AS_JSON
def check(**given: Any) -> None:
    """Did it get slower? Baseline and candidate step in turn, in pairs of fresh processes.

    \b
    envbench check --baseline envpool==1.2.4 --candidate envpool==1.2.5 --backend envpool-sync \\
        --env atari --numenv 8
    envbench check --baseline-python old/bin/python --candidate-python new/bin/python
    envbench check --baseline-ref main

    A side that is not named is the current interpreter; beside a git ref, the working tree (the
    files that git knows). Without --env, --backend and --numenv the profile's cells under `check`
    are compared. The same command goes on with a check that was stopped.
    """
    from envbench.cli.checks import Checking

    sys.exit(Checking(given).carry_out())
