"""The settings of backends: typed, bounded, and resolved from what a person has typed.

``resolve_settings`` turns ``--set KEY=VALUE`` into a cell's full settings. Errors are
``UnknownName`` and ``UsageError`` (exit 2), and name the setting, what it takes and the nearest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from envbench.errors import UnknownName, UsageError
from envbench.model import Family, Settings, Value

if TYPE_CHECKING:
    from envbench.backends import Backend

_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_TAKES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
}
_CORE = "(0|[1-9][0-9]{0,3})"
CORES = f"{_CORE}(-{_CORE})?(,{_CORE}(-{_CORE})?)*"  # of one node: 0-3, or 0,2,4-7
LARGEST_INT = 2**31 - 1  # what the measured libraries keep such numbers in


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of a backend. ``families`` and ``tasks`` empty: it applies to all of them.

    ``divides``: "numenv", or the name of the setting, that its value must divide exactly.
    ``pattern``: what a non-empty text must match as a whole; ``example`` shows one.
    ``changes_work``: another value than the default computes something else, rather than the
    same in another way; such a figure never competes for the best of a table.
    ``role`` says what envbench itself reads from it: how many environments are in flight for each
    one received, the cores of each node, or where the actions come from.
    """

    name: str
    type: Literal["bool", "int", "float", "str"]
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

    def applies(self, family: str, task: str | None = None) -> bool:
        """``task`` None: is there a task of the family that it applies to?"""
        right_family = not self.families or family in self.families
        return right_family and (not self.tasks or task is None or task in self.tasks)


def settings_of(backend: Backend, family: str, task: str | None = None) -> dict[str, Setting]:
    """The settings that the backend takes for this family (and task), by name."""
    return {each.name: each for each in backend.settings if each.applies(family, task)}


def resolve_settings(
    backend: Backend, family: str, given: Mapping[str, str], task: str | None = None
) -> tuple[Settings, Settings]:
    """All settings of a cell with defaults filled in, and only those that differ from them."""
    known = settings_of(backend, family, task)
    for name in given:
        if name not in known:
            raise _unknown_setting(backend, family, name)
    defaults = {name: setting.default for name, setting in known.items()}
    settings = defaults | {name: parse(known[name], text) for name, text in given.items()}
    return settings, {k: v for k, v in settings.items() if v != defaults[k]}


def with_role(backend: Backend, role: str) -> Setting | None:
    """The backend's setting of that role, if it has one."""
    return next((each for each in backend.settings if each.role == role), None)


def _unknown_setting(backend: Backend, family: str, name: str) -> UsageError:
    for setting in backend.settings:
        if setting.name == name:
            only = " and ".join(setting.tasks or setting.families)
            return UsageError(f"the setting {name!r} of {backend.name} applies to {only} only.")
    error = UnknownName(f"setting of {backend.name}", name, list(settings_of(backend, family)))
    from envbench.backends import registry

    if others := [each.name for each in registry().values() if name in settings_of(each, family)]:
        error.hint += f". It is a setting of {', '.join(others)}"
    return error


def parse(setting: Setting, text: str) -> Value:
    """The typed value of what a person wrote, or a ``UsageError`` saying what is taken."""
    if setting.choices:
        choices = {shown(choice): choice for choice in setting.choices}
        if text not in choices:
            raise UnknownName(
                f"value of {setting.name!r}:", text, [each or "''" for each in choices]
            )
        return choices[text]
    value = _typed(setting.type, text)
    least = -math.inf if setting.minimum is None else setting.minimum
    most = math.inf if setting.maximum is None else setting.maximum
    if (
        value is None
        or (isinstance(value, int | float) and not least <= value <= most)
        or (value and setting.pattern and not re.fullmatch(setting.pattern, text))
    ):
        raise UsageError(f"the setting {setting.name!r} takes {takes(setting)}, not {text!r}.")
    return value


def takes(setting: Setting) -> str:
    """What a person may write: ``area or bilinear``, ``a number of at least 1``."""
    if setting.choices:
        return " or ".join(shown(each) or "''" for each in setting.choices)
    if setting.pattern:
        return f"{_TAKES[setting.type]} such as {setting.example}"
    if setting.minimum is not None and setting.maximum is not None:
        return f"{_TAKES[setting.type]} from {setting.minimum:g} to {setting.maximum:g}"
    least = "" if setting.minimum is None else f" of at least {setting.minimum:g}"
    most = "" if setting.maximum is None else f" of at most {setting.maximum:g}"
    return _TAKES[setting.type] + least + most


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


def check_shares(backend: Backend, numenv: int, settings: Settings) -> None:
    """Refuse settings that do not share out the environments without rest (``divides``)."""
    for setting in backend.settings:
        if not setting.divides or setting.name not in settings:
            continue
        whole = numenv if setting.divides == "numenv" else settings[setting.divides]
        if int(whole) % int(settings[setting.name]):
            raise UsageError(
                f"{backend.name}: {setting.divides} ({shown(whole)}) has to be a multiple of "
                f"{setting.name} ({shown(settings[setting.name])})."
            )


def shown(value: Value) -> str:
    """A value as a person writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0")
