"""Kill ``run``, ``check``, ``baseline`` and ``verify`` at random: is anything lost or left behind?

    python tests/studies/random_kills.py --kills 300 --seed 1

The study starts each command with real workers. After a random time it kills some of its processes
at once with SIGKILL: the controller, guardians, workers, their children, a whole process group,
several or all of them; often while others are stopped. Then it runs the same command again until
its plan is concluded. The next plan begins with another seed. After each kill it checks:

* no process that the command started remains, not even a stopped one;
* every line that was on disk is still there, unchanged;
* the command has one plan: every complete block is used by the plan that is concluded, and none
  is measured twice;
* a call that was not killed itself concludes its plan, with an exit code that it may have if
  nothing is killed. A single kill is never recorded as a failure of the backend.

It prints a table and exits with 1 if it found a fault. Each session is a line of
``results/studies/kills/sessions.jsonl``, and they fill the table of docs/studies.md. Do not change
envbench while it runs: a plan is not resumed with other code.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil
from document import fill
from kill_checks import WatchedResults, complete_blocks, is_concluded, may_end_with, plan_faults
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.command_line import ROOT, Place
from helpers.paced_env import TASK, interpreter
from helpers.short_measurements import SHORT_PAIRS

from envbench.engine.git import git_state

SESSIONS = ROOT / "results" / "studies" / "kills" / "sessions.jsonl"
PATIENCE_S = 90.0
GONE_S = 20.0
BOTH = (*TASK[:4], "--backend", "for-loop,subprocess")


def _backend(seed: int) -> list[str]:
    """From plan to plan alternately: a backend that steps in the worker, and one that starts
    processes."""
    return ["--backend", ("for-loop", "subprocess")[seed % 2], "--numenv", "2"]


COMMANDS: dict[str, Callable[[str, int], list[str]]] = {
    "run": lambda python, seed: [
        "run", *BOTH, "--numenv", "2", "--total-step", "300", "--repeats", "3",
        "--python", f"for-loop={python}", "--python", f"subprocess={python}",
        "--seed", str(seed),
    ],
    "check": lambda python, seed: [
        "check", *TASK[:4], *_backend(seed), "--baseline-python", python, "--candidate-python",
        python, "--pairs", "5", "--seed", str(seed), "--json",
    ],
    "baseline": lambda python, seed: [
        "baseline", "save", "--output", f"saved-{seed}.jsonl", "--env", "mujoco",
        *_backend(seed), "--pairs", "5", "--seed", str(seed),
    ],
    "verify": lambda python, seed: [
        "verify", *BOTH, "--python", f"for-loop={python}", "--python", f"subprocess={python}",
        "--total-step", "50", "--seed", str(seed),
    ],
}  # fmt: skip


@dataclass
class Tally:
    """What happened to one command."""

    kills: int = 0
    controllers: int = 0  # kills that hit the controller too
    stopped: int = 0  # kills while some process was stopped
    plans: int = 0  # concluded
    blocks: int = 0  # complete
    faults: list[str] = field(default_factory=list)


class Soak:
    """One command in a folder of its own, killed repeatedly."""

    def __init__(self, name: str, folder: Path, python: str, chance: random.Random) -> None:
        self.name = name
        self.place = Place(folder)
        self.stdout = folder / "stdout.txt"  # of the last call
        self.results = WatchedResults(self.place.results)
        self.python = python
        self.chance = chance
        self.tally = Tally()
        self.seed = 0
        self.known: set[tuple[int, str]] = set()  # faults by seed: each is reported once
        self.longest_s = 4.0

    def once(self) -> None:
        """Start the command, kill some of its processes, and check what is left."""
        process = self._start()
        victims = self._kill(process)
        ended = self._end(process)
        self._look(hit_controller=process.pid in victims, code=ended)

    def _start(self) -> subprocess.Popen[str]:
        words = COMMANDS[self.name](self.python, self.seed)
        return subprocess.Popen(
            [sys.executable, "-c", SHORT_PAIRS, *words],
            cwd=self.place.folder,
            env=self.place.environment(PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"),
            stdin=subprocess.DEVNULL,
            stdout=self.stdout.open("wb"),
            stderr=(self.place.folder / "stderr.txt").open("ab"),
            text=True,
            start_new_session=True,
        )

    def _kill(self, process: subprocess.Popen[str]) -> set[int]:
        """Kill after a random time. Returns the killed process ids; none if it had ended."""
        until = time.monotonic() + self.chance.uniform(0.3, self.longest_s)
        while time.monotonic() < until and process.poll() is None:
            time.sleep(0.02)
        living = [pid for pid, _ in self.place.processes()]
        if process.poll() is not None or process.pid not in living:
            return set()
        victims = self._choose(process.pid, living)
        self.tally.stopped += any(_is_stopped(pid) for pid in living)
        for pid in victims:
            _kill(pid)
        self.tally.kills += 1
        self.tally.controllers += process.pid in victims
        return set(victims)

    def _choose(self, controller: int, living: list[int]) -> list[int]:
        others = [pid for pid in living if pid != controller]
        kind = self.chance.choice(["controller", "all", "others", "some", "some", "one", "group"])
        if kind == "controller" or not others:
            return [controller]
        if kind == "all":
            return living
        if kind == "others":
            return others
        if kind == "group":
            group = os.getpgid(self.chance.choice(living))
            return [pid for pid in living if _group(pid) == group]
        count = 1 if kind == "one" else self.chance.randint(1, len(living))
        return self.chance.sample(living, count)

    def _end(self, process: subprocess.Popen[str]) -> int | None:
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._fault(f"did not end within {PATIENCE_S:.0f} s")
            process.kill()
            return None

    # ------------------------------------------------------------ what is checked

    def _look(self, *, hit_controller: bool, code: int | None) -> None:
        deadline = time.monotonic() + GONE_S
        while (left := self.place.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            self._fault(f"{len(left)} processes remain")
            click.echo(left, err=True)
            for pid, _ in left:
                _kill(pid)
        lost, records = self.results.read(), self.results.records
        self.tally.blocks = len(complete_blocks(records))
        for each in (*lost, *plan_faults(records, self.seed)):
            self._fault(each)
        concluded = is_concluded(records, self.seed)
        if code is not None and not (hit_controller and code < 0):
            self._look_at_end(code, concluded=concluded)
        if concluded:
            self.tally.plans += 1
            self.seed += 1

    def _look_at_end(self, code: int, *, concluded: bool) -> None:
        """The command ended by itself."""
        if not may_end_with(self.name, code, self.stdout.read_text()):
            self._fault(f"exit code {code}")
        if not concluded:
            self._fault("it ended, but its plan is not concluded")

    def finish(self) -> None:
        """Let the same command finish without a kill."""
        self._look(hit_controller=False, code=self._end(self._start()))

    def _fault(self, what: str) -> None:
        if (self.seed, what) in self.known:
            return
        self.known.add((self.seed, what))
        text = f"{self.name}, kill {self.tally.kills}, seed {self.seed}: {what}"
        self.tally.faults.append(text)
        click.echo(text, err=True)


# ---------------------------------------------------------------- processes


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


# ---------------------------------------------------------------- sessions


def table(sessions: Sequence[dict[str, Any]]) -> str:
    """A row per session and command, and one for all of them."""
    rows = [
        [each["utc"][:10], each["commit"], each["seed"], name, *_row(tally)]
        for each in sessions
        for name, tally in each["commands"].items()
    ]
    sums = [sum(row[k] for row in rows) for k in range(4, 10)]
    heads = ["date", "commit", "seed", "command", "kills", "including the controller",
             "while workers were stopped", "plans concluded", "complete blocks",
             "faults"]  # fmt: skip
    return tabulate([*rows, ["all", "", "", "", *sums]], heads, tablefmt="github")


def _row(tally: dict[str, Any]) -> list[int]:
    numbers = [tally[name] for name in ("kills", "controllers", "stopped", "plans", "blocks")]
    return [*numbers, len(tally["faults"])]


def keep(session: dict[str, Any]) -> None:
    """Add the session to the record, and fill the table of the docs."""
    SESSIONS.parent.mkdir(parents=True, exist_ok=True)
    with SESSIONS.open("a") as file:
        file.write(json.dumps(session) + "\n")
    sessions = [json.loads(line) for line in SESSIONS.read_text().splitlines()]
    fill("kills", table(sessions))


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--kills", default=300, show_default=True, help="Number of kills, over all commands.")
@click.option("--seed", default=1, show_default=True, help="Seed for what is killed, and when.")
@click.option("--only", default=",".join(COMMANDS), show_default=True, help="These commands.")
@click.option("--record/--no-record", default=True, help="Whether to add the session to the docs.")
def main(kills: int, seed: int, only: str, record: bool) -> None:
    chance, (commit, dirty) = random.Random(seed), git_state()
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with tempfile.TemporaryDirectory(prefix="kills-") as top:
        python = interpreter(Path(top) / "python")
        soaks = []
        for name in only.split(","):
            (Path(top) / name).mkdir()
            soaks.append(Soak(name, Path(top) / name, python, chance))
        done = 0
        while done < kills:
            min(soaks, key=lambda each: each.tally.kills).once()
            done = sum(each.tally.kills for each in soaks)
            faults = sum(len(each.tally.faults) for each in soaks)
            click.echo(f"{done} of {kills} kills, faults: {faults}", err=True)
        for each in soaks:
            each.finish()
    session = {
        "utc": began,
        "commit": f"{(commit or 'unknown')[:7]}{' (changed)' if dirty else ''}",
        "seed": seed,
        "commands": {each.name: asdict(each.tally) for each in soaks},
    }
    click.echo(table([session]))
    if record:
        keep(session)
    sys.exit(any(each.tally.faults for each in soaks))


if __name__ == "__main__":
    main()
