"""Honest variants that look suspicious. None of them may be accused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import envbench_families
import gymnasium
import numpy as np
from envbench_adapters.gymnasium.for_loop import ForLoop, make
from envbench_families.base import Counted
from envbench_worker.contract import Counts
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from xc_common import Outside, PlainVector


class Threads(ForLoop):
    """Steps its environments in four threads, whichever comes first."""

    def make_vector(self):
        return PlainVector([partial(make, self.job)] * self.job.numenv, threads=4)


class ShuffledOrder(ForLoop):
    """Steps its environments in another order in every step."""

    def make_vector(self):
        return PlainVector([partial(make, self.job)] * self.job.numenv, shuffled=True)


class SameStep(ForLoop):
    """Resets within the step that ends an episode, and says so."""

    def make_vector(self):
        makers = [partial(make, self.job)] * self.job.numenv
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


class _Float32(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        space = env.observation_space
        self.observation_space = gymnasium.spaces.Box(
            space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32
        )

    def observation(self, observation):
        return observation.astype(np.float32)


class Float32(Outside):
    """Returns single-precision observations, and reports that. (Grey levels stay 0 to 255.)"""

    wrapper = _Float32


class _OtherShape(gymnasium.ObservationWrapper):
    """Shows the ant's state without the contact forces; of a cart, also its squared speed."""

    def __init__(self, env):
        super().__init__(env)
        size = 27 if env.observation_space.shape[0] > 27 else 5
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,))

    def observation(self, observation):
        size = self.observation_space.shape[0]
        return observation[:size] if size == 27 else np.append(observation, observation[1] ** 2)


class OtherShape(Outside):
    """Returns observations of another shape, and reports that."""

    wrapper = _OtherShape


