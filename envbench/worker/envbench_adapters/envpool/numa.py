"""envpool-numa: one asynchronous EnvPool per NUMA node, bound to its cores and memory.

The setting ``nodes`` defines nodes by hand (``0-3/4-7``); their memory is not bound. By default a
pool has as many threads as its node has cores, at most its batch (EnvPool's rule).
"""

from __future__ import annotations

from itertools import cycle
from typing import Any, Dict, List, Tuple

import numpy as np
from envbench_worker.contract import Job

from envbench_adapters.envpool.asynchronous import EnvPoolAsync
from envbench_adapters.free_running import numa_nodes
from envbench_adapters.free_running.numa_nodes import Node
from envbench_adapters.free_running.processes import FreeRunning, Member, split


class EnvPoolNode(Member, EnvPoolAsync):
    """Steps the pool of one node, bound to its cores."""

    def build(self) -> None:
        super().build()
        self.bank = self.columns(self.pool.action_space)
        self.batches = cycle(self.bank)


class EnvPoolNuma(FreeRunning):
    member = __name__ + ":EnvPoolNode"

    def probe(self) -> None:
        EnvPoolAsync(self.job).probe()
        numa_nodes.chosen(self.job.settings["nodes"])

    def shares(self) -> List[Tuple[Node, Job]]:
        job, nodes = self.job, numa_nodes.chosen(self.job.settings["nodes"])
        if job.numenv < len(nodes):
            raise ValueError(
                "{} environments on {} nodes: each node needs one".format(job.numenv, len(nodes))
            )
        numenv = split(job.numenv, len(nodes))
        # Split in proportion to the batch, so that every node has its share in flight.
        edges = [job.env_instances * int(edge) // job.numenv for edge in np.cumsum([0] + numenv)]
        given = job.settings["threads"]
        threads = split(given, len(nodes)) if given else [len(node.cores) for node in nodes]
        parts = []
        for node, each, instances, most in zip(nodes, numenv, np.diff(edges).tolist(), threads):
            settings = {**job.settings, "threads": max(1, min(most, each)), "affinity": -1}
            part = job._replace(numenv=each, env_instances=instances, settings=settings)
            parts.append((node, part))
        return parts

    def facts(self) -> Dict[str, Any]:
        threads = sum(described["facts"]["threads"] for described in self.described)
        found = dict(super().facts(), batch=self.job.numenv, threads=threads)
        if len(self.described) > 1:
            del found["code"]  # it makes the pool of one node
        return found
