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

CHAPTERS = ("Overview", "Plots", "Details", "Published by others")  # of a report
BUILT_IN = (ATARI, MUJOCO, DM_CONTROL, CLASSIC_CONTROL, BOX2D, GYM)


def _trouble(family: EnvFamily) -> str:
    """``trouble``, and a title that could be that of another table or chapter."""
    title = f"{family.title} ".casefold()
    near = [
        each
        for each in (*CHAPTERS, *(known.title for known in BUILT_IN))
        if title.startswith(f"{each} ".casefold())
    ]
    return trouble(family) or (f"`title` begins with {near[0]}, as other titles do" if near else "")


FAMILIES = Registry(
    kind=EnvFamily,
    group="envbench.families",
    noun="env family",
    built_in=lambda: BUILT_IN,
    unique=("name", "title"),
    problem=_trouble,
)
registry, get = FAMILIES.by_name, FAMILIES.get


def names() -> list[str]:
    return list(registry())


def of_record(name: str) -> EnvFamily:
    """Return the family of a record. If its plugin is not installed, it has only a name."""
    return registry().get(name) or EnvFamily(name=name, title=name, worker="")


def default_task(name: str) -> str:
    return of_record(name).default_task
