"""Flame graphs of measured cells, by py-spy: where does the time of a step go?

A process of its own steps the cell again while py-spy watches it. Its figures are not recorded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from envbench.engine.availability import Arms
from envbench.engine.campaign import Executor
from envbench.errors import EnvbenchError, UsageError
from envbench.model import Block, Cell, Protocol, Trial
from envbench.process.reply import Event, PhaseBegan, Started

WATCHED_S = 5
RATE = 200  # samples per second
STEPPING = Protocol(warmup_min_s=0.5, warmup_max_s=0.5, measured_s=WATCHED_S + 2.0)
ENDS_S = 60.0  # for py-spy to write its file
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")  # 0: a user may watch each of their processes
RIGHTS = (
    "It needs the right to trace processes: run as root, or set kernel.yama.ptrace_scope to 0. "
    "In a container, add the capability SYS_PTRACE."
)


def profiler() -> str:
    """Return py-spy's path. ``UsageError`` if it is not installed, or may not watch a process."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise UsageError(
            "--profile needs py-spy, which is not installed.", hint="pip install py-spy"
        )
    if os.geteuid() and SCOPE.exists() and SCOPE.read_text().strip() != "0":
        raise UsageError(f"--profile: py-spy may not watch processes here ({SCOPE}).", hint=RIGHTS)
    return found


def flame_graph(executor: Executor, arms: Arms, cell: Cell, folder: Path) -> Path:
    """Step a cell for some seconds, and write what its processes did as ``folder/….svg``.

    ``EnvbenchError`` if py-spy may not watch the process, or if the cell fails.
    """
    name = re.sub(r"[^\w.-]+", "-", f"{cell.task} {cell.key.partition(cell.task)[2]}").strip("-")
    path = folder / f"{name}.svg"
    folder.mkdir(parents=True, exist_ok=True)
    pids: list[int] = []
    watching: list[subprocess.Popen[str]] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Started):
            pids.append(event.pid)
        elif isinstance(event, PhaseBegan) and event.phase == "measure":
            watching.append(_watch(pids[-1], path))

    trial = Trial(cell=cell, protocol=STEPPING)
    try:
        failure = executor.run(Block(trials=[trial]), arms, on_event).trials[0].failure
        for each in watching:
            _, said = each.communicate(timeout=ENDS_S)
            if each.returncode:
                message = f"py-spy could not watch the process: {said.strip()[-300:]}"
                raise EnvbenchError(message, hint=RIGHTS)
    except subprocess.TimeoutExpired as error:
        raise EnvbenchError(f"py-spy did not end within {ENDS_S:.0f} s.") from error
    finally:
        for each in watching:
            each.kill()
    if failure is not None or not watching:
        reason = failure.message if failure else "it was not measured"
        raise EnvbenchError(f"{cell.key} could not be profiled: {reason}")
    return path


def _watch(pid: int, path: Path) -> subprocess.Popen[str]:
    words = [profiler(), "record", "--format", "flamegraph", "--output", str(path)]
    words += [
        "--duration",
        str(WATCHED_S),
        "--rate",
        str(RATE),
        "--subprocesses",
        "--pid",
        str(pid),
    ]
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
