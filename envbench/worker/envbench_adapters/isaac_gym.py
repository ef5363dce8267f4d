"""isaac-gym: IsaacGymEnvs' Ant, thousands of them in one PhysX scene, on Isaac Gym Preview 4.

Results of a step stay on the device. A step includes the upload of its actions. Environments reset
on the step after an episode's end, as Gymnasium's do: ``post_physics_step`` resets those that
``reset_buf`` marks (at first all of them), and returns their first observation. That is not a
transition. ``progress_buf`` counts an episode's transitions, at most ``episodeLength`` - 1.

A step of IsaacGymEnvs is one simulation step of 0.0166 s. Here it is configured to be the family's
control step of 0.05 s: ``sim.dt`` 1/60 s, ``controlFrequencyInv`` 3. Episodes always start at
random, so the environments cannot be driven in lock-step.

Source: ``__init__.py``, ``cfg/config.yaml``, ``cfg/task/Ant.yaml``, ``tasks/ant.py`` and
``tasks/base/vec_task.py`` of IsaacGymEnvs 1.5.1. Not run on a GPU yet.
"""

from __future__ import annotations

import os
from itertools import cycle, islice
from typing import Any, Dict, List, Optional

import isaacgym  # noqa: F401 - has to be imported before torch
import isaacgymenvs
import numpy as np
import torch
from envbench_worker import actions
from envbench_worker.contract import LIBRARY, Adapter, Counts, Job
from hydra import compose, initialize_config_dir

from envbench_adapters.verifying import Watched

TASKS = {"Ant-v3": "Ant"}
FRAME_S = 0.01
SIMULATION_STEP_S = 1 / 60  # IsaacGymEnvs rounds it to 0.0166
SOLVERS = {0: "PGS", 1: "TGS"}
# Overrides that ``isaacgymenvs.make`` takes too.
ARGUMENTS = ("seed", "task", "num_envs", "sim_device", "rl_device", "headless", "force_render")


class IsaacGym(Adapter):
    single_steps = "calls"
    counted_by = LIBRARY

    def tasks(self) -> List[str]:
        return sorted(TASKS)

    def build(self) -> None:
        job = self.job
        self.device = "cuda:0" if torch.cuda.is_available() else "cpu"
        self.overrides = _overrides(job, self.device)
        self.envs = _make(job, self.overrides)
        self.envs.reset()
        if job.mode == "verify":
            counters = _numbers(self.envs.progress_buf)
            self.envs = _Watched(self.envs, "", counters, job.frame_skip)
        drawn = actions.of_job(self.envs.action_space, job)
        self.bank = [torch.from_numpy(batch) for batch in drawn]
        if self.device != "cpu":  # so that a copy to it is asynchronous
            self.bank = [tensor.pin_memory() for tensor in self.bank]
        self.batches = cycle(self.bank)
        self.over = torch.zeros_like(self.envs.reset_buf)  # ended episodes, by environment
        self.ended = int((self.envs.reset_buf != 0).sum())  # environments whose next step resets
        self.calls = 0

    def run(self, calls: int) -> Counts:
        step, device, over = self.envs.step, self.device, self.over
        over.zero_()
        for batch in islice(self.batches, calls):
            done = step(batch.to(device, non_blocking=True))[2]
            over += done  # the library reuses its buffer, so a learner copies it too
        last = int(done.sum())
        resets = self.ended + int(over.sum()) - last
        if device != "cpu":
            torch.cuda.synchronize()
        self.ended, self.calls = last, calls
        return Counts(calls * self.job.numenv - resets, resets)

    def recount(self) -> float:
        steps = self.envs.made_in(self.calls)
        return float(round(steps * _step_s(self.envs) / FRAME_S, 2))

    def gpu_memory(self) -> Optional[int]:
        """Only torch's tensors; the memory of PhysX is not included."""
        return None if self.device == "cpu" else int(torch.cuda.max_memory_allocated())

    def facts(self) -> Dict[str, Any]:
        return self.common_facts(
            self.envs.observation_space,
            "next-step",
            _work(self.envs),
            "host" if self.device == "cpu" else "device",
            action_source=self.action_source() + ", uploaded each step",
            device=self.device,
            library_task=TASKS[self.job.task],
            library_arguments=self.overrides,
        )

    def close(self) -> None:
        self.envs.gym.destroy_sim(self.envs.sim)


class _Watched(Watched):
    def read(self, result: Any) -> Any:
        return slice(None), _numbers(self._envs.progress_buf)


def _numbers(tensor: Any) -> Any:
    return np.array(tensor.cpu().numpy())


def _overrides(job: Job, device: str) -> Dict[str, Any]:
    """Hydra's overrides of IsaacGymEnvs' configuration."""
    step_s = job.frame_skip * FRAME_S
    simulated = max(1, round(step_s / SIMULATION_STEP_S))
    return {
        "task": TASKS[job.task],
        "num_envs": job.numenv,
        "seed": job.seed,
        "sim_device": device,
        "rl_device": device,
        "pipeline": "cpu" if device == "cpu" else "gpu",
        "headless": True,
        "force_render": False,
        "task.env.controlFrequencyInv": simulated,
        "task.sim.dt": step_s / simulated,
    }


def _make(job: Job, overrides: Dict[str, Any]) -> Any:
    """The vectorised environments; ValueError if their step is not the family's."""
    torch.manual_seed(job.seed)  # for the starts; ``make`` seeds nothing
    folder = os.path.join(os.path.dirname(os.path.abspath(isaacgymenvs.__file__)), "cfg")
    with initialize_config_dir(config_dir=folder, version_base="1.1"):
        words = ["{}={}".format(name, value) for name, value in overrides.items()]
        configuration = compose(config_name="config", overrides=words)
    again = {name: overrides[name] for name in ARGUMENTS}
    envs = isaacgymenvs.make(graphics_device_id=-1, cfg=configuration, **again)
    if abs(_step_s(envs) / FRAME_S - job.frame_skip) > 1e-3:
        raise ValueError("a step of Isaac Gym's {} lasts {} s".format(job.task, _step_s(envs)))
    return envs


def _step_s(envs: Any) -> float:
    """Simulated seconds of a step, from the simulation's parameters (in single precision)."""
    return float(round(envs.control_freq_inv * envs.sim_params.dt, 6))


def _work(envs: Any) -> Dict[str, Any]:
    """What a step does, by the names in ``envbench.families.mujoco``. Its integrator is unknown."""
    simulation = envs.sim_params
    return {
        "engine": "PhysX (Isaac Gym)",
        "timestep_s": round(simulation.dt / simulation.substeps, 9),
        "substeps": envs.control_freq_inv * simulation.substeps,
        "solver": SOLVERS.get(simulation.physx.solver_type, str(simulation.physx.solver_type)),
        "iterations": simulation.physx.num_position_iterations,
        "precision": "float32",
        "contact_forces": True,  # of four feet, by force sensors
        "terminates": True,
        "max_steps": int(envs.max_episode_length) - 1,
    }
