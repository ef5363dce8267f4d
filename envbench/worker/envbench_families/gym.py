"""A user's own Gymnasium task. ``module:Name-v0``: importing the module registers the task."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Dict

import gymnasium
from envbench_worker.contract import UnknownTaskError

from envbench_families.base import Family


class Gym(Family):
    repeats = True

    def probe(self) -> None:
        before = set(gymnasium.registry)
        module, colon, name = self.job.task.rpartition(":")
        if colon:
            import_module(module)
        own = [module + colon + new for new in sorted(set(gymnasium.registry) - before)]
        try:
            gymnasium.spec(name)
        except gymnasium.error.Error as error:
            raise UnknownTaskError(self.job.task, own or sorted(gymnasium.registry)) from error

    def described(self) -> Dict[str, Any]:
        """Make no further environment: making a user's own may be slow or have side effects."""
        return {}
