"""What the new cheats and honest variants share. Each is for-loop (or EnvPool) with one change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import envbench_families
import numpy as np
from envbench_adapters.gymnasium.for_loop import ForLoop, make
from envbench_families.base import Counted
from envbench_worker.contract import Counts
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit


def outside(job, wrapper):
    """An environment with a wrapper around envbench's counter."""
    return wrapper(make(job))


def inside(job, wrapper):
    """An environment with a wrapper between envbench's counter and the real environment."""
    family = envbench_families.of(job)
    env = wrapper(family.make())
    return Counted(env, family) if job.mode == "verify" else env


class Outside(ForLoop):
    """Its environments have a wrapper that it does not report."""

    def make_vector(self):
        return SyncVectorEnv([partial(outside, self.job, self.wrapper)] * self.job.numenv)


class Inside(ForLoop):
    def make_vector(self):
        return SyncVectorEnv([partial(inside, self.job, self.wrapper)] * self.job.numenv)


class Switch(ForLoop):
    """Honest while it is followed, cheap while it runs. It never asks for its mode."""

    cheap = False

    def cheapen(self):
        raise NotImplementedError

    def restore(self):
        pass

    def run(self, calls):
        if not self.cheap:
            self.cheap = True
            self.cheapen()
        return super().run(calls)

    def follow(self, calls):
        if self.cheap:
            self.cheap = False
            self.restore()
        return super().follow(calls)


def part_of(adapter, calls, divisor):
    """Make a part of the vector steps, and claim all of them."""
    made = ForLoop.run(adapter, max(1, calls // divisor))
    return Counts(calls * adapter.job.numenv - made.resets, made.resets)


def preprocessing(env):
    """Gymnasium's AtariPreprocessing among the wrappers of a game."""
    while not hasattr(env, "noop_max"):
        env = env.env
    return env


def stack_of(env):
    while not hasattr(env, "obs_queue"):
        env = env.env
    return env


def limit_of(env):
    while not isinstance(env, TimeLimit):
        env = env.env
    return env


class PlainVector:
    """Steps a list of environments with next-step autoreset, in any order, in new arrays."""

    def __init__(self, makers, threads=0, shuffled=False):
        self.envs = [each() for each in makers]
        self.num_envs = len(self.envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.over = [False] * self.num_envs
        self.pool = ThreadPoolExecutor(threads) if threads else None
        self.chance = np.random.default_rng(0) if shuffled else None

    def seeds(self, seed):
        return [None if seed is None else seed + i for i in range(self.num_envs)]

    def reset(self, *, seed=None, options=None):
        seeds = self.seeds(seed)
        found = [env.reset(seed=own)[0] for env, own in zip(self.envs, seeds, strict=False)]
        self.over = [False] * self.num_envs
        return np.stack(found), {}

    def one(self, index, action):
        if self.over[index]:
            self.over[index] = False
            return self.reset_one(index), 0.0, False, False
        observation, reward, terminated, truncated, _ = self.envs[index].step(action)
        self.over[index] = bool(terminated or truncated)
        return observation, float(reward), bool(terminated), bool(truncated)

    def reset_one(self, index):
        return self.envs[index].reset()[0]

    def step(self, actions):
        order = range(self.num_envs)
        if self.chance is not None:
            order = self.chance.permutation(self.num_envs).tolist()
        if self.pool:
            jobs = {i: self.pool.submit(self.one, i, actions[i]) for i in order}
            found = {i: each.result() for i, each in jobs.items()}
        else:
            found = {i: self.one(i, actions[i]) for i in order}
        columns = zip(*(found[i] for i in range(self.num_envs)), strict=False)
        observations, rewards, terminated, truncated = columns
        return (
            np.stack(observations),
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            {},
        )

    def call(self, name):
        return tuple(env.get_wrapper_attr(name)() for env in self.envs)

    def close(self):
        if self.pool:
            self.pool.shutdown()
        for env in self.envs:
            env.close()
