"""mujoco-rollout: the thread pool of ``mujoco.rollout``, which steps many worlds in C++.

A rollout applies a whole sequence of controls and returns every state along the way, for planners.
A learner knows only the next action, so by default a call is one control step (``horizon`` 1) from
the last state. A larger ``horizon`` makes that many control steps per call. A rollout begins with
the solver's warm start at zero, so ``horizon`` changes the last digits.

Source: ``mujoco/rollout.py`` and ``rollout.cc`` of MuJoCo 4.0.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, Dict, Iterator, List, Optional

import mujoco
import numpy as np
from envbench_worker import actions
from envbench_worker.contract import Counts, Trace
from envbench_worker.sensors import usable_cores
from mujoco import rollout

from envbench_adapters.mujoco import ant as ant_model
from envbench_adapters.mujoco.ant import SUBSTEPS, Ants

TIME = 0  # index in a full state
STATE = slice(1, 30)  # qpos and qvel in a full state


class MujocoRollout(Ants):
    def build(self) -> None:
        job = self.job
        self.model = ant_model.load()
        self.threads = min(job.settings["threads"] or len(usable_cores()), job.numenv)
        # 0 is the calling thread. A pool of one thread would only add a hand-over.
        self.pool = rollout.Rollout(nthread=self.threads if self.threads > 1 else 0)
        self.datas = [mujoco.MjData(self.model) for _ in range(self.threads)]
        self.bank = actions.of_job(ant_model.motors(self.model), job)
        # Controls for whole rollouts, (numenv, horizon, motors), in the bank's order, in float64.
        horizon = job.settings["horizon"]
        bank = self.bank * -(-horizon // len(self.bank))  # it may be shorter than the horizon
        starts = range(0, len(bank) - horizon + 1, horizon)
        self.controls = cycle(
            [np.stack(bank[at : at + horizon], axis=1).astype(np.float64) for at in starts]
        )
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        rest = np.empty(mujoco.mj_stateSize(self.model, kind))
        mujoco.mj_getState(self.model, self.datas[0], rest, kind)
        self.states = np.tile(rest, (job.numenv, 1, 1))
        self.room = np.empty((job.numenv, job.settings["horizon"] * SUBSTEPS, self.states.shape[2]))

    def run(self, calls: int) -> Counts:
        self.began = self.states[:, -1, TIME].copy()
        for states in self._rollouts(calls):
            self.states = states
        frames = np.rint((self.states[:, -1, TIME] - self.began) / ant_model.TIMESTEP_S)
        if (frames != calls * SUBSTEPS).any():  # MuJoCo stops a world that diverges
            raise ArithmeticError("a world diverged: MuJoCo ended its rollout")
        return Counts(calls * self.job.numenv, 0)

    def last(self) -> Optional[List[Any]]:
        """Not with a horizon: then the lengths of the calls before change the last digits."""
        return [self.states[:, -1]] if self.job.settings["horizon"] == 1 else None

    def _rollouts(self, calls: int) -> Iterator[Any]:
        """The states of each rollout, (numenv, physics steps, state), in reused memory."""
        horizon = self.job.settings["horizon"]
        whole, rest = divmod(calls, horizon)
        for controls in islice(self.controls, whole):
            yield self._rollout(controls, self.room)
        if rest:
            yield self._rollout(next(self.controls)[:, :rest], None)

    def _rollout(self, controls: Any, room: Any) -> Any:
        held = np.repeat(controls, SUBSTEPS, axis=1)
        start = self.states[:, -1]
        states, _ = self.pool.rollout(self.model, self.datas, start, held, state=room)
        return states

    def facts(self) -> Dict[str, Any]:
        return self.common_facts(
            self.states[0, 0],
            "none",
            ant_model.work(self.model, "MuJoCo " + mujoco.__version__, "float64"),
            "host",
            threads=self.threads,
            horizon=self.job.settings["horizon"],
            warm_start="zero at each call",
            states_returned_per_step=SUBSTEPS,
        )

    def observed(self) -> Any:
        return self.states[:, -1, STATE].copy()

    def follow(self, calls: int) -> Trace:
        """Makes rollouts of the same lengths as a single ``run`` of ``calls``."""
        rows: List[Any] = [self.observed()[None]]
        for states in self._rollouts(calls):
            self.states = states
            rows.append(states[:, SUBSTEPS - 1 :: SUBSTEPS, STATE].swapaxes(0, 1).copy())
        return ant_model.trace(np.concatenate(rows))

    def predict(self, given: Trace) -> Trace:
        before = np.concatenate([given.start, given.observations[:-1]])
        traced = before.shape[1]  # the others step, too, without controls
        columns = np.arange(traced) if given.columns is None else given.columns
        own = (batch[columns] for batch in cycle(self.bank))
        rows = [given.start[0]]
        for state, batch in zip(before, own if given.actions is None else given.actions):
            self.states[:traced, -1, STATE] = state
            controls = np.zeros((self.job.numenv, 1, batch.shape[1]))
            controls[:traced, 0] = batch
            self.states = self._rollout(controls, None)
            rows.append(self.observed()[:traced])
        return ant_model.trace(np.stack(rows))

    def seconds(self) -> Any:
        return self.states[:, -1, TIME].copy()

    def close(self) -> None:
        self.pool.close()
