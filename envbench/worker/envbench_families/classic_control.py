"""Gymnasium's classic control tasks, in Gymnasium and in EnvPool."""

from __future__ import annotations

from typing import Any, Dict

import gymnasium
import numpy as np

from envbench_families.base import Family

ENGINE = "Gymnasium " + gymnasium.__version__  # its equations of motion
LEANS = (0.05, 0.1, 1.0, 0.5)  # weights of the cart's place and speed, the pole's angle and speed


class ClassicControl(Family):
    entry_points = "envs.classic_control"
    envpool_module = "envpool.classic_control"

    def set_state(self, env: Any, observation: Any, begins: bool) -> None:
        """The observation of CartPole, and of MountainCar, is its state."""
        env.unwrapped.state = np.array(observation, dtype=np.float64)

    def work(self, env: Any) -> Dict[str, Any]:
        own, found = env.unwrapped, {**super().work(env), "engine": ENGINE}
        if hasattr(own, "tau"):
            found.update(timestep_s=float(own.tau), integrator=own.kinematics_integrator.title())
        return found

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        return {**super().envpool_work(config), "engine": "EnvPool's own equations"}


def balance(observations: Any, batch: Any) -> Any:
    """Verify: push the cart to the side to which its pole leans. It then stays up until its time
    limit."""
    seen = np.asarray(observations, np.float64).reshape(len(observations), -1)[:, : len(LEANS)]
    leans = seen @ np.array(LEANS[: seen.shape[1]])  # a plugin may show fewer numbers, or more
    return (leans > 0).astype(batch.dtype)
