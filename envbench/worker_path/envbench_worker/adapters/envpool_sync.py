"""envpool-sync: every environment steps on every call (batch size = number of environments)."""

from __future__ import annotations

from itertools import islice
from typing import Any

from envbench_worker.adapters.envpool_tasks import EnvPool
from envbench_worker.contract import Counts


class EnvPoolSync(EnvPool):
    def build(self) -> None:
        super().build()
        self.pool.reset()

    def run(self, calls: int) -> Counts:
        step = self.pool.step
        elapsed: Any = []
        self.held = elapsed
        hold = elapsed.append
        for batch in islice(self.batches, calls):
            result = step(batch)
            hold(result[4]["elapsed_step"])
        return self._count(elapsed, calls)
