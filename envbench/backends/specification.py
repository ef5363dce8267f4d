"""What a backend is, as data: its name, families, settings, requirements and behaviour.

Only the worker imports the adapter, in the backend's own interpreter. Nothing here imports a
measured library. Errors are ``UnknownName`` and ``UsageError`` (exit 2) for what a person typed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from envbench import families
from envbench.errors import UnknownName, UsageError
from envbench.model import MOST_ROUNDS, Behaviour, Family, Kind, Settings, Value

_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_TAKES = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}
_CORE = "(0|[1-9][0-9]{0,3})"
CORES = f"{_CORE}(-{_CORE})?(,{_CORE}(-{_CORE})?)*"  # of one node: 0-3, or 0,2,4-7
MARKS = "✓≠✗≈"  # of tables
LARGEST_INT = 2**31 - 1  # the measured libraries use 32 bits


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes a setting of a backend. It applies to all families and tasks, unless it names some.

    If ``type`` is empty, the type is that of ``default``.

    ``divides``: "numenv" or another setting; the value must divide it exactly.
    ``pattern``: a non-empty text must match it as a whole; ``example`` is a valid text.
    ``changes_work``: with any value but the default, a step computes something else. Such a figure
    is never the best of a table.
    ``role``: what envbench itself uses the setting for: the environments in flight per environment
    received, the cores of each node, or the source of actions.
    """

    name: str
    type: Literal["bool", "int", "float", "str", ""] = ""
    default: Value
    choices: list[Value] = []
    minimum: float | None = None
    maximum: float | None = None
    pattern: str = ""
    example: str = ""
    divides: str = ""
    families: list[Family] = []
    tasks: list[str] = []
    changes_work: bool = False
    role: Literal["", "in-flight", "nodes", "actions"] = ""
    help: str = ""

    @property
    def _kind(self) -> str:
        return self.type or type(self.default).__name__

    def applies(self, family: str, task: str | None = None) -> bool:
        """Does it apply to this task or, with ``task`` None, to any task of the family?"""
        right_family = not self.families or family in self.families
        return right_family and (not self.tasks or task is None or task in self.tasks)

    def parse(self, text: str) -> Value:
        """Parse what a person typed. A ``UsageError`` says what the setting takes."""
        if self.choices:
            choices = {shown(choice): choice for choice in self.choices}
            if text not in choices:
                known = [each or "''" for each in choices]
                raise UnknownName(f"value of {self.name!r}:", text, known)
            return choices[text]
        value = _typed(self._kind, text)
        if value is None or not self._within_bounds(value):
            raise UsageError(f"the setting {self.name!r} takes {self.takes}, not {text!r}.")
        return value

    def _within_bounds(self, value: Value) -> bool:
        if isinstance(value, str):
            return not (value and self.pattern) or bool(re.fullmatch(self.pattern, value))
        least = -math.inf if self.minimum is None else self.minimum
        most = math.inf if self.maximum is None else self.maximum
        return least <= value <= most

    @property
    def takes(self) -> str:
        """What it takes, in words: ``area or bilinear``, ``a number of at least 1``."""
        if self.choices:
            return " or ".join(shown(each) or "''" for each in self.choices)
        if self.pattern:
            return f"{_TAKES[self._kind]} such as {self.example}"
        if self.minimum is not None and self.maximum is not None:
            return f"{_TAKES[self._kind]} from {self.minimum:g} to {self.maximum:g}"
        least = "" if self.minimum is None else f" of at least {self.minimum:g}"
        most = "" if self.maximum is None else f" of at most {self.maximum:g}"
        return _TAKES[self._kind] + least + most


def _typed(kind: str, text: str) -> Value | None:
    if kind == "bool":
        return _BOOLS.get(text.lower())
    if kind == "int":
        whole = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text) else None
        return whole if whole is not None and abs(whole) <= LARGEST_INT else None
    if kind == "float":
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return text


def shown(value: Value) -> str:
    """Return a value as a person types it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0")


class Needs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requirements for some families or workloads only; an empty list means all of them.
    ``disk_mb``: what they add to the runtime, about."""

    add: list[str]
    disk_mb: int = 0
    families: list[Family] = []
    workloads: list[str] = []

    def apply(self, family: str, workload: str) -> bool:
        fits = not self.families or family in self.families
        return fits and (not self.workloads or workload in self.workloads)


