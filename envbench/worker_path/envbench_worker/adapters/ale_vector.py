"""ale-vector: ale-py's native ``AtariVectorEnv``, threads in C++ behind Gymnasium's interface.

``overcommit`` 1 steps every environment on every call. A larger value keeps that many environments
in flight for each one returned: ``step`` sends actions to the environments that were returned last,
and returns those that are ready. In both modes the step after an episode's end only resets. With a
larger ``overcommit`` the first result of each environment that ``reset`` did not return is also
only a reset. Results are matched by the environment's id.

A ``noop_max`` of n draws from 0 to n - 1 no-ops (one fewer if fire was pressed).

Source: ``env_vectorizer.cpp`` and ``preprocessed_env.cpp`` of ale-py 0.12.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Dict, List, Tuple

import ale_py
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv

from envbench_worker import actions, autoreset, families
from envbench_worker.contract import Adapter, Counts, Trace, UnknownTaskError

NOOP_MAX = 31  # draws from 0 to 30
MAX_FRAMES = 108_000
SEEDS = 100  # tried for a fixed start; two or three starts are equally likely


class AleVector(Adapter):
    def probe(self) -> None:
        gymnasium.register_envs(ale_py)
        known = families.of(self.job).tasks()
        if self.job.task not in known:
            raise UnknownTaskError(self.job.task, known)

    def build(self) -> None:
        job = self.job
        noop_max, seeds = NOOP_MAX, job.seed + np.arange(job.env_instances)
        if job.mode == "verify":
            noop_max, seed = self._fixed_start()
            seeds = np.full(job.env_instances, seed)
        self.envs = self._make(job.env_instances, job.numenv, noop_max)
        self.autoreset = autoreset.of(self.envs, (autoreset.NEXT_STEP,))
        _, info = self.envs.reset(seed=seeds)
        space = self.envs.single_action_space
        self.bank = actions.of_job(space, job)
        self.batches = actions.forever(self.bank)
        self.ready = info["env_id"]  # ids of the environments that get the next actions
        self.over = np.ones(job.env_instances, dtype=np.bool_)  # True: the next result only resets
        self.over[self.ready] = False
        self.held: List[Any] = []  # latest run: id, terminated, truncated, repeated
        self.frames = np.full(job.env_instances, MAX_FRAMES)  # each one's last frame number
        self.frames[self.ready] = info["episode_frame_number"]
        self.infos: List[Any] = []  # verify only

    def _make(self, instances: int, batch: int, noop_max: int) -> Any:
        job, settings = self.job, self.job.settings
        return AtariVectorEnv(
            gymnasium.spec("ALE/" + job.task).kwargs["game"],
            instances,
            batch_size=batch,
            num_threads=settings["threads"],
            thread_affinity_offset=settings["affinity"],
            max_num_frames_per_episode=MAX_FRAMES,
            repeat_action_probability=0.0,
            full_action_space=False,
            grayscale=True,
            stack_num=4,
            frameskip=int(job.frame_skip),
            maxpool=True,
            noop_max=noop_max,
            episodic_life=False,
            reward_clipping=False,
            use_fire_reset=settings["fire_reset"],
        )

    def _fixed_start(self) -> Tuple[int, int]:
        """A ``noop_max`` and a seed that start a game after one no-op (and fire).

        ``LookupError`` if none of ``SEEDS`` seeds does.
        """
        fires = bool(self.job.settings["fire_reset"]) and (
            ale_py.Action.FIRE in self._make(1, 1, 1).ale.get_action_set()
        )
        noop_max = 3 if fires else 2  # the wanted start is the largest draw
        trial = self._make(1, 1, noop_max)
        seen = set()
        for seed in range(SEEDS):
            frames = int(trial.reset(seed=seed)[1]["episode_frame_number"][0])
            if frames == 1 + fires:
                return noop_max, seed
            seen.add(frames)
        raise LookupError(
            "no seed gives {} a fixed start: with noop_max {}, seeds 0 to {} were tried for a "
            "start at frame {}, and games started at frame {}".format(
                self.job.task,
                noop_max,
                SEEDS - 1,
                1 + fires,
                ", ".join(str(frames) for frames in sorted(seen)),
            )
        )

    def run(self, calls: int) -> Counts:
        step = self.envs.step
        held: List[Any] = []
        self.held = held
        hold = held.append
        if self.job.mode == "verify":
            return self._run_noting(calls)
        for batch in islice(self.batches, calls):
            result = step(batch)
            hold(result[4]["env_id"])
            hold(result[2])
            hold(result[3])
        return self._count(held)

    def _run_noting(self, calls: int) -> Counts:
        """Like ``run``, but keep the emulators' frame numbers too."""
        self.infos = []
        for batch in islice(self.batches, calls):
            self._note(self.envs.step(batch))
        return self._count(self.held)

    def _note(self, result: Any) -> None:
        self.ready = result[4]["env_id"]
        self.held.extend((self.ready, result[2], result[3]))
        self.infos.append((self.ready, result[4]["episode_frame_number"], result[2] | result[3]))

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
        job, wanted = self.job, (calls, self.job.numenv)
        shape = self.envs.single_observation_space.shape
        trace = Trace(np.zeros(wanted + shape, np.uint8), np.zeros(wanted), np.zeros(wanted, bool))
        given = np.zeros(job.env_instances, dtype=np.int64)  # actions sent to each
        answered = given.copy()
        while answered[: job.numenv].min() < calls:
            column = self.ready % job.numenv
            batch = [self.bank[k % len(self.bank)][i] for k, i in zip(given[self.ready], column)]
            given[self.ready] += 1
            result = self.envs.step(np.asarray(batch))
            self._note(result)
            answered[self.ready] = given[self.ready]
            _store(trace, answered, result)
        self._count(self.held)
        self.recount()
        return trace

    def recount(self) -> float:
        """How far the emulators' frame numbers grew. A smaller number means a new episode.

        The end of a game may cut its last step short. It counts as a whole step.
        """
        skip, frames = int(self.job.frame_skip), 0
        for ids, now, ended in self.infos:
            grown = now - self.frames[ids]
            grown[ended & (grown > 0) & (grown < skip)] = skip
            frames += int(grown[grown > 0].sum())
            self.frames[ids] = now
        self.infos = []
        return float(frames)

    def facts(self) -> Dict[str, Any]:
        job, space = self.job, self.envs.single_observation_space
        returned = {"observation_shape": list(space.shape), "observation_dtype": str(space.dtype)}
        return {
            **returned,
            "action_source": actions.described(self.bank, job.seed),
            "autoreset": self.autoreset.mode,
            "autoreset_source": self.autoreset.source,
            "env_instances": job.env_instances,
            "batch": job.numenv,
            "threads": job.settings["threads"] or "library default",
            "game": gymnasium.spec("ALE/" + job.task).kwargs["game"],
            "work": {
                **self._work(),
                **returned,
                "autoreset": self.autoreset.mode,
                "returned_to": "host",
            },
        }

    def _work(self) -> Dict[str, Any]:
        return {
            "frame_skip": int(self.job.frame_skip),
            "max_pool": 2,
            "resize": "area",
            "grayscale": True,
            "screen": [84, 84],
            "stack": 4,
            "noop_max": NOOP_MAX - 1,
            "fire_reset": self.job.settings["fire_reset"],
            "sticky": 0.0,
            "episodic_life": False,
            "reward_clip": False,
            "action_set": "minimal",
            "max_frames": MAX_FRAMES,
        }

    def close(self) -> None:
        del self.envs  # joins its threads


def _store(trace: Trace, answered: Any, result: Any) -> None:
    """Store results by environment: row k - 1 is the result of the k-th action."""
    calls, numenv = trace.rewards.shape
    for slot, env in enumerate(result[4]["env_id"]):
        row = answered[env] - 1
        if env < numenv and 0 <= row < calls:
            trace.observations[row, env] = result[0][slot]
            trace.rewards[row, env] = result[1][slot]
            trace.ended[row, env] = result[2][slot] or result[3][slot]
