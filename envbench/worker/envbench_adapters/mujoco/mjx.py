"""mjx: raw ``mjx.step``, MuJoCo's physics in JAX, on the ant that every physics row steps.

A step is one control step of one world: set its control, then 5 x ``mjx.step`` of 0.01 s, with the
model's own options (RK4, Newton, at most 100 iterations), in float32. A batch is a ``vmap``, so the
solver's loop ends when the slowest world has converged. MJX never resets a world, and unlike MuJoCo
does not reset one that diverges. A run that ends with a diverged world is refused.

Source: ``mujoco/mjx/_src/forward.py`` and ``io.py`` of mujoco-mjx 3.17.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Dict

import jax
import numpy as np
from envbench_worker.contract import Counts
from mujoco import mjx

from envbench_adapters.jax_batch import JaxBatch
from envbench_adapters.mujoco import ant as ant_model
from envbench_adapters.mujoco.ant import SUBSTEPS, Ants


class Mjx(Ants, JaxBatch):
    clock = np.float32
    nothing = np.float32(0)

    def build(self) -> None:
        self.model = ant_model.load()
        # Without ``impl``, MJX would choose Warp's engine on a GPU. Warp has a row of its own.
        self.on_mjx = mjx.put_model(self.model, impl="jax")
        self.draw(ant_model.motors(self.model))

    def initial(self) -> Any:
        world = mjx.make_data(self.on_mjx)
        rows = jax.tree.map(lambda leaf: np.repeat(leaf[None], self.job.numenv, axis=0), world)
        return jax.device_put(rows)

    def step(self, state: Any, batch: Any) -> Any:
        return jax.vmap(self._control_step)(state, batch)

    def _control_step(self, data: Any, control: Any) -> Any:
        data = data.replace(ctrl=control)
        return jax.lax.fori_loop(0, SUBSTEPS, lambda _, each: mjx.step(self.on_mjx, each), data)

    def tallied(self, tally: Any, state: Any) -> Any:
        return tally + state.qpos.sum() + state.qvel.sum()

    def run(self, calls: int) -> Counts:
        if self.job.mode == "verify":
            self.began = self.seconds()
        if not np.isfinite(self.advance(calls)):
            raise ArithmeticError("a world diverged: its positions or velocities are not finite")
        return Counts(calls * self.job.numenv, 0)

    def facts(self) -> Dict[str, Any]:
        work = ant_model.work(self.model, "MJX " + version("mujoco-mjx"), "float32")
        return self.described(self.observed()[0], "none", work)

    def observed(self) -> Any:
        return np.concatenate([self.state.qpos, self.state.qvel], axis=1)

    def seconds(self) -> Any:
        return np.array(self.state.time, dtype=np.float64)  # a copy: the state is donated
