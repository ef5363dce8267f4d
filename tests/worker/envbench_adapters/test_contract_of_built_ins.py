"""The built-in backends pass the contract for plugins: one class per backend and family."""

from __future__ import annotations

import sys

import pytest

from envbench.backends import get
from envbench.testing import BackendContract

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheels for Windows"),
]


class Atari(BackendContract):
    single_steps = True
    family = "atari"
    task = "Pong-v5"


class Mujoco(BackendContract):
    single_steps = True
    family = "mujoco"
    task = "Ant-v3"
    sees_resets = True


class Gym(BackendContract):
    single_steps = True
    family = "gym"
    task = "CartPole-v1"
    sees_resets = True


class TestForLoopAtari(Atari):
    backend = get("for-loop")


class TestForLoopMujoco(Mujoco):
    backend = get("for-loop")


class TestForLoopGym(Gym):
    backend = get("for-loop")


class TestSubprocessAtari(Atari):
    backend = get("subprocess")


class TestSubprocessMujoco(Mujoco):
    backend = get("subprocess")


class TestSubprocessGym(Gym):
    backend = get("subprocess")


class TestEnvPoolSyncAtari(Atari):
    backend = get("envpool-sync")


class TestEnvPoolSyncMujoco(Mujoco):
    backend = get("envpool-sync")


class TestEnvPoolAsyncAtari(Atari):
    backend = get("envpool-async")

    def test_knows_which_environments_it_returns(self) -> None:
        returns = self.measured().returns
        assert returns is not None
        assert returns.fits(2, self.cell.env_instances)
        assert min(returns.counts) > 0


class TestEnvPoolAsyncMujoco(Mujoco):
    backend = get("envpool-async")


class TestEnvPoolAsyncWithItsPublishedSettings(Atari):
    backend = get("envpool-async")
    settings = {"actions": "constant", "resize": "bilinear", "fire_reset": "true", "affinity": "0"}
