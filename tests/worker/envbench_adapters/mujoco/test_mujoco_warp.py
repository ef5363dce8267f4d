"""mujoco-warp: in float32, it equals MuJoCo's physics until feet touch the ground. Its own clock
counts the steps.

Some 50 modules are compiled where Warp's cache lacks them: half a minute of a core, once.

Observed with MuJoCo Warp 4.0.0 and MuJoCo 4.0.0: for three control steps the ant falls as in
MuJoCo, within 1e-5. It touches the ground in the fourth. For a capsule steeper than 60 degrees,
Warp, like MJX, aligns the contact frame with the world's axes, and MuJoCo with the capsule's. So
their friction pyramids differ, and they diverge at once (by 0.2 in a velocity).
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

BACKEND = backends.get("mujoco-warp")
pytestmark = pytest.mark.slow
IN_THE_AIR = 3  # control steps before a foot touches the ground
# Compare the graph with its steps launched one by one. Then overflow a buffer, then make a world
# diverge.
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import mujoco_warp as mjw
import numpy as np
import warp as wp
from envbench_adapters.mujoco.warp import MujocoWarp
from envbench_worker.contract import Job
def made():
    adapter = MujocoWarp(Job("measure", "mujoco", "Ant-v3", 3, 3, 5, {}, 0))
    adapter.build()
    adapter.compile()
    adapter.prepare()
    return adapter
adapter, plain = made(), made()
adapter.run(12)
for batch in plain.bank[:12]:
    wp.copy(plain.data.ctrl, batch)
    for _ in range(5):
        mjw.step(plain.model, plain.data)
print("equal:", np.array_equal(adapter.observed(), plain.observed()), adapter.data.time.numpy()[0])
def fail():
    try:
        adapter.facts()
    except (ArithmeticError, MemoryError) as error:
        print("error:", error)
adapter.data.overflow.fill_(int(mjw.OverflowType.NEFC))
fail()
adapter.data.qvel.fill_(float("nan"))
fail()
"""


@once
def verified(name: str) -> Reply:
    """The reply of a worker that got actions and was audited; two worlds."""
    backend = backends.get(name)
    return testing.verified(backend, "mujoco", "Ant-v3", lock_steps=20, calls=100, together=10)


def observations(name: str) -> Any:
    """The observations of a trace: (steps, worlds, qpos and qvel)."""
    found = verified(name).trace
    assert found is not None
    return np.load(io.BytesIO(found))["observations"]


@once
def scripted() -> str:
    called = subprocess.run(
        [testing.interpreter(BACKEND), "-c", SCRIPT, str(WORKER_PATH)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert called.returncode == 0, called.stderr
    return called.stdout


class TestMujocoWarp(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"

    def verification(self) -> Reply:
        return verified("mujoco-warp")

    def test_differs_from_the_reference_in_precision_alone(self) -> None:
        work = self.measured().facts["work"]
        assert set(differences("mujoco", "physics", work)) == {"precision"}

    def test_finds_its_kernels_compiled_the_second_time(self) -> None:
        compiled = [
            reply.facts["modules_compiled"] for reply in (self.measured(), self.verification())
        ]
        assert min(compiled) == 0  # of the process that started later


def test_simulated_time_counts_the_frames_that_are_claimed() -> None:
    audit = verified("mujoco-warp").audit
    assert audit is not None
    assert (audit.steps, audit.resets) == (2 * audit.calls, 0)
    assert audit.frames == 5 * audit.steps


def test_an_ant_falls_as_mujocos_does() -> None:
    apart = np.abs(observations("mujoco-warp") - observations("mujoco-rollout"))
    assert apart[:IN_THE_AIR].max() < 1e-4


def test_mujocos_rollout_follows_it_through_contacts() -> None:
    found = followed("mujoco", "mujoco-warp")
    assert compared(families.get("mujoco").standards["physics"], found)[0] is True


def test_worlds_differ_by_their_actions() -> None:
    rows = observations("mujoco-warp")
    apart = np.abs(rows[:, 0] - rows[:, 1]).max(axis=1)
    assert apart[:10].max() == 0  # while these are the same
    assert apart[10:].min() > 1e-3


def test_the_graph_computes_the_same_as_its_steps_one_by_one() -> None:
    assert "equal: True 0.59999" in scripted()


def test_a_world_that_overflows_a_buffer_or_diverges_ends_the_run() -> None:
    assert "error: a buffer for contacts or constraints overflowed: <Overflow" in scripted()
    assert "error: a world diverged" in scripted()
