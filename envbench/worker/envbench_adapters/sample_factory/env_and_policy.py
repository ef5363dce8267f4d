"""The parts in Sample Factory's own processes: the task of a rollout worker, and the policy.

The task runs on Gymnasium 0.29, the last version that Sample Factory supports, as
``envbench_families`` makes it. The wrappers of Sample Factory's examples are not used: they press
fire, clip rewards, end episodes with a life and resize with another filter.

In verify mode an observation also has ``audit``, three float64: the environment, its number of
transitions, and its frames as the emulator or the simulation counts them. So a trajectory shows how
many steps really happened in it.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import envbench_families
import gymnasium
import numpy as np
import torch
from envbench_families.base import Counted
from envbench_worker import actions
from envbench_worker.contract import Job
from sample_factory.algo.utils.action_distributions import (
    calc_num_action_parameters,
    calc_num_actions,
)
from sample_factory.algo.utils.tensor_dict import TensorDict
from sample_factory.algo.utils.torch_utils import to_torch_dtype
from sample_factory.model.actor_critic import ActorCritic

AUDIT = "audit"
ENVIRONMENT, MADE, FRAMES = range(3)  # indices in ``audit``


def make_env(job: Job, name: str, cfg: Any, env_config: Any, render_mode: Any = None) -> Any:
    """Make one environment. ``register_env`` takes it with a job bound to it."""
    env = Task(envbench_families.of(job).make(), job.seed)
    if job.mode != "verify":
        return env
    return Audited(env, job, env_config.env_id if env_config else 0)


class Task(gymnasium.Wrapper):  # type: ignore[misc]
    """Converts FrameStack's lazy observations to arrays, and seeds the first reset."""

    def __init__(self, env: Any, seed: int) -> None:
        super().__init__(env)
        self._job_seed = seed

    def reset(self, *, seed: Optional[int] = None, options: Any = None) -> Any:
        # Sample Factory ignores its seed and seeds environment i with i.
        own = None if seed is None else self._job_seed + seed
        observation, info = self.env.reset(seed=own, options=options)
        return np.asarray(observation), info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return np.asarray(observation), reward, terminated, truncated, info


class Audited(gymnasium.Wrapper):  # type: ignore[misc]
    """Verify: adds ``audit``, the counts so far, to each observation."""

    def __init__(self, env: Any, job: Job, index: int) -> None:
        super().__init__(Counted(env, envbench_families.of(job)))
        self.observation_space = gymnasium.spaces.Dict(
            {
                "obs": env.observation_space,
                AUDIT: gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64),
            }
        )
        self._audit = np.array([index, 0, 0], dtype=np.float64)

    def reset(self, **kwargs: Any) -> Any:
        observation, info = self.env.reset(**kwargs)
        return self._with_audit(observation), info

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        self._audit[MADE] += 1
        self._audit[FRAMES] += self.env.frames_made()
        return (self._with_audit(observation), *rest)

    def _with_audit(self, observation: Any) -> Dict[str, Any]:
        return {"obs": observation, AUDIT: self._audit.copy()}


class BankPolicy(ActorCritic):  # type: ignore[misc]
    """Random actions from the bank. ``register_actor_critic_factory`` takes it with a job bound.

    The samplers ask for the actions of all environments that are ready, and get the next rows of
    the bank. Its other outputs are zeros of a policy's shapes, so the samplers transfer as much as
    for a learner. Verify: environment i gets column i of the k-th batch as its k-th action.
    """

    def __init__(self, job: Job, cfg: Any, obs_space: Any, action_space: Any) -> None:
        super().__init__(obs_space, action_space, cfg)
        bank = np.stack(actions.of_job(action_space, job))
        self.numenv, self.batches = job.numenv, len(bank)
        # Sample Factory transfers all actions as float32.
        flat = torch.as_tensor(bank.astype(np.float32))
        self.rows = flat.reshape(-1, calc_num_actions(action_space))
        self.logits = torch.zeros(job.numenv, int(calc_num_action_parameters(action_space)))
        self.scalar = torch.zeros(job.numenv, 1)
        # Observations keep their dtype, because no network uses them.
        self.dtypes = {name: to_torch_dtype(space.dtype) for name, space in obs_space.items()}
        self.cursor = 0

    def forward(self, obs: Any, rnn_states: Any, values_only: bool = False) -> Any:
        count = len(rnn_states)
        return TensorDict(
            actions=self._driven(obs[AUDIT]) if AUDIT in obs else self._next(count),
            action_logits=self.logits[:count],
            log_prob_actions=self.scalar[:count],
            values=self.scalar[:count],
            new_rnn_states=rnn_states,
        )

    def _next(self, count: int) -> Any:
        if self.cursor + count > len(self.rows):
            self.cursor = 0
        self.cursor += count
        return self.rows[self.cursor - count : self.cursor]

    def _driven(self, audit: Any) -> Any:
        batch = audit[:, MADE].long() % self.batches
        return self.rows[batch * self.numenv + audit[:, ENVIRONMENT].long()]

    def device_for_input_tensor(self, input_tensor_name: str) -> Any:
        return torch.device("cpu")

    def type_for_input_tensor(self, input_tensor_name: str) -> Any:
        return self.dtypes[input_tensor_name]
