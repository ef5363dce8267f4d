"""A setting of a backend: its type and bounds, and how to parse what a person typed.

Errors are ``UnknownName`` and ``UsageError`` (exit 2). They name the setting and valid values.
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
LARGEST_INT = 2**31 - 1  # the measured libraries use 32 bits


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting of a backend. ``families`` and ``tasks`` empty: it applies to all of them.

    ``divides``: "numenv" or another setting; the value must divide it exactly.
    ``pattern``: a non-empty text must match it as a whole; ``example`` is a valid text.
    ``changes_work``: with any value but the default, a step computes something else. Such a figure
    is never the best of a table.
    ``role``: what envbench itself uses the setting for: the environments in flight per environment
    received, the cores of each node, or the source of actions.
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
        """Does it apply to this task or, with ``task`` None, to any task of the family?"""
        right_family = not self.families or family in self.families
        return right_family and (not self.tasks or task is None or task in self.tasks)


def parse(setting: Setting, text: str) -> Value:
    """Parse what a person typed. A ``UsageError`` says what the setting takes."""
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
    """What the setting takes, in words: ``area or bilinear``, ``a number of at least 1``."""
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
    """A value as a person types it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0")
