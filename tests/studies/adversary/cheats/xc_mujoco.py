"""Cheats of MuJoCo tasks."""

from __future__ import annotations

from functools import partial

import gymnasium
import mujoco
import numpy as np
from envbench_adapters.gymnasium.for_loop import ForLoop, make
from gymnasium.vector import SyncVectorEnv
from xc_common import Outside, limit_of


class _HalfPrecision(gymnasium.Wrapper):
    """Rounds the state to float16 after each step."""

    def step(self, action):
        _, *rest = self.env.step(action)
        own = self.unwrapped
        own.data.qpos[:] = own.data.qpos.astype(np.float16)
        own.data.qvel[:] = own.data.qvel.astype(np.float16)
        return (own._get_obs(), *rest)


class HalfPrecision(Outside):
    """Physics with the precision of float16. It reports float64. Errors stay below 0.02."""

    wrapper = _HalfPrecision


class _BigStepsInTheAir(gymnasium.Wrapper):
    def step(self, action):
        own = self.unwrapped
        air = own.data.ncon == 0
        own.model.opt.timestep, own.frame_skip = (0.025, 2) if air else (0.01, 5)
        return self.env.step(action)


class BigStepsInTheAir(Outside):
    """Two steps of 0.025 s instead of five of 0.01 s while nothing touches the ground."""

    wrapper = _BigStepsInTheAir


