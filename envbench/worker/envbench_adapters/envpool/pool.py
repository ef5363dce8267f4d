"""The base of EnvPool's two modes: make a pool with the reference settings, and count its steps.

EnvPool resets on the step after an episode's end, as Gymnasium does. Such a result has
``elapsed_step`` 0, so resets are counted exactly in both modes, whatever the order of results.
"""

from __future__ import annotations

from io import BytesIO
from itertools import cycle
from typing import Any, Dict, List, Optional

import envbench_families
import envpool
import numpy as np
from envbench_worker import actions, autoreset
from envbench_worker.contract import LIBRARY, Adapter, Counts, Job, call
from envbench_worker.sensors import refuse_cores, usable_cores
from envpool.registration import registry
from gymnasium.vector.utils import create_empty_array

from envbench_adapters.verifying import Watched


class EnvPool(Adapter):
    """A pool of ``env_instances`` environments that returns ``numenv`` at a time."""

    single_steps = "batches"
    counted_by = LIBRARY

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.family = envbench_families.of(job)

    def tasks(self) -> List[str]:
        """Return the tasks of the family that EnvPool has."""
        module = self.family.envpool_module
        return sorted(name for name, spec in registry.specs.items() if spec[0] == module)

    def build(self) -> None:
        job = self.job
        refuse_cores(job.settings["affinity"], self._threads())
        self.pool = envpool.make(job.task, env_type="gymnasium", **self._arguments())
        self.autoreset = autoreset.of(self.pool, (autoreset.NEXT_STEP,))
        if job.mode == "verify":
            self.frames_per_step = self.family.envpool_frames(self._work())
            counters = np.zeros(job.env_instances, np.int64)
            self.pool = Watched(self.pool, "elapsed_step", counters, self.frames_per_step or 0.0)
        self.bank = actions.of_job(self.pool.action_space, job)
        self.batches = cycle(self.bank)
        self.elapsed = BytesIO()  # ``elapsed_step`` of each result since the last count

    def _arguments(self) -> Dict[str, Any]:
        job, settings = self.job, self.job.settings
        return {
            "num_envs": job.env_instances,
            "batch_size": job.numenv,
            "num_threads": self._threads(),
            "thread_affinity_offset": settings["affinity"],
            "seed": job.seed,
            **self.family.envpool_arguments(),
        }

    def _count(self, elapsed: BytesIO) -> Counts:
        results = np.frombuffer(elapsed.getvalue(), dtype=np.int32)
        resets = int((results == 0).sum())
        return Counts(len(results) - resets, resets)

    def unfinished(self) -> int:
        return self._count(self.elapsed).steps

    def recount(self) -> Optional[float]:
        each = self.frames_per_step
        calls = self.elapsed.tell() // (4 * self.job.numenv)
        return None if each is None else float(self.pool.made_in(calls) * each)

    def _work(self) -> Dict[str, Any]:
        spec = envpool.make_spec(self.job.task, **self._arguments())
        return self.family.envpool_work(spec.config._asdict())

    def seen(self) -> Any:
        """Return one observation of zeros, with the shape and type that a learner receives."""
        return self.family.flat(create_empty_array(self.pool.observation_space))[0]

    def facts(self) -> Dict[str, Any]:
        config = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value)
            for key, value in self.pool.spec.config._asdict().items()
            if key != "base_path"  # the package's path, not a fact of the measurement
        }
        return self.common_facts(
            self.seen(),
            self.autoreset.mode,
            self._work(),
            "host",
            autoreset_source=self.autoreset.source,
            batch=self.job.numenv,
            threads=self._threads(),
            code="import envpool\n\nenvs = {}".format(self._code()),
            library_task=self.job.task,
            library_arguments=config,
        )

    def _threads(self) -> int:
        """EnvPool's own choice (``async_envpool.h``) is as many as cores, at most the batch. But it
        counts the machine's cores, also those that this process may not use."""
        return self.job.settings["threads"] or min(self.job.numenv, len(usable_cores()))

    def _code(self) -> str:
        """The call that makes such a pool. Threads are bound to cores only if a person asked."""
        arguments = self._arguments()
        del arguments["seed"]
        if self.job.settings["affinity"] < 0:
            del arguments["thread_affinity_offset"]
        return call("envpool.make_gymnasium", self.job.task, **arguments)

    def close(self) -> None:
        self.pool.close()
