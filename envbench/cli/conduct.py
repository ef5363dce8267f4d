"""Carry out an experiment for a command, show its outcome, and choose the exit code.

Every measuring command ends in ``conduct``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from envbench.backends import plugin_warnings
from envbench.cli.progress import Display
from envbench.cli.terminal import tell, warn
from envbench.engine.campaign import Campaign
from envbench.engine.carry_out import carry_out
from envbench.engine.experiment import Experiment, Findings, Options
from envbench.errors import UNAVAILABLE, EnvbenchError
from envbench.machine import catalogue
from envbench.model import Cell
from envbench.text import counted


def conduct(
    experiment: Experiment[Findings],
    options: Options,
    show: Callable[[Campaign[Findings]], int],
    *,
    partly: bool = False,
    refuses: Callable[[Cell], bool] = lambda _: False,
) -> NoReturn:
    """Carry out the experiment, show its outcome, and exit.

    ``show`` returns the exit code. With ``partly`` it also shows the blocks that were made before
    the experiment was stopped. If ``refuses`` is true for a cell, its figures are not shown. A
    caller may pass an executor of blocks as click's ``obj`` (the tests have one with a virtual
    clock).
    """
    warn_of_left_out(options)

    def show_all(outcome: Campaign[Findings]) -> int:
        if outcome.stopped is not None:
            done, pause = len(outcome.done), experiment.longest_pause_s
            of = f"{done} of {counted(done + outcome.left, experiment.unit)}"
            until = f" within {pause / 60:.0f} minutes" if pause else ""
            again = f"The same command resumes from here{until}."
            tell(f"Stopped: {of} in {outcome.journal.path}. {again}")
            if partly:
                show(outcome)
            return outcome.stopped.exit_code
        if getattr(sys.stdout, "name", os.devnull) == os.devnull:  # the shell closed it: ``>&-``
            raise EnvbenchError("stdout is closed.", hint="Run it again with stdout open.")
        code = show(outcome)
        return UNAVAILABLE if outcome.unavailable and experiment.named else code

    executor: Any = click.get_current_context().find_object(object)
    display = Display(refuses, yes=options.yes)
    try:
        sys.exit(carry_out(experiment, options, display, show_all, executor))
    finally:
        display.stop_status()


def warn_of_left_out(options: Options) -> None:
    """Say which plugins cannot be used and, if no profile is named, which profiles."""
    warn(plugin_warnings())
    if options.machine is None:
        warn(catalogue().warnings)
