"""Cheats of Atari games."""

from __future__ import annotations

import gymnasium
import numpy as np
from xc_common import Outside, preprocessing, stack_of


class _CachedNoops(gymnasium.Wrapper):
    """Restores one of 30 stored emulator states instead of resetting and making no-ops."""

    cache: list = []
    began = False

    def reset(self, **given):
        core, game, stack = self.unwrapped, preprocessing(self.env), stack_of(self.env)
        if not self.began:
            self.began = True
            self.env.reset(**given)
            self.chance = np.random.default_rng(given.get("seed"))
            self.cache = []
            core.ale.reset_game()
            for _ in range(30):
                core.ale.act(0)
                core.ale.getScreenGrayscale(game.obs_buffer[0])
                game.obs_buffer[1].fill(0)
                self.cache.append((core.clone_state(), game._get_obs().copy()))
        state, screen = self.cache[self.chance.integers(30)]
        core.restore_state(state)
        stack.obs_queue.extend([screen] * stack.stack_size)
        return np.stack([screen] * stack.stack_size), {}


class CachedNoops(Outside):
    """Every start has the right distribution. No reset makes a frame."""

    wrapper = _CachedNoops


class _FewNoops(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        preprocessing(env).noop_max = 12


class FewNoops(Outside):
    """1 to 12 no-ops instead of 1 to 30. About eight games begin in a verification."""

    wrapper = _FewNoops


class _NoMaxPool(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        game = preprocessing(env)
        seen = game._get_obs

        def newest():
            game.obs_buffer[1].fill(0)
            return seen()

        game._get_obs = newest


class NoMaxPool(Outside):
    """Shows the last frame only."""

    wrapper = _NoMaxPool


class _ThreeFrames(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        preprocessing(env).frame_skip = 3


class ThreeFrames(Outside):
    """Makes three of four frames."""

    wrapper = _ThreeFrames


class _BlankAtTheEnd(gymnasium.Wrapper):
    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            observation = np.zeros_like(observation)
        return observation, reward, terminated, truncated, info


class BlankAtTheEnd(Outside):
    """Returns zeros where a game ends: that screen is not compared, nor are the three before it
    in the same stack."""

    wrapper = _BlankAtTheEnd


class _NearestResize(gymnasium.Wrapper):
    """Shrinks every frame by the fastest method of cv2."""

    def __init__(self, env):
        super().__init__(env)
        import cv2

        game = preprocessing(env)

        def nearest():
            np.maximum(game.obs_buffer[0], game.obs_buffer[1], out=game.obs_buffer[0])
            return cv2.resize(game.obs_buffer[0], game.screen_size, interpolation=cv2.INTER_NEAREST)

        game._get_obs = nearest


class NearestResize(Outside):
    """Resizes by the nearest pixel, and reports area."""

    wrapper = _NearestResize


class _FewerStacked(gymnasium.Wrapper):
    """Pushes a frame into the stack in every second step only; the newest one is right."""

    made = 0

    def step(self, action):
        self.made += 1
        observation, *rest = self.env.step(action)
        if self.made % 2:
            observation = observation.copy()
            observation[:-1] = observation[1:]
        return (observation, *rest)


class FewerStacked(Outside):
    wrapper = _FewerStacked
