"""mujoco-rollout: MuJoCo itself, to the last bit, counted by simulated time.

A rollout starts the solver without a warm start, so the last digits depend on where calls end. The
difference is 1e-14 at first and grows with contacts. Observed with MuJoCo 4.0.0.
"""

from __future__ import annotations

import io
import subprocess
import sys
from importlib import import_module
from typing import Any

import mujoco
import numpy as np
import pytest
from helpers.session_cache import once

from envbench import backends, testing
from envbench.decisions.ledger import differences
from envbench.machine import usable_cpus
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import Reply
from envbench.testing import BackendContract

BACKEND = backends.get("mujoco-rollout")
pytestmark = pytest.mark.slow
STEPS, WORLDS = 60, 3
DIVERGES = """
import sys
sys.path.insert(0, sys.argv[1])
from envbench_adapters.mujoco.rollout import MujocoRollout
from envbench_worker.contract import Job
settings = {"threads": 0, "horizon": 1}
adapter = MujocoRollout(Job("measure", "mujoco", "Ant-v3", 2, 2, 5, settings, 0))
adapter.build()
adapter.states[1, -1, 20] = float("nan")
try:
    adapter.run(3)
except ArithmeticError as error:
    print("error:", error)
"""


@once
def verified(horizon: int) -> Reply:
    """The reply of a worker that got actions and was audited."""
    return testing.verified(
        BACKEND, "mujoco", "Ant-v3",
        numenv=WORLDS, settings={"horizon": str(horizon)}, lock_steps=STEPS, calls=200, together=0,
    )  # fmt: skip


def observations(horizon: int) -> Any:
    """The observations of a trace: (steps, worlds, qpos and qvel)."""
    found = verified(horizon).trace
    assert found is not None
    return np.load(io.BytesIO(found))["observations"]


def stepped(restart: int) -> Any:
    """The same by ``mj_step``, with the warm start reset every ``restart`` control steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(WORKER_PATH))
        ant = import_module("envbench_adapters.mujoco.ant")
        actions = import_module("envbench_worker.actions")
    model = ant.load()
    bank = actions.bank(ant.motors(model), WORLDS, 0, "bank")
    rows = np.empty((STEPS, WORLDS, model.nq + model.nv))
    for world in range(WORLDS):
        data = mujoco.MjData(model)
        for step in range(STEPS):
            data.ctrl[:] = bank[step][world]
            if step % restart == 0:
                data.qacc_warmstart[:] = 0
            mujoco.mj_step(model, data, nstep=5)
            rows[step, world] = np.concatenate([data.qpos, data.qvel])
    return rows


class TestMujocoRollout(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"

    def test_has_no_difference_from_the_reference(self) -> None:
        assert differences("mujoco", "physics", self.measured().facts["work"]) == {}


class TestMujocoRolloutAsAPlannerUsesIt(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"
    settings = {"horizon": "20", "threads": "1"}


@pytest.mark.parametrize("horizon", [1, 7])
def test_simulated_time_counts_the_frames_that_are_claimed(horizon: int) -> None:
    audit = verified(horizon).audit
    assert audit is not None
    assert (audit.steps, audit.resets) == (WORLDS * audit.calls, 0)
    assert audit.frames == 5 * audit.steps


@pytest.mark.parametrize("horizon", [1, 7])
def test_worlds_do_what_mj_step_does_to_the_last_bit(horizon: int) -> None:
    assert np.array_equal(observations(horizon), stepped(restart=horizon))


def test_splitting_calls_changes_only_the_last_digits() -> None:
    apart = np.abs(observations(1) - stepped(restart=STEPS))
    assert 0 < apart[:20].max() < 1e-9


def test_worlds_differ_by_their_actions() -> None:
    rows = observations(1)
    assert np.abs(rows[:, 0] - rows[:, 1]).max(axis=1).min() > 1e-3


def test_threads_are_no_more_than_worlds_and_usable_cpus() -> None:
    assert verified(1).facts["threads"] == min(WORLDS, usable_cpus())


def test_a_world_that_diverges_ends_the_run() -> None:
    called = subprocess.run(
        [sys.executable, "-c", DIVERGES, str(WORKER_PATH)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "error: a world diverged" in called.stdout, called.stderr
