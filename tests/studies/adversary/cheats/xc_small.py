"""Cheats of CartPole and LunarLander."""

from __future__ import annotations

from functools import partial

import envbench_families
import gymnasium
import numpy as np
from envbench_adapters.gymnasium.for_loop import ForLoop
from envbench_families.base import Counted
from gymnasium.vector import SyncVectorEnv
from xc_common import Outside, limit_of


class _JitteredCarts(gymnasium.Wrapper):
    cache: list = []
    began = False

    def reset(self, **given):
        own = self.unwrapped
        if not self.began:
            self.began = True
            self.env.reset(**given)
            self.chance = np.random.default_rng(given.get("seed"))
        while len(self.cache) < 30:
            self.env.reset()
            self.cache.append(own.state.copy())
        state = self.cache[self.chance.integers(len(self.cache))]
        limit_of(self.env)._elapsed_steps = 0
        own.state = state + 1e-7 * self.chance.standard_normal(4)
        own.steps_beyond_terminated = None
        return np.array(own.state, np.float32), {}


class JitteredCarts(Outside):
    """CartPole: resets from a cache of 30 states plus a little noise."""

    wrapper = _JitteredCarts


class _ActsOnItsOwn(gymnasium.Wrapper):
    def step(self, action):
        return self.env.step(self.action_space.sample())


class ActsOnItsOwn(Outside):
    """LunarLander: ignores every action that it is given, and draws its own."""

    wrapper = _ActsOnItsOwn


class _Zeros(gymnasium.Wrapper):
    def step(self, action):
        observation, *rest = self.env.step(action)
        return (np.zeros_like(observation), *rest)


class ZeroObservations(Outside):
    """LunarLander: returns zeros as observations."""

    wrapper = _Zeros


class _Tape(gymnasium.Env):
    """Plays recorded episodes. ``_elapsed_steps`` is what "the library" counts."""

    def __init__(self, tape, action_space, observation_space):
        self.tape = tape
        self.action_space, self.observation_space = action_space, observation_space
        self._elapsed_steps = 0
        self.chance = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.chance = np.random.default_rng(seed)
        self.episode = self.tape[self.chance.integers(len(self.tape))]
        self._elapsed_steps = 0
        return self.episode[0], {}

    def step(self, action):
        self._elapsed_steps += 1
        return (*self.episode[self._elapsed_steps], {})


class Tape(ForLoop):
    """LunarLander: 300 episodes are recorded in ``build``, which is not timed as steps. After that
    nothing is simulated."""

    def make_vector(self):
        family = envbench_families.of(self.job)
        env, tape = family.make(), []
        env.action_space.seed(self.job.seed)
        for number in range(300):
            observation, _ = env.reset(seed=self.job.seed + number)
            episode, over = [observation], False
            while not over:
                result = env.step(env.action_space.sample())
                episode.append(result[:4])
                over = result[2] or result[3]
            tape.append(episode)
        spaces = env.action_space, env.observation_space
        env.close()
        return SyncVectorEnv([partial(self._one, tape, spaces)] * self.job.numenv)

    def _one(self, tape, spaces):
        env = _Tape(tape, *spaces)
        return Counted(env, envbench_families.of(self.job)) if self.job.mode == "verify" else env


class OneLanderForAll(ForLoop):
    """LunarLander: only one environment is simulated. Each of the others plays its finished
    episodes later. Its own first episode comes from a few that are made in ``build``."""

    def make_vector(self):
        family = envbench_families.of(self.job)
        lander = family.make()
        lander.action_space.seed(self.job.seed)
        shared = []

        def record():
            observation, _ = lander.reset(seed=None if shared else self.job.seed)
            episode, over = [observation], False
            while not over:
                result = lander.step(lander.action_space.sample())
                episode.append(result[:4])
                over = result[2] or result[3]
            shared.append(episode)

        for _ in range(self.job.numenv):
            record()
        spaces = lander.action_space, lander.observation_space

        class Later(_Tape):
            played = 0

            def reset(self, *, seed=None, options=None):
                if self.played >= len(shared):  # the first to need it makes it
                    record()
                self.episode, self.played = shared[self.played], self.played + 1
                self._elapsed_steps = 0
                return self.episode[0], {}

        def one(index):
            env = Later(shared, *spaces)
            env.played = index  # so that they do not show the same at the same time
            return Counted(env, family) if self.job.mode == "verify" else env

        return SyncVectorEnv([partial(one, i) for i in range(self.job.numenv)])
