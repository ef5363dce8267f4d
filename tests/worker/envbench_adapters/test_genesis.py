"""genesis: the same ant under another engine, counted by Genesis's own clock.

Each worker here takes half a minute (10 s of imports, 13 s to build from kernels on disk). If
Genesis's cache lacks the kernels, the first worker takes about three more minutes of a core.

Observed with Genesis 1.4.5 and MuJoCo 4.0.0: the masses are equal. After one control step in the
air, joint angles differ by at most 0.006 rad if MuJoCo uses Genesis's integrator (implicitfast).
With RK4, the ankles of MuJoCo, which start outside their limits, are 0.2 rad behind.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from helpers.session_cache import once

from envbench import backends, testing
from envbench.decisions.ledger import differences
from envbench.process.code_hash import WORKER_PATH
from envbench.testing import BackendContract

BACKEND = backends.get("genesis")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
# One control step by Genesis and by MuJoCo, an audit by hand, then a world that diverged.
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import genesis as gs
import mujoco
import numpy as np
from envbench_worker import actions
from envbench_adapters.mujoco import ant as ant_model
from envbench_adapters.genesis_scene import Genesis
from envbench_worker.contract import Job
adapter = Genesis(Job("verify", "mujoco", "Ant-v3", 3, 3, 5, {"threads": 0}, 5))
adapter.build()
adapter.compile()
adapter.prepare()
trace = adapter.follow(1)
model = ant_model.load()
model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
data = mujoco.MjData(model)
controls = actions.bank(ant_model.motors(model), 3, 5, "bank")[0]
joints = [model.joint(j).name for j in range(1, model.njnt)]
at = [adapter.ant.get_joint(name).qs_idx_local[0] for name in joints]
angles = adapter.ant.get_qpos().numpy()
apart, moved = [], []
for world in range(3):
    mujoco.mj_resetData(model, data)
    data.ctrl[:] = controls[world]
    mujoco.mj_step(model, data, nstep=5)
    apart.append(float(np.abs(angles[world][at] - data.qpos[7:]).max()))
    moved.append(float(np.abs(data.qpos[7:]).max()))
audits = []
for calls in (1, 2, 3, 13):
    audits.append([adapter.run(calls).steps, adapter.recount()])
masses = [float(adapter.ant.get_mass()), float(model.body_mass.sum())]
work = adapter.facts()["work"]
adapter.ant.set_dofs_velocity(np.full((3, 14), np.nan, dtype=np.float32))
try:
    adapter.facts()
    message = ""
except ArithmeticError as error:
    message = str(error)
seen = list(trace.observations.shape)
seed = gs.qd.cfg.random_seed
print(json.dumps({"seen": seen, "apart": apart, "moved": moved, "audits": audits,
                  "masses": masses, "work": work, "message": message, "seed": seed}))
"""


@once
def scripted() -> Any:
    called = subprocess.run(
        [testing.interpreter(BACKEND), "-c", SCRIPT, str(WORKER_PATH)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert called.returncode == 0, called.stderr
    return json.loads(called.stdout.splitlines()[-1])


class TestGenesis(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"

    def test_says_how_its_work_differs_from_the_reference(self) -> None:
        work = self.measured().facts["work"]
        assert differences("mujoco", "physics", work) == {
            "integrator": ("RK4", "approximate_implicitfast"),
            "iterations": (100, 25),
            "precision": ("float64", "float32"),
        }


def test_genesis_counts_the_frames_that_are_claimed() -> None:
    assert [steps for steps, _ in scripted()["audits"]] == [3, 6, 9, 39]
    assert all(frames == 5 * steps for steps, frames in scripted()["audits"])


def test_motors_drive_the_joints_that_mujocos_drive() -> None:
    ours, theirs = scripted()["masses"]
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert min(scripted()["moved"]) > 0.1
    assert max(scripted()["apart"]) < 0.02


def test_another_engine_also_records_a_trace_of_given_actions() -> None:
    assert scripted()["seen"] == [1, 3, 29]


def test_a_world_that_diverges_ends_the_run() -> None:
    assert "a world diverged" in scripted()["message"]


def test_the_seed_of_a_job_is_no_part_of_the_keys_of_genesis_kernels() -> None:
    """Otherwise each verification, which draws a seed, compiles all kernels again: minutes."""
    assert scripted()["seed"] == 0  # the default of its compiler
