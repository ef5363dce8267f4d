"""What can be measured, as data: built-in backends, and plugins (``envbench.backends``).

Errors: ``UnknownName`` and ``UsageError`` (exit 2) for names and settings that a person typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from envbench import families
from envbench.backends.builtin import BUILT_IN, PRESETS
from envbench.backends.specification import *
from envbench.backends.specification import Backend, settings_of, shown, trouble
from envbench.entry_points import Registry
from envbench.errors import UnknownName, UsageError
from envbench.model import Cell, Settings
from envbench.text import listed


def _with_plugin_families(backend: Backend) -> Backend:
    more = [each.name for each in families.registry().values() if backend.name in each.backends]
    return msgspec.structs.replace(backend, families=[*backend.families, *more])


def _trouble_of_plugin(backend: Backend) -> str:
    if backend.kind == "ceiling":
        return "a plugin cannot be a ceiling, which limits the others; choose another kind"
    return trouble(backend)


BACKENDS = Registry(
    kind=Backend,
    group="envbench.backends",
    noun="backend",
    unique=("name", "label"),
    built_in=lambda: map(_with_plugin_families, BUILT_IN),
    problem=_trouble_of_plugin,
)
registry, get = BACKENDS.by_name, BACKENDS.get


def plugin_warnings() -> list[str]:
    """Return one sentence per plugin that was left out: its package, the problem and the fix."""
    return [*families.FAMILIES.loaded[1], *BACKENDS.loaded[1]]


def is_built_in(name: str) -> bool:
    """Is it envbench's own, not a plugin's?"""
    return any(each.name == name for each in BUILT_IN)


def of_record(name: str) -> Backend:
    """Return the backend of a record. If its plugin is not installed, it has only a name."""
    return registry().get(name) or Backend(
        name=name, label=name, families=[], adapter="", library=""
    )


def has_ceiling(family: str) -> bool:
    """Is a ceiling known for this family?"""
    return any(each.kind == "ceiling" and family in each.families for each in BUILT_IN)


def check_family(backend: Backend, family: str) -> None:
    """``UsageError`` if the backend cannot run the family. It says which families it runs."""
    families.get(family)
    if family not in backend.families:
        others = [each.name for each in registry().values() if family in each.families]
        why = f"no ceiling is known for {family}; " if backend.kind == "ceiling" else ""
        raise UsageError(
            f"the backend {backend.name!r} cannot run {family}: "
            f"{why}it runs {listed(backend.families)}.",
            hint=f"Backends that run {family}: {', '.join(others) or 'none'}",
        )


def resolve_settings(
    backend: Backend, family: str, given: Mapping[str, str], task: str | None = None
) -> tuple[Settings, Settings]:
    """Return all settings of a cell with defaults filled in, and those that are not the default."""
    known = settings_of(backend, family, task)
    for name in given:
        if name not in known:
            raise _unknown_setting(backend, family, name)
    defaults = {name: setting.default for name, setting in known.items()}
    settings = defaults | {name: known[name].parse(text) for name, text in given.items()}
    return settings, {k: v for k, v in settings.items() if v != defaults[k]}


def _unknown_setting(backend: Backend, family: str, name: str) -> UsageError:
    for setting in backend.settings:
        if setting.name == name:
            only = " and ".join(setting.tasks or setting.families)
            return UsageError(f"the setting {name!r} of {backend.name} applies to {only} only.")
    error = UnknownName(f"setting of {backend.name}", name, list(settings_of(backend, family)))
    if others := [each.name for each in registry().values() if name in settings_of(each, family)]:
        error.hint += f". It is a setting of {', '.join(others)}"
    return error


def preset_settings(name: str, backend: Backend, family: str) -> dict[str, str]:
    """Return the part of a preset that applies to this backend and family, as for ``--set``."""
    if name not in PRESETS:
        raise UnknownName("preset", name, list(PRESETS))
    known = settings_of(backend, family)
    return {key: value for key, value in PRESETS[name].items() if key in known}


def same_work(cell: Cell) -> bool:
    """May the cell do the work of its family's reference? Not with another engine, or with
    settings that change the work."""
    return not of_record(cell.backend).own_engine and not changing_settings(cell)


def changing_settings(cell: Cell) -> dict[str, tuple[Any, Any]]:
    """The settings of its own with which a step computes something else: default and value."""
    return {
        each.name: (each.default, cell.own_settings[each.name])
        for each in of_record(cell.backend).settings
        if each.changes_work and each.name in cell.own_settings
    }


def row_label(name: str, variant: Settings) -> str:
    """Return a row's label: ``EnvPool (async), overcommit=2``. For an unknown backend: its name."""
    label = of_record(name).label
    return ", ".join([label, *(f"{k}={shown(v)}" for k, v in sorted(variant.items()))])
