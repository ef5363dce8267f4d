"""The DeepMind Control Suite, in dm_control itself and in EnvPool."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import gymnasium
import numpy as np
from envbench_worker.contract import SIMULATION

from envbench_families.base import Family
from envbench_families.mujoco import _INTEGRATORS, ENVPOOL_WORK, name_of


class DmControl(Family):
    counted_by = SIMULATION
    envpool_module = "envpool.mujoco.dmc"

    def tasks(self) -> List[str]:
        return sorted(_suite())

    def gym_id(self) -> Tuple[str, Dict[str, Any]]:
        domain, task = _suite()[self.job.task]
        return self.job.task, {"domain": domain, "task": task}

    def code(self) -> str:
        return ""  # ``SuiteEnv`` is envbench's own

    def make(self) -> Any:
        return SuiteEnv(*_suite()[self.job.task])

    def set_state(self, env: Any, observation: Any, begins: bool) -> None:
        """The cheetah's observation is its state without the horizontal position."""
        physics = env.unwrapped.suite.physics
        free = len(physics.data.qpos) - 1
        physics.data.qpos[1:] = observation[:free]
        physics.data.qvel[:] = observation[free:]
        physics.forward()

    def clock(self, env: Any) -> Optional[Callable[[], float]]:
        suite = env.unwrapped.suite
        return lambda: float(suite.physics.time() / suite.control_timestep()) * self.job.frame_skip

    def work(self, env: Any) -> Dict[str, Any]:
        import mujoco

        suite = env.unwrapped.suite
        option = suite.physics.model.opt
        limit = suite._step_limit
        return {
            **({"max_steps": int(limit)} if np.isfinite(limit) else {}),
            "engine": "MuJoCo " + mujoco.__version__,
            "timestep_s": float(option.timestep),
            "substeps": round(suite.control_timestep() / option.timestep),
            "integrator": name_of(mujoco.mjtIntegrator(option.integrator), _INTEGRATORS),
            "precision": str(np.asarray(suite.physics.data.qpos).dtype),
        }

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        return {**super().envpool_work(config), **ENVPOOL_WORK}

    def flat(self, observations: Any) -> Any:
        parts = [np.reshape(each, (len(each), -1)) for each in observations.values()]
        return np.concatenate(parts, axis=1)


def _suite() -> Dict[str, Tuple[str, str]]:
    """EnvPool's name of each task (``BallInCupCatch-v1``) -> dm_control's domain and task."""
    from dm_control import suite

    words = {pair: "_".join(pair).split("_") for pair in suite.ALL_TASKS}
    return {"".join(w[:1].upper() + w[1:] for w in words[p]) + "-v1": p for p in suite.ALL_TASKS}


class SuiteEnv(gymnasium.Env):  # type: ignore[misc]
    """dm_control's own ``Environment``. Observations are flattened in their own order."""

    def __init__(self, domain: str, task: str) -> None:
        from dm_control import suite

        self.suite = suite.load(domain, task)
        action, seen = self.suite.action_spec(), self.suite.observation_spec().values()
        size = int(sum(np.prod(each.shape) for each in seen))
        box = gymnasium.spaces.Box
        self.action_space = box(action.minimum, action.maximum, dtype=np.float64)
        self.observation_space = box(-np.inf, np.inf, (size,), np.float64)

    def reset(self, *, seed: Optional[int] = None, options: Any = None) -> Any:
        if seed is not None:
            self.suite.task._random = np.random.RandomState(seed)
        return _flat(self.suite.reset().observation), {}

    def step(self, action: Any) -> Any:
        result = self.suite.step(action)
        ended = result.last()
        terminated = ended and result.discount == 0.0
        return _flat(result.observation), result.reward, terminated, ended and not terminated, {}


def _flat(observation: Dict[str, Any]) -> Any:
    return np.concatenate([np.ravel(each) for each in observation.values()])
