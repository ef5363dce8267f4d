"""for-loop: ``gymnasium.vector.SyncVectorEnv``, one environment after another in one process.

``GymnasiumVector`` is also the base of subprocess: it steps a vector environment and counts.
The environments state when they reset (``autoreset``). Gymnasium's default is *next step*: the step
after an episode's end only resets, and is not a transition. Episode ends are copied into a buffer,
as a learner does, and counted once per window. Keeping the arrays instead costs 1 % on CartPole.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from io import BytesIO
from itertools import cycle, islice
from typing import Any, Dict, List, Optional

import envbench_families
import gymnasium
import numpy as np
from envbench_families.base import Counted
from envbench_worker import actions, autoreset
from envbench_worker.contract import Adapter, Counts, Job, Trace
from gymnasium.vector import SyncVectorEnv

from envbench_adapters import verifying

STARTS = 100  # of episodes, to compare a backend's starts with
ACTIONS = 256  # batches, to compare a backend's actions with


class GymnasiumVector(Adapter):
    """A backend whose ``make_vector`` returns a ``gymnasium.vector.VectorEnv``."""

    single_steps = "batches"
    latest: Any = None  # what the last step of the latest ``run`` returned

    @abstractmethod
    def make_vector(self) -> Any:
        """Make the vector environment to step."""

    def probe(self) -> None:
        """Refuses older vector environments: they reset within the step and do not state it."""
        version = gymnasium.__version__
        if int(version.split(".")[0]) < 1:
            text = "Gymnasium {} resets within the step: envbench needs Gymnasium 1.0 or newer"
            raise ImportError(text.format(version))
        envbench_families.of(self.job).probe()

    def build(self) -> None:
        job = self.job
        self.counted_by = envbench_families.of(job).counted_by
        self.envs = self.make_vector()
        self.autoreset = autoreset.of(self.envs, (autoreset.NEXT_STEP, autoreset.SAME_STEP))
        self.first_observations, _ = self.envs.reset(seed=job.seed)
        self.bank = actions.of_job(self.envs.single_action_space, job, self.envs.action_space)
        self.batches = cycle(self.bank)
        self.ends = BytesIO()
        self.ended = 0  # environments whose next step only resets

    def run(self, calls: int) -> Counts:
        self.latest = None  # as a learner, hold one batch at a time
        step = self.envs.step
        self.ends = ends = BytesIO()
        keep = ends.write
        for batch in islice(self.batches, calls):
            result = step(batch)
            keep(result[2])
            keep(result[3])
        self.latest = result
        return self._count(ends.getvalue(), calls)

    def last(self) -> Optional[List[Any]]:
        arrays = list(self.latest[:4]) if self.latest else [None]
        return arrays if all(isinstance(each, np.ndarray) for each in arrays) else None

    def reset(self) -> int:
        self.first_observations, _ = self.envs.reset()
        self.ended = 0
        return self.job.numenv

    def _count(self, ends: bytes, calls: int) -> Counts:
        numenv = self.job.numenv
        flags = np.frombuffer(ends, dtype=np.bool_).reshape(calls, 2, numenv)
        over = flags[:, 0] | flags[:, 1]
        if self.autoreset.mode == autoreset.SAME_STEP:
            return Counts(calls * numenv, int(over.sum()))
        last = int(over[-1].sum())
        resets = self.ended + int(over.sum()) - last
        self.ended = last
        return Counts(calls * numenv - resets, resets)

    def unfinished(self) -> int:
        ends, size = self.ends.getvalue(), 2 * self.job.numenv
        calls = len(ends) // size
        return self._count(ends[: size * calls], calls).steps if calls else 0

    def recount(self) -> Optional[float]:
        frames = self.envs.call("frames_made")
        return None if None in frames else float(sum(frames))

    def facts(self) -> Dict[str, Any]:
        space, family = self.envs.single_observation_space, envbench_families.of(self.job)
        identifier, arguments = family.gym_id()
        one = family.code()
        return self.common_facts(
            space,
            self.autoreset.mode,
            family.described(),
            "host",
            autoreset_source=self.autoreset.source,
            library_task=identifier,
            library_arguments=arguments,
            **({"code": one + self.vector_code()} if one else {}),
        )

    @abstractmethod
    def vector_code(self) -> str:
        """Write Python that makes the vector environment of ``make()``."""

    def close(self) -> None:
        self.envs.close()


def make(job: Job) -> Any:
    """Make one environment, here or in a vectoriser's process."""
    family = envbench_families.of(job)
    env = family.make()
    return Counted(env, family) if job.mode == "verify" else env


class ForLoop(GymnasiumVector):
    def make_vector(self) -> Any:
        return SyncVectorEnv([partial(make, self.job)] * self.job.numenv)

    def vector_code(self) -> str:
        return "\nenvs = gymnasium.vector.SyncVectorEnv([make] * {})".format(self.job.numenv)

    def predict(self, given: Trace) -> Optional[Trace]:
        job, family = self.job, envbench_families.of(self.job)
        if self.envs.single_observation_space.shape is None:
            raise TypeError("the reference's observations are not single arrays")
        if not family.shows_state(self.envs.envs[0], given.start.shape[2:]):
            return None
        traced = range(given.rewards.shape[1]) if given.columns is None else given.columns
        forced = [family.forced(e, job.seed + int(i)) for e, i in zip(self.envs.envs, traced)]
        found = verifying.predict(given, self.bank, forced)
        begun = [start for each in forced for start in each.begun]
        starts = [np.array(forced[0].start()) for _ in range(STARTS if begun else 0)]
        self.envs.reset()
        self.envs.call("frames_made")
        if isinstance(self.bank[0], np.ndarray):
            found = found._replace(actions=np.stack(self.bank[:ACTIONS]))
        if not begun:
            return found
        by = np.repeat(np.arange(len(forced)), [len(each.begun) for each in forced])
        automatic = np.concatenate([each.automatic for each in forced])
        if begun[0].ndim == 1:  # of observations, as much as both sides show
            shown = slice(min(len(begun[0]), len(starts[0])))
            begun, starts = [each[shown] for each in begun], [each[shown] for each in starts]
        return found._replace(
            begun=np.stack(begun), begun_by=by, automatic=automatic, starts=np.stack(starts)
        )
