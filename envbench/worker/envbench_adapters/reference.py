"""The reference kernel: a fixed piece of work that no library's version changes.

It runs in one thread, half in the interpreter and half in array arithmetic, like a Python
environment. It is not a backend. ``envbench doctor`` uses it to see how noisy a machine is.
``envbench check --against`` measures it next to a cell, because a slow machine slows both.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
from envbench_worker.contract import Adapter, Counts

ROUNDS = 40
SIZE = 84  # a game's screen


class Reference(Adapter):
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
