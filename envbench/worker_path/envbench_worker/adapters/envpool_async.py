"""envpool-async: more environments in flight than are returned at a time.

What ``recv`` returned is counted, never the number of environments.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from envbench_worker.adapters.envpool_tasks import EnvPool
from envbench_worker.contract import Counts


class EnvPoolAsync(EnvPool):
    def build(self) -> None:
        super().build()
        self.pool.async_reset()

    def run(self, calls: int) -> Counts:
        recv, send = self.pool.recv, self.pool.send
        elapsed: Any = []
        self.held = elapsed
        hold = elapsed.append
        for batch in islice(self.batches, calls):
            result = recv()
            info = result[4]
            hold(info["elapsed_step"])
            send(batch, info["env_id"])
        return self._count(elapsed, calls)
