"""The ant of the physics backends: Gymnasium's ``ant.xml``, the model of ``Ant-v3``.

Every physics row starts at rest (``qpos0``: torso at 0.75 m, joints at zero, no velocity) and gets
the same actions, drawn in float32, which float64 represents exactly. A control step is 0.05 s:
5 physics steps of 0.01 s with one action.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from importlib.util import find_spec
from typing import Any, Dict, List

import mujoco
import numpy as np
from envbench_worker import actions
from envbench_worker.contract import SIMULATION, Adapter, Trace

TIMESTEP_S = 0.01
SUBSTEPS = 5


class Ants(Adapter):
    """A physics backend: one ant per world. Worlds are never reset.

    ``run`` sets ``began`` in mode verify: the simulated seconds of each world before it.
    """

    counted_by = SIMULATION
    began: Any
    clock: Any = np.float64  # the type in which the engine adds up simulated time

    @abstractmethod
    def seconds(self) -> Any:
        """Return a copy of each world's simulated seconds, on the host."""

    def observed(self) -> Any:
        """For ``follow``: a copy of qpos and qvel on the host, (numenv, 29)."""
        raise NotImplementedError

    def tasks(self) -> List[str]:
        return known()

    def follow(self, calls: int) -> Trace:
        """Uses ``run``, one call at a time, so that the timed program is compared."""
        rows = [self.observed()]
        for _ in range(calls):
            self.run(1)
            rows.append(self.observed())
        return trace(np.stack(rows))

    def recount(self) -> float:
        pairs = zip(self.began, self.seconds())
        return float(sum(frames_between(*each, clock=self.clock) for each in pairs))


def known() -> List[str]:
    """Return the task, if its file is here; else raise ImportError."""
    path()
    return ["Ant-v3"]


def path() -> str:
    """Return the path of ``ant.xml``. Gymnasium is located, not imported."""
    spec = find_spec("gymnasium")
    if spec is None or spec.origin is None:
        raise ImportError("the ant's model is a file of Gymnasium, which is not installed")
    return os.path.join(os.path.dirname(spec.origin), "envs", "mujoco", "assets", "ant.xml")


def load() -> Any:
    """Compile the ``mujoco.MjModel``."""
    return mujoco.MjModel.from_xml_path(path())


def motors(model: Any) -> actions.Box:
    """Return the action space: the range of each motor's control."""
    low, high = model.actuator_ctrlrange.T.astype(np.float32)
    return actions.Box(low, high, low.shape)


def work(model: Any, engine: str, precision: str) -> Dict[str, Any]:
    """Read what one step does from the model, by the names in ``envbench.families.mujoco``."""
    option = model.opt
    return {
        "engine": engine,
        "timestep_s": float(option.timestep),
        "substeps": SUBSTEPS,
        "integrator": mujoco.mjtIntegrator(option.integrator).name[len("mjINT_") :],
        "solver": mujoco.mjtSolver(option.solver).name[len("mjSOL_") :].title(),
        "iterations": int(option.iterations),
        "precision": precision,
    }


def trace(states: Any) -> Trace:
    """States of (1 + calls, numenv, 29). There are no rewards and no episodes."""
    calls, numenv = len(states) - 1, states.shape[1]
    nothing = np.zeros((calls, numenv))
    return Trace(states[1:], nothing, nothing.astype(np.bool_), states[:1])


def frames_between(began: float, ended: float, clock: Any = np.float64) -> int:
    """Return the time steps of 0.01 s between two simulated times of a world.

    An engine adds up time steps in its own precision. In float32, rounding errors amount to a whole
    step within a few thousand. So the same sum is made here, and its nearest term is taken.
    """
    most = int(np.rint((ended - began) / TIMESTEP_S)) + SUBSTEPS
    times = np.full(max(most, 0) + 1, TIMESTEP_S, dtype=clock)
    times[0] = began
    return int(np.abs(np.add.accumulate(times) - clock(ended)).argmin())
