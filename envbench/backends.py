"""The registry of backends: built-ins and ``envbench.backends`` entry points, all of it data.

A ``Backend`` says what a way of running many copies of a task is called, which families it
runs, which settings it takes and where its adapter lies. The adapter itself is imported by the
worker only, in the backend's own interpreter: nothing here imports a measured library.

A third-party package adds a backend by an entry point of the group ``envbench.backends``, whose
value is a ``Backend`` or a mapping of its fields (``name`` defaults to the entry point's). The
module that holds it is imported here, so it must be data alone. A plugin that cannot be read, or
that takes a built-in's name, is a warning (``plugin_warnings``), never a crash.

Errors: ``UnknownName`` and ``UsageError`` (exit 2) for names and settings a person has typed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from envbench.errors import Interrupted, UnknownName, UsageError
from envbench.model import FAMILIES, Behaviour, Family, Kind, Settings
from envbench.settings import (
    LARGEST_INT,
    Setting,
    parse,
    resolve_settings,
    settings_of,
    shown,
    with_role,
)
from envbench.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ACTIONS",
    "Backend",
    "Needs",
    "Setting",
    "check_family",
    "env_instances",
    "get",
    "plugin_warnings",
    "preset_settings",
    "registry",
    "resolve_settings",
    "row_label",
    "same_work",
    "trouble",
]
GROUP = "envbench.backends"


class Needs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requirements of some families or workloads only; an empty list means all of them."""

    add: list[str]
    families: list[Family] = []
    workloads: list[str] = []

    def apply(self, family: str, workload: str) -> bool:
        fits = not self.families or family in self.families
        return fits and (not self.workloads or workload in self.workloads)


class Backend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way of running many copies of a task.

    ``library`` is the import name of what is measured, ``distribution`` what installs it where
    that has another name. ``requirements`` empty: it runs in the current interpreter; otherwise in
    an isolated runtime made of exactly these (a plugin names its own distribution there too,
    because its adapter is imported in that runtime), and of ``gpu_requirements`` where there is an
    NVIDIA GPU. ``needs`` adds requirements for some families or workloads only. ``finish`` are
    commands that complete the runtime, in which ``{bin}`` is its folder of programs and ``{roms}``
    the folder of Atari ROMs of the ale-py beside envbench. ``by_hand`` says how a person gets a
    library that no installer can.

    ``behaviour`` says how it uses the machine. ``accelerator``: it steps thousands of environments
    in one program, on a GPU where there is one, and has the accelerators' ladder and table.
    ``own_engine``: it simulates a model of its own, so nothing compares its states with another's.
    ``one_per_core``: it has one environment per core, whatever numenv is asked for.
    ``environment`` are variables that its workers get, ``pin_threads`` whether thread pools of
    common libraries are held to one thread. ``systems`` are ``sys.platform`` values, empty: all.
    """

    name: str
    label: str
    families: list[Family]
    adapter: str  # "module:attribute", imported by the worker only
    library: str
    distribution: str = ""
    kind: Kind = "env"
    behaviour: Behaviour = Behaviour()
    accelerator: bool = False
    own_engine: bool = False
    one_per_core: bool = False
    requirements: list[str] = []
    gpu_requirements: list[str] = []
    needs: list[Needs] = []
    finish: list[list[str]] = []
    by_hand: str = ""
    python: str | None = None
    systems: list[str] = []
    settings: list[Setting] = []
    repeats: int = 5
    pin_threads: bool = True
    environment: dict[str, str] = {}

    def requirements_of(self, family: str, workload: str = "step") -> list[str]:
        """What its runtime is made of for that family and workload; empty: nothing of its own."""
        more = [each for need in self.needs if need.apply(family, workload) for each in need.add]
        return [*self.requirements, *more]


ACTIONS = Setting(
    name="actions",
    type="str",
    default="bank",
    choices=["bank", "constant"],
    changes_work=True,
    role="actions",
    help="a seeded bank of batches of different random actions, or one constant batch",
)


# ---------------------------------------------------------------- the registry


def registry() -> dict[str, Backend]:
    """Every backend by name, in the order of a table's rows: built-ins, then plugins."""
    return dict(_load()[0])


def steps_in_processes(name: str) -> bool:
    """Does the backend of that name step its environments in processes of its own?"""
    known = registry()
    return name in known and known[name].behaviour.steps_in == "processes"


def has_role(name: str, role: str) -> bool:
    """Has the backend of that name a setting of that role?"""
    known = registry()
    return name in known and with_role(known[name], role) is not None


def has_own_engine(name: str) -> bool:
    """Does the backend of that name simulate a model of its own?"""
    known = registry()
    return name in known and known[name].own_engine


def is_built_in(name: str) -> bool:
    """Is it one of envbench's own, whose work its tests compare?"""
    from envbench.builtin import BUILT_IN

    return any(backend.name == name for backend in BUILT_IN)


