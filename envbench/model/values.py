"""The basic types of all records: names, 64-bit numbers and hashes."""

from __future__ import annotations

import hashlib
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec

SCHEMA = 2
Family = str  # an env family's name (``envbench.families``)
Kind = Literal["env", "physics", "ceiling"]
Section = Literal["", "accelerators", "physics", "ceiling"]  # tables never mix them
# Libraries count in 64 bits. A number of a thousand digits is not a count and not a float.
LARGEST = 2**62
MOST_LEVELS = 32  # of containers in a free-form value; more would exhaust recursive readers
Int = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Value = bool | Int | float | str
Settings = dict[str, Value]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of values that are stored or sent to a worker: a reader refuses unknown fields.

    msgspec does not inherit ``kw_only``, so each subclass says it.
    """


def fields(value: object, names: str) -> dict[str, Any]:
    """Some fields of a value, as JSON's values."""
    return {name: msgspec.to_builtins(getattr(value, name)) for name in names.split()}


def digest(value: object) -> str:
    """Hash any value that msgspec can encode: stable and short (12 hex digits of SHA-256)."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:12]


def out_of_bounds(value: object) -> str:
    """Say why a free-form value (``facts``, ``work``) cannot be recorded, or return "".

    Its containers may be nested ``MOST_LEVELS`` deep, itself included, and its whole numbers must
    fit into 64 bits. The check goes level by level: a recursion could exceed Python's limit.
    """
    level, depth = [value], 0
    while level:
        if any(isinstance(each, int) and not -LARGEST <= each <= LARGEST for each in level):
            return "a number in it is beyond 64 bits"
        containers = [each for each in level if isinstance(each, dict | list)]
        depth += bool(containers)
        if depth > MOST_LEVELS:
            return f"it is nested too deeply: more than {MOST_LEVELS} levels"
        lists = (each.values() if isinstance(each, dict) else each for each in containers)
        level = [*chain.from_iterable(lists)]
    return ""
