"""The ceilings of classic_control and box2d: the cart's equations of motion, and Box2D's world."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, Dict, List

import gymnasium
from envbench_worker.contract import Counts
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from envbench_adapters.ceiling.ceiling import Core

MAX_STEPS = 1000  # of the lander
STEP_S, VELOCITY_ITERATIONS, POSITION_ITERATIONS = 1.0 / 50, 6 * 30, 2 * 30  # as Gymnasium's


class CartPoleCore(Core):
    """Many carts at once. A pole that fell is reset in its next step, which is no transition."""

    max_steps = 500

    def tasks(self) -> List[str]:
        return ["CartPole-v1"]

    def build(self) -> None:
        self.envs = CartPoleVectorEnv(num_envs=self.job.numenv, max_episode_steps=self.max_steps)
        self.envs.reset(seed=self.job.seed)
        self.bank = self.columns(self.envs.single_action_space)
        self.batches = cycle(self.bank)

    def run(self, calls: int) -> Counts:
        step, resets = self.envs.step, 0
        for batch in islice(self.batches, calls):
            resets += int(self.envs.prev_done.sum())
            step(batch)
        return Counts(calls * self.job.numenv - resets, resets)

    def work(self) -> Dict[str, Any]:
        return {"timestep_s": float(self.envs.tau), "max_steps": self.max_steps}


class LanderCore(Core):
    """Box2D's ``World.Step`` alone, in the world of the lunar lander, which falls without engines.

    After it lands, or ``MAX_STEPS``, it gets a new world: a reset. Box2D has no clock to count by.
    """

    def tasks(self) -> List[str]:
        import Box2D  # noqa: F401 - Gymnasium's task needs it

        return ["LunarLander-v3"]

    def build(self) -> None:
        self.env = gymnasium.make(self.job.task).unwrapped
        self.env.reset(seed=self.job.seed)
        self.made = 0  # steps of this episode

    def run(self, calls: int) -> Counts:
        env, resets = self.env, 0
        for _ in range(calls):
            if env.game_over or self.made >= MAX_STEPS or not env.lander.awake:
                env.reset()
                self.made = 0
                resets += 1
            else:
                env.world.Step(STEP_S, VELOCITY_ITERATIONS, POSITION_ITERATIONS)
                self.made += 1
        return Counts(calls - resets, resets)

    def work(self) -> Dict[str, Any]:
        return {"timestep_s": STEP_S, "max_steps": MAX_STEPS}

    def action_source(self) -> str:
        return "none: the lander falls"