class _Halves:
    """Two halves that step one after the other, the second one first."""

    def __init__(self, job):
        sizes = [job.numenv - job.numenv // 2, job.numenv // 2]
        self.parts = [SyncVectorEnv([partial(make, job)] * size) for size in sizes]
        self.first = sizes[0]
        self.envs = [env for part in self.parts for env in part.envs]
        self.metadata = self.parts[0].metadata
        self.single_action_space = self.parts[0].single_action_space
        self.single_observation_space = self.parts[0].single_observation_space
        self.action_space = batch_space(self.single_action_space, job.numenv)

    def reset(self, *, seed=None, options=None):
        seeds = [None, None] if seed is None else [seed, seed + self.first]
        found = [part.reset(seed=own)[0] for part, own in zip(self.parts, seeds, strict=False)]
        return np.concatenate(found), {}

    def step(self, actions):
        late = self.parts[1].step(actions[self.first :])
        early = self.parts[0].step(actions[: self.first])
        return (*(np.concatenate(each) for each in zip(early[:4], late[:4], strict=False)), {})

    def call(self, name):
        return (*self.parts[0].call(name), *self.parts[1].call(name))

    def close(self):
        for part in self.parts:
            part.close()


class TwoHalves(ForLoop):
    """Chunks its batch in two, like a double-buffered sampler."""

    def make_vector(self):
        return _Halves(self.job)


class _SpareVector(PlainVector):
    """An environment that ended is exchanged for a spare one, which a thread has reset before."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        if not hasattr(self, "spares"):
            self.helper = ThreadPoolExecutor(2)
            self.others = [make(self.job) for _ in range(self.num_envs)]
            self.every = [*self.envs, *self.others]
            base = None if seed is None else seed + 100_000
            seeds = [None if base is None else base + i for i in range(self.num_envs)]
            self.spares = [
                self.helper.submit(self._prepared, env, own)
                for env, own in zip(self.others, seeds, strict=False)
            ]
        return found

    @staticmethod
    def _prepared(env, seed=None):
        return env, env.reset(seed=seed)[0]

    def reset_one(self, index):
        env, observation = self.spares[index].result()
        self.spares[index] = self.helper.submit(self._prepared, self.envs[index])
        self.envs[index] = env
        return observation

    def call(self, name):
        return tuple(env.get_wrapper_attr(name)() for env in self.every)

    def close(self):
        self.helper.shutdown()
        for env in self.every:
            env.close()


class SpareEnvironments(ForLoop):
    """Resets ahead of time in a thread: as many resets, but none in the way."""

    def make_vector(self):
        vector = _SpareVector([partial(make, self.job)] * self.job.numenv)
        vector.job = self.job
        return vector


class _OtherSeeds(PlainVector):
    def seeds(self, seed):
        if seed is None:
            return [None] * self.num_envs
        return [int(each) for each in np.random.SeedSequence(seed).generate_state(self.num_envs)]


class OtherSeeds(ForLoop):
    """Derives its environments' seeds in another way than seed + i."""

    def make_vector(self):
        return _OtherSeeds([partial(make, self.job)] * self.job.numenv)


class _DirectGame(gymnasium.Env):
    """The reference preprocessing, written anew on ALE's interface: it reads two grey screens per
    step, and no RGB screen."""

    def __init__(self, job):
        import ale_py
        from ale_py import roms

        family = envbench_families.of(job)
        family.register()
        self.roms, self.noop = roms, ale_py.Action.NOOP
        self.game = gymnasium.spec("ALE/" + job.task).kwargs["game"]
        self.ale = ale_py.ALEInterface()
        self.ale.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("max_num_frames_per_episode", 108_000)
        self.ale.setInt("random_seed", 1)
        self.ale.loadROM(self.roms.get_rom_path(self.game))
        self.minimal = self.ale.getMinimalActionSet()
        self.skip = int(job.frame_skip)
        height, width = self.ale.getScreenDims()
        self.newest, self.older = (np.zeros((height, width), np.uint8) for _ in range(2))
        self.action_space = gymnasium.spaces.Discrete(len(self.minimal))
        self.observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        self.chance = np.random.default_rng()

    def _screen(self):
        import cv2

        pooled = np.maximum(self.newest, self.older)
        return cv2.resize(pooled, (84, 84), interpolation=cv2.INTER_AREA)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.chance = np.random.default_rng(seed)
            self.ale.setInt("random_seed", seed % 2**31)
            self.ale.loadROM(self.roms.get_rom_path(self.game))
        self.ale.reset_game()
        for _ in range(self.chance.integers(1, 31)):
            self.ale.act(self.noop)
            if self.ale.game_over():
                self.ale.reset_game()
        self.ale.getScreenGrayscale(self.newest)
        self.older.fill(0)
        self.stack = [self._screen()] * 4
        return np.stack(self.stack), {}

    def step(self, action):
        reward, over, cut = 0.0, False, False
        for frame in range(self.skip):
            reward += self.ale.act(self.minimal[int(action)])
            over = self.ale.game_over(with_truncation=False)
            cut = self.ale.game_truncated()
            if over or cut:
                break
            if frame == self.skip - 2:
                self.ale.getScreenGrayscale(self.older)
            elif frame == self.skip - 1:
                self.ale.getScreenGrayscale(self.newest)
        self.stack = [*self.stack[1:], self._screen()]
        return np.stack(self.stack), reward, bool(over), bool(cut), {}


def _direct(job):
    env = _DirectGame(job)
    return Counted(env, envbench_families.of(job)) if job.mode == "verify" else env


class DirectAle(ForLoop):
    """Much faster than Gymnasium's wrappers, and equal to them: is it refused for its speed?"""

    def make_vector(self):
        return PlainVector([partial(_direct, self.job)] * self.job.numenv)


class SeparateChunks(ForLoop):
    """Makes its steps in chunks of seven, and the rest one at a time. Every array that it returns
    is a read-only copy in another memory order."""

    def make_vector(self):
        honest = super().make_vector()
        step = honest.step

        def copied(actions):
            observations, *rest = step(actions)
            other = np.asfortranarray(observations)
            other.flags.writeable = False
            return (other, *rest)

        honest.step = copied
        return honest

    def run(self, calls):
        steps = resets = 0
        while calls:
            some = 7 if calls >= 7 else 1
            counts = super().run(some)
            steps, resets, calls = steps + counts.steps, resets + counts.resets, calls - some

        return Counts(steps, resets)
