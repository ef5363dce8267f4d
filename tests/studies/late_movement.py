"""How much do robots still move late in an episode if they follow only some actions? This sets a
limit of ``verify``.

    python tests/studies/late_movement.py

For each task, this prints the mean change of an observation from step to step in the second half of
200 steps. It is divided by the mean of the environments that follow every action. Each seed has an
environment of its own. docs/verify.md has the table.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from tabulate import tabulate

from envbench.decisions.traces import LEAST_MOVEMENT
from envbench.families.mujoco import ANT_STATE

TASKS = ["Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Humanoid-v4", "Swimmer-v4",
         "InvertedPendulum-v4", "InvertedDoublePendulum-v4", "Reacher-v4"]  # fmt: skip
STEPS = 200
SEEDS = range(24)
EXACT = 3  # steps that must agree with the reference anyway, so all of them follow these
FOLLOWS: dict[str, Callable[[int], bool]] = {
    "every action": lambda step: True,
    "every second": lambda step: step < EXACT or step % 2 == 0,
    "every third": lambda step: step < EXACT or step % 3 == 0,
    "the first 3": lambda step: step < EXACT,
}


def movement(env: Any, seed: int, follows: Callable[[int], bool]) -> float:
    """The movement of one environment with random actions, some of which are zeroed."""
    space = env.action_space
    draw = np.random.default_rng(seed)
    env.reset(seed=0)
    seen = []
    for step in range(STEPS):
        action = draw.uniform(space.low, space.high).astype(np.float32)
        observation, _, terminated, truncated, _ = env.step(action * follows(step))
        seen.append(observation[:ANT_STATE])
        if terminated or truncated:
            env.reset()
    return float(np.abs(np.diff(seen[STEPS // 2 :], axis=0)).mean())


def row(task: str) -> list[str]:
    env = gymnasium.make(task)
    found = {
        name: np.array([movement(env, seed, follows) for seed in SEEDS])
        for name, follows in FOLLOWS.items()
    }
    honest = found["every action"].mean()
    spans = [f"{each.min() / honest:.2f} to {each.max() / honest:.2f}" for each in found.values()]
    return [task, *spans]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(tabulate([row(task) for task in TASKS], ["task", *FOLLOWS], tablefmt="github"))
    print(f"\n`verify` refuses movement of {LEAST_MOVEMENT} and less.")
