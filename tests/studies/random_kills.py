"""Kill ``run``, ``check``, ``baseline`` and ``verify`` at random: is anything lost or left behind?

    python tests/studies/random_kills.py --kills 300 --seed 1

The study starts each command with real workers. After a random time it kills some of its processes
at once with SIGKILL: the controller, guardians, workers, their children, a whole process group,
several or all of them; often while others are stopped. Then it runs the same command again until
the plan is complete. The next plan begins with another seed. After each kill it checks:

* no process that the command started remains, not even a stopped one;
* every line that was on disk is still there, unchanged;
* no block of a plan is recorded twice;
* the same command finishes.

It prints a table. The exit code is 1 if it found a fault.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click
import psutil
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1]))

from paced import SHORT, TASK, interpreter
from place import ROOT, Place

from envbench.model import BlockRecord, Plan
from envbench.results import store

PATIENCE_S = 90.0
GONE_S = 20.0
BOTH = (*TASK[:4], "--backend", "for-loop,subprocess")


def _backend(seed: int) -> list[str]:
    """One that steps in its own process and one that has processes of its own, plan by plan."""
    return ["--backend", ("for-loop", "subprocess")[seed % 2], "--numenv", "2"]


COMMANDS: dict[str, Callable[[str, int], list[str]]] = {
    "run": lambda python, seed: [
        "run", *BOTH, "--numenv", "2", "--total-step", "300", "--repeats", "3",
        "--python", f"for-loop={python}", "--python", f"subprocess={python}",
        "--seed", str(seed),
    ],
    "check": lambda python, seed: [
        "check", *TASK[:4], *_backend(seed), "--baseline-python", python, "--candidate-python",
        python, "--pairs", "5", "--seed", str(seed),
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
    plans: int = 0
    blocks: int = 0
    faults: list[str] = field(default_factory=list)


class Soak:
    """One command in a folder of its own, killed repeatedly."""

    def __init__(self, name: str, folder: Path, python: str, chance: random.Random) -> None:
        self.name = name
        self.place = Place(folder)
        self.python = python
        self.chance = chance
        self.tally = Tally()
        self.seed = 0
        self.lines: dict[Path, list[bytes]] = {}
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
            [sys.executable, "-c", SHORT, *words],
            cwd=self.place.folder,
            env=self.place.environment(PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
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
            self._fault(f"processes remain: {left[:3]}")
            for pid, _ in left:
                _kill(pid)
        self._look_at_files()
        if code in (2, 3) or (code is not None and code < 0 and not hit_controller):
            self._fault(f"exit code {code}")
        if not hit_controller and code is not None:  # it finished
            self.tally.plans += 1
            self.seed += 1

    def _look_at_files(self) -> None:
        for path in store.files(self.place.results):
            lines = path.read_bytes().splitlines()
            known = self.lines.get(path, [])
            if lines[: len(known)] != known:
                self._fault(f"{path.name}: lines were lost or changed")
            whole = lines if path.read_bytes().endswith(b"\n") else lines[:-1]
            self.lines[path] = whole
            records = [record for _, record in store.read(path).records]
            made = Counter(
                (each.plan_id, each.stage, each.round, each.trials[-1].cell.key)
                for each in records
                if isinstance(each, BlockRecord) and not each.interrupted
            )
            if twice := [key for key, count in made.items() if count > 1]:
                self._fault(f"{path.name}: measured twice: {twice[:2]}")
        self.tally.blocks = sum(
            isinstance(record, BlockRecord)
            for path in store.files(self.place.results)
            for _, record in store.read(path).records
        )

    def finish(self) -> None:
        """Let the same command finish without a kill."""
        process = self._start()
        code = self._end(process)
        self._look(hit_controller=False, code=code)
        plans = sum(
            isinstance(record, Plan)
            for path in store.files(self.place.results)
            for _, record in store.read(path).records
        )
        if plans < self.tally.plans - 1:
            self._fault(f"{self.tally.plans} plans ended, but only {plans} are on disk")

    def _fault(self, what: str) -> None:
        text = f"{self.name}, kill {self.tally.kills}, seed {self.seed}: {what}"
        self.tally.faults.append(text)
        click.echo(text, err=True)


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


@click.command()
@click.option("--kills", default=300, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--only", default=",".join(COMMANDS), show_default=True)
def main(kills: int, seed: int, only: str) -> None:
    """Kill until this many kills have hit, shared by the commands."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as top:
        python = interpreter(Path(top) / "python")
        soaks = []
        for name in only.split(","):
            (Path(top) / name).mkdir()
            soaks.append(Soak(name, Path(top) / name, python, chance))
        while sum(each.tally.kills for each in soaks) < kills:
            min(soaks, key=lambda each: each.tally.kills).once()
        for each in soaks:
            each.finish()
    rows = [
        [each.name, each.tally.kills, each.tally.controllers, each.tally.stopped,
         each.tally.plans, each.tally.blocks, len(each.tally.faults)]
        for each in soaks
    ]  # fmt: skip
    heads = ["command", "kills", "of the controller too", "while some were stopped",
             "plans completed", "blocks recorded", "faults"]  # fmt: skip
    click.echo(tabulate(rows, heads))
    sys.exit(any(each.tally.faults for each in soaks))


if __name__ == "__main__":
    main()
