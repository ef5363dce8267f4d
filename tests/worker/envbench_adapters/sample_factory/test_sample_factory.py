"""sample-factory: its samplers follow given actions, are counted a second way, and end with all
their processes.

The real library in its own runtime (made where it is not there yet), in real processes.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from helpers.session_cache import once

from envbench import families, testing
from envbench.backends import get
from envbench.errors import UsageError
from envbench.process.one_job import WORKER
from envbench.process.reply import Reply
from envbench.testing import BackendContract

pytestmark = pytest.mark.slow
BACKEND = get("sample-factory")
TASKS = {"atari": "Pong-v5", "mujoco": "Ant-v3"}


@once
def verified(family: Any, numenv: int, **settings: str) -> tuple[Reply, list[Path]]:
    """The reply of a verifying worker, and the files that it left."""
    with tempfile.TemporaryDirectory() as folder:
        reply = testing.verified(
            BACKEND, family, TASKS[family],
            numenv=numenv, settings=settings, lock_steps=60, calls=1300,
            environment={"HOME": folder, "TMPDIR": folder},
        )  # fmt: skip
        return reply, [path for path in Path(folder).rglob("*") if path.is_file()]


class TestSampleFactoryAtari(BackendContract):
    backend = BACKEND
    family = "atari"
    task = TASKS["atari"]

    def verification(self) -> Reply:
        return verified("atari", self.numenv)[0]


class TestSampleFactoryMujocoDoubleBuffered(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = TASKS["mujoco"]
    numenv = 4
    settings = {"envs_per_worker": "4", "worker_splits": "2"}


@pytest.mark.parametrize(
    ("family", "numenv", "settings"),
    [
        ("atari", 2, {}),
        ("mujoco", 2, {}),
        ("mujoco", 4, {"envs_per_worker": "2", "worker_splits": "2"}),
    ],
)
def test_environments_count_the_frames_that_are_claimed_across_episodes_and_leave_no_file(
    family: str, numenv: int, settings: dict[str, str]
) -> None:
    reply, left = verified(family, numenv, **settings)
    assert reply.audit is not None
    assert reply.audit.steps == reply.audit.calls * numenv
    assert reply.audit.resets > 0
    frames = reply.audit.steps * families.get(family).frames_per_step(TASKS[family])
    assert reply.audit.frames == pytest.approx(frames, abs=0.01)
    assert reply.facts["autoreset"] == "same-step"
    assert left == []


def test_environments_that_do_not_fill_every_worker_are_refused() -> None:
    with pytest.raises(UsageError, match=r"numenv \(3\) has to be a multiple of envs_per_worker"):
        testing.verified(BACKEND, "mujoco", "Ant-v3", numenv=3, settings={"envs_per_worker": "2"})


# ---------------------------------------------------------------- inside the runtime

PREAMBLE = """
import os, signal, sys, time
import numpy as np
sys.path.insert(0, {worker!r})
import envbench_families
from envbench_worker import actions
from envbench_adapters.sample_factory.sampler import SampleFactory
from envbench_worker.contract import Job

def adapter(mode, family, task, frame_skip, numenv=2):
    job = Job(mode, family, task, numenv, numenv, frame_skip,
              {{"envs_per_worker": 1, "worker_splits": 1}}, 3,
              f"envbench_families.{{family}}:{{family.title()}}")
    made = SampleFactory(job)
    made.probe()
    made.build()
    return made
"""
FOLLOWS = """
def follows(*task):
    made = adapter("verify", *task)
    trace = made.follow(40)
    made.close()
    space = made.env_info.action_space
    bank = actions.bank(space, 2, 3, "bank")
    assert len(trace.ended) >= 5
    for column in range(2):
        env = envbench_families.of(made.job._replace(mode="verify")).make()
        env.reset(seed=3 + column)
        for step in range(len(trace.ended)):
            action = bank[step][column]
            observation, reward, *_ = env.step(int(action) if action.ndim == 0 else action)
            assert (np.asarray(observation) == trace.observations[step, column]).all(), step
            assert np.float32(reward) == trace.rewards[step, column], step
    assert (trace.observations[1:] != trace.observations[:-1]).any()
    print(task[0], "agrees")
"""
DIES = """
if __name__ == "__main__":
    follows("atari", "Pong-v5", 4)
    follows("mujoco", "Ant-v3", 5)
    made = adapter("measure", "mujoco", "Ant-v3", 5)
    made.run(10)
    while made.api.traj_queue.qsize() < 3:
        time.sleep(0.1)
    made.resume()
    print("waiting after a pause:", made.api.traj_queue.qsize() > 1)
    os.kill(made.children[-1].pid, signal.SIGKILL)
    try:
        while True:
            made.run(20)
    except RuntimeError as error:
        print(error, made.dead_child(), [c.is_alive() for c in made.children])
"""


@once
def scripted() -> str:
    """The output of a program that runs in the backend's own runtime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(PREAMBLE.format(worker=str(WORKER.parents[1])) + FOLLOWS + DIES)
        done = subprocess.run(
            [testing.interpreter(BACKEND), "-I", path], cwd=folder, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("family", ["atari", "mujoco"])
def test_given_actions_give_the_results_of_an_environment_stepped_alone(family: str) -> None:
    assert f"{family} agrees" in scripted()


def test_a_process_that_dies_is_reported_and_ends_the_others() -> None:
    assert "ended with exit code -9 -9 [False, False, False]" in scripted()


def test_what_the_processes_made_while_no_clock_ran_is_left_out() -> None:
    assert "waiting after a pause: False" in scripted()