class Backend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way of running many copies of a task.

    ``library`` is the import name of the measured library. ``requirements`` empty: the backend runs
    in the current interpreter. Otherwise it runs in an isolated runtime with exactly these, and
    ``gpu_requirements`` if there is an NVIDIA GPU. (A plugin lists its own distribution too,
    because that runtime imports its adapter.) ``needs`` adds requirements for some families or
    workloads only. ``disk_mb`` is about the size of the runtime without a GPU; 0: unknown.
    ``finish`` are commands that complete the runtime: ``{bin}`` is its folder of programs,
    ``{roms}`` the folder of Atari ROMs of envbench's ale-py. ``by_hand`` explains how to install a
    library that no installer provides.

    ``behaviour`` says how it uses the machine. ``accelerator``: it steps thousands of environments
    in one program, on a GPU if there is one, and has the accelerators' ladder and table.
    ``own_engine``: it has a physics engine of its own, so its states are not compared.
    ``difference``: what else its steps do differently, said where its states are not compared.
    ``one_per_core``: it has one environment per core, whatever numenv is. ``environment`` are
    variables for its workers. ``pin_threads``: common libraries' thread pools get one thread.
    ``stepping`` is Python that steps ``envs``, which the adapter's fact ``code`` makes: the page
    shows both. ``systems`` are ``sys.platform`` values; empty: all.
    """

    name: str
    label: str
    families: list[Family]
    adapter: str  # "module:attribute", imported by the worker only
    library: str
    kind: Kind = "env"
    behaviour: Behaviour = Behaviour()
    accelerator: bool = False
    own_engine: bool = False
    difference: str = ""
    one_per_core: bool = False
    requirements: list[str] = []
    gpu_requirements: list[str] = []
    needs: list[Needs] = []
    disk_mb: int = 0
    finish: list[list[str]] = []
    by_hand: str = ""
    python: str | None = None
    systems: list[str] = []
    settings: list[Setting] = []
    repeats: int = 5
    pin_threads: bool = True
    environment: dict[str, str] = {}
    stepping: str = ""

    def requirements_of(self, family: str, workload: str = "step") -> list[str]:
        """Return what its runtime for a family and workload requires; empty: no own runtime."""
        return [
            *self.requirements,
            *(each for need in self._more(family, workload) for each in need.add),
        ]

    def disk_mb_of(self, family: str, workload: str = "step") -> int:
        """Return about how many megabytes that runtime needs; 0: unknown."""
        return self.disk_mb + sum(need.disk_mb for need in self._more(family, workload))

    def _more(self, family: str, workload: str) -> list[Needs]:
        return [need for need in self.needs if need.apply(family, workload)]


GYMNASIUM_LOOP = """\
obs, info = envs.reset()
while training:
    result = envs.step(policy(obs))
    obs, rewards, *ended, info = result
    terminated, truncated = ended
"""
ACTIONS = Setting(
    name="actions",
    default="bank",
    choices=["bank", "constant"],
    changes_work=True,
    role="actions",
    help="a seeded bank of batches of different random actions, or one constant batch",
)


def settings_of(backend: Backend, family: str, task: str | None = None) -> dict[str, Setting]:
    """Return the settings that the backend takes for this family (and task), by name."""
    return {each.name: each for each in backend.settings if each.applies(family, task)}


def with_role(backend: Backend, role: str) -> Setting | None:
    """Return the backend's setting of that role, if it has one."""
    return next((each for each in backend.settings if each.role == role), None)


def env_instances(backend: Backend, numenv: int, settings: Settings) -> int:
    """Return how many copies of the task exist: more than numenv if extra ones are kept busy."""
    in_flight = with_role(backend, "in-flight")
    if in_flight is None:
        return numenv
    instances = float(settings[in_flight.name]) * numenv
    if instances > LARGEST_INT:
        raise UsageError(
            f"{in_flight.name} x numenv is {instances:g}, but must be at most {LARGEST_INT:,}."
        )
    return max(numenv, round(instances))


def check_shares(backend: Backend, numenv: int, settings: Settings) -> None:
    """Refuse settings that do not divide the environments evenly (``divides``)."""
    for setting in backend.settings:
        if not setting.divides or setting.name not in settings:
            continue
        whole = numenv if setting.divides == "numenv" else settings[setting.divides]
        if int(whole) % int(settings[setting.name]):
            raise UsageError(
                f"{backend.name}: {setting.divides} ({shown(whole)}) has to be a multiple of "
                f"{setting.name} ({shown(settings[setting.name])})."
            )


def trouble(backend: Backend) -> str:
    """Say what is wrong with a plugin's data, or "". Names become folders, cells and options."""
    names = [backend.name, *(setting.name for setting in backend.settings)]
    if bad := [name for name in names if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name)]:
        return f"{bad[0]!r} is not a name (lower-case letters, digits, - and _; at most 40)"
    if unknown := [each for each in backend.families if each not in families.names()]:
        return f"the env family {unknown[0]!r} is not known"
    if not re.fullmatch(r"[\w.]+:[\w.]+", backend.adapter):
        return f"its adapter {backend.adapter!r} is not 'module:attribute'"
    texts = [backend.label, backend.by_hand, *(each.help for each in backend.settings)]
    if not backend.label or not all(text.isprintable() for text in texts):
        return "its label is empty, or a text of it holds control characters"
    if set(MARKS) & set(backend.label):
        return f"its label holds a mark of the tables ({MARKS})"
    if not (1 <= backend.repeats <= MOST_ROUNDS and backend.families and backend.library.strip()):
        return f"it needs a library, a family and 1 to {MOST_ROUNDS} repeats"
    for setting in backend.settings:
        setting.parse(shown(setting.default))
    return ""


def threads_of(facts: Mapping[str, object]) -> int:
    """The threads of a run's pool, as its adapter reported them; 0 if it reported none."""
    found = facts.get("threads")
    return found if isinstance(found, int) else 0
