"""Actions with which an episode lasts until its time limit, in Gymnasium's own environments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import pytest

from envbench import families
from envbench.process.code_hash import WORKER_PATH


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Finds a function of the worker, as the worker finds it."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    from envbench_worker.contract import named

    yield named
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("family", "task"), [("mujoco", "Ant-v5"), ("classic_control", "CartPole-v1")]
)
def test_every_episode_lasts_until_its_time_limit(named: Any, family: str, task: str) -> None:
    data = families.get(family)
    choose, limit = named(data.lasting), data.time_limit("env", data.default_task)
    envs = gymnasium.vector.SyncVectorEnv([partial(gymnasium.make, task)] * 10)
    observations, _ = envs.reset(seed=7)
    envs.action_space.seed(7)
    for step in range(1, limit + 1):
        actions = choose(observations, envs.action_space.sample())
        observations, _, terminated, truncated, _ = envs.step(actions)
        assert not terminated.any()
        assert (truncated.all(), truncated.any()) == (step == limit, step == limit)
    envs.close()
