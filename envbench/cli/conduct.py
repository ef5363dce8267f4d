"""Carry out an experiment for a command: messages, progress, outcome and exit code.

Every measuring command ends in ``conduct``. Progress is a bar on a terminal, and one line per block
in a log. The controller must use under 0.5 % of a core while a worker is timed. So the workers'
events drive the display, it moves at most once a second, and it has no thread of its own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import click

from envbench.backends import plugin_warnings
from envbench.cli.terminal import cell_name, clock, rate_text, tell, warn
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Experiment, Findings, Options
from envbench.engine.session import carry_out
from envbench.errors import UNAVAILABLE, EnvbenchError
from envbench.model import Block, BlockRecord, Cell, Failure, Plan, Trial, TrialRecord
from envbench.process.reply import Event, PhaseBegan, WindowEnded
from envbench.results.reading import run_of
from envbench.stats.summary import rate
from envbench.text import counted, printable

REFRESH_S = 1.0
PHASES = {"import": "importing", "build": "building", "first_step": "first step", "close": "ending"}


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
    warn(plugin_warnings())

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
    sys.exit(carry_out(experiment, options, Display(refuses), show_all, executor))


# ---------------------------------------------------------------- progress


class Display:
    """Messages, a line per block and, on a terminal, a bar of round, cell, FPS and times."""

    def __init__(self, refuses: Callable[[Cell], bool] = lambda _: False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.refuses = refuses
        self.refused: set[str] = set()  # keys of cells
        self.seconds: list[float] = []  # of each block without a failure
        self.total = self.done = 0
        self._alarmed: set[str] = set()
        self._shown = 0.0
        self.bar = Progress(
            TextColumn("{task.fields[cell]}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[state]}", markup=False),
            TextColumn("{task.fields[times]}", markup=False),
            console=Console(stderr=True, highlight=False, emoji=False),
            auto_refresh=False,
            transient=True,
            disable=not sys.stderr.isatty(),
        )

    def began(self, experiment: Experiment[Any], plan: Plan, done: int, left: int) -> None:
        self.experiment, self.plan = experiment, plan
        self.done, self.total = done, done + left
        # Before any worker is timed: the answer may be read from results.
        self.refused = {cell.key for cell in plan.cells if self.refuses(cell)}
        self.start = self.block_start = time.monotonic()
        hashes = sorted(plan.runtimes.items())
        sides = {(a.place, *(h for key, h in hashes if key.startswith(a.name))) for a in plan.arms}
        if len(sides) < len(plan.arms):
            tell("Note: both sides are the same code. The result shows only this machine's noise.")
        if left:
            of = f"{left} of " if done else ""
            what = counted(self.total, experiment.unit)
            self.say(f"{of}{what} to do: about {clock(self.remaining(left))} left")
        self.task = self.bar.add_task("", cell="", state="starting")
        self._update()
        self.bar.start()

    def block_began(self, block: Block) -> None:
        self.block = block
        self.block_start = time.monotonic()
        cell = block.trials[-1].cell
        if block.stage > 1 and cell.key not in self._alarmed:
            self._alarmed.add(cell.key)
            self.say(f"{cell_name(cell)}: an alarm. Repeating with fresh pairs.")
        self._update(cell=self._place(block), state="starting")

    def _place(self, block: Block | BlockRecord, trial: Trial | TrialRecord | None = None) -> str:
        """Its place in the plan, and the cell of this trial, or of all."""
        own = len([each for each in block.trials if not each.arm])
        cell = cell_name((trial or block.trials[-1]).cell)
        what = cell if trial or own < 2 else counted(own, "cell")
        return f"{self.experiment.place(self.plan, block)}  {what}"

    def trying_again(self, block: Block, failure: Failure) -> None:
        self.say(f"{self._place(block)}: {failure.message}. Trying again.")

    def event(self, event: Event) -> None:
        """Move the bar. A log gets a line only when a block ends."""
        if self.bar.disable:
            return
        if isinstance(event, PhaseBegan) and len(self.block.trials) == 1:
            self._update(state=PHASES.get(event.phase, ""))
        elif isinstance(event, WindowEnded) and time.monotonic() - self._shown >= REFRESH_S:
            self._update(state=self._state(event))

    def _state(self, window: WindowEnded) -> str:
        trial = self.block.trials[0]
        known = window.ns and len(self.block.trials) == 1 and trial.mode != "verify"
        if not known or trial.cell.key in self.refused:
            return "warming up" if window.phase == "warmup" else "stepping"
        fps = window.steps / window.ns * 1e9 * trial.cell.frame_skip
        return f"{'warm-up ' if window.phase == 'warmup' else ''}{rate_text(fps)} FPS"

    def block_ended(self, record: BlockRecord, left: int) -> None:
        self.done += 1
        self.total = self.done + left
        if not self.experiment.failures(record):
            self.seconds.append(time.monotonic() - self.block_start)
        figures = self.experiment.shows_figures
        rest = "" if figures else f"; {clock(self.remaining(left))} left"
        own = [each for each in record.trials if not each.arm] if figures else record.trials[-1:]
        for trial in own:
            result = f"{self._place(record, trial)}: {self._result(record, trial)}"
            self.say(f"[{self.done}/{self.total}] {result}{rest}")

    def say(self, text: str) -> None:
        if self.bar.live.is_started:
            self.bar.console.print(printable(text), markup=False, soft_wrap=True)
        else:
            tell(text)

    def close(self) -> None:
        self.bar.stop()

    def remaining(self, blocks: int) -> float:
        """Estimate the seconds that so many blocks will take, from those that have ended."""
        if self.seconds:
            return blocks * sum(self.seconds) / len(self.seconds)
        return blocks * self.experiment.block_seconds(self.plan)

    def _update(self, **fields: Any) -> None:
        self._shown = now = time.monotonic()
        done = self.done + min(1.0, (now - self.block_start) / max(1.0, self.remaining(1)))
        total = max(1, self.total)
        left = max(0.0, self.remaining(self.total) * (1 - done / total))
        times = f"{clock(now - self.start)} elapsed, {clock(left)} left"
        self.bar.update(self.task, completed=done, total=total, times=times, refresh=True, **fields)

    def _result(self, record: BlockRecord, trial: TrialRecord) -> str:
        """How fast a trial was, or why it, or else the block, failed."""
        figures = self.experiment.shows_figures
        if failure := trial.failure if figures else record.failure:
            lines = failure.message.splitlines() or [failure.reason]
            return f"{failure.reason}: {lines[0][:200]}"
        if not figures:
            return "done"
        if trial.cell.key in self.refused:
            return "done, but `envbench verify` refused the figures of its row"
        run = run_of(self.plan, record, trial, {})
        figure, mark = rate(run), " (quick)" if run.quick else ""
        if figure.fps is None:
            return f"no figure: {figure.invalid}"
        return f"{rate_text(figure.fps)} FPS{mark}"
