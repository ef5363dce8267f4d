"""The ceilings of classic_control and box2d: the cart's equations of motion, and Box2D's world."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, Dict, List, Tuple

import gymnasium
from envbench_families import box2d, classic_control
from envbench_worker.contract import Counts
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from envbench_adapters.ceiling.ceiling import Core

MAX_STEPS = 1000  # of the lander
FALLS = 32  # worlds of a process, each with its own terrain
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
        return {
            "engine": classic_control.ENGINE,
            "timestep_s": float(self.envs.tau),
            "max_steps": self.max_steps,
        }


class LanderCore(Core):
    """Box2D's ``World.Step`` alone, in worlds of the lunar lander, which falls without engines.

    The falls are repeated in order. A call that starts one is a reset. No Python code listens to
    contacts: a fall has as many steps as its first time. Box2D has no clock to count by.
    """

    def tasks(self) -> List[str]:
        import Box2D  # noqa: F401 - Gymnasium's task needs it

        return ["LunarLander-v3"]

    def build(self) -> None:
        first = self.job.seed * FALLS
        self.falls = cycle([_fall(self.job.task, first + i) for i in range(FALLS)])
        self.world: Any = None
        self.left = 0  # the steps that are left of this fall

    def run(self, calls: int) -> Counts:
        resets = 0
        for _ in range(calls):
            if self.left:
                self.world.Step(STEP_S, VELOCITY_ITERATIONS, POSITION_ITERATIONS)
                self.left -= 1
            else:
                self.world, self.left, start = next(self.falls)
                for body, place, velocity, spin in start:
                    body.transform, body.linearVelocity = place, velocity
                    body.angularVelocity = spin
                resets += 1
        return Counts(calls - resets, resets)

    def work(self) -> Dict[str, Any]:
        return {"engine": box2d.engine(), "timestep_s": STEP_S, "max_steps": MAX_STEPS}

    def action_source(self) -> str:
        return "none: the lander falls"


def _fall(task: str, seed: int) -> Tuple[Any, int, List[Any]]:
    """Let a lander fall once. Return its world, the steps until Gymnasium's task ends the episode,
    and where its bodies began."""
    env: Any = gymnasium.make(task)
    env.reset(seed=seed)
    world, bodies, steps = env.unwrapped.world, [env.unwrapped.lander, *env.unwrapped.legs], 1
    start = [
        (each, (tuple(each.position), each.angle), tuple(each.linearVelocity), each.angularVelocity)
        for each in bodies
    ]
    while not any(env.step(0)[2:4]):
        steps += 1
    world.contactListener = None
    return world, steps, start
