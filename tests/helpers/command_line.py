"""A folder from which tests call the command line as a user would.

Each place has its own measuring lock, so that tests do not wait for each other. Each also has a
mark that all processes started from it inherit in their environment, so that a test can find them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from envbench.model import BlockRecord, Plan, Run
from envbench.results import store
from envbench.results.joining import joined
from helpers import run_faulty_worker

ROOT = Path(__file__).parents[2]
BLOCK = '{"type":"block"'  # how a block's line begins
NORMAL = ("--env", "gym", "--task", "faulty_envs:Normal-v0")


SHORT = ("--numenv", 2, "--total-step", 200, "--repeats", 1)
TWO = ("--numenv", 2, "--total-step", 200, "--repeats", 2)
THREE = ("--numenv", 2, "--total-step", 200, "--repeats", 3)


def loop(python: Path, *task: str) -> list[str]:
    """Options for ``for-loop`` in that interpreter; by default with the environment that works."""
    named = ["--env", "gym", "--task", *task] if task else [*NORMAL]
    return [*named, "--backend", "for-loop", "--python", f"for-loop={python}"]


class Done(NamedTuple):
    """A call that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Place:
    """``run`` calls envbench and waits for its end, ``start`` does not."""

    def __init__(self, folder: Path, package: Path = ROOT, *, short: bool = False) -> None:
        self.folder = folder
        self.package = package  # the folder that the package ``envbench`` lies in
        self.short = short  # whether ``run`` warms up for 0.2 s
        self.mark = uuid.uuid4().hex
        self.results = folder / "results"
        self.lock = folder / "measuring.lock"
        self._started: list[subprocess.Popen[str]] = []

    def environment(self, **more: str) -> dict[str, str]:
        mine = {
            "PYTHONPATH": os.pathsep.join(map(str, self._path())),
            "ENVBENCH_LOCK_FILE": str(self.lock),
            run_faulty_worker.MARK: self.mark,
        }
        return {**os.environ, **mine, **more}

    def command(self, *words: object) -> list[str]:
        module = "helpers.short_measurements" if self.short else "envbench"
        return [sys.executable, "-m", module, *map(str, words)]

    def _path(self) -> list[Path]:
        return [self.package, *([ROOT / "tests"] if self.short else [])]

    def start(self, *words: object, **options: Any) -> subprocess.Popen[str]:
        given = {
            "cwd": self.folder,
            "env": self.environment(),
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
            "text": True,
            "start_new_session": True,  # a signal to the group reaches it as Ctrl-C would
        }
        process = subprocess.Popen(self.command(*words), **{**given, **options})
        self._started.append(process)
        return process

    def run(self, *words: object, **options: Any) -> Done:
        return ended(self.start(*words, **options))

    def shell(self, line: str, *, wrap: Sequence[object] = ("bash", "-c")) -> Done:
        """Run a line of shell in this place. ``{envbench}`` becomes the command."""
        words = [*map(str, wrap), line.replace("{envbench}", shlex.join(self.command()))]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """Kill what a failed test left running."""
        for process in self._started:
            with process:
                process.kill()

    # ------------------------------------------------------------ what it left behind

    def files(self) -> list[Path]:
        return store.files(self.results)

    def plans(self) -> list[Plan]:
        return [record for record in self.records() if isinstance(record, Plan)]

    def runs(self, *, kernels: bool = False) -> list[Run]:
        """The runs that a report reads from the blocks of ``run`` plans. With ``kernels``, those of
        the reference kernels, too."""
        every = [joined(sound(path)).records for path in self.files()]
        found = [record for records in every for record in records if isinstance(record, Run)]
        return [run for run in found if kernels or not run.arm]

    def blocks(self) -> list[BlockRecord]:
        return [record for record in self.records() if isinstance(record, BlockRecord)]

    def records(self) -> list[Any]:
        """Every stored record of every file."""
        return [record for path in self.files() for _, record in sound(path)]

    def finished(self) -> int:
        """How many blocks are on disk."""
        return sum(path.read_text().count(BLOCK) for path in self.files())

    def processes(self) -> list[tuple[int, str]]:
        """The living processes that were started from this place."""
        return run_faulty_worker.marked(self.mark)


def sound(path: Path) -> list[tuple[int, Any]]:
    """The records of a file with their line numbers. Every line must be readable."""
    reading = store.read(path)
    assert reading.warnings == []
    return reading.records


def ended(process: subprocess.Popen[str], timeout_s: float = 120) -> Done:
    out, err = process.communicate(timeout=timeout_s)
    return Done(process.returncode, out, err)


def ended_within(seconds: float, begin: Callable[[], Done]) -> Done:
    """A call that must end within that time and without a traceback."""
    began = time.monotonic()
    done = begin()
    assert time.monotonic() - began < seconds
    assert "Traceback" not in done.err
    return done


def wait_until(true: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """Wait until ``true()`` is true; fail with ``what`` if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)
