"""envpool-async: more environments are in flight than are returned at a time.

Counts are of results that ``recv`` returned, never of the environments in flight.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Optional

import numpy as np

from envbench_worker.adapters.envpool.pool import EnvPool
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
        """Record environments 0 to numenv - 1; the others repeat the actions of these."""
        if self.noiseless() is None:
            return None
        job, seen = self.job, self._seen()
        shape, dtype = (job.numenv, *seen["observation_shape"]), seen["observation_dtype"]
        trace = Trace(
            np.zeros((calls, *shape), dtype),
            np.zeros((calls, job.numenv)),
            np.zeros((calls, job.numenv), np.bool_),
            np.zeros((1, *shape), dtype),
        )
        made = np.full(job.env_instances, -1)  # results received; the first is the reset's
        while made[: job.numenv].min() < calls:
            observations, rewards, terminated, truncated, info = self.pool.recv()
            ids, observations = info["env_id"], self.family.flat(observations)
            made[ids] += 1
            fresh = (ids < job.numenv) & (made[ids] == 0)
            trace.start[0, ids[fresh]] = observations[fresh]
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
