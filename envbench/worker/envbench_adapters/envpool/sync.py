"""envpool-sync: every environment steps on every call (batch size = number of environments)."""

from __future__ import annotations

from io import BytesIO
from itertools import islice
from typing import Any, List, Optional

from envbench_worker.contract import Counts

from envbench_adapters.envpool.pool import EnvPool


class EnvPoolSync(EnvPool):
    def build(self) -> None:
        super().build()
        self.first_observations = self.family.flat(self.pool.reset()[0])

    latest: Any = None  # what the last step of the latest ``run`` returned

    def run(self, calls: int) -> Counts:
        self.latest = None  # as a learner, hold one batch at a time
        step = self.pool.step
        self.elapsed = elapsed = BytesIO()
        keep = elapsed.write
        for batch in islice(self.batches, calls):
            result = step(batch)
            keep(result[4]["elapsed_step"])
        self.latest = result
        return self._count(elapsed)

    def last(self) -> Optional[List[Any]]:
        if self.latest is None:
            return None
        observations, *outcome = self.latest[:4]
        return [self.family.flat(observations), *outcome]

    def reset(self) -> int:
        self.first_observations = self.family.flat(self.pool.reset()[0])
        return self.job.numenv
