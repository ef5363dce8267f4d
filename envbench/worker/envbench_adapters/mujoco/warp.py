"""mujoco-warp: MuJoCo's physics as Warp kernels, for thousands of worlds on a GPU, in float32.

A control step copies the actions to the device and launches one graph of five physics steps, as
MuJoCo Warp's ``mjwarp-testspeed`` does for one physics step. On a CPU, too, there is a graph:
without one, launching about a hundred kernels per step from Python took fifty times as long.
Results stay on the device.

Kernels are compiled while the graph is captured (``compile``) and kept in Warp's cache on disk.
``facts`` says how many modules were compiled and not found there.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from itertools import cycle, islice
from typing import Any, Dict, Optional

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from envbench_worker import actions
from envbench_worker.contract import Counts

from envbench_adapters.mujoco import ant as ant_model
from envbench_adapters.mujoco.ant import SUBSTEPS, Ants

_NOT_FATAL = mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS


class MujocoWarp(Ants):
    clock = np.float32
    single_steps = "calls"

    def build(self) -> None:
        job = self.job
        wp.config.log_level = wp.LOG_WARNING
        wp.init()
        self.device = wp.get_device()
        self.host_model = ant_model.load()
        self.model = mjw.put_model(self.host_model)
        self.model.opt.warn_overflow = 0  # kernels would print; facts reads their counters
        self.data = mjw.put_data(self.host_model, mujoco.MjData(self.host_model), nworld=job.numenv)
        drawn = actions.of_job(ant_model.motors(self.host_model), job)
        # Pinned, so that a copy to a GPU is asynchronous.
        place = {"device": "cpu", "pinned": self.device.is_cuda}
        self.bank = [wp.array(batch, dtype=wp.float32, **place) for batch in drawn]
        self.batches = cycle(self.bank)

    def compile(self) -> None:
        known = _cached_modules()
        with wp.ScopedCapture() as capture:
            for _ in range(SUBSTEPS):
                mjw.step(self.model, self.data)
        self.graph = capture.graph
        self.compiled = len(_cached_modules() - known)

    def run(self, calls: int) -> Counts:
        if self.job.mode == "verify":
            self.began = self.seconds()
        copy, launch, control, graph = wp.copy, wp.capture_launch, self.data.ctrl, self.graph
        for batch in islice(self.batches, calls):
            copy(control, batch)
            launch(graph)
        wp.synchronize_device(self.device)
        return Counts(calls * self.job.numenv, 0)

    def facts(self) -> Dict[str, Any]:
        at_limit = self._check()
        option, data = self.model.opt, self.data
        engine = "MuJoCo Warp " + version("mujoco-warp")
        return self.common_facts(
            self.observed()[0],
            "none",
            ant_model.work(self.host_model, engine, "float32"),
            "device",
            device=self.device.name,
            modules_compiled=self.compiled,
            solver_tolerance=float(option.tolerance.numpy()[0]),
            line_search_iterations=int(option.ls_iterations),
            worlds_at_an_iteration_limit=at_limit,
            contacts_allocated=data.naconmax,
            constraints_allocated_per_world=data.njmax,
        )

    def _check(self) -> int:
        """Raise if a world diverged or ran out of memory; count those at an iteration limit."""
        if not np.isfinite(self.observed()).all():
            raise ArithmeticError("a world diverged: its state is not finite")
        noted = self.data.overflow.numpy()
        if (noted & ~int(_NOT_FATAL)).any():
            kind = mjw.OverflowType(int(np.bitwise_or.reduce(noted)))
            raise MemoryError("a buffer for contacts or constraints overflowed: {!r}".format(kind))
        return int((noted != 0).sum())

    def observed(self) -> Any:
        return np.concatenate([self.data.qpos.numpy(), self.data.qvel.numpy()], axis=1)

    def seconds(self) -> Any:
        return self.data.time.numpy().copy()

    def gpu_memory(self) -> Optional[int]:
        if not (self.device.is_cuda and self.device.is_mempool_supported):
            return None
        return int(wp.get_mempool_used_mem_high(self.device))


def _cached_modules() -> Any:
    folder = wp.config.kernel_cache_dir
    return set(os.listdir(folder)) if os.path.isdir(folder) else set()
