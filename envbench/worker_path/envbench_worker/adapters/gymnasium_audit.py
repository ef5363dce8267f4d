"""Verify: what a Gymnasium environment does a step, and a count of its frames that is its own.

``Counted`` goes outside all preprocessing, in verify mode only, and adds up what the emulator or
the simulation itself says has passed during each ``step``: ALE's frame number, MuJoCo's simulated
time, or a time limit's counter of elapsed steps. ``work`` reads the settings off an environment, by
the names of ``envbench.equal_work.reference``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import gymnasium
import numpy as np

from envbench_worker.contract import Job

FRAME_S = 0.01  # of simulated time
_MICRO = 6  # decimals of a frame: simulated time is a sum of floats
_INTEGRATORS = {"EULER": "Euler", "IMPLICIT": "implicit", "IMPLICITFAST": "implicitfast"}
_SOLVERS = {"NEWTON": "Newton"}


class Counted(gymnasium.Wrapper):  # type: ignore[misc]
    """An environment that adds up the frames of its steps, whoever made them; a reset has none."""

    def __init__(self, env: Any, job: Job) -> None:
        super().__init__(env)
        self._now = _clock(env, job)
        self._whole = job.frame_skip if job.family == "atari" else 0
        self._made = 0.0

    def step(self, action: Any) -> Any:
        if self._now is None:
            return self.env.step(action)
        before = self._now()
        result = self.env.step(action)
        frames = self._now() - before
        # The end of a game cuts its last step short: a step all the same, of so many frames.
        if (result[2] or result[3]) and 0 < frames < self._whole:
            frames = self._whole
        self._made += frames
        return result

    def frames_made(self) -> Optional[float]:
        """Frames since this was last asked for; None where nothing counts them."""
        made, self._made = self._made, 0.0
        return None if self._now is None else round(made, _MICRO)


def _clock(env: Any, job: Job) -> Optional[Callable[[], float]]:
    """The environment's own count of frames, None where it has none."""
    own = env.unwrapped
    if job.family == "atari":
        return lambda: float(own.ale.getFrameNumber())
    if job.family == "mujoco":
        return lambda: float(own.data.time) / FRAME_S
    if env.has_wrapper_attr("_elapsed_steps"):  # a time limit's
        return lambda: float(env.get_wrapper_attr("_elapsed_steps") or 0) * job.frame_skip
    return None


# ---------------------------------------------------------------- what a step is


def work(env: Any, family: str) -> Dict[str, Any]:
    """What is done a step of atari or mujoco, read off an environment made as for measuring."""
    return _atari(env) if family == "atari" else _mujoco(env)


def _atari(env: Any) -> Dict[str, Any]:
    own, seen = env.unwrapped, env.get_wrapper_attr
    minimal = len(own.ale.getMinimalActionSet())
    return {
        "frame_skip": seen("frame_skip"),
        "max_pool": 2 if seen("frame_skip") > 1 else 1,  # AtariPreprocessing has no choice
        "resize": "area",  # nor here
        "grayscale": seen("grayscale_obs"),
        "screen": list(seen("screen_size")),
        "stack": env.observation_space.shape[0],
        "noop_max": seen("noop_max"),
        "fire_reset": False,  # it would take a wrapper that is not there
        "reward_clip": False,  # likewise
        "sticky": own.ale.getFloat("repeat_action_probability"),
        "episodic_life": seen("terminal_on_life_loss"),
        "action_set": "minimal" if env.action_space.n == minimal else "full",
        "max_frames": own.ale.getInt("max_num_frames_per_episode"),
    }


def _mujoco(env: Any) -> Dict[str, Any]:
    import mujoco

    own, option = env.unwrapped, env.unwrapped.model.opt
    found = {
        "engine": "MuJoCo " + mujoco.__version__,
        "timestep_s": float(option.timestep),
        "substeps": int(own.frame_skip),
        "integrator": _name(mujoco.mjtIntegrator(option.integrator), _INTEGRATORS),
        "solver": _name(mujoco.mjtSolver(option.solver), _SOLVERS),
        "iterations": int(option.iterations),
        "precision": str(np.asarray(own.data.qpos).dtype),
        "max_steps": env.spec.max_episode_steps,
    }
    # Gymnasium keeps these to itself; not every task has them.
    own_names = {"contact_forces": "_use_contact_forces", "terminates": "_terminate_when_unhealthy"}
    for name, attribute in own_names.items():
        if hasattr(own, attribute):
            found[name] = bool(getattr(own, attribute))
    return found


def _name(value: Any, spelt: Dict[str, str]) -> str:
    """MuJoCo's ``mjINT_EULER`` as the ledger spells it: Euler."""
    bare = value.name.partition("_")[2]
    return spelt.get(bare, str(bare))
