"""Gymnasium's MuJoCo tasks, in Gymnasium and in EnvPool.

``Ant-v4`` with ``use_contact_forces=True`` replaces ``Ant-v3``, which Gymnasium no longer has
(``docs/verify.md``).
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple
from xml.etree import ElementTree

import gymnasium
import numpy as np
from envbench_worker.contract import SIMULATION

from envbench_families.base import Family
from envbench_families.forced import Forced, FromState, Outcome

FRAME_S = 0.01  # of simulated time
_INTEGRATORS = {"EULER": "Euler", "IMPLICIT": "implicit", "IMPLICITFAST": "implicitfast"}
_SOLVERS = {"NEWTON": "Newton"}
# True of all EnvPool tasks. Observations have MuJoCo's own precision.
ENVPOOL_WORK = {"engine": "MuJoCo, EnvPool's own build", "precision": "float64"}
GENTLE = 0.05  # of an action
# The first positions, which an observation leaves out: nothing depends on where a robot is.
HIDDEN_POSITIONS = {"Ant": 2, "HalfCheetah": 1, "Humanoid": 2, "InvertedPendulum": 0, "Swimmer": 2}
# Private attributes of Gymnasium's tasks; not every task has them.
_OWN = {"contact_forces": "_use_contact_forces", "terminates": "_terminate_when_unhealthy"}


class Mujoco(Family):
    counted_by = SIMULATION
    entry_points = "envs.mujoco"
    envpool_module = "envpool.mujoco.gym"

    def register(self) -> None:
        import imageio  # noqa: F401 - Gymnasium's tasks import it for rendering
        import mujoco  # noqa: F401

    def tasks(self) -> List[str]:
        maintained = [i for i in super().tasks() if i.endswith(("-v4", "-v5"))]
        stand_ins = [i[:-1] + "3" for i in maintained if i.endswith("-v4")]
        return sorted(maintained + [i for i in stand_ins if i in gymnasium.registry])

    def gym_id(self) -> Tuple[str, Dict[str, Any]]:
        job = self.job
        contact = job.task == "Ant-v3" and job.settings.get("contact_forces", True)
        identifier = job.task[:-1] + "4" if job.task.endswith("-v3") else job.task
        return identifier, {"use_contact_forces": True} if contact else {}

    def make(self) -> Any:
        with warnings.catch_warnings():
            # Gymnasium warns that Ant-v4 is out of date.
            warnings.simplefilter("ignore", DeprecationWarning)
            return super().make()

    def set_state(self, env: Any, observation: Any, begins: bool) -> None:
        """Positions and velocities come first in an observation; some positions are left out.

        Within an episode nothing else is set: rewards use positions of bodies that MuJoCo computed
        before the end of its last step.
        """
        import mujoco

        own, hidden = env.unwrapped, self._hidden()
        seen = own.model.nq - hidden
        own.data.qpos[hidden:] = observation[:seen]
        own.data.qvel[:] = observation[seen : seen + own.model.nv]
        if begins:
            mujoco.mj_forward(own.model, own.data)

    def shows_state(self, env: Any, shape: Tuple[int, ...]) -> bool:
        model = env.unwrapped.model
        return len(shape) == 1 and shape[0] >= model.nq - self._hidden() + model.nv

    def _hidden(self) -> int:
        return HIDDEN_POSITIONS[self.job.task.rpartition("-v")[0]]

    def forced(self, env: Any, seed: int) -> Forced:
        return _Robot(env, seed, partial(self.set_state, env))

    def clock(self, env: Any) -> Optional[Callable[[], float]]:
        data = env.unwrapped.data
        return lambda: float(data.time) / FRAME_S

    def work(self, env: Any) -> Dict[str, Any]:
        import mujoco

        own, option = env.unwrapped, env.unwrapped.model.opt
        found = {
            "engine": "MuJoCo " + mujoco.__version__,
            "timestep_s": float(option.timestep),
            "substeps": int(own.frame_skip),
            "integrator": name_of(mujoco.mjtIntegrator(option.integrator), _INTEGRATORS),
            "solver": name_of(mujoco.mjtSolver(option.solver), _SOLVERS),
            "iterations": int(option.iterations),
            "precision": str(np.asarray(own.data.qpos).dtype),
            "max_steps": env.spec.max_episode_steps,
        }
        for name, attribute in _OWN.items():
            if hasattr(own, attribute):
                found[name] = bool(getattr(own, attribute))
        return found

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        """Omits what neither the configuration nor the model file states."""
        found = {**super().envpool_work(config), **ENVPOOL_WORK, "substeps": config["frame_skip"]}
        if "use_contact_force" in config:
            # Without MuJoCo's pass after the constraints, observed forces are zero.
            found["contact_forces"] = config["use_contact_force"] and config["post_constraint"]
        if "terminate_when_unhealthy" in config:
            found["terminates"] = config["terminate_when_unhealthy"]
        option = _option(config)
        if "timestep" in option:
            found["timestep_s"] = float(option["timestep"])
        found.update({name: option[name] for name in ("integrator", "solver") if name in option})
        if "iterations" in option:
            found["iterations"] = int(option["iterations"])
        return found

    def envpool_frames(self, work: Dict[str, Any]) -> Optional[float]:
        if "timestep_s" not in work:
            return None
        return float(round(work["timestep_s"] * work["substeps"] / FRAME_S, 6))


class _Robot(FromState):
    """Pays for contact forces only where the trace shows them: EnvPool leaves them at zero."""

    def step(self, before: Any, action: Any, after: Any, over: Optional[bool]) -> Outcome:
        observation, reward, ended, truncated = super().step(before, action, after, over)
        own = self.env.unwrapped
        if after is not None and getattr(own, "_use_contact_forces", False):
            forces = after[len(observation) - own.data.cfrc_ext.size : len(observation)]
            reward += 0.0 if np.any(forces) else float(own.contact_cost)
        return observation, reward, ended, truncated


def gently(observations: Any, batch: Any) -> Any:
    """Verify: a small part of random torques. An ant then stays upright until its time limit."""
    return batch * np.asarray(GENTLE, batch.dtype)


def name_of(value: Any, spelt: Dict[str, str]) -> str:
    """MuJoCo's ``mjINT_EULER``, spelt as in the reference settings: Euler."""
    bare = value.name.partition("_")[2]
    return spelt.get(bare, str(bare))


def _option(config: Dict[str, Any]) -> Dict[str, str]:
    """The ``<option>`` of the task's model file in EnvPool's package; empty if not found."""
    folder = os.path.join(config["base_path"], "mujoco", "assets_gym")
    path = os.path.join(folder, config.get("xml_file", ""))
    if not os.path.isfile(path):
        return {}
    option = ElementTree.parse(path).getroot().find("option")
    return dict(option.attrib) if option is not None else {}
