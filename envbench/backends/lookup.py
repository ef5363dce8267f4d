"""The registry of backends: built-ins and plugins, all of it data.

A package adds a backend with an entry point of the group ``envbench.backends``. Its value is a
``Backend`` or a mapping of its fields (``name`` defaults to the entry point's). Its module is
imported here, so it must contain only data. A plugin that cannot be read, or that takes a
built-in's name, causes a warning (``plugin_warnings``), never a crash.

Errors: ``UnknownName`` and ``UsageError`` (exit 2) for names and settings that a person typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from envbench import families
from envbench.backends.builtin import BUILT_IN, PRESETS
from envbench.backends.settings import parse, shown
from envbench.backends.specification import Backend, settings_of, trouble, with_role
from envbench.errors import Interrupted, UnknownName, UsageError
from envbench.model import Settings
from envbench.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "envbench.backends"


# ---------------------------------------------------------------- the registry


def registry() -> dict[str, Backend]:
    """Every backend by name, in the order of a table's rows: built-ins, then plugins."""
    return dict(_load()[0])


def steps_in_processes(name: str) -> bool:
    """Does this backend step its environments in its own processes?"""
    known = registry()
    return name in known and known[name].behaviour.steps_in == "processes"


def has_role(name: str, role: str) -> bool:
    """Does this backend have a setting with this role?"""
    known = registry()
    return name in known and with_role(known[name], role) is not None


def has_own_engine(name: str) -> bool:
    """Does this backend simulate its own model?"""
    known = registry()
    return name in known and known[name].own_engine


def is_built_in(name: str) -> bool:
    """Is it one of envbench's own backends? envbench's tests compare their work."""
    return any(backend.name == name for backend in BUILT_IN)


def plugin_warnings() -> list[str]:
    """One sentence per plugin that was left out: its package, the problem and the fix."""
    return list(_load()[1])


def get(name: str) -> Backend:
    """The backend of that name; ``UnknownName`` suggests the nearest name."""
    known = registry()
    if name not in known:
        raise UnknownName("backend", name, list(known))
    return known[name]


@cache
def _load() -> tuple[dict[str, Backend], list[str]]:
    from importlib.metadata import entry_points

    known = {backend.name: _with_plugin_families(backend) for backend in BUILT_IN}
    warnings = families.plugin_warnings()
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        outcome = _read_plugin(point)
        if isinstance(outcome, Backend) and outcome.name in known:
            outcome = f"the name {outcome.name!r} is taken; give the backend a name of its own"
        if isinstance(outcome, Backend):
            known[outcome.name] = outcome
        else:
            warnings.append(_left_out(point, outcome))
    return known, warnings


def _with_plugin_families(backend: Backend) -> Backend:
    more = [each.name for each in families.registry().values() if backend.name in each.backends]
    return (
        msgspec.structs.replace(backend, families=[*backend.families, *more]) if more else backend
    )


def _left_out(point: EntryPoint, trouble: str) -> str:
    package = point.dist.name if point.dist else "an unnamed package"
    sentence = (
        f"the backend {point.name!r} of the package {package!r} is left out: {trouble} "
        f"(entry point {point.value!r}). Update or uninstall {package!r}."
    )
    return one_line(sentence, 1000)


def _read_plugin(point: EntryPoint) -> Backend | str:
    """A plugin's backend, or the problem with it."""
    try:
        value = point.load()
    except Interrupted:  # a signal, not an error of the plugin
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        return f"it cannot be imported: {type(error).__name__}: {error}"
    if isinstance(value, Mapping):
        value = {"name": point.name, **value}
    elif not isinstance(value, Backend):
        return f"its value is a {type(value).__name__}, not an envbench.backends.Backend"
    try:
        # Also convert a Backend, because its constructor does not check types.
        backend = msgspec.convert(msgspec.to_builtins(value), Backend)
        return trouble(backend) or backend
    except (msgspec.ValidationError, TypeError, UsageError) as error:
        return str(error)


# ---------------------------------------------------------------- families


def check_family(backend: Backend, family: str) -> None:
    """``UsageError`` if the backend cannot run the family. It says which families it runs."""
    families.get(family)
    if family not in backend.families:
        others = [each.name for each in registry().values() if family in each.families]
        raise UsageError(
            f"the backend {backend.name!r} cannot run {family}: "
            f"it runs {' and '.join(backend.families)}.",
            hint=f"Backends that run {family}: {', '.join(others)}",
        )


def resolve_settings(
    backend: Backend, family: str, given: Mapping[str, str], task: str | None = None
) -> tuple[Settings, Settings]:
    """All settings of a cell with defaults filled in, and those that differ from a default."""
    known = settings_of(backend, family, task)
    for name in given:
        if name not in known:
            raise _unknown_setting(backend, family, name)
    defaults = {name: setting.default for name, setting in known.items()}
    settings = defaults | {name: parse(known[name], text) for name, text in given.items()}
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
    """The part of a preset that applies to this backend and family, as ``--set`` would give it."""
    if name not in PRESETS:
        raise UnknownName("preset", name, list(PRESETS))
    known = settings_of(backend, family)
    return {key: value for key, value in PRESETS[name].items() if key in known}


def same_work(name: str, variant: Settings) -> bool:
    """Does a cell with these settings do the same work as its backend does by default?"""
    known = registry()
    changing = {s.name for s in known[name].settings if s.changes_work} if name in known else set()
    changing |= {"frame_skip"}
    return not changing & variant.keys()


def row_label(name: str, variant: Settings) -> str:
    """A table row's label: ``EnvPool (async), overcommit=2``. An unknown backend's is its name."""
    known = registry()
    label = known[name].label if name in known else name
    return ", ".join([label, *(f"{k}={shown(v)}" for k, v in sorted(variant.items()))])
