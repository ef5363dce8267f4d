"""The base class of an env family: how adapters make and describe its environments.

Gymnasium is in every interpreter that uses a family. Methods import other libraries. The defaults
suit any task that Gymnasium makes by its id.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import gymnasium
from envbench_worker.contract import COUNTERS, LIBRARY, Job, UnknownTaskError, call

from envbench_families.forced import Forced, FromState

_MICRO = 6  # decimals of a frame; simulated time is a sum of floats


class Family:
    """Makes the environments of one job. ``entry_points``: the package of Gymnasium's own tasks.

    ``counted_by``: whose count ``clock`` is (``Adapter.counted_by``). ``whole_step``: frames of a
    step that the end of an episode may cut short; 0: none is cut. ``repeats``: a wrapper around the
    counter may repeat each action, so that it counts several times in a step.
    """

    entry_points = ""
    counted_by = LIBRARY
    envpool_module = ""
    whole_step = 0.0
    repeats = False

    def __init__(self, job: Job) -> None:
        self.job = job

    def register(self) -> None:
        """Import what the tasks need, so that a missing package fails before anything is built."""

    def tasks(self) -> List[str]:
        """Return the tasks that Gymnasium can make, by envbench's names."""
        every = gymnasium.registry
        return sorted(i for i in every if self.entry_points in str(every[i].entry_point))

    def probe(self) -> None:
        """Raise ``UnknownTaskError`` unless the task can be made."""
        self.register()
        known = self.tasks()
        if self.job.task not in known:
            raise UnknownTaskError(self.job.task, known)

    def gym_id(self) -> Tuple[str, Dict[str, Any]]:
        """Return the id and keyword arguments that ``gymnasium.make`` gets."""
        return self.job.task, {}

    def make(self) -> Any:
        """Make one environment."""
        self.register()
        identifier, arguments = self.gym_id()
        return self.prepared(gymnasium.make(identifier, **arguments))

    def code(self) -> str:
        """Write Python whose ``make()`` makes the same environment; "" if it would not be short."""
        identifier, arguments = self.gym_id()
        made = call("gymnasium.make", identifier, **arguments)
        return "import gymnasium\n\ndef make():\n    return {}\n".format(made)

    def prepared(self, env: Any) -> Any:
        """Apply the family's usual preprocessing."""
        return env

    def forced(self, env: Any, seed: int) -> Forced:
        """Verify: an environment that follows another backend's trace.

        By default it is put into each state by ``set_state`` if the family has that. Otherwise it
        starts from the same seed, and then steps freely.
        """
        if type(self).set_state is Family.set_state:
            return Forced(env, seed)
        return FromState(env, seed, partial(self.set_state, env))

    def set_state(self, env: Any, observation: Any, begins: bool) -> None:
        """Put an environment into the state that an observation shows. ``begins``: an episode
        begins with it."""
        raise NotImplementedError

    def shows_state(self, env: Any, shape: Tuple[int, ...]) -> bool:
        """Verify: can this environment follow a trace with observations of this shape?"""
        return env.observation_space.shape in (None, shape)

    def clock(self, env: Any) -> Optional[Callable[[], float]]:
        """Find the environment's own count of frames, or None. By default its time limit counts."""
        if not env.has_wrapper_attr("_elapsed_steps"):
            return None
        skip = self.job.frame_skip
        return lambda: float(env.get_wrapper_attr("_elapsed_steps") or 0) * skip

    def work(self, env: Any) -> Dict[str, Any]:
        """Return what one step does, by the names in the family's file in ``envbench.families``."""
        return {"max_steps": env.spec.max_episode_steps}

    def described(self) -> Dict[str, Any]:
        """Return the ``work`` of one more environment."""
        env = self.make()
        work = self.work(env)
        env.close()
        return work

    def envpool_arguments(self) -> Dict[str, Any]:
        """More arguments of ``envpool.make``."""
        return {}

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        """Return what one step does, by EnvPool's configuration."""
        return {"max_steps": config["max_episode_steps"]}

    def envpool_frames(self, work: Dict[str, Any]) -> Optional[float]:
        """Frames in one step, according to EnvPool; None if EnvPool does not say."""
        return float(self.job.frame_skip)

    def flat(self, observations: Any) -> Any:
        """Convert EnvPool's batch of observations to one array of (environments, …)."""
        return observations


class Counted(gymnasium.Wrapper):  # type: ignore[misc]
    """Verify: sums the frames of all steps, by the family's ``clock``; a reset has none, and is
    counted by itself."""

    def __init__(self, env: Any, family: Family) -> None:
        super().__init__(env)
        self.counted_by = family.counted_by
        self._now = family.clock(env)
        self._whole = family.whole_step
        self._skip = float(family.job.frame_skip)
        # How often the counter counts each frame: the first step that ends no episode shows it.
        self._times: Optional[float] = None if family.repeats else 1.0
        self._made = 0.0
        self.seen_frames: Optional[float] = None if self._now is None else 0.0
        self.resets = 0
        COUNTERS.append(self)

    def reset(self, **given: Any) -> Any:
        self.resets += 1
        return self.env.reset(**given)

    def step(self, action: Any) -> Any:
        if self._now is None:
            return self.env.step(action)
        before = self._now()
        result = self.env.step(action)
        frames, over = self._now() - before, result[2] or result[3]
        if self._times is None and not over:
            self._times = max(1.0, frames / self._skip)
            self._whole = self._skip if self._times > 1 else self._whole
        # The end of a game may cut its last step short. It counts as a whole step.
        if self._times is None:
            frames = min(frames, self._skip)
        else:
            frames /= self._times
        if over and 0 < frames < self._whole:
            frames = self._whole
        self._made += frames
        self.seen_frames = (self.seen_frames or 0.0) + frames
        return result

    def frames_made(self) -> Optional[float]:
        """Frames since the last call; None if nothing counts them."""
        made, self._made = self._made, 0.0
        return None if self._now is None else round(made, _MICRO)


class CountedElsewhere:
    """Verify: reads the counters (``Counted``) of a vector env that steps in other processes.

    ``envs.call(name)`` returns an attribute of each environment, as Gymnasium's ``AsyncVectorEnv``
    does.
    """

    def __init__(self, envs: Any, family: Family) -> None:
        self.counted_by = family.counted_by
        self._envs = envs
        COUNTERS.append(self)

    @property
    def seen_frames(self) -> float:
        return float(sum(self._envs.call("seen_frames")))
