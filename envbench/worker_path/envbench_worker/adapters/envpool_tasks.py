"""What EnvPool's two modes share: making a pool at the reference settings, and counting it.

EnvPool resets on the step after an episode's end, as Gymnasium does; it marks such a result with
``elapsed_step`` 0, which is what is counted (exact in both modes, whatever order results come).

Where backends are compared (mode verify) an episode starts without noise: a game after exactly
one no-op (EnvPool draws from 1 to ``noop_max``; with fire_reset the fire takes its place), a robot
in its model's initial state.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

import envpool
import numpy as np
from envpool.registration import registry

from envbench_worker import actions, autoreset
from envbench_worker.adapters import envpool_audit
from envbench_worker.contract import Adapter, Counts, UnknownTaskError


class EnvPool(Adapter):
    """A pool of ``env_instances`` environments that returns ``numenv`` at a time."""

    def probe(self) -> None:
        known = _known(self.job.family)
        if self.job.task not in known:
            raise UnknownTaskError(self.job.task, known)

    def build(self) -> None:
        job = self.job
        arguments = self._arguments()
        if job.mode == "verify":
            arguments.update(self._fixed_start())
        self.pool = envpool.make(job.task, env_type="gymnasium", **arguments)
        self.autoreset = autoreset.of(self.pool, (autoreset.NEXT_STEP,))
        if job.mode == "verify":
            self.pool = envpool_audit.Watched(self.pool, self._work())
        space = self.pool.action_space
        self.bank = actions.of_job(space, job)
        self.batches = actions.forever(self.bank)
        self.held: Any = []

    def _arguments(self) -> Dict[str, Any]:
        job, settings = self.job, self.job.settings
        arguments: Dict[str, Any] = {
            "num_envs": job.env_instances,
            "batch_size": job.numenv,
            "num_threads": settings["threads"],
            "thread_affinity_offset": settings["affinity"],
            "seed": job.seed,
        }
        if job.family == "atari":
            arguments.update(
                frame_skip=int(job.frame_skip),
                stack_num=4,
                noop_max=30,
                use_fire_reset=settings["fire_reset"],
                episodic_life=False,
                reward_clip=False,
                repeat_action_probability=0.0,
                full_action_space=False,
                max_episode_steps=108_000 // int(job.frame_skip),
                use_inter_area_resize=settings["resize"] == "area",
            )
        return arguments

    def _fixed_start(self) -> Dict[str, Any]:
        """Arguments with which every episode starts alike; empty where there are none."""
        if self.job.family == "atari":
            return {"noop_max": 1}
        takes_noise = "reset_noise_scale" in envpool.make_spec(self.job.task).config._fields
        return {"reset_noise_scale": 0.0} if takes_noise else {}

    def _count(self, elapsed: Any, calls: int) -> Counts:
        resets = int((np.frombuffer(b"".join(elapsed), dtype=np.int32) == 0).sum())
        return Counts(calls * self.job.numenv - resets, resets)

    def unfinished(self) -> int:
        return self._count(self.held, len(self.held)).steps if self.held else 0

    def recount(self) -> Optional[float]:
        return self.pool.frames_of(len(self.held))  # type: ignore[no-any-return]

    def _work(self) -> Dict[str, Any]:
        """What is done a step when measuring."""
        spec = envpool.make_spec(self.job.task, **self._arguments())
        work = envpool_audit.work(
            self.job.family, spec.config._asdict(), self.pool.observation_space
        )
        return dict(work, autoreset=self.autoreset.mode)

    def facts(self) -> Dict[str, Any]:
        space = self.pool.observation_space
        config = self.pool.spec.config._asdict()
        config.pop("base_path", None)  # where the package lies: no fact of the measurement
        return {
            "observation_shape": list(space.shape),
            "observation_dtype": str(space.dtype),
            "action_source": actions.described(self.bank, self.job.seed),
            "autoreset": self.autoreset.mode,
            "autoreset_source": self.autoreset.source,
            "env_instances": self.job.env_instances,
            "batch": self.job.numenv,
            "threads": self.job.settings["threads"] or _default_threads(self.job.numenv),
            "library_task": self.job.task,
            "library_arguments": {key: _plain(value) for key, value in config.items()},
            "work": self._work(),
        }

    def close(self) -> None:
        self.pool.close()


def _default_threads(batch: int) -> int:
    """EnvPool's own choice (``async_envpool.h``): as many as cores, at most the batch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(batch, cores or 1)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it."""
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _known(family: str) -> List[str]:
    """The tasks of a family that EnvPool has (of MuJoCo's, those that are Gymnasium's)."""
    module = {"atari": "envpool.atari", "mujoco": "envpool.mujoco.gym"}[family]
    return sorted(name for name, spec in registry.specs.items() if spec[0] == module)
