"""sample-factory: Sample Factory's own samplers, with a policy that draws random actions.

This is the library's simplified sampling interface with its default settings (asynchronous,
rollouts of 32 steps, workers bound to cores): numenv / ``envs_per_worker`` rollout processes and
one process with the policy. The consumer receives a copy of one trajectory at a time, as in the
library's own example of a sampler without a learner.

The samplers run continuously. A vector step is numenv received transitions. Extra transitions are
credited to the next run, so nothing is counted twice. What arrives while no clock runs, between two
slices of a block, is left out. An episode's end counts when its trajectory arrives. An environment
resets within the step that ends its episode (same-step autoreset), so the observation after an end
is the next episode's first.
"""

from __future__ import annotations

import multiprocessing
import os
from functools import partial
from itertools import cycle, islice
from multiprocessing.connection import wait
from queue import Empty
from typing import Any, Dict, List, Optional

import envbench_families
import numpy as np
import torch
from envbench_worker import actions
from envbench_worker.contract import Adapter, Counts, Job, Trace
from sample_factory.algo.sampling.simplified_sampling_api import SyncSamplingAPI
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.algo.utils.env_info import extract_env_info
from sample_factory.algo.utils.make_env import make_env_func_non_batched
from sample_factory.algo.utils.rl_utils import samples_per_trajectory
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.utils.attr_dict import AttrDict

from envbench_adapters.sample_factory import env_and_policy
from envbench_adapters.sample_factory.env_and_policy import AUDIT, ENVIRONMENT, FRAMES, MADE

NAME = "envbench"
PATIENCE_S = 1.0  # without a trajectory; then check that the samplers are alive
ENDING_S = 10.0


class SampleFactory(Adapter):
    def probe(self) -> None:
        envbench_families.of(self.job).probe()

    def build(self) -> None:
        self.surplus = self.received = 0  # left from earlier runs, received in this one
        self.frames = np.zeros(0)  # verify: per received transition, in order
        self.credited = 0  # frames credited to the latest run
        self.died: Optional[int] = None
        self.cfg = configuration(self.job)
        self.counted_by = envbench_families.of(self.job).counted_by
        register_env(NAME, partial(env_and_policy.make_env, self.job))
        policy = partial(env_and_policy.BankPolicy, self.job)
        global_model_factory().register_actor_critic_factory(policy)
        env = make_env_func_non_batched(self.cfg, None)
        self.env_info = extract_env_info(env, self.cfg)
        env.close()
        self.api = SyncSamplingAPI(self.cfg, self.env_info)
        self.children = multiprocessing.active_children()
        self.api.start()
        if self.job.mode == "measure":
            for _ in range(2 * self.job.numenv):  # until every environment is running
                self._receive()

    def run(self, calls: int) -> Counts:
        wanted = calls * self.job.numenv
        self.frames, self.credited = self.frames[self.credited :], wanted
        ends: List[Any] = []
        while self.surplus + self.received < wanted:
            trajectory = self._receive()
            self.received += samples_per_trajectory(trajectory)
            ends.append(trajectory["dones"])
            if self.job.mode == "verify":
                counted = np.diff(trajectory["obs"][AUDIT][0, :, FRAMES].numpy())
                self.frames = np.concatenate([self.frames, counted])
        self._check_children()
        self.surplus += self.received - wanted
        self.received = 0
        return Counts(wanted, sum(int(each.sum()) for each in ends))

    def resume(self) -> None:
        """Leave out the trajectories that arrived while no clock ran."""
        while not self.api.traj_queue.empty():
            self.api.traj_queue.get_nowait()

    def _receive(self) -> Any:
        """The next trajectory: tensors of (1, rollout, …), with one more observation."""
        while True:
            try:
                return self.api.traj_queue.get(timeout=PATIENCE_S)
            except Empty:
                self._check_children()

    def _check_children(self) -> None:
        """Raise if a process ended. The library would wait for ever, or continue without it."""
        ended = wait([child.sentinel for child in self.children], timeout=0)
        if not ended:
            return
        dead = next(child for child in self.children if child.sentinel in ended)
        dead.join(ENDING_S)
        self.died = dead.exitcode
        self.close()  # the library's thread would keep this process alive
        raise RuntimeError(
            "Sample Factory's {} ended with exit code {}".format(dead.name, self.died)
        )

    def unfinished(self) -> int:
        return self.surplus + self.received

    def dead_child(self) -> Optional[int]:
        return self.died

    def follow(self, calls: int) -> Trace:
        job, space = self.job, self.env_info.obs_space["obs"]
        bank = actions.of_job(self.env_info.action_space, job)
        trace = Trace(
            np.zeros((calls, job.numenv) + space.shape, space.dtype),
            np.zeros((calls, job.numenv), np.float32),
            np.zeros((calls, job.numenv), np.bool_),
            np.zeros((1, job.numenv) + space.shape, space.dtype),
            same_step=True,
            actions=np.stack(list(islice(cycle(bank), calls))),
        )
        missing = calls * job.numenv
        while missing:
            missing -= _write(trace, self._receive(), calls)
        return trace

    def recount(self) -> Optional[float]:
        return float(self.frames[: self.credited].sum())

    def facts(self) -> Dict[str, Any]:
        job, family = self.job, envbench_families.of(self.job)
        self.bank = actions.of_job(self.env_info.action_space, job)
        identifier, arguments = family.gym_id()
        return self.common_facts(
            self.env_info.obs_space["obs"],
            "same-step",
            family.described(),
            "host",
            action_source=self.action_source() + " by the policy worker",
            library_task=identifier,
            library_arguments=arguments,
            sampler={name: self.cfg[name] for name in RECORDED.split()},
            torch_threads=torch.get_num_threads(),
        )

    def close(self) -> None:
        self.api.stop()
        for child in self.children:
            child.join(ENDING_S)
            if child.is_alive():
                child.kill()
                child.join()


