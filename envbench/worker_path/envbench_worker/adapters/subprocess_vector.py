"""subprocess: ``gymnasium.vector.AsyncVectorEnv``, one process an environment."""

from __future__ import annotations

from typing import Any, Dict

from gymnasium.vector import AsyncVectorEnv

from envbench_worker.adapters.gymnasium_tasks import maker
from envbench_worker.adapters.gymnasium_vector import GymnasiumVector


class Subprocess(GymnasiumVector):
    def make_vector(self) -> Any:
        settings = self.job.settings
        return AsyncVectorEnv(
            [maker(self.job)] * self.job.numenv,
            shared_memory=settings["shared_memory"],
            context=settings["context"] or None,
        )

    def facts(self) -> Dict[str, Any]:
        return dict(super().facts(), processes=self.job.numenv)
