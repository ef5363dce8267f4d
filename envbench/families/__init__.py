"""Env families, as data: one file per family, and plugins by the entry point ``envbench.families``.

The order is that of a report's tables.
"""

from __future__ import annotations

from functools import cache

from envbench.errors import UnknownName
from envbench.families.atari import ATARI
from envbench.families.box2d import BOX2D
from envbench.families.classic_control import CLASSIC_CONTROL
from envbench.families.dm_control import DM_CONTROL
from envbench.families.family import SMALLEST_SKIP, EnvFamily, Standard
from envbench.families.gym import GYM
from envbench.families.mujoco import MUJOCO
from envbench.plugins import add_plugins

BUILT_IN = (ATARI, MUJOCO, DM_CONTROL, CLASSIC_CONTROL, BOX2D, GYM)


def registry() -> dict[str, EnvFamily]:
    """Every family by name, in the order of a report's tables."""
    return dict(_load()[0])


def names() -> list[str]:
    return list(_load()[0])


def get(name: str) -> EnvFamily:
    """The family of that name; ``UnknownName`` suggests the nearest name."""
    known = _load()[0]
    if name not in known:
        raise UnknownName("env family", name, list(known))
    return known[name]


def of_record(name: str) -> EnvFamily:
    """The family of a record. If its plugin is not installed, it has only a name."""
    return _load()[0].get(name) or EnvFamily(name=name, title=name, worker="")


def default_task(name: str) -> str:
    return of_record(name).default_task


def plugin_warnings() -> list[str]:
    """One sentence per plugin family that was left out."""
    return list(_load()[1])


@cache
def _load() -> tuple[dict[str, EnvFamily], list[str]]:
    known = {family.name: family for family in BUILT_IN}
    return known, add_plugins(known, EnvFamily, "envbench.families", "env family")
