"""``envbench run`` as a person calls it: what it measures, counts, says and how it answers."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from place import NORMAL, ROOT, Done, Place, ended, wait_until

from envbench.model import Run

slow = pytest.mark.slow
ONE = ("--numenv", 2, "--total-step", 200, "--repeats", 1)


def on(faulty_python: Path, *backends: str) -> list[str]:
    words = ["--backend", ",".join(backends)]
    return words + [w for name in backends for w in ("--python", f"{name}={faulty_python}")]


# ---------------------------------------------------------------- what it gives


@slow
@pytest.mark.parametrize("family", ["atari", "mujoco"])
def test_every_backend_of_a_family_gives_a_figure(place: Place, family: str) -> None:
    names = "for-loop,subprocess,envpool-sync,envpool-async"
    short = ("--numenv", 2, "--total-step", 40, "--repeats", 1)
    done = place.run("run", "--env", family, "--backend", names, *short, "--json")
    assert done.code == 0, done.err
    cells = done.document["cells"]
    assert [cell["backend"] for cell in cells] == names.split(",")
    assert all(cell["fps"] > 0 and cell["failure"] is None for cell in cells)
    skip = {"atari": 4, "mujoco": 5}[family]
    assert all(cell["fps"] == pytest.approx(skip * cell["steps_per_second"]) for cell in cells)
    assert [cell["env_instances"] for cell in cells] == [2, 2, 2, 6]


@slow
def test_the_json_is_one_document_of_the_documented_shape(
    place: Place, faulty_python: Path
) -> None:
    done = place.run("run", *NORMAL, *on(faulty_python, "for-loop"), *ONE, "--json")
    assert done.code == 0, done.err
    document = done.document
    assert set(document) == {"schema", "plan", "cells"}
    assert document["schema"] == 1
    assert document["plan"] == place.plans()[0].plan_id
    (cell,) = document["cells"]
    assert list(cell) == [
        "machine", "env", "task", "backend", "numenv", "env_instances", "settings", "fps",
        "steps_per_second", "frame_skip", "interval", "runs", "flags", "failure",
    ]  # fmt: skip
    assert cell["runs"] == [run.run_id for run in place.runs()]
    assert (cell["interval"], cell["flags"][0]) == (None, "few-runs")


@slow
def test_a_recorded_run_holds_the_raw_facts(place: Place, faulty_python: Path) -> None:
    assert place.run("run", *NORMAL, *on(faulty_python, "for-loop"), *ONE, "--seed", 7).code == 0
    (run,) = place.runs()
    assert (run.seed, run.round, run.failure, run.quick) == (7000, 0, None, False)
    assert run.times is not None
    assert run.times.measured_ns == sum(run.measured.ns)
    assert run.times.warmup_ns == sum(run.warmup.ns) >= 1e9
    assert min(run.times.import_ns, run.times.build_ns, run.times.first_step_ns) > 0
    assert run.facts["observation_shape"] == [4]
    assert run.facts["environment"]["OMP_NUM_THREADS"] == "1"
    assert run.peak_memory_bytes is not None
    assert run.peak_memory_bytes > 10 << 20
    assert [type(record).__name__ for record in place.records()] == [
        "MachineFact", "RuntimeFact", "Plan", "Run",
    ]  # fmt: skip


@slow
def test_a_quick_look_is_one_short_run_and_says_so(place: Place, faulty_python: Path) -> None:
    done = place.run(
        "run", *NORMAL, *on(faulty_python, "for-loop"), "--numenv", 1, "--quick", "--json"
    )
    (cell,) = done.document["cells"]
    assert cell["flags"][0] == "quick"
    (run,) = place.runs()
    assert run.quick
    assert 3e9 <= sum(run.measured.ns) < 4e9
    assert sum(run.warmup.ns) < 2e9


@slow
def test_the_first_run_makes_a_profile_and_report_shows_its_table(
    place: Place, faulty_python: Path
) -> None:
    assert place.run("run", *NORMAL, *on(faulty_python, "for-loop"), *ONE).code == 0
    assert len(list(place.folder.glob("machines/*.toml"))) == 1
    report = place.run("report")
    assert report.code == 0, report.err
    assert "For-loop" in (place.results / "README.md").read_text()


@slow
def test_all_lists_what_cannot_run_here_and_exits_0(place: Place, faulty_python: Path) -> None:
    words = ("--env", "mujoco", "--numenv", 1, "--total-step", 5, "--repeats", 1)
    done = place.run("run", *words, "--backend", "all", "--json")
    assert done.code == 0, done.err
    assert {cell["backend"] for cell in done.document["cells"]} == {
        "for-loop", "subprocess", "envpool-sync", "envpool-async",
    }  # fmt: skip
    for name in ("sample-factory", "envpool-numa", "brax", "isaac-gym"):
        assert f"{name} cannot run mujoco here" in done.err


@slow
def test_a_setting_reaches_the_backends_that_have_it(place: Place) -> None:
    words = ("--env", "atari", "--numenv", 2, "--total-step", 10, "--repeats", 1)
    done = place.run(
        "run", *words, "--backend", "for-loop,envpool-async", "--overcommit", "1.5",
        "--set", "threads=1", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    loop, pool = done.document["cells"]
    assert loop["settings"] == {"actions": "bank"}
    assert (pool["settings"]["threads"], pool["env_instances"]) == (1, 3)


# ---------------------------------------------------------------- what it counts


@slow
def test_total_steps_are_the_calls_of_a_cell_over_all_its_runs(
    place: Place, faulty_python: Path
) -> None:
    words = ("--numenv", 3, "--total-step", 1003, "--repeats", 2)
    assert place.run("run", *NORMAL, *on(faulty_python, "for-loop"), *words).code == 0
    runs = place.runs()
    assert [sum(run.measured.calls) for run in runs] == [502, 501]
    for run in runs:
        assert sum(run.measured.steps) + sum(run.measured.resets) == 3 * sum(run.measured.calls)


def counted(run: Run) -> tuple[int, int]:
    """All transitions and resets of a run; its first vector step stands in no window."""
    steps = sum(run.warmup.steps) + sum(run.measured.steps)
    resets = sum(run.warmup.resets) + sum(run.measured.resets)
    return run.cell.numenv + steps, resets


@slow
@pytest.mark.parametrize("backend", ["for-loop", "subprocess"])
def test_transitions_are_what_the_environments_themselves_counted(
    place: Place, faulty_python: Path, backend: str
) -> None:
    log = place.folder / "environments.jsonl"
    words = ("--numenv", 3, "--total-step", 300, "--repeats", 1)
    environment = place.environment(FAULTY_ENVS_LOG=str(log))
    done = place.run("run", *NORMAL, *on(faulty_python, backend), *words, env=environment)
    assert done.code == 0, done.err
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    seen = [each for each in seen if each["resets"]]  # one is made for its spaces alone
    assert len(seen) == 3
    (run,) = place.runs()
    steps, resets = counted(run)
    assert steps == sum(each["steps"] for each in seen)
    assert resets == sum(each["resets"] - 1 for each in seen)  # the first was before any step
    ended_last = sum(each["ended"] for each in seen) - resets
    assert 0 <= ended_last <= 3


ASYNC_AUDIT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from envbench_worker.adapters.envpool_async import EnvPoolAsync
from envbench_worker.contract import Job

settings = {"actions": "bank", "threads": 0, "affinity": -1}
adapter = EnvPoolAsync(Job("mujoco", "Ant-v3", 2, 6, 5, settings, 1))
adapter.build()
recv = adapter.pool.recv
received = []

def listening():
    result = recv()
    received.append((result[4]["env_id"].tolist(), result[4]["elapsed_step"].tolist()))
    return result

adapter.pool.recv = listening
claims = [adapter.run(calls) for calls in (1, 400, 1200)]
elapsed, steps, resets = {}, 0, 0
for ids, counters in received:
    for number, counter in zip(ids, counters):
        if number in elapsed and counter == elapsed[number] + 1:
            steps += 1
        else:
            assert counter == 0, (number, counter)
            resets += 1
        elapsed[number] = counter
print(json.dumps({
    "claimed": [sum(c.steps for c in claims), sum(c.resets for c in claims)],
    "seen": [steps, resets], "received": sum(len(ids) for ids, _ in received),
}))
adapter.close()
"""


