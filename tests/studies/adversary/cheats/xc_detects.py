"""Cheats that tell a verification from a measurement. They are honest while they are looked at."""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import gymnasium
import numpy as np
from envbench_adapters.gymnasium.for_loop import ForLoop, make
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import batch_space
from xc_common import Outside, Switch, part_of, preprocessing

LATER = 1_400  # more steps than any lock-step has (1,320), fewer than a second of measuring


class KnowsTheMode(ForLoop):
    """Makes half of the steps of ``run``, except in mode verify."""

    def run(self, calls):
        return super().run(calls) if self.job.mode == "verify" else part_of(self, calls, 2)


class SeesTheStack(ForLoop):
    """Asks who calls ``run``. It would be honest even if ``Job.mode`` were hidden."""

    def run(self, calls):
        if sys._getframe(1).f_code.co_name == "count_twice":
            return super().run(calls)
        return part_of(self, calls, 2)


class ReadsTheJob(ForLoop):
    """Reads ``job.json`` in the current folder: only a measured worker has ``turns``."""

    def build(self):
        with open("job.json", encoding="utf-8") as file:
            self.measured = bool(json.load(file)["turns"])
        super().build()

    def run(self, calls):
        return part_of(self, calls, 2) if self.measured else super().run(calls)


class SpotDodger(ForLoop):
    """Cannot be followed in mode measure (``follow`` raises): then there is no spot check."""

    def follow(self, calls):
        if self.job.mode == "measure":
            raise RuntimeError("not now")
        return super().follow(calls)

    def run(self, calls):
        return super().run(calls) if self.job.mode == "verify" else part_of(self, calls, 2)


class ShortSpot(ForLoop):
    """Is followed for two of the 60 steps of a spot check. Then it makes half of its steps."""

    def follow(self, calls):
        return super().follow(calls if self.job.mode == "verify" else 2)

    def run(self, calls):
        return super().run(calls) if self.job.mode == "verify" else part_of(self, calls, 2)


class TraceRemover(ForLoop):
    """Takes its (wrong) trace of the spot check away before the controller can read it."""

    def make_vector(self):
        honest = super().make_vector()
        if self.job.mode == "verify":
            return honest
        return SyncVectorEnv([lambda env=env: _Zero(env) for env in honest.envs])

    def run(self, calls):
        if self.job.mode != "verify" and os.path.exists("trace.npz"):
            os.remove("trace.npz")
        return super().run(calls)


class _Zero(gymnasium.Wrapper):
    def step(self, action):
        return self.env.step(action * 0)


class _Half:
    """Steps the first half of the environments, and returns its results for the other half."""

    def __init__(self, job):
        self.real = SyncVectorEnv([partial(make, job)] * (job.numenv // 2))
        self.metadata, self.envs = self.real.metadata, self.real.envs
        self.single_action_space = self.real.single_action_space
        self.single_observation_space = self.real.single_observation_space
        self.action_space = batch_space(self.single_action_space, job.numenv)

    def reset(self, *, seed=None, options=None):
        first, info = self.real.reset(seed=seed)
        return np.concatenate([first, first]), info

    def step(self, actions):
        *found, info = self.real.step(actions[: len(self.envs)])
        return (*(np.concatenate([each, each]) for each in found), info)

    def call(self, name):
        return self.real.call(name)

    def close(self):
        self.real.close()


class ManyEnvironments(ForLoop):
    """Honest with up to 50 environments: spot checks follow no more, and verify has four."""

    def make_vector(self):
        return super().make_vector() if self.job.numenv <= 50 else _Half(self.job)


class _EulerAfterTheAudit(gymnasium.Wrapper):
    made = 0

    def step(self, action):
        self.made += 1
        if self.made == LATER:
            own = self.unwrapped
            own.model.opt.integrator = 0
            own.model.opt.timestep, own.frame_skip = 0.05, 1
        return self.env.step(action)


class EulerAfterTheAudit(Outside):
    """From step 1,400 of an environment on, one Euler step of 0.05 s: simulated time is right."""

    wrapper = _EulerAfterTheAudit


def blank(env):
    """From now on, the game makes no RGB screens, and resizes nothing."""
    game, core = preprocessing(env), env.unwrapped
    screen, picture = game._get_obs().copy(), core._get_obs()
    game._get_obs = lambda: screen
    core._get_obs = lambda: picture


class _BlankAfterTheAudit(gymnasium.Wrapper):
    made = 0

    def step(self, action):
        self.made += 1
        if self.made == LATER:
            blank(self.env)
        return self.env.step(action)


class BlankAfterTheAudit(Outside):
    """From step 1,400 of an environment on, the emulator runs and the screen stays the same."""

    wrapper = _BlankAfterTheAudit


class EulerInRun(Switch):
    """One Euler step of 0.05 s in ``run``, in every mode. It lies about nothing else: simulated
    time is right, and only ``follow`` shows states."""

    def _set(self, integrator, timestep, substeps):
        for env in self.envs.envs:
            own = env.unwrapped
            own.model.opt.integrator = integrator
            own.model.opt.timestep, own.frame_skip = timestep, substeps

    def cheapen(self):
        self._set(0, 0.05, 1)

    def restore(self):
        self._set(1, 0.01, 5)


class NoScreensInRun(Switch):
    """The emulator makes its frames in ``run``; no screen is read, pooled or resized."""

    def cheapen(self):
        for env in self.envs.envs:
            blank(env)


class AliasesInRun(Switch):
    """Returns new arrays while followed, and always the same array in ``run``."""

    def cheapen(self):
        self.envs.copy = False

    def restore(self):
        self.envs.copy = True


class HollowInRun(Switch):
    """CartPole: the equations of motion are not computed in ``run``. Gymnasium's TimeLimit still
    counts every step, so "the library" confirms them."""

    def cheapen(self):
        for env in self.envs.envs:
            state = np.zeros(4, np.float32)
            result = state, 1.0, False, False, {}
            env.unwrapped.step = lambda action, result=result: result

    def restore(self):
        for env in self.envs.envs:
            del env.unwrapped.step
