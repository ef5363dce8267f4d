"""From an experiment to a command's exit code: messages, progress, and what came of it.

Every measuring command ends in ``conduct``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from envbench.cli.output import tell
from envbench.cli.progress import Bar, Lines, units

if TYPE_CHECKING:
    from envbench.engine.campaign import Campaign, Executor
    from envbench.engine.experiment import Experiment, Options

Findings = TypeVar("Findings")


class Terminal:
    """Where a session's messages and its progress go."""

    def say(self, text: str) -> None:
        tell(text)

    def listener(self) -> Lines:
        return Bar() if sys.stderr.isatty() else Lines()


def conduct(
    experiment: Experiment[Findings],
    options: Options,
    show: Callable[[Campaign[Findings]], int],
    *,
    partly: bool = False,
) -> NoReturn:
    """Carry it out, show what came of it, and end.

    ``show`` gives the exit code; with ``partly`` it is also called for what was made before a
    stop.
    """
    from envbench.backends import plugin_warnings
    from envbench.engine.session import carry_out
    from envbench.errors import UNAVAILABLE, EnvbenchError

    for warning in plugin_warnings():
        tell(f"Warning: {warning}")
    code = 0

    def show_all(outcome: Campaign[Findings]) -> None:
        nonlocal code
        if outcome.stopped is not None:
            tell(_stopped(experiment, outcome))
            code = outcome.stopped.exit_code
            if partly:
                show(outcome)
            return
        if getattr(sys.stdout, "name", os.devnull) == os.devnull:  # the shell closed it: ``>&-``
            raise EnvbenchError("stdout is closed.", hint="The same command shows the outcome.")
        code = show(outcome)
        if outcome.unavailable and experiment.named:
            code = UNAVAILABLE

    carry_out(experiment, options, Terminal(), show_all, _executor())
    sys.exit(code)


def _stopped(experiment: Experiment[Findings], outcome: Campaign[Findings]) -> str:
    done = len(outcome.done)
    of = f"{done} of {units(experiment.unit, done + outcome.left)}"
    pause = experiment.longest_pause_s
    until = f" within {pause / 60:.0f} minutes" if pause else ""
    return f"Stopped: {of} in {outcome.journal.path}. The same command resumes from here{until}."


def _executor() -> Executor | None:
    """What executes blocks; None: this machine. A caller of the command line may pass another as
    click's ``obj`` (the tests have one with a virtual clock)."""
    return click.get_current_context().find_object(object)  # type: ignore[return-value]
