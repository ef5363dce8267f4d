"""ceiling: the upper limit. The engine's step alone, one process per core.

Nothing is returned, and no process waits for another. atari: ALE's ``act`` of four frames; mujoco
and dm_control: ``mj_step`` of a control step; box2d: ``World.Step``; classic_control: the equations
of motion of many carts. A call steps each world of a process, or resets it after its episode.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Dict, List, Tuple

from envbench_worker.contract import Job, named

from envbench_adapters.free_running import numa_nodes
from envbench_adapters.free_running.numa_nodes import Node
from envbench_adapters.free_running.processes import FreeRunning, Member, split

CORES = {  # the class that a process steps, by family
    "atari": "envbench_adapters.ceiling.ale:AleCore",
    "mujoco": "envbench_adapters.ceiling.mujoco:MujocoCore",
    "dm_control": "envbench_adapters.ceiling.mujoco:CheetahCore",
    "classic_control": "envbench_adapters.ceiling.cart_pole_and_lander:CartPoleCore",
    "box2d": "envbench_adapters.ceiling.cart_pole_and_lander:LanderCore",
}

STATES = {"classic_control": 1024}  # worlds of a process, by family; 1 in others


class Core(Member):
    """What one process steps. Its ``tasks`` are known before it is built."""

    @abstractmethod
    def work(self) -> Dict[str, Any]:
        """Return what a step does, by the names in ``envbench.families``."""

    def facts(self) -> Dict[str, Any]:
        return {
            "observation_shape": [],
            "observation_dtype": "none",
            "action_source": self.action_source(),
            "autoreset": "next-step",
            "env_instances": self.job.numenv,
            "work": {**self.work(), "autoreset": "next-step"},
        }


class Ceiling(FreeRunning):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.member = CORES[job.family]

    def probe(self) -> None:
        named(self.member)(self.job, self.job, 0).probe()

    def shares(self) -> List[Tuple[Node, Job]]:
        job, cores = self.job, numa_nodes.usable_cores()
        wanted = max(1, job.numenv // STATES.get(job.family, 1))  # a CPU quota allows fewer
        sizes = split(job.numenv, min(wanted, len(cores)))
        parts = [job._replace(numenv=size, env_instances=size) for size in sizes]
        return [(Node([core], None), part) for core, part in zip(cores, parts)]
