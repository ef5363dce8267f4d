"""An environment with a given pace, in interpreters of its own: the arms of checks in tests."""

from __future__ import annotations

from pathlib import Path

from helpers.virtual_environments import lent_packages, make_interpreter

PACED = """
import os
import time
import gymnasium
import numpy as np
from gymnasium.envs.registration import register
imported = time.process_time() + {start}
while time.process_time() < imported:
    pass
TROUBLE = os.path.join(os.path.dirname(__file__), "trouble")
def look_for_trouble():
    if os.path.exists(TROUBLE):
        if open(TROUBLE).read() == "hang":
            time.sleep(3600)
        raise RuntimeError("the robot was pushed")
look_for_trouble()
class Paced(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, render_mode=None):
        self.made = self.whole = 0
    def spin(self, us):
        until = time.perf_counter_ns() + int(us * 1000)
        while time.perf_counter_ns() < until:
            pass
        return np.full(4, self.made / 500, np.float32)
    def reset(self, seed=None, options=None):
        self.made = 0
        return self.spin({reset}), {{}}
    def step(self, action):
        self.made += 1
        self.whole += 1
        if self.whole == {dies_at}:
            raise RuntimeError("the robot fell off the edge")
        if self.whole == {forks_at}:
            os.fork()
        look_for_trouble()
        return self.spin({step}), 0.0, self.made == {length}, False, {{}}
register(id="Paced-v0", entry_point=Paced)
"""
TASK = ("--env", "gym", "--task", "paced_envs:Paced-v0", "--backend", "for-loop", "--numenv", "2")


def interpreter(folder: Path, **changes: float) -> str:
    """An interpreter with ``paced_envs``. ``changes``: microseconds per step or reset, seconds of
    the start, the step at which the environment fails or forks, steps of an episode."""
    paces = {
        "step": 100.0,
        "reset": 100.0,
        "start": 0.0,
        "dies_at": -1,
        "forks_at": -1,
        "length": 500,
    }
    paces |= changes
    package = folder / "packages" / "paced_envs"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACED.format(**paces))
    paths = [folder / "packages", *lent_packages()]
    return str(make_interpreter(folder / "venv", paths=paths))


def trouble(python: str) -> Path:
    """If this file exists, the environments of that interpreter raise; they hang if it says so."""
    return Path(python).parents[2] / "packages" / "paced_envs" / "trouble"
