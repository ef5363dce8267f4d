"""for-loop: ``gymnasium.vector.SyncVectorEnv``, one environment after another in one process."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import SyncVectorEnv

from envbench_worker.adapters.gymnasium.tasks import maker
from envbench_worker.adapters.gymnasium.vector import GymnasiumVector


class ForLoop(GymnasiumVector):
    def make_vector(self) -> Any:
        return SyncVectorEnv([maker(self.job)] * self.job.numenv)
