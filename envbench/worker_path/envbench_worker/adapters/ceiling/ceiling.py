"""ceiling: the upper limit. The engine's step alone, one process per core.

Nothing is returned, and no process waits for another. atari: ALE's ``act`` of four frames; mujoco
and dm_control: ``mj_step`` of a control step; box2d: ``World.Step``; classic_control: the equations
of motion of ``STATES`` carts. A call steps each world of a process, or resets it if its episode is
over.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Dict, List, NamedTuple

from envbench_worker.adapters.processes import numa_nodes
from envbench_worker.adapters.processes.numa_nodes import Node
from envbench_worker.adapters.processes.shared_window import FreeRunning, Share

STATES = 1024  # of classic_control, stepped together by one process


class Core(NamedTuple):
    """The class that a process steps, and how many environments it has."""

    member: str
    states: int = 1


CORES = {
    "atari": Core("envbench_worker.adapters.ceiling.ale:AleCore"),
    "mujoco": Core("envbench_worker.adapters.ceiling.mujoco:MujocoCore"),
    "dm_control": Core("envbench_worker.adapters.ceiling.mujoco:CheetahCore"),
    "classic_control": Core("envbench_worker.adapters.ceiling.cartpole:CartPoleCore", STATES),
    "box2d": Core("envbench_worker.adapters.ceiling.lander:LanderCore"),
}


class Ceiling(FreeRunning):
    def probe(self) -> None:
        module, _, _ = self.member().partition(":")
        import_module(module).probe(self.job)

    def member(self) -> str:
        return CORES[self.job.family].member

    def shares(self) -> List[Share]:
        cores, numenv = numa_nodes.usable_cores(), self.job.numenv
        count = max(1, numenv // CORES[self.job.family].states)
        sizes = [numenv // count + (each < numenv % count) for each in range(count)]
        return [
            Share(Node([cores[each % len(cores)]], None), size, size, self.job.settings)
            for each, size in enumerate(sizes)
        ]

    def facts(self) -> Dict[str, Any]:
        facts: Dict[str, Any] = dict(self.described[0]["facts"])
        facts.update(env_instances=self.job.numenv, processes=self.process_facts())
        return facts
