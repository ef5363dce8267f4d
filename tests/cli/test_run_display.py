"""How ``envbench run`` shows itself, and how quiet and quick it is."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click
import psutil
import pytest
from filelock import FileLock
from helpers import session_cache
from helpers.command_line import ROOT, SHORT, Done, Place, ended, loop, wait_until
from helpers.waking import share_of_waking

from envbench.cli.run import run

slow = pytest.mark.slow
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture
def place(place: Place) -> Place:
    """Its runs warm up for 0.2 s: what these tests ask does not depend on the rate."""
    place.short = True
    return place


# ---------------------------------------------------------------- how it shows itself


BAR = re.compile(r"[\x1b\r━╸╺█]")


@slow
def test_a_log_gets_lines_and_no_progress_bar(place: Place, faulty_python: Path) -> None:
    done = place.run("run", *loop(faulty_python), *SHORT)
    assert done.code == 0
    assert not BAR.search(done.err + done.out)
    assert re.search(
        r"\[1/1\] round 1/1 +gym faulty_envs:Normal-v0 for-loop × 2: [\d,]+ FPS", done.err
    )
    assert "FPS" in done.out


@slow
@pytest.mark.parametrize("tail", ["| head -1", "| true", ">&-"])
def test_a_closed_stdout_gives_no_traceback_and_loses_no_run(
    place: Place, faulty_python: Path, tail: str
) -> None:
    words = shlex.join(["run", *map(str, [*loop(faulty_python), *SHORT])])
    done = place.shell(f"{{envbench}} {words} {tail}")
    assert "Traceback" not in done.err
    assert "Exception ignored" not in done.err
    assert [run.failure for run in place.runs()] == [None]


class Terminal:
    """A pseudo-terminal that is read as it is written to."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self.shown += os.read(self.ours, 65536)
            except OSError:  # its last writer has gone
                return

    def text(self) -> str:
        os.close(self.theirs)
        self._reader.join(10)
        os.close(self.ours)
        return self.shown.decode()


@slow
def test_a_terminal_gets_a_bar_with_round_cell_rate_and_times_and_then_the_table(
    place: Place, faulty_python: Path
) -> None:
    terminal = Terminal()
    words = ("--numenv", 2, "--duration", 1.2, "--repeats", 2)
    process = place.start(
        "run", *loop(faulty_python), *words,
        stdout=terminal.theirs, stderr=terminal.theirs,
        env=place.environment(TERM="xterm-256color", COLUMNS="160"),
    )  # fmt: skip
    assert ended(process).code == 0
    shown = terminal.text()
    assert "Traceback" not in shown
    assert re.search(r"For-loop +2 +[\d,]+,\d{3} ", shown), "the table"
    for part in ("round 1/2", "round 2/2", "Normal-v0 for-loop × 2", "FPS", "elapsed", "left"):
        assert part in shown
    assert "━" in shown


