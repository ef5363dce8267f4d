"""envpool-async: more environments are in flight than are returned at a time.

Counts are of results that ``recv`` returned, never of the environments in flight.
"""

from __future__ import annotations

from io import BytesIO
from itertools import islice
from typing import Any, List, Optional

from envbench_worker.contract import Counts, Trace

from envbench_adapters.envpool.pool import EnvPool
from envbench_adapters.verifying import AnyOrder


class EnvPoolAsync(EnvPool):
    def build(self) -> None:
        super().build()
        self.pool.async_reset()

    def run(self, calls: int) -> Counts:
        recv, send = self.pool.recv, self.pool.send
        self.elapsed = elapsed = BytesIO()
        keep = elapsed.write
        for batch in islice(self.batches, calls):
            result = recv()
            info = result[4]
            keep(info["elapsed_step"])
            send(batch, info["env_id"])
        return self._count(elapsed)

    def returned(self, calls: int) -> Optional[List[Any]]:
        if self.job.env_instances == self.job.numenv:
            return None
        ids = []
        for batch in islice(self.batches, calls):
            ids.append(self.pool.recv()[4]["env_id"])
            self.pool.send(batch, ids[-1])
        return ids

    def follow(self, calls: int) -> Trace:
        driven = AnyOrder(self, calls, self.seen())
        while not driven.complete():
            observations, rewards, *over, info = self.pool.recv()
            ids = info["env_id"]
            driven.store(ids, self.family.flat(observations), rewards, *over)
            self.pool.send(driven.next_actions(ids), ids)
        return driven.trace
