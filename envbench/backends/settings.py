"""One setting of a backend: its type and bounds, and its value from what a person typed.

Errors are ``UnknownName`` and ``UsageError`` (exit 2). They name the setting and what it takes.
"""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from envbench.errors import UnknownName, UsageError
from envbench.model import Family, Value

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


def shown(value: Value) -> str:
    """A value as a person writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0")
