"""brax: Brax's own environments on JAX, with one of its four physics pipelines.

The step that ends an episode also resets (to the environment's first state, not to a new one), so
every result is a transition. An ant's control step of 0.05 s has 5 substeps in the pipelines mjx
and generalized, and 10 in spring and positional. Brax's ant observes 27 numbers, without contact
forces. Brax has its own models and solvers, so its states are not compared with another engine's.

Source: ``brax/envs/__init__.py``, ``envs/ant.py``, ``envs/wrappers/training.py`` of Brax 0.14.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, NamedTuple

import jax
import mujoco
import numpy as np
from brax import envs
from brax.envs.base import Wrapper
from brax.envs.wrappers.training import AutoResetWrapper
from envbench_worker import actions
from envbench_worker.contract import LIBRARY, Counts, Job, Trace, call
from jax import numpy as jnp

from envbench_adapters.jax_batch import JaxBatch

MAX_STEPS = 1000
FRAME_S = 0.01
# Tasks whose control step in Brax is that of Gymnasium. Its double pendulum's differs (0.02 s).
TASKS = ["Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedPendulum"]
TASKS += ["Pusher", "Reacher", "Swimmer", "Walker2d"]
# In other pipelines Brax refuses Swimmer and halves InvertedPendulum's control step.
ONLY_IN = {"InvertedPendulum": ("generalized", "mjx"), "Swimmer": ("generalized",)}
SOLVERS = {"generalized": "projected gradient", "spring": "impulses", "positional": "PBD"}


class Tally(NamedTuple):
    """Sums over the steps of a run."""

    returned: Any  # sum of observations and rewards, finite if all are
    ended: Any  # episodes
    lasted: Any  # verify: steps of ended episodes, by the environments' counters


class Brax(JaxBatch):
    counted_by = LIBRARY
    nothing = Tally(np.float32(0), np.int32(0), np.int32(0))

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.pipeline = job.settings["pipeline"]
        self.finite = True

    def tasks(self) -> List[str]:
        pipeline = self.pipeline
        return sorted(task + "-v3" for task in TASKS if pipeline in ONLY_IN.get(task, (pipeline,)))

    def _options(self) -> Dict[str, Any]:
        numenv = self.job.numenv
        return {"episode_length": MAX_STEPS, "batch_size": numenv, "backend": self.pipeline}

    def build(self) -> None:
        self.envs = self._make()
        # Brax takes actions from -1 to 1 and scales them to its motors.
        self.draw(actions.Box(-1.0, 1.0, (self.envs.action_size,)))

    def _make(self) -> Any:
        job = self.job
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "not actively being maintained"
            made = envs.create(_library_name(job.task), **self._options())
        if not _resets_within_the_step(made):
            raise ValueError(
                "Brax made {} without its AutoResetWrapper: it would continue to step episodes "
                "that have ended, and their steps would count".format(job.task)
            )
        if abs(float(made.dt) - job.frame_skip * FRAME_S) > 1e-6:
            raise ValueError("a step of Brax's {} lasts {} s".format(job.task, made.dt))
        return made

    def initial(self) -> Any:
        state = jax.jit(self.envs.reset)(jax.random.key(self.job.seed))
        if self.job.mode != "verify":
            return state
        # A fixed start. Brax draws a little noise for each environment.
        numenv = self.job.numenv
        return jax.tree.map(
            lambda x: jnp.broadcast_to(x[:1], x.shape) if x.shape[:1] == (numenv,) else x, state
        )

    def step(self, state: Any, batch: Any) -> Any:
        return self.envs.step(state, batch)

    def tallied(self, tally: Any, state: Any) -> Any:
        ended = state.done.astype(jnp.int32)
        lasted = tally.lasted
        if self.job.mode == "verify":
            lasted += (ended * state.info["steps"].astype(jnp.int32)).sum()
        returned = tally.returned + state.obs.sum() + state.reward.sum()
        return Tally(returned, tally.ended + ended.sum(), lasted)

    def run(self, calls: int) -> Counts:
        if self.job.mode == "verify":
            self.began = self._elapsed()
        tally = self.advance(calls)
        self.lasted = int(tally.lasted)
        self.finite = self.finite and bool(np.isfinite(tally.returned))
        return Counts(calls * self.job.numenv, int(tally.ended))

    def follow(self, calls: int) -> Trace:
        """Uses ``run``, one call at a time, so that the timed program is compared."""
        rows, start = [], np.array(self.state.obs)[None]
        for _ in range(calls):
            self.run(1)
            seen = (self.state.obs, self.state.reward, self.state.done)
            rows.append([np.array(each) for each in seen])  # copies: the state is donated
        observations, rewards, done = (np.stack(each) for each in zip(*rows))
        return Trace(observations, rewards, done != 0, start, same_step=True)

    def _elapsed(self) -> Any:
        """Steps in each current episode. Brax's counter restarts after ``done``."""
        under_way = np.asarray(self.state.done) == 0
        return np.where(under_way, np.asarray(self.state.info["steps"], dtype=np.float64), 0.0)

    def recount(self) -> float:
        """By Brax's elapsed-step counters, of ended and current episodes."""
        under_way = float((self._elapsed() - self.began).sum())
        return (self.lasted + under_way) * self.job.frame_skip

    def facts(self) -> Dict[str, Any]:
        made = call("envs.create", _library_name(self.job.task), **self._options())
        return self.described(
            np.asarray(self.state.obs)[0],  # XLA would compile a program to index it
            "same-step",
            self._work(),
            resets_to="each environment's first state",
            observations_finite=self.finite,
            library_task=_library_name(self.job.task),
            pipeline=self.pipeline,
            code="from brax import envs\n\nvector = " + made,
        )

    def _work(self) -> Dict[str, Any]:
        option = self.envs.sys.opt
        timestep = float(option.timestep)
        solver = SOLVERS.get(self.pipeline) or mujoco.mjtSolver(option.solver).name[6:].title()
        return {
            "engine": "Brax {}".format(self.pipeline),
            "timestep_s": round(timestep, 9),
            "substeps": round(float(self.envs.dt) / timestep),
            "integrator": "Euler",
            "solver": solver,
            "iterations": self._iterations(),
            "precision": str(self.state.obs.dtype),
            "contact_forces": False,
            "terminates": bool(getattr(self.envs.unwrapped, "_terminate_when_unhealthy", False)),
            "max_steps": MAX_STEPS,
        }

    def _iterations(self) -> int:
        if self.pipeline == "mjx":
            return int(self.envs.sys.opt.iterations)
        return int(self.envs.sys.solver_iterations) if self.pipeline == "generalized" else 1


def _resets_within_the_step(env: Any) -> bool:
    """Is Brax's automatic reset among the wrappers? Brax states it nowhere else."""
    while isinstance(env, Wrapper) and not isinstance(env, AutoResetWrapper):
        env = env.env
    return isinstance(env, AutoResetWrapper)


def _library_name(task: str) -> str:
    name = task.rpartition("-v")[0]
    return "inverted_pendulum" if name == "InvertedPendulum" else name.lower()
