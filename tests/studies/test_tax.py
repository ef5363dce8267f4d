"""The overhead benchmarks run and print their figures. The figures need a quiet machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "tax.py"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["for-loop", "envpool-async"])
def test_both_loops_step_the_same_environments_at_about_the_same_speed(backend: str) -> None:
    words = ["--pairs", "6", "--slice", "0.1", "--numenv", "2", "--env", "mujoco"]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words, "--backend", backend],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["env"], found["backend"], found["pairs"]) == ("mujoco", backend, 6)
    assert found["interval"][0] < found["ratio"] < found["interval"][1]
    assert 0.7 < found["ratio"] < 1.4  # a loose limit, because tests run on busy machines


@pytest.mark.slow
def test_the_loop_adds_less_than_a_microsecond_to_a_step_and_a_millisecond_to_a_window() -> None:
    script = BENCHMARK.with_name("loop_cost.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("window_us") < 1000
    assert all(nanoseconds < 1000 for nanoseconds in found.values())
