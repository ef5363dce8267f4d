"""What a measuring command shows while it measures, and which runtimes it has to build first.

Progress is a bar on a terminal, and one line per block in a log. The controller must use under
0.5 % of a core while a worker is timed. So the workers' events drive the display, it moves at most
once a second, and it has no thread of its own.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from envbench.cli.terminal import cell_name, clock, rate_text, tell
from envbench.engine.availability import Build
from envbench.engine.experiment import Done, Experiment
from envbench.machine.host import gpus
from envbench.model import Block, BlockRecord, Cell, Failure, Plan, Trial, TrialRecord
from envbench.process.reply import Event, PhaseBegan, WindowEnded
from envbench.results.joining import run_of
from envbench.runtimes.interpreters import cache_folder
from envbench.stats.summary import rate
from envbench.text import counted, disk, listed, printable

REFRESH_S = 1.0
PHASES = {"import": "importing", "build": "building", "first_step": "first step", "close": "ending"}


class Display:
    """Messages, a line per block and, on a terminal, a bar of round, cell, FPS and times."""

    def __init__(
        self, refuses: Callable[[Cell], bool] = lambda _: False, *, yes: bool = False
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.status import Status

        self.refuses, self.yes = refuses, yes
        self.refused: set[str] = set()  # keys of cells
        self.kernel_failed = False  # was that said?
        self.done: list[BlockRecord] = []
        self.left = 0  # blocks
        self.left_s = 0.0  # of them, when the last block ended
        self._alarmed: set[str] = set()
        self._shown = 0.0
        console = Console(stderr=True, highlight=False, emoji=False)
        self.status = Status("", console=console) if sys.stderr.isatty() else None
        self.bar = Progress(
            TextColumn("{task.fields[cell]}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[state]}", markup=False),
            TextColumn("{task.fields[times]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            disable=not sys.stderr.isatty(),
        )

    def agrees(self, builds: Sequence[Build]) -> bool:
        """Say which runtimes have to be built, and how large they are. A terminal asks."""
        tell(builds_text(builds))
        if self.yes:
            return True
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            names = " ".join(dict.fromkeys(each.backend for each in builds))
            options = click.get_current_context().command.params
            by_option = "add --yes, or " if any("--yes" in each.opts for each in options) else ""
            tell(f"They are not built: {by_option}build them with `envbench setup {names}`.")
            return False
        try:
            return click.confirm("Build them now?", default=True, err=True)
        except click.Abort:  # the end of the input
            return False

    def stop_status(self) -> None:
        """End what ``doing`` shows. It has a thread, which ends before anything is timed."""
        if self.status is not None:
            self.status.stop()

    def doing(self, text: str) -> None:
        if self.status is None:
            tell(text)
        else:
            self.status.update(printable(text))
            self.status.start()

    def began(self, experiment: Experiment[Any], plan: Plan, done: Done, before: Done) -> None:
        self.stop_status()
        self.experiment, self.plan, self.before = experiment, plan, before
        self.done = [*done]
        # Before any worker is timed: the answer may be read from results.
        self.refused = {cell.key for cell in plan.cells if self.refuses(cell)}
        self.start = self.block_start = time.monotonic()
        if plan.sides_are_one:
            tell("Note: both sides are the same code. The result shows only this machine's noise.")
        self._estimate(experiment.left(plan, done))
        if self.left:
            of = f"{self.left} of " if done else ""
            what = counted(self.total, experiment.unit)
            self.say(f"{of}{what} to do: about {clock(self.left_s)} left")
        self.task = self.bar.add_task("", cell="", state="starting")
        self._update()
        self.bar.start()

    def _estimate(self, left: int) -> None:
        """How long the rest takes. Called between blocks: a worker is timed during them."""
        self.left = left
        self.left_s = self.experiment.seconds_left(self.plan, self.done, self.before)

    @property
    def total(self) -> int:
        return len(self.done) + self.left

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

    def trying_again(self, block: Block, of: Trial, failure: Failure, /) -> None:
        """Name the cell whose worker was killed. All cells of its block are measured again."""
        own = [each for i, each in enumerate(block.trials) if not each.arm and i != block.reference]
        others = counted(len(own) - 1, "other cell")
        again = f" with the {others} of its block" if len(own) > 1 else ""
        self.say(f"{self._place(block, of)}: {failure.message}. Trying again{again}.")

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
        self.done.append(record)
        self._estimate(left)
        figures = self.experiment.shows_figures
        own = [each for each in record.trials if not each.arm] if figures else record.trials[-1:]
        for trial in own:
            result = f"{self._place(record, trial)}: {self._result(record, trial)}"
            rest = f"; {clock(self.left_s)} left" if left and trial is own[-1] else ""
            self.say(f"[{len(self.done)}/{self.total}] {result}{rest}")
        failed = [each.failure for each in record.trials if each.arm and each.failure]
        if figures and failed and not self.kernel_failed:
            self.kernel_failed = True
            self.say(
                f"Warning: a reference kernel failed: {failed[0].message}. No figure needs it, but "
                "without it this session cannot be related to others."
            )

    def say(self, text: str) -> None:
        if self.bar.live.is_started or self.status is not None:
            self.bar.console.print(printable(text), markup=False, soft_wrap=True)
        else:
            tell(text)

    def close(self) -> None:
        self.bar.stop()

    def _update(self, **fields: Any) -> None:
        self._shown = now = time.monotonic()
        usual = self.left_s / max(1, self.left)
        in_block = min(now - self.block_start, usual)
        left, passed = max(0.0, self.left_s - in_block), now - self.start
        share = (len(self.done) + in_block / max(1.0, usual)) / max(1, self.total)
        times = f"{clock(passed)} elapsed, {clock(left)} left"
        self.bar.update(self.task, completed=share, total=1.0, times=times, refresh=True, **fields)

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


def builds_text(builds: Sequence[Build]) -> str:
    """``To be built: brax (0.8 GB) and genesis (3.8 GB), about 4.6 GB in /home/me/.cache/…``"""
    names = [f"{each.backend} ({disk(each.disk_mb)})" for each in builds]
    folder, total = cache_folder(), sum(each.disk_mb for each in builds)
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(existing).free / 10**6
    about = "about" if all(each.disk_mb for each in builds) else "at least"
    size = f", {about} {disk(total)}" if total else ""
    more = ", more with a GPU" if gpus() else ""
    enough = "" if free > total else " That is not enough space."
    return f"To be built: {listed(names)}{size}{more} in {folder} ({disk(free)} free).{enough}"