# ---------------------------------------------------------------- how quiet and quick it is


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """CPU time of all their threads, in nanoseconds where the kernel reports them."""
    total = 0.0
    for process in processes:
        tasks = list(Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
        if tasks:
            total += sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
        else:
            used = process.cpu_times()
            total += used.user + used.system
    return total


def measuring(parent: psutil.Process) -> list[psutil.Process]:
    """The workers that have run for 1.5 s: children of guardians, which are children of
    ``parent``."""
    found = []
    with contextlib.suppress(psutil.Error):  # a process of a probe, which has just ended
        for guardian in parent.children():
            found += [e for e in guardian.children() if time.time() - e.create_time() > 1.5]
    return found


def used_in_slices(
    controller: list[psutil.Process], workers: list[psutil.Process], seconds: float
) -> tuple[float, float]:
    """CPU seconds of the controller while a slice is open, and for how long that was.

    One thread steps here, so a worker is running or ready to run in a slice. Otherwise it is
    stopped, or waits for an order. The first and last 5 ms of a slice may belong to the switch.
    After a late look, the same worker may be in its next slice.
    """
    used = lasted = 0.0
    inside: list[tuple[float, float]] = []
    running: list[psutil.Process] = []
    looked = time.monotonic()
    end = looked + seconds
    while looked < end:
        before, running = running, [e for e in workers if e.status() == psutil.STATUS_RUNNING]
        before_looked, looked = looked, time.monotonic()
        if len(running) != 1 or running != before or looked - before_looked > 0.02:
            if len(inside) > 3:
                (began, cpu_before), (ended_at, cpu_after) = inside[1], inside[-2]
                used += cpu_after - cpu_before
                lasted += ended_at - began
            inside = []
        inside.append((time.monotonic(), cpu_seconds(controller)))
        time.sleep(0.005)
    return used, lasted


@pytest.fixture
def _alone() -> Iterator[None]:
    """Only one of these tests at a time: on two cores, the other one would disturb it."""
    with FileLock(Path(os.environ[session_cache.FOLDER], "quiet.lock")):
        yield


@slow
@linux
@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("terminal", [False, True], ids=["log", "terminal"])
def test_the_controller_is_quiet_while_a_slice_is_open(
    place: Place, faulty_python: Path, terminal: bool
) -> None:
    """Between slices it stops and resumes processes, which no slice contains."""
    shares = []
    for _ in range(3):  # one quiet try is enough: the same work takes longer on a busy machine
        shares.append(_share_in_slices(place, faulty_python, terminal))
        if shares[-1] < 0.005 or shares[-1] < 2 * share_of_waking():
            return
    pytest.fail(f"it used {', '.join(f'{share:.2%}' for share in shares)} of a core")


def _share_in_slices(place: Place, faulty_python: Path, terminal: bool) -> float:
    """The share of a core that the controller and its guardians use while a slice is open."""
    screen = Terminal() if terminal else None
    words = ("--numenv", 4, "--duration", 5, "--repeats", 1)
    process = place.start(
        "run", *loop(faulty_python), *words,
        stderr=screen.theirs if screen else subprocess.DEVNULL,
        env=place.environment(TERM="xterm-256color", COLUMNS="160"),
    )  # fmt: skip
    parent = psutil.Process(process.pid)
    wait_until(lambda: len(measuring(parent)) == 2, "the cell and the kernel ran for 1.5 s")
    workers = measuring(parent)
    controller = [parent, *parent.children()]
    assert len(controller) == 3  # with a guardian for each worker
    used, lasted = used_in_slices(controller, workers, 4.5)
    assert all(each.is_running() for each in workers)
    assert ended(process).code == 0
    if screen:
        assert "FPS" in screen.text()
    assert lasted > 1.5
    return used / lasted


def timed(*words: str) -> tuple[float, Done]:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "envbench", *words], capture_output=True, text=True, cwd=ROOT
    )
    return time.perf_counter() - began, Done(done.returncode, done.stdout, done.stderr)


def test_help_answers_within_a_fifth_of_a_second() -> None:
    took, done = min(timed("--help") for _ in range(5))
    assert done.code == 0
    assert "envbench run" in done.out
    assert took < 0.2


def test_run_has_help_for_every_option() -> None:
    _, done = timed("run", "--help")
    assert done.code == 0
    shown = " ".join(done.out.split())
    options = [each for each in run.params if isinstance(each, click.Option)]
    assert len(options) > 20
    for option in options:
        assert option.help, option.name
        assert all(name in shown for name in option.opts), option.opts
        assert " ".join(option.help.split())[:40] in shown, option.name


@linux
@pytest.mark.parametrize("words", ["backends", "machines", "machines detect --json", "--help"])
def test_a_full_device_as_stdout_is_one_clear_error(place: Place, words: str) -> None:
    done = place.shell(f"{{envbench}} {words} > /dev/full")
    assert done.code == 1
    (line,) = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    assert "output cannot be written" in line
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", ["backends", "machines", "--help"])
def test_a_closed_stdout_is_no_error(place: Place, words: str) -> None:
    done = place.shell(f"{{envbench}} {words} >&-")
    assert (done.code, "Traceback" in done.err) == (0, False)


@slow
@pytest.mark.parametrize("tail", ["2>&-", "2> /dev/full", "2>&1 | head -1"])
def test_a_run_continues_when_no_one_reads_its_messages(
    place: Place, faulty_python: Path, tail: str
) -> None:
    words = shlex.join(["run", *map(str, [*loop(faulty_python), *SHORT])])
    place.shell(f"{{envbench}} {words} {tail}")
    assert [run.failure for run in place.runs()] == [None]
