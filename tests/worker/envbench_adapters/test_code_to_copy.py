"""The Python that adapters report really makes the same environments."""

from __future__ import annotations

import subprocess

import pytest

from envbench import backends, testing

pytestmark = pytest.mark.slow
RESET = """
observations, _ = envs.reset()
print(len(observations), tuple(observations.shape[1:]), observations.dtype)
"""


@pytest.mark.parametrize(
    ("name", "family", "task"),
    [
        ("for-loop", "atari", "Pong-v5"),
        ("subprocess", "mujoco", "Ant-v3"),
        ("envpool-sync", "atari", "Pong-v5"),
        ("envpool-async", "mujoco", "Ant-v3"),
        ("envpool-sync", "classic_control", "CartPole-v1"),
        ("ale-vector", "atari", "Pong-v5"),
    ],
)
def test_it_runs_and_gives_such_observations(name: str, family: str, task: str) -> None:
    backend = backends.get(name)
    facts = testing.verified(backend, family, task, lock_steps=20, calls=20).facts
    python = testing.interpreter(backend, family=family)
    code = f"{facts['code']}\n{RESET}\nenvs.close()\n"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    many, rest = done.stdout.split(" ", 1)
    assert rest.strip() == f"{tuple(facts['observation_shape'])} {facts['observation_dtype']}"
    assert int(many) == 2  # numenv of the contract; asynchronous pools return a batch
