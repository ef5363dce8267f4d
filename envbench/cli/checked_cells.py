"""Which cells a check or a stored baseline is of: those that were named, or the profile's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envbench.cli.selection import Asked, cells
from envbench.errors import UsageError
from envbench.machine import Profile
from envbench.model import Cell

MOST_CELLS = 12
DEFAULT_CELLS = [
    f"{family}/{backend}"
    for family in ("atari", "mujoco")
    for backend in ("for-loop/1", "envpool-sync/4", "envpool-async/4")
]


def checked_cells(given: Mapping[str, Any], profile: Profile, cpus: int) -> list[Cell]:
    """At most twelve cells. ``given`` are the command's options."""
    settings = dict(given["given"])
    if given["family"] or given["backend_names"] or given["numenv"] or given["task"]:
        asked = Asked(
            family=given["family"],
            task=given["task"],
            backends=given["backend_names"],
            numenv=given["numenv"],
            settings=settings,
        )
        return not_too_many(cells(asked, profile, cpus))
    found: list[Cell] = []
    for text in profile.check or DEFAULT_CELLS:
        family, backend, numenv = text.split("/")
        asked = Asked(family=family, backends=[backend], numenv=[int(numenv)], settings=settings)
        found += cells(asked, profile, cpus)
    return found


def not_too_many(found: list[Cell]) -> list[Cell]:
    """They, or ``UsageError``."""
    if len(found) > MOST_CELLS:
        raise UsageError(
            f"a check compares {MOST_CELLS} cells at most, and these are {len(found)}.",
            hint="Name fewer with --env, --backend and --numenv.",
        )
    return found
