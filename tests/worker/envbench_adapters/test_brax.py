"""brax: counted across ends of episodes in both modes, with the family's control step.

XLA takes most of the time: some 10 s of processor for each program and 5 s for a reset. Programs
are kept between workers and sessions (``conftest.pytest_configure``).
"""

from __future__ import annotations

import json
import subprocess

import pytest
from helpers.session_cache import once

from envbench import backends, families, testing
from envbench.decisions.ledger import differences
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import Reply
from envbench.testing import BackendContract

BACKEND = backends.get("brax")
pytestmark = pytest.mark.slow
PROGRAMS = {"scan": 2, "step": 1}  # scan: a loop of chunks, and one for the steps left
# Make every task. Then make one whose environments are not reset: it must be refused.
MAKES = """
import functools, json, sys
sys.path.insert(0, sys.argv[1])
from envbench_adapters import brax_env
from envbench_worker.contract import Job
frames = json.loads(sys.argv[2])
for pipeline in ("generalized", "spring", "positional", "mjx"):
    settings = {"pipeline": pipeline, "mode": "step", "actions": "constant"}
    any_task = Job("measure", "mujoco", "", 1, 1, 5, settings, 0)
    for task in brax_env.Brax(any_task).tasks():
        brax_env.Brax(any_task._replace(task=task, frame_skip=frames[task])).build()
        print("made", pipeline, task)
adapter = brax_env.Brax(any_task._replace(task="Ant-v3"))
brax_env.envs.create = functools.partial(brax_env.envs.create, auto_reset=False)
try:
    adapter.build()
except ValueError as error:
    print("refused:", error)
"""


@once
def verified(numenv: int = 4, calls: int = 300, **given: str) -> Reply:
    """The reply of one verifying worker."""
    return testing.verified(
        BACKEND, "mujoco", "Ant-v3",
        numenv=numenv, settings=given, lock_steps=5, calls=calls, seed=1,
    )  # fmt: skip


class TestBrax(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"
    numenv = 4
    sees_resets = True

    def verification(self) -> Reply:
        return verified(mode="scan")

    def test_compiles_two_programs_however_many_steps_a_call_makes(self) -> None:
        reply = self.measured()
        assert len(set(reply.warmup.calls)) > 3
        assert reply.facts["programs_compiled"] == PROGRAMS["scan"]

    def test_states_the_precision_and_that_the_physics_is_its_own(self) -> None:
        work = self.measured().facts["work"]
        assert set(families.get("mujoco").work["env"]) <= set(work)
        assert set(differences("mujoco", "env", work)) >= {"solver", "integrator", "precision"}
        assert self.measured().facts["observations_finite"] is True


@pytest.mark.parametrize("mode", ["scan", "step"])
def test_elapsed_step_counters_count_the_frames_that_are_claimed(mode: str) -> None:
    reply = verified(mode=mode)
    audit = reply.audit
    assert audit is not None
    assert audit.resets > 4  # ends of episodes, at which the counters start anew
    assert audit.steps == 4 * audit.calls  # reset within the step: every result is a transition
    assert audit.frames == 5 * audit.steps
    assert reply.trace is not None  # another model, but it follows its actions
    assert reply.facts["programs_compiled"] == PROGRAMS[mode]


@pytest.mark.parametrize(("pipeline", "substeps"), [("spring", 10), ("mjx", 5)])
def test_an_ants_step_is_five_frames_in_another_pipeline(pipeline: str, substeps: int) -> None:
    reply = verified(numenv=2, calls=60, pipeline=pipeline, mode="step")
    work = reply.facts["work"]
    assert (work["substeps"], work["timestep_s"] * substeps) == (substeps, pytest.approx(0.05))
    assert reply.audit is not None
    assert reply.audit.frames == 5 * reply.audit.steps


@once
def makes() -> str:
    """The output of a process that makes every task in every pipeline."""
    frames = {
        f"{name}-v3": families.get("mujoco").frames_per_step(f"{name}-v3")
        for name in families.get("mujoco").frames_of
    }
    called = subprocess.run(
        [testing.interpreter(BACKEND), "-c", MAKES, str(WORKER_PATH), json.dumps(frames)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert called.returncode == 0, called.stderr
    return called.stdout


def test_a_step_of_every_known_task_is_as_long_as_the_familys() -> None:
    lines = [line.split() for line in makes().splitlines() if line.startswith("made ")]
    made = {name: {task for _, pipeline, task in lines if pipeline == name} for _, name, _ in lines}
    assert len(made["generalized"]) == 10
    swimmer, pendulum = {"Swimmer-v3"}, {"InvertedPendulum-v3"}
    assert made["mjx"] == made["generalized"] - swimmer
    assert made["spring"] == made["positional"] == made["mjx"] - pendulum


def test_environments_that_would_be_stepped_beyond_their_end_are_refused() -> None:
    assert "refused: Brax made Ant-v3 without its AutoResetWrapper" in makes()
