"""From what was typed to the cells that are meant: families, backends, ladder, settings."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from envbench import backends, plan
from envbench.cli import tell
from envbench.errors import UnknownName, UsageError
from envbench.machine import Profile, numa_nodes
from envbench.model import DEFAULT_TASK, FAMILIES, Cell, Family, section
from envbench.settings import settings_of


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``run`` that say which cells; None or empty where left out."""

    family: str | None = None
    task: str | None = None
    backends: list[str] | None = None
    numenv: list[int] | None = None
    settings: dict[str, str] = {}
    preset: str | None = None
    frame_skip: float | None = None

    @property
    def takes_all(self) -> bool:
        """Were backends left to us? Then one that cannot run is listed, not an error."""
        return self.backends is None or "all" in self.backends


def cells(asked: Asked, profile: Profile, cpus: int = 1) -> list[Cell]:
    """Every cell meant, in the order of the tables. Raises ``UsageError`` before any work.

    ``cpus``: how many may be used here, which is how many environments a ceiling has.
    """
    chosen = []
    for family in families(asked):
        for name in backend_names(asked, family):
            for numenv in _enough(asked, name, ladder(asked, profile, family, name, cpus)):
                chosen.append(_cell(asked, profile, family, name, numenv))
    if not chosen:
        raise UsageError(
            f"the profile {profile.name!r} has no table for that family.",
            hint="Say --numenv, or give the profile a table with a ladder.",
        )
    return chosen


def families(asked: Asked) -> list[Family]:
    """The families meant; both of the document's where none was named."""
    if asked.task is not None and not asked.task.strip():
        raise UsageError("--task is empty: leave it out for Pong-v5 and Ant-v3.")
    if asked.family is None:
        if asked.task is not None:
            raise UsageError(
                "--task needs --env: which family is it?",
                hint="Add --env atari, --env mujoco, or --env gym for a task of your own.",
            )
        return ["atari", "mujoco"]
    if asked.family not in FAMILIES:
        error = UnknownName("env family", asked.family, list(FAMILIES))
        error.hint += ". Leave --env out for both atari and mujoco"
        raise error
    if asked.family == "gym" and asked.task is None:
        raise UsageError("--env gym needs --task, such as --task my_package:MyEnv-v0.")
    return [asked.family]  # type: ignore[list-item]


def backend_names(asked: Asked, family: Family) -> list[str]:
    """The backends meant for a family: those named, or all that run it save ceilings."""
    if asked.takes_all:
        named = set(asked.backends or []) - {"all"}
        for name in named:
            backends.get(name)
        known = backends.registry().values()
        wanted = [b for b in known if b.kind != "ceiling" or b.name in named]
        return [b.name for b in wanted if family in b.families]
    names = asked.backends or []
    both = asked.family is None
    for name in names:
        backend = backends.get(name)
        if not both or not set(backend.families) & {"atari", "mujoco"}:
            backends.check_family(backend, family)
    return [name for name in names if family in backends.get(name).families]


def ladder(asked: Asked, profile: Profile, family: Family, name: str, cpus: int) -> list[int]:
    """The numbers of environments meant: those named, or the profile's ladder for the backend.

    A ceiling has no such number: it is one environment a core.
    """
    backend = backends.get(name)
    if backend.kind == "ceiling":
        if asked.numenv and asked.backends == [name]:
            raise UsageError(
                f"{name} takes no --numenv: it is measured with one environment a core."
            )
        return [cpus]
    if asked.numenv:
        return asked.numenv
    table = profile.table(family, section(backend.kind, accelerator=backend.accelerator))
    return table.numenv if table else []


def _enough(asked: Asked, name: str, numenvs: list[int]) -> list[int]:
    """Those numbers that give every node of a backend with nodes an environment."""
    if not any(setting.name == "nodes" for setting in backends.get(name).settings):
        return numenvs
    by_hand = asked.settings.get("nodes", "")
    _check_cores(by_hand)
    nodes = by_hand.count("/") + 1 if by_hand else numa_nodes()
    enough = [numenv for numenv in numenvs if numenv >= nodes]
    if not enough and asked.backends == [name]:
        raise UsageError(f"{name} has {nodes} nodes here: --numenv takes as many or more.")
    if asked.numenv and len(enough) < len(numenvs):
        few = ", ".join(str(numenv) for numenv in numenvs if numenv < nodes)
        tell(f"{name} has {nodes} nodes here: no cell of it with numenv {few}.")
    return enough


def _check_cores(nodes: str) -> None:
    """Refuse nodes of cores that may not be used here, or of one core twice."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    seen: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", nodes):
        cores = set(range(int(first), int(last or first) + 1))
        if not cores:
            raise UsageError(f"nodes {nodes!r}: {first}-{last} ends before it begins.")
        if usable and cores - usable:
            raise UsageError(
                f"nodes {nodes!r}: core {min(cores - usable)} may not be used here.",
                hint=f"Cores that may be: {', '.join(map(str, sorted(usable)))}",
            )
        if cores & seen:
            raise UsageError(f"nodes {nodes!r}: core {min(cores & seen)} is named twice.")
        seen |= cores


def _cell(asked: Asked, profile: Profile, family: Family, name: str, numenv: int) -> Cell:
    backend = backends.get(name)
    given = dict(asked.settings)
    if asked.takes_all or len(asked.backends or []) > 1 or asked.family is None:
        _someone_takes(given, asked)
        mine = settings_of(backend, family)
        given = {key: value for key, value in given.items() if key in mine}
    if asked.preset:
        given = {**backends.preset_settings(asked.preset, backend, family), **given}
    task = asked.task or DEFAULT_TASK[family]
    return plan.make_cell(profile.name, family, task, backend, numenv, given, asked.frame_skip)


def _someone_takes(given: dict[str, str], asked: Asked) -> None:
    """With several backends, a setting goes to those that have it; one that none has is wrong."""
    names: Sequence[str] = list(backends.registry())
    if asked.backends and not asked.takes_all:
        names = asked.backends
    chosen = [backends.get(name) for name in names]
    known = sorted({s for f in families(asked) for each in chosen for s in settings_of(each, f)})
    for key in given:
        if key not in known:
            raise UnknownName("setting", key, known)


def settings_without(asked: Asked, wanted: Sequence[Cell]) -> dict[str, list[str]]:
    """Each setting that was given, and the chosen backends that have no such setting."""
    missing = {
        key: list(dict.fromkeys(cell.backend for cell in wanted if key not in cell.settings))
        for key in asked.settings
    }
    return {key: names for key, names in missing.items() if names}


def unknown_task(cell: Cell, known: list[str]) -> UnknownName:
    """The error for a task that the cell's backend does not know."""
    error = UnknownName(f"{cell.env} task of {cell.backend}", cell.task, known)
    owner = next((f for f, task in DEFAULT_TASK.items() if task == cell.task), None)
    if owner is not None:
        error.hint = f"It is a {owner} task: --env {owner}"
    elif cell.env == "gym" and ":" not in cell.task:
        error.hint += ". A task of your own package is written my_package:MyEnv-v0"
    return error
