"""The ceiling of box2d: Box2D's ``World.Step`` alone, in the world of the lunar lander.

The lander falls without its engines. No observation or reward is computed. When it has touched the
ground, or after ``MAX_STEPS``, Gymnasium's environment makes a new world, which counts as a reset.
Box2D has no clock, so its steps cannot be counted in a second way.
"""

from __future__ import annotations

from typing import Any, Dict

import gymnasium

from envbench_worker.adapters.processes.member import Member
from envbench_worker.contract import Counts, Job, UnknownTaskError

KNOWN = ["LunarLander-v3"]
MAX_STEPS = 1000
STEP_S, VELOCITY_ITERATIONS, POSITION_ITERATIONS = 1.0 / 50, 6 * 30, 2 * 30  # as Gymnasium's


def probe(job: Job) -> None:
    """Raise ``UnknownTaskError`` for any task but the lander."""
    if job.task not in KNOWN:
        raise UnknownTaskError(job.task, KNOWN)
    import Box2D  # noqa: F401 - Gymnasium's task needs it


class LanderCore(Member):
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

    def facts(self) -> Dict[str, Any]:
        return {
            "observation_shape": [],
            "observation_dtype": "none",
            "action_source": "none: the lander falls",
            "autoreset": "next-step",
            "env_instances": 1,
            "work": {"timestep_s": STEP_S, "max_steps": MAX_STEPS, "autoreset": "next-step"},
        }
