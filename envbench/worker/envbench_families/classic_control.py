"""Gymnasium's classic control tasks, in Gymnasium and in EnvPool."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from envbench_families.base import Family


class ClassicControl(Family):
    entry_points = "envs.classic_control"
    envpool_module = "envpool.classic_control"

    def set_state(self, env: Any, observation: Any, begins: bool) -> None:
        """The observation of CartPole, and of MountainCar, is its state."""
        env.unwrapped.state = np.array(observation, dtype=np.float64)

    def work(self, env: Any) -> Dict[str, Any]:
        own, found = env.unwrapped, super().work(env)
        if hasattr(own, "tau"):
            found.update(timestep_s=float(own.tau), integrator=own.kinematics_integrator.title())
        return found
