"""Cheats that begin thousands of steps after the latest reset of all environments, or that concern
only the starts after the end of an episode."""

from __future__ import annotations

import gymnasium
import numpy as np
from envbench_adapters.gymnasium.for_loop import ForLoop
from envbench_worker.contract import Counts
from xc_atari import _CachedNoops
from xc_common import Outside, limit_of, preprocessing


class SinceReset(ForLoop):
    """Cheap after ``since`` vector steps without a reset of all environments."""

    since, made = 2_500, 0

    def run(self, calls):
        self.made += calls
        if self.made > self.since:
            self.cheapen()
        return super().run(calls)

    def reset(self):
        self.made = 0
        self.restore()
        return super().reset()


class EulerSinceReset(SinceReset):
    """Euler's method instead of Runge-Kutta's."""

    def cheapen(self, integrator=0):
        for env in self.envs.envs:
            env.unwrapped.model.opt.integrator = integrator

    def restore(self):
        self.cheapen(1)


class NoMaxPoolSinceReset(SinceReset):
    """Shows the last frame only."""

    def cheapen(self):
        for env in self.envs.envs:
            game = preprocessing(env)
            seen = type(game)._get_obs

            def newest(game=game, seen=seen):
                game.obs_buffer[1].fill(0)
                return seen(game)

            game._get_obs = newest

    def restore(self):
        for env in self.envs.envs:
            vars(preprocessing(env)).pop("_get_obs", None)


class OtherEulerSinceReset(SinceReset):
    """A user's own task, CartPole-v1: another order of the same integrator."""

    since = 5_000

    def cheapen(self, integrator="semi-implicit"):
        for env in self.envs.envs:
            env.unwrapped.kinematics_integrator = integrator

    def restore(self):
        self.cheapen("euler")


class _CheapStarts(gymnasium.Wrapper):
    """Honest at a reset of all environments, and cheap after the end of an episode."""

    asked = True

    def reset(self, **given):
        if not self.asked:
            return self.cheap_reset()
        self.asked = False
        return self.env.reset(**given)


class CheapStarts(Outside):
    def reset(self):
        for env in self.envs.envs:
            env.asked = True
        return super().reset()


class _OneNoop(_CheapStarts):
    def cheap_reset(self):
        game = preprocessing(self.env)
        usual, game.noop_max = game.noop_max, 1
        found = self.env.reset()
        game.noop_max = usual
        return found


class OneNoop(CheapStarts):
    """A game after another one always begins with one no-op."""

    wrapper = _OneNoop


class _StoredGames(_CheapStarts, _CachedNoops):
    def cheap_reset(self):
        return _CachedNoops.reset(self)


class StoredGames(CheapStarts):
    """A game after another one begins in one of 30 stored states, with the right distribution."""

    wrapper = _StoredGames


class _FiveStates(_CheapStarts):
    def cheap_reset(self):
        own = self.unwrapped
        self.stored = vars(self).get("stored", [])
        if len(self.stored) < 5:
            found = self.env.reset()
            self.stored.append((own.data.qpos.copy(), own.data.qvel.copy()))
            return found
        limit_of(self.env)._elapsed_steps = 0
        own.data.time = 0.0
        own.set_state(*self.stored[np.random.default_rng().integers(5)])
        return own._get_obs(), {}


class FiveStates(CheapStarts):
    """An episode after another one begins in one of five states of its environment, which are drawn
    honestly."""

    wrapper = _FiveStates


class _LeavesOut(ForLoop):
    """While measured, makes a fifth of the steps of calls of more than 40."""

    alone = False  # leave out steps in calls of one, too?

    def run(self, calls):
        if self.job.mode != "measure" or not (calls > 40 or (calls == 1 and self.alone)):
            return super().run(calls)
        if calls == 1:
            self.singles = getattr(self, "singles", 0) + 1
            return super().run(1) if self.singles % 5 == 0 else Counts(self.job.numenv, 0)
        resets = super().run(calls // 5).resets * 5  # with next-step autoreset, in place of steps
        return Counts(calls * self.job.numenv - resets, resets)


class LongAndLate(_LeavesOut):
    """Once the latency was measured, for which the batches are a ``map``, no check can follow."""

    def run(self, calls):
        self.alone = self.alone or isinstance(self.batches, map)
        return super().run(calls)


class LongAndMany(_LeavesOut):
    """After more calls of one step in a row than a check seems to need."""

    many, row = 80, 0

    def run(self, calls):
        self.row = self.row + 1 if calls == 1 else 0
        self.alone = self.row > self.many
        return super().run(calls)
