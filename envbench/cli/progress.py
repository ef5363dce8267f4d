"""How a campaign shows itself on stderr: a progress bar on a terminal, lines in a log.

While a window is open the controller must be quiet (under 0.5 % of a core), so the display is
driven by the worker's window events, moves at most once a second, and has no thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from envbench.cli import tell
from envbench.model import Cell, Plan, Run
from envbench.text import printable

REFRESH_S = 1.0
PHASES = {"import": "importing", "build": "building", "first_step": "first step", "close": "ending"}
FIRST_GUESS_S = 5.0  # start, build and warm-up of a run, before we have seen one


class Lines:
    """One line a run, for logs; also the base of the bar: it keeps the times."""

    def __init__(self) -> None:
        self.walls: list[float] = []  # seconds of each run that ended well
        self._run_began = time.monotonic()
        self.total = 0  # runs of the plan, once it has started

    def started(self, plan: Plan, runs: int, todo: int) -> None:
        self.plan, self.total, self.index = plan, runs, runs - todo
        self.began = time.monotonic()
        if todo:
            of = f" of {runs}" if todo < runs else ""
            word = "run" if todo == 1 else "runs"
            self.say(f"{todo}{of} {word} to go, about {clock(self.remaining(todo))}")

    def run_started(self, index: int, round_: int, cell: Cell) -> None:
        self.index, self.round, self.cell = index, round_, cell
        self._run_began = time.monotonic()

    def event(self, event: Mapping[str, Any]) -> None:
        """Nothing: a log gets a line when a run has ended."""

    def run_ended(self, run: Run) -> None:
        if not run.failure:
            self.walls.append(time.monotonic() - self._run_began)
        position = f"[{self.index + 1}/{self.total}] " if self.total else ""
        self.say(position + describe(run))

    def say(self, text: str) -> None:
        tell(text)

    def close(self) -> None:
        """The last word has been said."""

    def remaining(self, runs: int) -> float:
        """Seconds that so many runs will take, judged by those that have ended."""
        if self.walls:
            return runs * sum(self.walls) / len(self.walls)
        measured = [p.measured_s for p in self.plan.protocol.values() if p.calls is None]
        return runs * (FIRST_GUESS_S + max(measured, default=0.0))


class Bar(Lines):
    """A bar with round, cell, current FPS, elapsed and remaining time."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__()
        self._shown = 0.0
        self.progress = Progress(
            TextColumn("{task.fields[cell]}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[state]}", markup=False),
            TextColumn("{task.fields[times]}", markup=False),
            console=Console(stderr=True, highlight=False),
            auto_refresh=False,
            transient=True,
        )

    def started(self, plan: Plan, runs: int, todo: int) -> None:
        super().started(plan, runs, todo)
        self.task = self.progress.add_task(
            "", total=runs, completed=runs - todo, cell="", state="starting", times=""
        )
        self.progress.start()

    def run_started(self, index: int, round_: int, cell: Cell) -> None:
        super().run_started(index, round_, cell)
        rounds = max(self.plan.repeats.values())
        where = f"{cell.env} {cell.task} {cell.backend} × {cell.numenv}"
        self._update(cell=f"round {round_ + 1}/{rounds}  {where}", state="starting")

    def event(self, event: Mapping[str, Any]) -> None:
        if event.get("event") == "phase":
            self._update(state=PHASES.get(str(event.get("phase")), ""))
            return
        now = time.monotonic()
        if now - self._shown >= REFRESH_S and event.get("ns"):
            fps = event["steps"] / event["ns"] * 1e9 * self.cell.frame_skip
            phase = "warm-up " if event.get("phase") == "warmup" else ""
            self._update(state=f"{phase}{shown(fps)} FPS")

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        self.progress.stop()

    def _update(self, **fields: Any) -> None:
        self._shown = now = time.monotonic()
        done = self.index + min(1.0, (now - self._run_began) / max(1.0, self.remaining(1)))
        left = max(0.0, self.remaining(self.total) * (1 - done / self.total))
        times = f"{clock(now - self.began)} elapsed, {clock(left)} to go"
        self.progress.update(self.task, completed=done, times=times, refresh=True, **fields)


def clock(seconds: float) -> str:
    """``1:02:03`` or ``02:03``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def describe(run: Run) -> str:
    """A run in one line: what, and how fast or why not."""
    from envbench.statistics import rate

    cell = run.cell
    what = f"round {run.round + 1}  {cell.env} {cell.task} {cell.backend} × {cell.numenv}"
    if run.failure:
        lines = run.failure.message.splitlines() or [run.failure.reason]
        return printable(f"{what}: {run.failure.reason}: {lines[0][:200]}")
    figure = rate(run)
    if figure.fps is None:
        return f"{what}: no figure: {figure.invalid}"
    return f"{what}: {shown(figure.fps)} FPS"


def shown(rate: float) -> str:
    """A rate for a person: whole, but for slow ones."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.2f}"
