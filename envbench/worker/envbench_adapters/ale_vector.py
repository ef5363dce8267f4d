"""ale-vector: ale-py's native ``AtariVectorEnv``, threads in C++ behind Gymnasium's interface.

``overcommit`` keeps that many environments in flight for each one returned: ``step`` sends actions
to the environments that were returned last, and returns those that are ready. The step after an
episode's end only resets. The first result of each environment that ``reset`` did not return is a
reset, too. Results are matched by the environment's id.

With a ``noop_max`` of n, 0 to n - 1 no-ops are drawn. If fire was pressed, one fewer is made.

Source: ``env_vectorizer.cpp`` and ``preprocessed_env.cpp`` of ale-py 0.12.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, Dict, List, Optional

import ale_py
import envbench_families
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from envbench_families import atari
from envbench_worker import actions, autoreset
from envbench_worker.contract import EMULATOR, Adapter, Counts, Trace, call
from envbench_worker.sensors import refuse_cores, usable_cores

from envbench_adapters.verifying import AnyOrder, Watched

NOOP_MAX = 31  # draws from 0 to 30


class AleVector(Adapter):
    single_steps = "batches"
    counted_by = EMULATOR

    def tasks(self) -> List[str]:
        gymnasium.register_envs(ale_py)
        return envbench_families.of(self.job).tasks()

    def build(self) -> None:
        job = self.job
        refuse_cores(job.settings["affinity"], self._threads())
        self.envs = self._make()
        self.autoreset = autoreset.of(self.envs, (autoreset.NEXT_STEP,))
        self.first, info = self.envs.reset(seed=job.seed + np.arange(job.env_instances))
        self.bank = actions.of_job(self.envs.single_action_space, job)
        self.batches = cycle(self.bank)
        self.ready = info["env_id"]  # ids of the environments that get the first actions
        self.over = np.ones(job.env_instances, dtype=np.bool_)  # True: the next result only resets
        self.over[self.ready] = False
        self.held: List[Any] = []  # latest run: id, terminated, truncated, repeated
        if job.mode == "verify":
            frames = np.full(job.env_instances, atari.MAX_FRAMES)
            frames[self.ready] = info["episode_frame_number"]
            self.envs = _WatchedFrames(self.envs, "episode_frame_number", frames)
            self.envs.whole_step = int(job.frame_skip)

    def _make(self) -> Any:
        return AtariVectorEnv(self._game(), self.job.env_instances, **self._options())

    def _threads(self) -> int:
        """ALE's own choice is as many as cores, at most the environments. But it counts the
        machine's cores, also those that this process may not use."""
        return self.job.settings["threads"] or min(self.job.env_instances, len(usable_cores()))

    def _game(self) -> str:
        return str(gymnasium.spec("ALE/" + self.job.task).kwargs["game"])

    def _options(self) -> Dict[str, Any]:
        job, settings = self.job, self.job.settings
        return {
            "batch_size": job.numenv,
            "num_threads": self._threads(),
            "thread_affinity_offset": settings["affinity"],
            "max_num_frames_per_episode": atari.MAX_FRAMES,
            "repeat_action_probability": 0.0,
            "full_action_space": False,
            "grayscale": True,
            "stack_num": 4,
            "frameskip": int(job.frame_skip),
            "maxpool": True,
            "noop_max": NOOP_MAX,
            "episodic_life": False,
            "reward_clipping": False,
            "use_fire_reset": settings["fire_reset"],
        }

    def run(self, calls: int) -> Counts:
        step = self.envs.step
        held: List[Any] = []
        self.held = held
        hold = held.append
        for batch in islice(self.batches, calls):
            result = step(batch)
            hold(result[4]["env_id"])
            hold(result[2])
            hold(result[3])
        return self._count(held)

    def returned(self, calls: int) -> Optional[List[Any]]:
        if self.job.env_instances == self.job.numenv:
            return None
        self.run(calls)
        return self.held[0::3]

    def _count(self, held: List[Any]) -> Counts:
        """Count results. A result after an end, in the same environment, is a reset."""
        if not held:
            return Counts(0, 0)
        ids = np.concatenate(held[0::3])
        ended = np.concatenate(held[1::3]) | np.concatenate(held[2::3])
        last = np.full(self.job.env_instances, -1)
        last[ids] = np.arange(len(ids))  # a repeated id keeps its last index
        ends = np.flatnonzero(ended)
        resets = int((last[ids[ends]] > ends).sum() + self.over[last >= 0].sum())
        seen = np.flatnonzero(last >= 0)
        self.over[seen] = ended[last[seen]]
        return Counts(len(ids) - resets, resets)

    def unfinished(self) -> int:
        return self._count(self.held[: len(self.held) // 3 * 3]).steps

    def follow(self, calls: int) -> Trace:
        driven = AnyOrder(self, calls, self.envs.single_observation_space)
        ids = self.ready
        driven.begin(ids, self.first)
        held: List[Any] = []
        while not driven.complete():
            observations, rewards, *over, info = self.envs.step(driven.next_actions(ids))
            ids = info["env_id"]
            held.extend((ids, *over))
            driven.store(ids, observations, rewards, *over)
        self._count(held)
        return driven.trace

    def recount(self) -> float:
        return float(self.envs.made_in(len(self.held) // 3))

    def facts(self) -> Dict[str, Any]:
        job = self.job
        made = call("AtariVectorEnv", self._game(), job.env_instances, **self._options())
        return self.common_facts(
            self.envs.single_observation_space,
            self.autoreset.mode,
            dict(atari.reference(job), fire_reset=job.settings["fire_reset"]),
            "host",
            autoreset_source=self.autoreset.source,
            batch=job.numenv,
            threads=self._threads(),
            game=self._game(),
            code="from ale_py.vector_env import AtariVectorEnv\n\nenvs = " + made,
        )

    def close(self) -> None:
        del self.envs  # joins its threads


class _WatchedFrames(Watched):
    """Verify: counts frames by the emulators' frame numbers."""

    whole_step = 0

    def made(self, before: Any, now: Any, result: Any) -> Any:
        """A smaller number means a new episode. The end of a game may cut its last step short."""
        grown = np.maximum(now - before, 0)
        ended = result[2] | result[3]
        return np.where(ended & (grown > 0), np.maximum(grown, self.whole_step), grown)
