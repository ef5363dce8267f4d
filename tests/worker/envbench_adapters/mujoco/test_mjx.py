"""mjx: equals MuJoCo's physics until the first contact, and is counted by simulated time.

XLA takes most of the time: some 25 s of processor for each of the three programs here, which are
kept between workers and sessions (``conftest.pytest_configure``).

Observed with mujoco-mjx 3.17.0 and MuJoCo 4.0.0: for three control steps the ant falls as in
MuJoCo, within 1e-5. Its feet touch the ground in the fourth. For a capsule steeper than 60 degrees,
MJX aligns the contact frame with the world's axes, and MuJoCo with the capsule's. So their friction
pyramids differ, and the two diverge at once (by 0.3 in a velocity).
"""

from __future__ import annotations

import io
import subprocess
from typing import Any

import numpy as np
import pytest
from helpers.following import followed
from helpers.session_cache import once

from envbench import backends, families, testing
from envbench.decisions.agreement import compared
from envbench.decisions.ledger import differences
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import Reply
from envbench.testing import BackendContract

BACKEND = backends.get("mjx")
pytestmark = pytest.mark.slow
PROGRAMS = {"scan": 2, "step": 1}  # scan: a loop of chunks, and one for the steps left
IN_THE_AIR = 3  # control steps before a foot touches the ground
RUNS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from envbench_adapters.mujoco.mjx import Mjx
from envbench_worker.contract import Job
adapter = Mjx(Job("measure", "mujoco", "Ant-v3", 4, 4, 5, {"mode": "scan"}, 0))
adapter.build()
adapter.first_calls = 1  # compile only the program for the remaining steps
adapter.compile()
begin, view = adapter.state, np.asarray(adapter.state.qvel)
seen = view.copy()
adapter.run(1)
valid = np.isfinite(adapter.state.qpos).all()
print("donated:", begin.qpos.is_deleted(), (view == seen).all(), valid)
adapter.state = adapter.state.replace(qvel=adapter.state.qvel.at[1, 0].set(float("nan")))
try:
    adapter.run(1)
except ArithmeticError as error:
    print("error:", error)
"""


@once
def verified(mode: str) -> Reply:
    """The reply of one verifying worker with four worlds; mode "" is MuJoCo's own rollout."""
    backend = BACKEND if mode else backends.get("mujoco-rollout")
    given = {"mode": mode} if mode else {}
    return testing.verified(
        backend, "mujoco", "Ant-v3", numenv=4, settings=given, lock_steps=10, calls=60, together=5
    )


def observations(mode: str) -> Any:
    """The observations of a trace: (steps, worlds, qpos and qvel)."""
    found = verified(mode).trace
    assert found is not None
    return np.load(io.BytesIO(found))["observations"]


class TestMjx(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"
    numenv = 4

    def verification(self) -> Reply:
        return verified("scan")

    def test_differs_from_the_reference_in_precision_alone(self) -> None:
        work = self.measured().facts["work"]
        assert set(differences("mujoco", "physics", work)) == {"precision"}


@pytest.mark.parametrize("mode", ["scan", "step"])
def test_simulated_time_counts_the_frames_that_are_claimed(mode: str) -> None:
    audit = verified(mode).audit  # of calls of 1, 2, 3, 5, 8 and 13 steps
    assert audit is not None
    assert verified(mode).facts["programs_compiled"] == PROGRAMS[mode]
    assert (audit.steps, audit.resets) == (4 * audit.calls, 0)
    assert audit.frames == 5 * audit.steps


@pytest.mark.parametrize("mode", ["scan", "step"])
def test_an_ant_falls_as_mujocos_does(mode: str) -> None:
    apart = np.abs(observations(mode) - observations(""))
    assert apart[:IN_THE_AIR].max() < 1e-4


def test_mujocos_rollout_follows_it_through_contacts() -> None:
    found = followed("mujoco", "mjx", numenv=4)
    assert compared(families.get("mujoco").standards["physics"], found)[0] is True


def test_worlds_differ_by_their_actions() -> None:
    rows = observations("scan")
    assert rows.shape == (10, 4, 29)
    apart = np.abs(rows[:, 0] - rows[:, 1]).max(axis=1)
    assert apart[:5].max() == 0  # while these are the same
    assert apart[5:].min() > 1e-3


@once
def one_run_after_another() -> Any:
    """The output of a process that steps four worlds once, and then makes one of them diverge."""
    return subprocess.run(
        [testing.interpreter(BACKEND), "-W", "error::UserWarning", "-c", RUNS, str(WORKER_PATH)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_world_that_diverges_ends_the_run() -> None:
    called = one_run_after_another()
    assert "error: a world diverged" in called.stdout, called.stderr


def test_a_scan_donates_its_state_and_leaves_earlier_views_unchanged() -> None:
    called = one_run_after_another()
    assert "donated: True True True" in called.stdout, called.stderr
