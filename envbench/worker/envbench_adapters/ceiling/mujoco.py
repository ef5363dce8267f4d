"""The ceilings of mujoco and dm_control: ``mj_step`` alone, of the ant or the cheetah.

A step is a control step in one call of ``mj_step``: 0.05 s of the ant, 0.01 s of the cheetah. An
episode has 1,000 steps; then ``mj_resetData`` takes a call. If a state is not finite, ``mj_step``
itself resets it and the simulated time. The count by simulated time (``recount``) then differs.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, Dict, List

import mujoco
from envbench_worker.contract import SIMULATION, Counts

from envbench_adapters.ceiling.ceiling import Core
from envbench_adapters.mujoco import ant as ant_model
from envbench_adapters.mujoco.ant import SUBSTEPS, TIMESTEP_S

EPISODE_STEPS = 1000


class MujocoCore(Core):
    counted_by = SIMULATION
    substeps = SUBSTEPS
    model_name = "ant.xml of Gymnasium"

    def tasks(self) -> List[str]:
        return ant_model.known()

    def load(self) -> Any:
        return ant_model.load()

    def build(self) -> None:
        self.model = self.load()
        self.data = mujoco.MjData(self.model)
        self.bank = self.columns(ant_model.motors(self.model))
        controls = [batch[0].astype(self.data.ctrl.dtype) for batch in self.bank]
        self.controls = cycle(controls)
        self.before = self.began = 0.0

    def run(self, calls: int) -> Counts:
        model, data, step, reset = self.model, self.data, mujoco.mj_step, mujoco.mj_resetData
        motors = data.ctrl
        substeps = self.substeps
        end = (EPISODE_STEPS - 0.5) * substeps * TIMESTEP_S
        resets, self.before, self.began = 0, 0.0, data.time
        for control in islice(self.controls, calls):
            if data.time < end:
                motors[:] = control
                step(model, data, substeps)
            else:
                self.before += data.time
                reset(model, data)
                resets += 1
        return Counts(calls - resets, resets)

    def recount(self) -> float:
        return float(ant_model.frames_between(self.began, self.before + self.data.time))

    def work(self) -> Dict[str, Any]:
        found = ant_model.work(self.model, "MuJoCo " + mujoco.__version__, "float64")
        return dict(found, substeps=self.substeps)

    def facts(self) -> Dict[str, Any]:
        return dict(super().facts(), model=self.model_name)


class CheetahCore(MujocoCore):
    substeps = 1
    model_name = "dm_control's cheetah"

    def tasks(self) -> List[str]:
        return ["CheetahRun-v1"]

    def load(self) -> Any:
        from dm_control.suite import cheetah

        xml, assets = cheetah.get_model_and_assets()
        return mujoco.MjModel.from_xml_string(xml, assets)
