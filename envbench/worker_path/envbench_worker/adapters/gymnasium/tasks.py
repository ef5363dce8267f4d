"""Make a job's environments with Gymnasium, for the backends that vectorise them."""

from __future__ import annotations

from multiprocessing import parent_process
from typing import Any, Optional

import gymnasium

from envbench_worker import families, lifetime
from envbench_worker.contract import Job
from envbench_worker.families.base import Family

_MICRO = 6  # decimals of a frame; simulated time is a sum of floats


def make(job: Job) -> Any:
    """Make one environment, here or in a vectoriser's process."""
    if parent_process() is not None:  # it may be spawned
        lifetime.end_with_parent()
    family = families.of(job)
    env = family.make()
    return Counted(env, family) if job.mode == "verify" else env


class Counted(gymnasium.Wrapper):  # type: ignore[misc]
    """Verify: sums the frames of all steps, by the family's ``clock``; a reset has none."""

    def __init__(self, env: Any, family: Family) -> None:
        super().__init__(env)
        self._now = family.clock(env)
        self._whole = family.whole_step
        self._made = 0.0

    def step(self, action: Any) -> Any:
        if self._now is None:
            return self.env.step(action)
        before = self._now()
        result = self.env.step(action)
        frames = self._now() - before
        # The end of a game may cut its last step short. It counts as a whole step.
        if (result[2] or result[3]) and 0 < frames < self._whole:
            frames = self._whole
        self._made += frames
        return result

    def frames_made(self) -> Optional[float]:
        """Frames since the last call; None if nothing counts them."""
        made, self._made = self._made, 0.0
        return None if self._now is None else round(made, _MICRO)