def plugin_warnings() -> list[str]:
    """One sentence for each plugin that was left out: its package, the trouble and the fix."""
    return list(_load()[1])


def get(name: str) -> Backend:
    """The backend of that name, or ``UnknownName`` with the nearest."""
    known = registry()
    if name not in known:
        raise UnknownName("backend", name, list(known))
    return known[name]


@cache
def _load() -> tuple[dict[str, Backend], list[str]]:
    from importlib.metadata import entry_points

    from envbench.builtin import BUILT_IN

    known = {backend.name: backend for backend in BUILT_IN}
    warnings = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        outcome = _read_plugin(point)
        if isinstance(outcome, Backend) and outcome.name in known:
            outcome = f"the name {outcome.name!r} is taken; give the backend a name of its own"
        if isinstance(outcome, Backend):
            known[outcome.name] = outcome
        else:
            warnings.append(_left_out(point, outcome))
    return known, warnings


def _left_out(point: EntryPoint, trouble: str) -> str:
    package = point.dist.name if point.dist else "an unnamed package"
    sentence = (
        f"the backend {point.name!r} of the package {package!r} is left out: {trouble} "
        f"(entry point {point.value!r}). Update or uninstall {package!r}."
    )
    return one_line(sentence, 1000)


def _read_plugin(point: EntryPoint) -> Backend | str:
    """A plugin's backend, or what is wrong with it."""
    try:
        value = point.load()
    except Interrupted:  # a signal that came meanwhile is not the plugin's doing
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module raises anything
        return f"it cannot be imported: {type(error).__name__}: {error}"
    if isinstance(value, Mapping):
        value = {"name": point.name, **value}
    elif not isinstance(value, Backend):
        return f"its value is a {type(value).__name__}, not an envbench.backends.Backend"
    try:
        # Again where it is a Backend already: a constructor checks no types.
        backend = msgspec.convert(msgspec.to_builtins(value), Backend)
        return trouble(backend) or backend
    except (msgspec.ValidationError, TypeError, UsageError) as error:
        return str(error)


def trouble(backend: Backend) -> str:
    """What is wrong with a plugin's data, or "": names become folders, table cells and options."""
    names = [backend.name, *(setting.name for setting in backend.settings)]
    if bad := [name for name in names if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name)]:
        return f"{bad[0]!r} is not a name (lower-case letters, digits, - and _; at most 40)"
    if not re.fullmatch(r"[\w.]+:[\w.]+", backend.adapter):
        return f"its adapter {backend.adapter!r} is not 'module:attribute'"
    texts = [backend.label, backend.by_hand, *(each.help for each in backend.settings)]
    if not backend.label or not all(text.isprintable() for text in texts):
        return "its label is empty, or a text of it holds control characters"
    if backend.repeats < 1 or not backend.families or not backend.library.strip():
        return "it needs a library, a family and at least one repeat"
    for setting in backend.settings:
        parse(setting, shown(setting.default))
    return ""


# ---------------------------------------------------------------- families


def check_family(backend: Backend, family: str) -> None:
    """``UsageError`` where the backend cannot run the family, saying which it runs."""
    if family not in FAMILIES:
        raise UnknownName("env family", family, list(FAMILIES))
    if family not in backend.families:
        others = [each.name for each in registry().values() if family in each.families]
        raise UsageError(
            f"the backend {backend.name!r} cannot run {family}: "
            f"it runs {' and '.join(backend.families)}.",
            hint=f"Backends that run {family}: {', '.join(others)}",
        )


def env_instances(backend: Backend, numenv: int, settings: Settings) -> int:
    """How many copies of the task exist: more than numenv where some are kept in flight."""
    in_flight = with_role(backend, "in-flight")
    if in_flight is None:
        return numenv
    instances = float(settings[in_flight.name]) * numenv
    if instances > LARGEST_INT:
        raise UsageError(
            f"{in_flight.name} x numenv is {instances:g}: more than {backend.name} can count."
        )
    return max(numenv, round(instances))


def preset_settings(name: str, backend: Backend, family: str) -> dict[str, str]:
    """The part of a preset that applies to this backend and family, as ``--set`` would give it."""
    from envbench.builtin import PRESETS

    if name not in PRESETS:
        raise UnknownName("preset", name, list(PRESETS))
    known = settings_of(backend, family)
    return {key: value for key, value in PRESETS[name].items() if key in known}


def same_work(name: str, variant: Settings) -> bool:
    """Does a cell of these settings do its backend's reference work, if in another way?"""
    known = registry()
    changing = {s.name for s in known[name].settings if s.changes_work} if name in known else set()
    changing |= {"frame_skip"}
    return not changing & variant.keys()


def row_label(name: str, variant: Settings) -> str:
    """A table row's label: ``EnvPool (async), overcommit=2``. An unknown backend's is its name."""
    known = registry()
    label = known[name].label if name in known else name
    return ", ".join([label, *(f"{k}={shown(v)}" for k, v in sorted(variant.items()))])
