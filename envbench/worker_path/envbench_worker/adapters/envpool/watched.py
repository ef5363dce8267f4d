"""Verify: count the steps of an EnvPool pool in a second way.

Each environment's elapsed-step counter says how many steps it made since its last result.
"""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np


class Watched:
    """A pool that notes the counters in its results. ``frames`` per step: None if unknown."""

    def __init__(self, pool: Any, frames: Optional[float]) -> None:
        self._pool = pool
        self._frames = frames
        self._elapsed = np.zeros(pool.spec.config.num_envs, np.int64)
        self._noted: List[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def step(self, *arguments: Any) -> Any:
        return self._seen(self._pool.step(*arguments))

    def recv(self) -> Any:
        return self._seen(self._pool.recv())

    def _seen(self, result: Any) -> Any:
        ids, now = result[4]["env_id"], result[4]["elapsed_step"]
        before = self._elapsed[ids]
        restarted = now < before
        self._noted.append(int(np.where(restarted, now, now - before).sum()))
        self._elapsed[ids] = now
        return result

    def frames_of(self, calls: int) -> Optional[float]:
        """Frames in the latest ``calls`` calls of ``step`` or ``recv``."""
        each = self._frames
        return None if each is None else float(sum(self._noted[-calls:]) * each)
