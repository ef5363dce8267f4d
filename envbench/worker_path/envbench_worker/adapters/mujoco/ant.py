"""The ant of the physics backends: Gymnasium's ``ant.xml``, the model of ``Ant-v3``.

Every physics row starts at rest (``qpos0``: torso at 0.75 m, joints at zero, no velocity) and gets
the same actions, drawn in float32, which float64 represents exactly. A control step is 0.05 s:
5 physics steps of 0.01 s with one action.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, Dict, List, NamedTuple

import mujoco
import numpy as np

from envbench_worker.contract import Job, UnknownTaskError

KNOWN = ["Ant-v3"]
TIMESTEP_S = 0.01
SUBSTEPS = 5


class Motors(NamedTuple):
    """The action space: the range of each motor's control, as ``actions.bank`` needs it."""

    low: Any
    high: Any
    shape: Any
    dtype: Any


def probe(job: Job) -> None:
    """Raise ``UnknownTaskError`` for any task but the ant, ImportError without its file."""
    if job.task not in KNOWN:
        raise UnknownTaskError(job.task, KNOWN)
    path()


def path() -> str:
    """The path of ``ant.xml``. Gymnasium is located, not imported."""
    spec = find_spec("gymnasium")
    if spec is None or spec.origin is None:
        raise ImportError("the ant's model is a file of Gymnasium, which is not installed")
    return os.path.join(os.path.dirname(spec.origin), "envs", "mujoco", "assets", "ant.xml")


def load() -> Any:
    """The compiled ``mujoco.MjModel``."""
    return mujoco.MjModel.from_xml_path(path())


def motors(model: Any) -> Motors:
    low, high = model.actuator_ctrlrange.T.astype(np.float32)
    return Motors(low, high, low.shape, np.dtype(np.float32))


def work(model: Any, engine: str, precision: str) -> Dict[str, Any]:
    """What one step does, by the names in ``envbench.families.mujoco``, read from the model."""
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


def whole_frames(seconds: Any) -> float:
    """The frames in each world's simulated seconds, rounded per world and summed."""
    frames: List[float] = np.rint(np.asarray(seconds, dtype=np.float64) / TIMESTEP_S).tolist()
    return float(sum(frames))
