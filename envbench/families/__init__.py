"""Env families, as data: one file per family, and plugins by the entry point ``envbench.families``.

The order is that of a report's tables.
"""

from __future__ import annotations

from difflib import get_close_matches

from envbench.entry_points import Registry
from envbench.errors import UsageError
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


def of_task(task: str) -> str:
    """The family of a task: that of which it is the default, or gym for ``my_package:MyEnv-v0``.

    ``UsageError`` for any other task: several families may have one of that name.
    """
    if ":" in task:
        return GYM.name
    known = {each.default_task: name for name, each in registry().items() if each.default_task}
    if task not in known:
        near = get_close_matches(task, known, n=1, cutoff=0.7)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(
            f"the env family of the task {task!r} is not known.{meant}",
            hint=f"Name it (--env, or env= in Python): {', '.join(names())}.",
        )
    return known[task]


def of_record(name: str) -> EnvFamily:
    """Return the family of a record. If its plugin is not installed, it has only a name."""
    return registry().get(name) or EnvFamily(name=name, title=name, worker="")


def default_task(name: str) -> str:
    return of_record(name).default_task
