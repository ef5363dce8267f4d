"""Env families in real workers: their backends keep the contract, and equal work is found equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envbench import families, testing
from envbench.backends import get
from envbench.decisions import traces
from envbench.decisions.equal_work import compared
from envbench.engine.request import make_cell, target_of
from envbench.testing import BackendContract

NEW = ("classic_control", "dm_control", "box2d")
NAMES = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "envpool-numa")
not_on_windows = pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheels there")


def contract(name: str, family: str) -> type[BackendContract]:
    fields: dict[str, Any] = {
        "backend": get(name),
        "family": family,
        "task": families.default_task(family),
        "sees_resets": family != "dm_control",  # its episodes have 1,000 steps
        "pytestmark": [pytest.mark.slow, not_on_windows],
    }
    return type(f"Test{name.title()}{family.title()}".replace("-", ""), (BackendContract,), fields)


for _family in NEW:
    for _name in NAMES:
        _made = contract(_name, _family)
        globals()[_made.__name__] = _made


@pytest.mark.slow
@not_on_windows
def test_the_cheetah_of_envpool_matches_dm_controls_within_1e_9() -> None:
    """dm_control starts from EnvPool's first observation and gets the same actions."""
    standard = families.get("dm_control").standards["env"]
    found = agreement("dm_control", "envpool-sync", lock_steps=200)
    assert compared(standard, found)[0] is True
    assert max(found.distances) < 1e-9


@pytest.mark.slow
@not_on_windows
def test_envpools_carts_move_as_gymnasiums_carts_do() -> None:
    standard = families.get("classic_control").standards["env"]
    found = agreement("classic_control", "envpool-async", lock_steps=200)
    assert compared(standard, found)[0] is True
    assert max(found.distances[:8]) < 1e-6


@pytest.mark.slow
@not_on_windows
@pytest.mark.parametrize("task", ["HumanoidCMUStand-v1", "LqrLqr21-v1"])
def test_a_task_of_dm_control_has_one_name_and_may_have_no_limit(task: str, tmp_path: Path) -> None:
    """EnvPool's name has CMU in capitals. The LQR tasks never end, and random actions can make
    them diverge; dm_control then raises its own error."""
    words = [*("--env", "dm_control", "--backend", "for-loop,envpool-sync", "--numenv", "1")]
    words += ["--total-step", "20", "--repeats", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "envbench", "run", *words, "--task", task, "--json"],
        cwd=tmp_path,
        env={**os.environ, "ENVBENCH_LOCK_FILE": str(tmp_path / "lock")},
        capture_output=True,
        text=True,
    )
    cells = json.loads(done.stdout)["cells"]
    failures = [each["failure"]["message"] for each in cells if each["failure"]]
    assert all(each.startswith("PhysicsError: ") for each in failures), done.stderr
    assert len(failures) <= (task == "LqrLqr21-v1")


def agreement(family: str, name: str, lock_steps: int) -> Any:
    """Compare as ``envbench verify`` does: the other backend runs first, the reference from its
    start."""
    from envbench import runtimes
    from envbench.engine.local_executor import make_job
    from envbench.model import Trial, Verify
    from envbench.process.one_job import execute

    replies = []
    for backend in (get(name), get("for-loop")):
        cell = make_cell("here", family, families.default_task(family), backend, 2, {})
        amount = Verify(lock_steps=lock_steps, audit_calls=10)
        trial = Trial(cell=cell, mode="verify", verify=amount)
        job = make_job(trial, target_of(cell), "here")
        files = {"start.npz": replies[0].trace} if replies else {}
        python = testing.interpreter(backend, family=family)
        reply = execute(job, python=python, environment=runtimes.environment(backend), files=files)
        assert reply.ok, reply.failure
        replies.append(reply)
    own, led = (traces.read_trace(each.trace) for each in replies)
    return traces.compare(families.get(family).standards["env"], led, own)
