"""Env families, as data: one file per family, and plugins by the entry point ``envbench.families``.

The order is that of a report's tables.
"""

from __future__ import annotations

from envbench.entry_points import Registry
from envbench.families.atari import ATARI
from envbench.families.box2d import BOX2D
from envbench.families.classic_control import CLASSIC_CONTROL
from envbench.families.dm_control import DM_CONTROL
from envbench.families.family import SMALLEST_SKIP, EnvFamily, Standard, title_trouble, trouble
from envbench.families.gym import GYM
from envbench.families.mujoco import MUJOCO

BUILT_IN = (ATARI, MUJOCO, DM_CONTROL, CLASSIC_CONTROL, BOX2D, GYM)
FAMILIES = Registry(
    kind=EnvFamily,
    group="envbench.families",
    noun="env family",
    built_in=lambda: BUILT_IN,
    unique=("name", "title"),
    problem=trouble,
)
registry, get = FAMILIES.by_name, FAMILIES.get


def names() -> list[str]:
    return list(registry())


def of_record(name: str) -> EnvFamily:
    """Return the family of a record. If its plugin is not installed, it has only a name."""
    return registry().get(name) or EnvFamily(name=name, title=name, worker="")


def default_task(name: str) -> str:
    return of_record(name).default_task
