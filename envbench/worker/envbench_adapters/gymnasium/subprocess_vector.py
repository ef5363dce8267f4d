"""subprocess: ``gymnasium.vector.AsyncVectorEnv``, one process per environment."""

from __future__ import annotations

from functools import partial
from multiprocessing.connection import wait
from typing import Any, Dict, Optional

from envbench_worker.contract import call
from gymnasium.vector import AsyncVectorEnv

from envbench_adapters.gymnasium.for_loop import GymnasiumVector, make

ENDING_S = 5.0  # for a process whose files are closed


class Subprocess(GymnasiumVector):
    def make_vector(self) -> Any:
        self.envs = AsyncVectorEnv.__new__(AsyncVectorEnv)  # for ``dead_child``, should it fail
        makers = [partial(make, self.job)] * self.job.numenv
        AsyncVectorEnv.__init__(self.envs, makers, **self._options())
        return self.envs

    def _options(self) -> Dict[str, Any]:
        settings = self.job.settings
        return {"shared_memory": settings["shared_memory"], "context": settings["context"] or None}

    def vector_code(self) -> str:
        options = call("", **self._options())[1:]
        made = "gymnasium.vector.AsyncVectorEnv([make] * {}, {}".format(self.job.numenv, options)
        return "\nenvs = " + made

    @property
    def begins_anew(self) -> bool:
        """Without shared memory, an environment whose episode has just ended resets again in its
        next step."""
        return bool(self.job.settings["shared_memory"])

    def reset(self) -> int:
        if self.begins_anew:
            return super().reset()
        self.envs.reset()
        return self.job.numenv

    def dead_child(self) -> Optional[int]:
        """Find a process that a native library crashed: the pipe reports only its end of file."""
        processes = getattr(getattr(self, "envs", None), "processes", [])
        ending = wait([each.sentinel for each in processes], timeout=0.2)
        for process in processes:
            if process.sentinel in ending:
                process.join(ENDING_S)  # only then does it have an exit code
        ended = (process.exitcode for process in processes if process.exitcode)
        return min(ended, default=None)  # a signal comes first: the others end because of it

    def facts(self) -> Dict[str, Any]:
        return dict(super().facts(), processes=self.job.numenv)