# What the facts record of the sampler's configuration.
RECORDED = """
    num_workers num_envs_per_worker worker_num_splits rollout batch_size async_rl batched_sampling
    policy_workers_per_policy set_workers_cpu_affinity default_niceness
    decorrelate_experience_max_seconds
"""


def configuration(job: Job) -> Any:
    """Sample Factory's defaults, except for the job's settings and what only a learner needs."""
    chosen = {
        "env": NAME,
        "experiment": NAME,
        "train_dir": os.path.join(os.getcwd(), "train_dir"),
        "log_to_file": False,
        "device": "cpu",
        "num_workers": job.numenv // job.settings["envs_per_worker"],
        "num_envs_per_worker": job.settings["envs_per_worker"],
        "worker_num_splits": job.settings["worker_splits"],
        "use_rnn": False,
        "normalize_input": False,
        "normalize_returns": False,
        "env_frameskip": max(1, int(job.frame_skip)),  # for its log
        # Otherwise workers deliver together: a burst of numenv trajectories, then none.
        "decorrelate_experience_max_seconds": int(job.mode == "measure"),
        "decorrelate_envs_on_one_worker": job.mode == "measure",
    }
    arguments = ["--{}={}".format(name, value) for name, value in chosen.items()]
    parser, _ = parse_sf_args(arguments)
    return AttrDict(vars(parse_full_cfg(parser, arguments)))


def _write(trace: Trace, trajectory: Any, calls: int) -> int:
    """Store a trajectory at the place in its audit. Return the number of transitions stored."""
    audit = trajectory["obs"][AUDIT][0, 0].numpy()
    column, first = int(audit[ENVIRONMENT]), int(audit[MADE])
    count = max(0, min(int(samples_per_trajectory(trajectory)), calls - first))
    if first == 0:
        trace.start[0, column] = trajectory["obs"]["obs"][0, 0].numpy()
    rows = slice(first, first + count)
    trace.observations[rows, column] = trajectory["obs"]["obs"][0, 1 : count + 1].numpy()
    trace.rewards[rows, column] = trajectory["rewards"][0, :count].numpy()
    trace.ended[rows, column] = trajectory["dones"][0, :count].numpy()
    return count
