"""How many frames one step of a task is: what makes figures of different tasks comparable.

FPS is frames per second, so this number is in every published figure; errors (``UsageError``)
come before anything is measured.
"""

from __future__ import annotations

import re

from envbench.errors import UnknownName, UsageError
from envbench.model import LARGEST_SKIP

ATARI_FRAMES = 4
SMALLEST_SKIP = 0.001
# A frame is 0.01 s of simulated time: time step x substeps / 0.01 s, the same from v2 to v5.
MUJOCO_FRAMES = {
    "Ant": 5,
    "HalfCheetah": 5,
    "Hopper": 0.8,
    "Humanoid": 1.5,
    "HumanoidStandup": 1.5,
    "InvertedDoublePendulum": 5,
    "InvertedPendulum": 4,
    "Pusher": 5,
    "Reacher": 2,
    "Swimmer": 4,
    "Walker2d": 0.8,
}


def frames_per_step(family: str, task: str, given: float | None = None) -> int | float:
    """Frames in one step of the task.

    atari: 4. mujoco: the control step in units of 0.01 s, which a task of another suite has to
    be given. gym: 1, or as given.
    """
    if given is not None and not SMALLEST_SKIP <= given <= LARGEST_SKIP:
        raise UsageError(
            f"--frame-skip takes a number from {SMALLEST_SKIP} to {LARGEST_SKIP}, not {given:g}."
        )
    fixed = ATARI_FRAMES if family == "atari" else MUJOCO_FRAMES.get(_without_version(task))
    if family == "gym" or (fixed is None and given is not None):
        return _whole(1 if given is None else given)
    if fixed is None:
        error = UnknownName("mujoco task", task, [f"{name}-v3" for name in MUJOCO_FRAMES])
        error.hint += "; or --frame-skip FRAMES for another: its control step / 0.01 s"
        raise error
    if given not in (None, fixed):
        raise UsageError(f"a step of {task} is {fixed} frames, not {given:g}: leave it out.")
    return fixed


def _without_version(task: str) -> str:
    return re.sub(r"-v[0-9]+$", "", task)


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number
