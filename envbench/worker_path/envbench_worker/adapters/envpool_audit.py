"""Verify: what an EnvPool environment does a step, and a count of its frames that is its own.

``Watched`` stands in a pool's place, in verify mode only: each environment's elapsed-step counter,
followed by the environment's id, says how many steps it has made since last seen. ``work`` reads
the settings off a pool's spec and the model file that the pool was given; what neither tells (the
solver, its iterations, which MuJoCo) is left out.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional
from xml.etree import ElementTree

import numpy as np

FRAME_S = 0.01  # of simulated time


class Watched:
    """A pool whose results are seen as they pass; ``work`` says what a step of it is."""

    def __init__(self, pool: Any, work: Dict[str, Any]) -> None:
        self._pool = pool
        self._step_frames = _frames(work)
        self._elapsed = np.zeros(pool.spec.config.num_envs, np.int64)
        self._noted: List[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def step(self, *arguments: Any) -> Any:
        return self._seen(self._pool.step(*arguments))

    def recv(self) -> Any:
        return self._seen(self._pool.recv())

    def _seen(self, result: Any) -> Any:
        ids, now = result[4]["env_id"], result[4]["elapsed_step"]
        before = self._elapsed[ids]
        restarted = now < before
        self._noted.append(int(np.where(restarted, now, now - before).sum()))
        self._elapsed[ids] = now
        return result

    def frames_of(self, calls: int) -> Optional[float]:
        """Frames in the latest calls of ``step`` or ``recv``; None where a step's are not known."""
        each = self._step_frames
        return None if each is None else float(sum(self._noted[-calls:]) * each)


def _frames(work: Dict[str, Any]) -> Optional[float]:
    """Frames in a step, by what EnvPool says of it."""
    if "frame_skip" in work:
        return float(work["frame_skip"])
    if "timestep_s" in work:
        return float(round(work["timestep_s"] * work["substeps"] / FRAME_S, 6))
    return None


def work(family: str, config: Dict[str, Any], space: Any) -> Dict[str, Any]:
    """What is done a step, by a pool of that configuration and observation space."""
    found = _atari(config) if family == "atari" else _mujoco(config, space)
    return dict(
        found,
        observation_shape=list(space.shape),
        observation_dtype=str(space.dtype),
        returned_to="host",
    )


def _atari(config: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "frame_skip": config["frame_skip"],
        "max_pool": min(config["frame_skip"], 2),  # EnvPool has no choice
        "resize": "area" if config["use_inter_area_resize"] else "bilinear",
        "grayscale": config["gray_scale"],
        "screen": [config["img_height"], config["img_width"]],
        "stack": config["stack_num"],
        "noop_max": config["noop_max"],
        "fire_reset": config["use_fire_reset"],
        "sticky": float(config["repeat_action_probability"]),
        "episodic_life": config["episodic_life"],
        "reward_clip": config["reward_clip"],
        "action_set": "full" if config["full_action_space"] else "minimal",
        "max_frames": config["max_episode_steps"] * config["frame_skip"],
    }


def _mujoco(config: Dict[str, Any], space: Any) -> Dict[str, Any]:
    found = {
        "engine": "MuJoCo, EnvPool's own build",
        "substeps": config["frame_skip"],
        "precision": str(space.dtype),  # observations are MuJoCo's own numbers
        "max_steps": config["max_episode_steps"],
    }
    if "use_contact_force" in config:
        # Observed they may be; without this pass of MuJoCo's they stay zero.
        found["contact_forces"] = config["use_contact_force"] and config["post_constraint"]
    if "terminate_when_unhealthy" in config:
        found["terminates"] = config["terminate_when_unhealthy"]
    option = _option(config)
    if "timestep" in option:
        found["timestep_s"] = float(option["timestep"])
    for name in ("integrator", "solver"):
        if name in option:
            found[name] = option[name]
    if "iterations" in option:
        found["iterations"] = int(option["iterations"])
    return found


def _option(config: Dict[str, Any]) -> Dict[str, str]:
    """The ``<option>`` of the task's model file in EnvPool's package; empty where not found."""
    folder = os.path.join(config["base_path"], "mujoco", "assets_gym")
    path = os.path.join(folder, config.get("xml_file", ""))
    if not os.path.isfile(path):
        return {}
    option = ElementTree.parse(path).getroot().find("option")
    return dict(option.attrib) if option is not None else {}
