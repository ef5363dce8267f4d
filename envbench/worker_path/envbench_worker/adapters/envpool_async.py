"""envpool-async: more environments in flight than are returned at a time.

What ``recv`` returned is counted, never the number of environments.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Optional

import numpy as np

from envbench_worker.adapters.envpool_tasks import EnvPool
from envbench_worker.contract import Counts, Trace


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

    def follow(self, calls: int) -> Optional[Trace]:
        """Environments 0 to numenv - 1 are led, each at its own pace; the others do as one does."""
        if not self._fixed_start():
            return None
        job, space = self.job, self.pool.observation_space
        trace = Trace(
            np.zeros((calls, job.numenv, *space.shape), space.dtype),
            np.zeros((calls, job.numenv)),
            np.zeros((calls, job.numenv), np.bool_),
        )
        made = np.full(job.env_instances, -1)  # actions of which an answer came; first the reset's
        while made[: job.numenv].min() < calls:
            observations, rewards, terminated, truncated, info = self.pool.recv()
            ids = info["env_id"]
            made[ids] += 1
            led = (ids < job.numenv) & (made[ids] > 0) & (made[ids] <= calls)
            where = made[ids[led]] - 1, ids[led]
            trace.observations[where] = observations[led]
            trace.rewards[where] = rewards[led]
            trace.ended[where] = (terminated | truncated)[led]
            self.pool.send(self._next_actions(ids, made), ids)
        return trace

    def _next_actions(self, ids: Any, made: Any) -> Any:
        bank, numenv = self.bank, self.job.numenv
        return np.stack([bank[made[i] % len(bank)][i % numenv] for i in ids])
