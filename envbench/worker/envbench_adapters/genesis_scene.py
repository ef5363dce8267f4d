"""genesis: the ant as an entity of a Genesis scene, all worlds in one batch, on a GPU or a CPU.

Genesis reads the same ``ant.xml`` and simulates it with its own engine: another integrator, contact
model and collision filter. A control step is one ``scene.step()`` of 0.05 s in 5 substeps (bitwise
equal to five steps of 0.01 s). Motor forces (gear x action) are set once per step.

Building the scene and the first step compile kernels (``compile``): minutes without Genesis's cache
on disk, seconds with it. A seed for Genesis would be part of the cache's keys: each would compile
all kernels again. On a CPU, Genesis uses one thread unless ``threads`` is set.
"""

from __future__ import annotations

import os
from itertools import cycle, islice
from typing import Any, Dict

import genesis as gs
import numpy as np
import torch
from envbench_worker import actions
from envbench_worker.contract import Counts

from envbench_adapters.mujoco import ant as ant_model
from envbench_adapters.mujoco.ant import SUBSTEPS, TIMESTEP_S, Ants


class Genesis(Ants):
    single_steps = "calls"

    def build(self) -> None:
        job = self.job
        if job.settings["threads"]:  # Genesis has no other option for it
            os.environ["QD_NUM_THREADS"] = str(job.settings["threads"])
        backend = gs.cuda if torch.cuda.is_available() else gs.cpu
        gs.init(backend=backend, logging_level="warning")  # without a seed: nothing is random
        self.options = gs.options.RigidOptions()
        self.scene = gs.Scene(
            sim_options=gs.options.SimOptions(dt=TIMESTEP_S * SUBSTEPS, substeps=SUBSTEPS),
            rigid_options=self.options,
            show_viewer=False,
        )
        self.ant = self.scene.add_entity(gs.morphs.MJCF(file=ant_model.path()))

    def compile(self) -> None:
        self.scene.build(n_envs=self.job.numenv)
        model, job = ant_model.load(), self.job
        # Columns in the order of MuJoCo's actuators, with the degree of freedom of each.
        joints = [model.joint(joint).name for joint in model.actuator_trnid[:, 0]]
        self.dofs = [self.ant.get_joint(name).dofs_idx_local[0] for name in joints]
        gear = model.actuator_gear[:, 0].astype(np.float32)
        drawn = actions.of_job(ant_model.motors(model), job)
        self.bank = [torch.from_numpy(batch * gear) for batch in drawn]
        if gs.device.type == "cuda":  # so that a copy to it is asynchronous
            self.bank = [tensor.pin_memory() for tensor in self.bank]
        self.batches = cycle(self.bank)

    def run(self, calls: int) -> Counts:
        if self.job.mode == "verify":
            self.began = self.seconds()
        device, dofs = gs.device, self.dofs
        control, step = self.ant.control_dofs_force, self.scene.step
        for batch in islice(self.batches, calls):
            control(batch.to(device, non_blocking=True), dofs)
            step()
        gs.qd.sync()
        return Counts(calls * self.job.numenv, 0)

    def seconds(self) -> Any:
        """Return a copy of each world's simulated seconds, as Genesis counts them."""
        return self.scene.get_time().cpu().numpy().copy()

    def observed(self) -> Any:
        state = torch.cat([self.ant.get_qpos(), self.ant.get_dofs_velocity()], dim=1)
        return state.cpu().numpy()  # ``cat`` has copied it

    def facts(self) -> Dict[str, Any]:
        state = self.observed()
        if not np.isfinite(state).all():
            raise ArithmeticError("a world diverged: its state is not finite")
        return self.common_facts(
            state[0],
            "none",
            self._work(str(state.dtype)),
            "device",
            device=gs.backend.name,
            threads=self.job.settings["threads"] or "library default",
            model="ant.xml of Gymnasium, by Genesis's MJCF reader",
        )

    def _work(self, precision: str) -> Dict[str, Any]:
        return {
            "engine": "Genesis " + gs.__version__,
            "timestep_s": self.scene.sim.substep_dt,
            "substeps": self.scene.sim.substeps,
            "integrator": self.options.integrator.name,
            "solver": self.options.constraint_solver.name,
            "iterations": self.options.iterations,
            "precision": precision,
        }

    def close(self) -> None:
        gs.destroy()
