"""ceiling: the limit to measure against. The engine's step alone, one process a core.

No observation is made, nothing is returned and nobody is waited for. atari: ALE's ``act`` of four
frames; mujoco: ``mj_step`` of a control step. A call is one step of each process's only world, or,
where its episode is over, its reset. ``numenv`` is the number of processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Dict, List

from envbench_worker.adapters.processes import numa_nodes
from envbench_worker.adapters.processes.numa_nodes import Node
from envbench_worker.adapters.processes.shared_window import FreeRunning, Share

MEMBERS = {
    "atari": "envbench_worker.adapters.ceiling.ale:AleCore",
    "mujoco": "envbench_worker.adapters.ceiling.mujoco:MujocoCore",
}


class Ceiling(FreeRunning):
    def probe(self) -> None:
        module, _, _ = self.member().partition(":")
        import_module(module).probe(self.job)

    def member(self) -> str:
        return MEMBERS[self.job.family]

    def shares(self) -> List[Share]:
        cores = numa_nodes.usable_cores()
        return [
            Share(Node([cores[each % len(cores)]], None), 1, 1, self.job.settings)
            for each in range(self.job.numenv)
        ]

    def facts(self) -> Dict[str, Any]:
        facts: Dict[str, Any] = dict(self.described[0]["facts"])
        facts.update(env_instances=self.job.numenv, processes=self.process_facts())
        return facts
