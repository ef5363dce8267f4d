"""The ceiling of classic_control: CartPole's equations of motion, many states at once in NumPy.

Gymnasium's own ``CartPoleVectorEnv`` steps a thousand carts per call, on every core. A pole that
fell is reset in its next step, which is not a transition.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Dict

from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from envbench_worker import actions
from envbench_worker.adapters.processes.member import Member
from envbench_worker.contract import Counts, Job, UnknownTaskError

KNOWN = ["CartPole-v1"]
MAX_STEPS = 500


def probe(job: Job) -> None:
    """Raise ``UnknownTaskError`` for any task but CartPole."""
    if job.task not in KNOWN:
        raise UnknownTaskError(job.task, KNOWN)


class CartPoleCore(Member):
    def build(self) -> None:
        self.envs = CartPoleVectorEnv(num_envs=self.job.numenv, max_episode_steps=MAX_STEPS)
        self.envs.reset(seed=self.job.seed)
        self.bank = self.columns(self.envs.single_action_space)
        self.batches = actions.forever(self.bank)

    def run(self, calls: int) -> Counts:
        step, resets = self.envs.step, 0
        for batch in islice(self.batches, calls):
            resets += int(self.envs.prev_done.sum())
            step(batch)
        return Counts(calls * self.job.numenv - resets, resets)

    def facts(self) -> Dict[str, Any]:
        return {
            "observation_shape": [],
            "observation_dtype": "none",
            "action_source": actions.described(self.bank, self.whole.seed),
            "autoreset": "next-step",
            "env_instances": self.job.numenv,
            "work": {"timestep_s": float(self.envs.tau), "max_steps": MAX_STEPS},
        }
