"""The reference kernels: fixed pieces of work that no library's version changes.

They are not backends. ``envbench doctor`` uses the first one to see how noisy a machine is.
``envbench check --against`` measures it next to a cell, because a slow machine slows both.
``envbench run`` measures them beside the cells of its blocks.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict

import numpy as np
from envbench_worker.contract import Adapter, Counts
from envbench_worker.sensors import usable_cores

ROUNDS = 40
SIZE = 84  # a game's screen
PIECES = 4  # of each thread, per step
SCREENS = 16  # of a piece: so large that NumPy's loops, without the GIL, take nearly all its time


class Reference(Adapter):
    """Runs in one thread, half in the interpreter and half in array arithmetic, like a Python
    environment."""

    def build(self) -> None:
        chance = np.random.RandomState(0)
        self.screen = chance.randint(0, 255, (SIZE, SIZE)).astype(np.uint8)
        self.state = {str(name): float(name) for name in range(ROUNDS)}

    def run(self, calls: int) -> Counts:
        screen, state = self.screen, self.state
        for _ in range(calls):
            for name, value in state.items():
                state[name] = value * 0.5 + 1.0
            np.maximum(screen, screen[::-1]).mean(axis=0)
            np.dot(screen[:64, :64].astype(np.float32), screen[:64, 20:].astype(np.float32))
        return Counts(calls, 0)

    def facts(self) -> Dict[str, Any]:
        return {
            "observation_shape": [SIZE, SIZE],
            "observation_dtype": "uint8",
            "action_source": "none",
            "autoreset": "none",
            "env_instances": 1,
        }


class PooledReference(Reference):
    """Runs in a thread per usable core, like a pool of environments in C++.

    A step is a fixed number of pieces of native work per thread. Idle threads take the next piece,
    and a step ends when all pieces are done.
    """

    def build(self) -> None:
        super().build()
        self.threads = len(usable_cores())
        chance = np.random.RandomState(0)
        shape = (PIECES * self.threads, SCREENS, SIZE, SIZE)
        self.pieces = chance.randint(0, 255, shape).astype(np.uint8)
        self.pool = ThreadPoolExecutor(self.threads)

    def run(self, calls: int) -> Counts:
        for _ in range(calls):
            for _ in self.pool.map(_piece, self.pieces):
                pass
        return Counts(calls, 0)

    def facts(self) -> Dict[str, Any]:
        return dict(super().facts(), threads=self.threads)

    def close(self) -> None:
        self.pool.shutdown()


def _piece(screens: Any) -> None:
    np.maximum(screens, screens[:, ::-1]).mean(axis=0)
    left, right = screens[:, :64, :64].astype(np.float32), screens[:, :64, 20:].astype(np.float32)
    np.matmul(left, right)
