"""Cheats in what is counted: by a false second count, a forged clock, or early."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
from envbench_adapters.envpool.asynchronous import EnvPoolAsync
from envbench_adapters.gymnasium.for_loop import ForLoop
from envbench_families.base import Counted
from envbench_worker.contract import Counts
from gymnasium.vector import SyncVectorEnv
from xc_common import Inside, Switch, part_of, preprocessing


class RecountLies(ForLoop):
    """Makes a third of the steps of ``run``. ``recount`` repeats its own claim, and
    ``counted_by`` still says "the emulator" (or "simulated time", or "the library")."""

    def run(self, calls):
        self.claimed = part_of(self, calls, 3)
        return self.claimed

    def recount(self):
        self.envs.call("frames_made")
        return float(self.claimed.steps * self.job.frame_skip)


class _FakesTime(gymnasium.Wrapper):
    """Every eleventh step is not made: the clock is moved on, and the last result is returned."""

    made, last, reward = 0, None, 1.0

    def reset(self, **given):
        self.last, info = self.env.reset(**given)
        return self.last, info

    def step(self, action):
        self.made += 1
        if self.made % 11:
            result = self.env.step(action)
            self.last, self.reward = result[0], result[1]
            return result
        own = self.unwrapped
        own.data.time += own.dt
        return self.last.copy(), self.reward, False, False, {}


class FakesTime(Inside):
    """MuJoCo: 9 % of the steps are only claimed. "Simulated time" is a number that anyone may
    write, and one of ten steps may differ by any amount."""

    wrapper = _FakesTime


class _OneFrame(gymnasium.Wrapper):
    """Tells envbench's counter that each short step ended a game."""

    short = truly = False

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.truly = truncated
        return observation, reward, terminated, truncated or self.short, info


class _Strip(gymnasium.Wrapper):
    """Takes the false end back before the learner sees it."""

    def __init__(self, env):
        super().__init__(env)
        while not isinstance(env, _OneFrame):
            env = env.env
        self.inner = env

    def step(self, action):
        result = self.env.step(action)
        return (*result[:3], self.inner.truly, result[4])


def _one_frame(job):
    import envbench_families

    family = envbench_families.of(job)
    env = _OneFrame(family.make())
    return _Strip(Counted(env, family) if job.mode == "verify" else env)


class EndsInside(Switch):
    """Atari: one frame per step in ``run``. A step that ends a game counts as a whole one
    (``Counted``), so each step says that it ended one. ``recount`` is envbench's own."""

    def make_vector(self):
        return SyncVectorEnv([partial(_one_frame, self.job)] * self.job.numenv)

    def _set(self, short, frames):
        for env in self.envs.envs:
            env.inner.short = short
            preprocessing(env).frame_skip = frames

    def cheapen(self):
        self._set(True, 1)

    def restore(self):
        self._set(False, int(self.job.frame_skip))


class _HidesEnds(gymnasium.Wrapper):
    hidden = False

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.hidden:
            terminated = truncated = False
        return observation, reward, terminated, truncated, info


class HidesEnds(ForLoop):
    """Examines ends in the last step of each call only, so it hardly ever resets."""

    def make_vector(self):
        honest = super().make_vector()
        return SyncVectorEnv([lambda env=env: _HidesEnds(env) for env in honest.envs])

    def run(self, calls):
        if calls == 1:
            return super().run(1)
        counts = []
        for hidden, number in ((True, calls - 1), (False, 1)):
            for env in self.envs.envs:
                env.hidden = hidden
            counts.append(super().run(number))
        return Counts(*map(sum, zip(*counts, strict=True)))


class CountsInFlight(ForLoop):
    """Counts the batch that was sent and not received. The next call does not continue it."""

    def run(self, calls):
        made = super().run(calls - 1) if calls > 1 else Counts(0, 0)
        return Counts(calls * self.job.numenv - made.resets, made.resets)


class _Fakes:
    """A pool whose environments from ``traced`` on return zeros."""

    def __init__(self, pool, traced):
        self._pool, self._traced = pool, traced

    def __getattr__(self, name):
        return getattr(self._pool, name)

    def recv(self):
        observations, rewards, terminated, truncated, info = self._pool.recv()
        fake = np.asarray(info["env_id"]) >= self._traced
        observations, rewards = np.array(observations), np.array(rewards)
        observations[fake], rewards[fake] = 0, 0
        return observations, rewards, terminated, truncated, info


class FakesTheRest(EnvPoolAsync):
    """Of its 3 x numenv environments in flight, only the first numenv return real results: only
    these are traced (``AnyOrder``). (The others step all the same, because EnvPool has no way
    not to. A library of the cheat's own could save that.)"""

    def build(self):
        super().build()
        self.pool = _Fakes(self.pool, self.job.numenv)


class _Ring(SyncVectorEnv):
    """Writes its observations into two arrays in turn."""

    def __init__(self, makers):
        super().__init__(makers, copy=False)
        self._arrays = [np.zeros_like(self._observations) for _ in range(2)]
        self._turn = 0

    def step(self, actions):
        self._turn ^= 1
        self._observations = self._arrays[self._turn]
        return super().step(actions)


class RingOfTwo(ForLoop):
    """Reuses two buffers in turn: the observations of a step are overwritten two steps later."""

    def make_vector(self):
        from envbench_adapters.gymnasium.for_loop import make

        return _Ring([partial(make, self.job)] * self.job.numenv)