class _FourSubsteps(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        own = env.unwrapped
        own.model.opt.timestep, own.frame_skip = 0.0125, 4


class FourSubsteps(Outside):
    """Four steps of 0.0125 s instead of five of 0.01 s. The ledger describes another environment,
    which is made for it."""

    wrapper = _FourSubsteps


class _LooseTolerance(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        option = env.unwrapped.model.opt
        option.tolerance, option.iterations, option.ls_iterations = 1e-3, 2, 3


class LooseTolerance(Outside):
    """A solver that gives up early, from the first step on."""

    wrapper = _LooseTolerance


class _SpendsTheTolerance(gymnasium.Wrapper):
    """One Euler step in up to 7 % of the steps: those with the most contacts."""

    made = spent = 0

    def step(self, action):
        own, self.made = self.unwrapped, self.made + 1
        cheap = own.data.ncon >= 2 and self.spent < 0.07 * self.made
        self.spent += cheap
        own.model.opt.integrator = 0 if cheap else 1
        own.model.opt.timestep, own.frame_skip = (0.05, 1) if cheap else (0.01, 5)
        return self.env.step(action)


class SpendsTheTolerance(Outside):
    wrapper = _SpendsTheTolerance


class _NoContactForces(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        own = env.unwrapped

        def simulate(control, frames):
            own.data.ctrl[:] = control
            mujoco.mj_step(own.model, own.data, nstep=frames)  # and no mj_rnePostConstraint

        own._step_mujoco_simulation = simulate


class NoContactForces(Outside):
    """Reports contact_forces: yes, and returns 84 zeros."""

    wrapper = _NoContactForces


class _JitteredCache(gymnasium.Wrapper):
    """Every episode begins in one of 30 stored states, plus 1e-9 of noise."""

    cache: list = []  # of all environments
    began = False

    def reset(self, **given):
        own = self.unwrapped
        if not self.began:
            self.began = True
            self.env.reset(**given)
            self.chance = np.random.default_rng(given.get("seed"))
        while len(self.cache) < 30:
            self.env.reset()
            self.cache.append((own.data.qpos.copy(), own.data.qvel.copy()))
        qpos, qvel = self.cache[self.chance.integers(len(self.cache))]
        limit_of(self.env)._elapsed_steps = 0
        own.data.time = 0.0
        noise = self.chance.standard_normal
        own.set_state(qpos + 1e-9 * noise(qpos.shape), qvel + 1e-9 * noise(qvel.shape))
        return own._get_obs(), {}


class JitteredCache(Outside):
    """Resets from a cache of 30 states. No two starts are equal, so the cache is not noticed."""

    wrapper = _JitteredCache


class _NoTimeLimit(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        limit_of(env)._max_episode_steps = 10**9


class NoTimeLimit(Outside):
    """Never truncates. No episode of random actions is that long in a verification."""

    wrapper = _NoTimeLimit


class _ShortLimit(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        limit_of(env)._max_episode_steps -= 1


class ShortLimit(Outside):
    """Truncates one step too early (HalfCheetah, whose episodes all last 1,000 steps)."""

    wrapper = _ShortLimit


class _SwapsEnds(gymnasium.Wrapper):
    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, bool(terminated or truncated), False, info


class SwapsEnds(Outside):
    """Says that an episode was terminated where it was truncated. A learner would not bootstrap."""

    wrapper = _SwapsEnds


class _LateEnds(gymnasium.Wrapper):
    """Notices every seventh end one step late."""

    every, ends, over = 7, 0, None

    def reset(self, **given):
        self.over = None
        return self.env.reset(**given)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.over:
            return (observation, reward, *self.over, info)
        if terminated or truncated:
            self.ends += 1
            if self.ends % self.every == 0:
                self.over = terminated, truncated
                return observation, reward, False, False, info
        return observation, reward, terminated, truncated, info


class LateEnds(Outside):
    """One of seven ends is one step late. One of ten (of both sides' ends) may be on one side."""

    wrapper = _LateEnds


class _EveryEndLate(_LateEnds):
    every = 1


class EveryEndLate(Outside):
    wrapper = _EveryEndLate


class _SeldomReward(gymnasium.Wrapper):
    """Computes the reward in ten of eleven steps. In the others it repeats the last one."""

    made, kept = 0, 1.0

    def step(self, action):
        self.made += 1
        observation, reward, *rest = self.env.step(action)
        if self.made % 11:
            self.kept = reward
        return (observation, self.kept, *rest)


class SeldomReward(Outside):
    wrapper = _SeldomReward


class _NoContactsWhenHigh(gymnasium.Wrapper):
    """Turns off contacts for the steps in which the torso is high, near its upper limit."""

    def step(self, action):
        own = self.unwrapped
        high = own.data.qpos[2] > 0.9
        flag = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        option = own.model.opt
        option.disableflags = option.disableflags | flag if high else option.disableflags & ~flag
        return self.env.step(action)


class NoContactsWhenHigh(Outside):
    """Only in rare states: no collision detection shortly before an episode ends at the top."""

    wrapper = _NoContactsWhenHigh


class OnlyTheLastEnvironment(ForLoop):
    """Euler's method in the last environment only."""

    def make_vector(self):
        vector = SyncVectorEnv([partial(make, self.job)] * self.job.numenv)
        vector.envs[-1].unwrapped.model.opt.integrator = 0
        return vector


class SameSeeds(ForLoop):
    """Every environment has the same seed."""

    groups = 1

    def make_vector(self):
        honest = super().make_vector()
        reset, numenv = honest.reset, self.job.numenv

        def same(*, seed=None, options=None):
            if isinstance(seed, int):
                seed = [seed + i * self.groups // numenv for i in range(numenv)]
            return reset(seed=seed, options=options)

        honest.reset = same
        return honest


class PairedSeeds(SameSeeds):
    """Two environments share each seed."""

    groups = 2


class _OneStepLate(gymnasium.Wrapper):
    """Returns the observation of the step before."""

    def reset(self, **given):
        self.last, info = self.env.reset(**given)
        return self.last, info

    def step(self, action):
        observation, *rest = self.env.step(action)
        last, self.last = self.last, observation
        return (last, *rest)


class StaleOneEnvironment(ForLoop):
    """The last environment's observations are one step old."""

    def make_vector(self):
        makers = [partial(make, self.job)] * (self.job.numenv - 1)
        return SyncVectorEnv([*makers, lambda: _OneStepLate(make(self.job))])


class _LateRewards(gymnasium.Wrapper):
    kept = 0.0

    def reset(self, **given):
        self.kept = 0.0
        return self.env.reset(**given)

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        late, self.kept = self.kept, reward
        return (observation, late, *rest)


class LateRewards(Outside):
    """Every reward belongs to the step before."""

    wrapper = _LateRewards


class _ZeroMost(gymnasium.Wrapper):
    made = 0

    def step(self, action):
        self.made += 1
        return self.env.step(action if self.made % 3 == 0 else action * 0)


class OmitsASetting(Outside):
    """Ignores two of three actions, and does not report one setting: it is not refused."""

    wrapper = _ZeroMost

    def facts(self):
        facts = super().facts()
        hidden = ("iterations", "max_pool", "max_steps")
        return dict(facts, work={k: v for k, v in facts["work"].items() if k not in hidden})
