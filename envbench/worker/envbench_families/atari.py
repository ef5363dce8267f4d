"""Atari games by ALE.

``docs/measurement.md`` has the reference settings. AtariPreprocessing and EnvPool draw from 1 to
``noop_max`` no-ops.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from random import SystemRandom
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import gymnasium
import numpy as np
from envbench_worker.contract import EMULATOR, Job, call
from gymnasium import wrappers

from envbench_families.base import Family
from envbench_families.forced import Forced, Outcome, Restored, ends

MAX_FRAMES = 108_000
NOOPS = 30  # at most, as in the reference settings
MOST_NOOPS = 31  # ale-py's own vector environments count them otherwise
LEVELS = 2  # libraries round a resized pixel differently
RESETS = 100  # to find the starts of a game: those of a few games differ by the reset's number


def reference(job: Job) -> Dict[str, Any]:
    """List the reference settings of a step, for a library that does not report them."""
    return {
        "engine": engine(),
        "frame_skip": int(job.frame_skip),
        "max_pool": 2,
        "resize": "area",
        "grayscale": True,
        "screen": [84, 84],
        "stack": 4,
        "noop_max": NOOPS,
        "fire_reset": False,
        "sticky": 0.0,
        "episodic_life": False,
        "reward_clip": False,
        "action_set": "minimal",
        "max_frames": MAX_FRAMES,
    }


def engine() -> str:
    return "ALE " + version("ale-py")


class Atari(Family):
    counted_by = EMULATOR
    envpool_module = "envpool.atari"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.whole_step = job.frame_skip
        self.starts: List[_Start] = []  # of its games, once a trace is followed

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
        env = wrappers.AtariPreprocessing(env, **self._preprocessing())
        # Gymnasium 0.29 has another name for it.
        stack = getattr(wrappers, "FrameStackObservation", None) or wrappers.FrameStack
        return stack(env, 4)

    def _preprocessing(self) -> Dict[str, Any]:
        return {
            "noop_max": NOOPS,
            "frame_skip": int(self.job.frame_skip),
            "screen_size": 84,
            "terminal_on_life_loss": False,
            "grayscale_obs": True,
            "scale_obs": False,
        }

    def code(self) -> str:
        identifier, arguments = self.gym_id()
        made = call("gymnasium.make", identifier, **arguments)
        options = call("", **self._preprocessing())[1:]
        lines = [
            "import ale_py, gymnasium",
            "from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation",
            "",
            "gymnasium.register_envs(ale_py)",
            "",
            "def make():",
            "    env = " + made,
            "    env = AtariPreprocessing(env, " + options,
            "    return FrameStackObservation(env, 4)",
            "",
        ]
        return "\n".join(lines)

    def forced(self, env: Any, seed: int) -> Forced:
        return _Game(env, seed, self.starts)

    def clock(self, env: Any) -> Optional[Callable[[], float]]:
        emulator = env.unwrapped.ale
        return lambda: float(emulator.getFrameNumber())

    def work(self, env: Any) -> Dict[str, Any]:
        own = env.unwrapped
        while not hasattr(env, "noop_max"):  # the preprocessing wrapper
            env = env.env
        minimal, screen = len(own.ale.getMinimalActionSet()), env.screen_size
        return {
            "engine": engine(),
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
            "noop_max": NOOPS,
            "use_fire_reset": settings["fire_reset"],
            "episodic_life": False,
            "reward_clip": False,
            "repeat_action_probability": 0.0,
            "full_action_space": False,
            "max_episode_steps": MAX_FRAMES // skip,
            "use_inter_area_resize": settings["resize"] == "area",
        }

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        return {
            "engine": "ALE, EnvPool's own build",
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


class _Start(NamedTuple):
    """A start of a game, after so many no-ops."""

    noops: int
    state: Any
    screen: Any


class _Game(Restored):
    """A game whose emulator is cloned and restored.

    A trace does not tell how many no-ops a game began with. So the game is continued from each
    number of them, and those whose screens differ from the trace's are given up. After some steps
    one is left.

    In some games (Boxing, Seaquest), the console's memory after a reset depends on the emulator's
    timer, which starts at a random value. Then the game is continued from each memory that was
    found, too. ``starts``: filled by the first game, and shared with the others.
    """

    def __init__(self, env: Any, seed: int, starts: List[_Start]) -> None:
        super().__init__(env, seed)
        while not hasattr(env, "noop_max"):
            env = env.env
        self.game = env  # with the preprocessing, without the stack of frames
        self.core = env.unwrapped
        self.starts = starts
        # The starts with which the trace agrees, by their index: the state now, the latest screens.
        self.left: Dict[int, Tuple[Any, List[Any]]] = {}
        self.known = False  # is only one number left?
        self.latest_automatic = False  # how the latest game began (``Forced.begin``)
        self.chance = SystemRandom()

    def begin(self, observation: Any, automatic: bool = True) -> Any:
        if not self.starts:
            self.starts += self._all_starts()
        self.finish()
        apart = [_apart(each.screen, observation[-1]) for each in self.starts]
        alike = [index for index, each in enumerate(apart) if each <= LEVELS]
        chosen = alike or [int(np.argmin(apart))]
        stack = len(observation)
        self.left = {
            index: (self.starts[index].state, [self.starts[index].screen] * stack)
            for index in chosen
        }
        self.known = self.lost = False
        self.unseen = 0  # screens since the last one that the trace showed
        self.latest_automatic = automatic
        return np.stack(self.left[chosen[0]][1])

    def enter(self, observation: Any) -> Any:
        """A screen does not show the emulator's state. It is known when the next game begins."""
        self.finish()
        self.left, self.lost = {}, True
        return observation

    def finish(self) -> None:
        """If several numbers of no-ops are left for the latest game, one of them counts, drawn at
        random. Otherwise games whose number shows early would be too many."""
        if self.left and not self.known:
            numbers = {self.starts[index].noops for index in self.left}
            usual = [number for number in sorted(numbers) if 1 <= number <= NOOPS]
            self._note(self.chance.choice(usual or sorted(numbers)))

    def _note(self, number: int) -> None:
        self.begun.append(np.array([number]))
        self.automatic.append(self.latest_automatic)

    def _all_starts(self) -> List[_Start]:
        """After 0, 1, 2, … no-ops, from each memory that resets lead to."""
        self.game.reset(seed=self.seed)
        ale = self.core.ale
        states: Dict[bytes, Any] = {}
        for _ in range(RESETS):
            ale.reset_game()
            states.setdefault(ale.getRAM().tobytes(), self.core.clone_state())
        starts = []
        for state in states.values():
            self.core.restore_state(state)
            for noops in range(MOST_NOOPS + 1):
                ale.getScreenGrayscale(self.game.obs_buffer[0])
                self.game.obs_buffer[1].fill(0)
                starts.append(_Start(noops, self.core.clone_state(), self.game._get_obs().copy()))
                ale.act(0)
        return starts

    def start(self) -> Any:
        self.env.reset()
        return np.array([self.core.ale.getEpisodeFrameNumber()])

    def follow(
        self, before: Any, actions: List[Any], after: Any, same_step: bool, over: bool, resets: bool
    ) -> Optional[Outcome]:
        shown = None if over and same_step else after  # it is the next game's
        return super().follow(before, actions, shown, same_step, over, resets)

    def step(self, before: Any, action: Any, after: Any, over: Optional[bool]) -> Outcome:
        apart: Dict[int, float] = {}
        outcomes: Dict[int, Tuple[float, bool, bool]] = {}
        for index, (state, frames) in self.left.items():
            if not self.known:
                self.core.restore_state(state)
            screen, reward, terminated, truncated, _ = self.game.step(action)
            state = None if self.known else self.core.clone_state()
            self.left[index] = state, [*frames[1:], screen.copy()]
            apart[index] = 0.0 if after is None else self._apart(index, after)
            outcomes[index] = (float(reward), *ends(terminated, truncated))
        self.unseen = self.unseen + 1 if after is None else 0
        alike = [index for index, each in apart.items() if each <= LEVELS]
        kept = alike or [min(apart, key=lambda index: apart[index])]
        # Games that look alike may end in different steps. Then the trace's end shows which it is.
        kept = [index for index in kept if over in (None, outcomes[index][1])] or kept
        self.unsure = len({outcomes[index][1] for index in kept}) > 1
        self.left = {index: self.left[index] for index in kept}
        state, frames = self.left[kept[0]]
        if len(kept) == 1 and not self.known:
            self.known = True
            self.core.restore_state(state)
            self._note(self.starts[kept[0]].noops)
        reward, ended, truncated = outcomes[kept[0]]
        return (np.stack(frames), reward, ended or self.unsure, truncated)

    def _apart(self, index: int, after: Any) -> float:
        """How far the latest screens from a start are from those that the trace shows for the
        first time."""
        new = min(self.unseen + 1, len(after))
        frames = self.left[index][1]
        return max(_apart(a, b) for a, b in zip(frames[-new:], after[-new:]))


def _apart(screen: Any, other: Any) -> float:
    """The largest difference of a pixel, in grey levels. A pixel may not be a number."""
    return float(np.nan_to_num(np.abs(screen.astype(np.float32) - other), nan=np.inf).max())
