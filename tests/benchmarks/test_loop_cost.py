"""The benchmarks of envbench's own overhead: they find a planted cost, and the loop adds almost
nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent


@pytest.fixture
def real_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script as a module. It puts the worker on the path and limits threads, for itself."""
    for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
        monkeypatch.setenv(pool, "1")
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    yield import_module("loop_cost_real_steps")
    for name in [
        name
        for name in sys.modules
        if name == "loop_cost_real_steps" or name.startswith("envbench_")
    ]:
        del sys.modules[name]


class Machine:
    """A clock that drifts: each slice on it takes a little longer than the one before."""

    def __init__(self, drift: float) -> None:
        self.drift, self.slices = drift, 0
        self.chance = np.random.default_rng(1)


class Loop:
    """Takes ``cost`` seconds per call on an idle machine, and 1 % more or less by chance."""

    def __init__(self, machine: Machine, cost: float) -> None:
        self.machine, self.cost = machine, cost

    def stretch(self, calls: int) -> float:
        self.machine.slices += 1
        slower = 1 + self.machine.drift * self.machine.slices
        return calls * self.cost * slower * float(self.machine.chance.normal(1, 0.01))


@pytest.mark.parametrize("planted", [0.0, 0.02, 0.25])
def test_a_planted_cost_is_found_on_a_machine_that_slows_down(
    real_steps: Any, planted: float
) -> None:
    machine = Machine(drift=0.005)  # after 200 slices half as fast
    ours, bare = Loop(machine, 1e-4 * (1 + planted)), Loop(machine, 1e-4)
    found = real_steps.ratio(ours, bare, pairs=100, slice_s=0.1)
    expected = 1 / (1 + planted)
    assert found["ratio"] == pytest.approx(expected, rel=0.005)
    assert found["interval"][0] < expected < found["interval"][1]
    assert (found["interval"][1] < 1) == (planted > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["for-loop", "envpool-async"])
def test_both_loops_make_the_same_number_of_steps_of_the_same_environments(
    real_steps: Any, name: str
) -> None:
    ours, bare = real_steps.make("mujoco", name, 2)
    adapter = ours.adapter
    assert bare.envs is (adapter.envs if name == "for-loop" else adapter.pool)
    ours.stretch(30)
    ours.stretch(10)
    measured = ours.meter.measured
    made = np.add(measured.steps, measured.resets)
    adapter.close()
    assert list(measured.calls) == [30, 10]
    if name == "for-loop":
        assert list(made) == [60, 20]


def documents(script: str, *words: str) -> list[dict[str, Any]]:
    """What a benchmark prints."""
    command = [sys.executable, BENCHMARKS / script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_benchmark_prints_one_document_per_backend() -> None:
    words = ["--pairs", "2", "--slice", "0.05", "--numenv", "2", "--env", "mujoco"]
    words += ["--backend", "for-loop", "--backend", "envpool-async"]
    found = documents("loop_cost_real_steps.py", *words)
    assert [each["backend"] for each in found] == ["for-loop", "envpool-async"]
    for each in found:
        assert (each["env"], each["numenv"], each["pairs"]) == ("mujoco", 2, 2)
        assert each["interval"][0] < each["ratio"] < each["interval"][1]


@pytest.mark.slow
def test_the_loop_adds_less_than_a_microsecond_per_step_and_a_millisecond_per_window() -> None:
    (found,) = documents("loop_cost_empty_steps.py")
    assert found.pop("window_us") < 1000
    assert list(found) == ["for-loop and subprocess", "envpool-sync", "envpool-async"]
    assert all(nanoseconds < 1000 for nanoseconds in found.values())


@pytest.mark.slow
def test_the_cost_of_the_order_of_actions_is_one_document_per_cell() -> None:
    words = ["--pairs", "4", "--slice", "0.02", "--env", "classic_control"]
    found = documents("order_cost.py", *words)
    assert [each["backend"] for each in found] == ["for-loop", "envpool-sync"]
    assert all(each["interval"][0] < each["ratio"] < each["interval"][1] for each in found)