@slow
def test_async_transitions_are_the_advances_of_each_environments_own_counter() -> None:
    worker_path = ROOT / "envbench" / "worker_path"
    asked = subprocess.run(
        [sys.executable, "-I", "-c", ASYNC_AUDIT, worker_path], capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    audit = json.loads(asked.stdout)
    assert audit["claimed"] == audit["seen"]
    assert audit["received"] == 2 * 1601 == sum(audit["seen"])
    assert audit["seen"][1] > 6  # episodes ended, beyond the first reset of each environment


# ---------------------------------------------------------------- how it shows itself


BAR = re.compile(r"[\x1b\r━╸╺█]")


@slow
def test_a_log_gets_lines_and_no_progress_bar(place: Place, faulty_python: Path) -> None:
    done = place.run("run", *NORMAL, *on(faulty_python, "for-loop"), *ONE)
    assert done.code == 0
    assert not BAR.search(done.err + done.out)
    assert re.search(
        r"\[1/1\] round 1 +gym faulty_envs:Normal-v0 for-loop × 2: [\d,]+ FPS", done.err
    )
    assert "FPS" in done.out


@slow
@pytest.mark.parametrize("tail", ["| head -1", "| true", ">&-"])
def test_a_closed_stdout_gives_no_traceback(place: Place, faulty_python: Path, tail: str) -> None:
    words = [*NORMAL, *on(faulty_python, "for-loop"), "--numenv", "1", "--total-step", "50"]
    line = " ".join([*place.command("run"), *words, "--repeats", "1", tail])
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place.folder,
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "Recorded in" in done.stderr or tail != "| head -1"
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
def test_a_terminal_gets_a_bar_with_round_cell_rate_and_times(
    place: Place, faulty_python: Path
) -> None:
    terminal = Terminal()
    words = ("--numenv", 2, "--duration", 3, "--repeats", 2)
    process = place.start(
        "run", *NORMAL, *on(faulty_python, "for-loop"), *words,
        stderr=terminal.theirs, env=place.environment(TERM="xterm-256color", COLUMNS="160"),
    )  # fmt: skip
    assert ended(process).code == 0
    shown = terminal.text()
    for part in ("round 1/2", "round 2/2", "Normal-v0 for-loop × 2", "FPS", "elapsed", "to go"):
        assert part in shown
    assert "━" in shown


# ---------------------------------------------------------------- how quiet and quick it is


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """CPU time of all their threads, to the nanosecond where the kernel tells it so."""
    total = 0.0
    for process in processes:
        tasks = list(Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
        if tasks:
            total += sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
        else:
            used = process.cpu_times()
            total += used.user + used.system
    return total


def measuring(parent: psutil.Process) -> psutil.Process | None:
    """The worker that has measured for a while: a child of the guardian, our child."""
    with contextlib.suppress(psutil.Error):  # a probe's, which has just ended
        for guardian in parent.children():
            for worker in guardian.children():
                if time.time() - worker.create_time() > 1.5:
                    return worker
    return None


@slow
@pytest.mark.parametrize("terminal", [False, True], ids=["log", "terminal"])
def test_the_controller_is_quiet_while_windows_are_open(
    place: Place, faulty_python: Path, terminal: bool
) -> None:
    screen = Terminal() if terminal else None
    words = ("--numenv", 4, "--duration", 5, "--repeats", 1)
    process = place.start(
        "run", *NORMAL, *on(faulty_python, "for-loop"), *words,
        stderr=screen.theirs if screen else subprocess.DEVNULL,
        env=place.environment(TERM="xterm-256color", COLUMNS="160"),
    )  # fmt: skip
    parent = psutil.Process(process.pid)
    wait_until(lambda: measuring(parent), "a worker that has been at it for 1.5 s")
    worker = measuring(parent)
    assert worker is not None
    controller = [parent, *(p for p in parent.children(recursive=True) if p != worker)]
    assert len(controller) == 2
    before, began = cpu_seconds(controller), time.monotonic()
    time.sleep(4)  # 1 s of warm-up and 5 s of windows are open for longer than that
    used, lasted = cpu_seconds(controller) - before, time.monotonic() - began
    assert worker.is_running()
    assert ended(process).code == 0
    if screen:
        assert "FPS" in screen.text()
    assert used / lasted < 0.005


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
    for option in ("--env", "--numenv", "--num-envs", "--total-step", "--preset", "--quick"):
        assert option in done.out
