"""Atari games by ALE.

``docs/measurement.md`` has the reference settings. AtariPreprocessing and EnvPool draw from 1 to
``noop_max`` no-ops. In mode verify it is 1, so every game starts after one no-op.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Tuple

import gymnasium
from envbench_worker.contract import Job
from gymnasium import wrappers

from envbench_families.base import Family

MAX_FRAMES = 108_000


def reference(job: Job) -> Dict[str, Any]:
    """List the reference settings of a step, for a library that does not report them."""
    return {
        "frame_skip": int(job.frame_skip),
        "max_pool": 2,
        "resize": "area",
        "grayscale": True,
        "screen": [84, 84],
        "stack": 4,
        "noop_max": 30,
        "fire_reset": False,
        "sticky": 0.0,
        "episodic_life": False,
        "reward_clip": False,
        "action_set": "minimal",
        "max_frames": MAX_FRAMES,
    }


class Atari(Family):
    envpool_module = "envpool.atari"
    agrees_throughout = True

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.whole_step = job.frame_skip

    def register(self) -> None:
        import ale_py
        import cv2  # noqa: F401 - AtariPreprocessing needs it

        if hasattr(gymnasium, "register_envs"):
            gymnasium.register_envs(ale_py)
        else:
            import_module("shimmy")  # registers ale-py 0.8's games in Gymnasium 0.29

    def tasks(self) -> List[str]:
        ids = sorted(gymnasium.registry)
        return [i.split("/", 1)[1] for i in ids if i.startswith("ALE/") and i.endswith("-v5")]

    def gym_id(self) -> Tuple[str, Dict[str, Any]]:
        return "ALE/" + self.job.task, {
            "frameskip": 1,
            "repeat_action_probability": 0.0,
            "full_action_space": False,
            "max_num_frames_per_episode": MAX_FRAMES,
        }

    def prepared(self, env: Any) -> Any:
        env = wrappers.AtariPreprocessing(
            env,
            noop_max=1 if self.job.mode == "verify" else 30,
            frame_skip=int(self.job.frame_skip),
            screen_size=84,
            terminal_on_life_loss=False,
            grayscale_obs=True,
            scale_obs=False,
        )
        # Gymnasium 0.29 has another name for it.
        stack = getattr(wrappers, "FrameStackObservation", None) or wrappers.FrameStack
        return stack(env, 4)

    def clock(self, env: Any) -> Optional[Callable[[], float]]:
        emulator = env.unwrapped.ale
        return lambda: float(emulator.getFrameNumber())

    def work(self, env: Any) -> Dict[str, Any]:
        own = env.unwrapped
        while not hasattr(env, "noop_max"):  # the preprocessing wrapper
            env = env.env
        minimal, screen = len(own.ale.getMinimalActionSet()), env.screen_size
        return {
            "frame_skip": env.frame_skip,
            "max_pool": 2 if env.frame_skip > 1 else 1,  # fixed in AtariPreprocessing
            "resize": "area",  # fixed too
            "grayscale": env.grayscale_obs,
            "screen": [screen, screen] if isinstance(screen, int) else list(screen),
            "stack": 4,
            "noop_max": env.noop_max,
            "fire_reset": False,  # needs a wrapper that is not used here
            "reward_clip": False,  # needs one too
            "sticky": own.ale.getFloat("repeat_action_probability"),
            "episodic_life": env.terminal_on_life_loss,
            "action_set": "minimal" if env.action_space.n == minimal else "full",
            "max_frames": own.ale.getInt("max_num_frames_per_episode"),
        }

    def envpool_arguments(self) -> Dict[str, Any]:
        skip, settings = int(self.job.frame_skip), self.job.settings
        return {
            "frame_skip": skip,
            "stack_num": 4,
            "noop_max": 30,
            "use_fire_reset": settings["fire_reset"],
            "episodic_life": False,
            "reward_clip": False,
            "repeat_action_probability": 0.0,
            "full_action_space": False,
            "max_episode_steps": MAX_FRAMES // skip,
            "use_inter_area_resize": settings["resize"] == "area",
        }

    def envpool_noiseless(self, config: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        return {"noop_max": 1}

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        return {
            "frame_skip": config["frame_skip"],
            "max_pool": min(config["frame_skip"], 2),  # fixed in EnvPool
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

    def envpool_frames(self, work: Dict[str, Any]) -> Optional[float]:
        return float(work["frame_skip"])
