"""What every record is made of: the field's words, numbers of 64 bits, and hashes."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec

SCHEMA = 1
FAMILIES = ("atari", "mujoco", "gym")
DEFAULT_TASK = {"atari": "Pong-v5", "mujoco": "Ant-v3"}
Family = Literal["atari", "mujoco", "gym"]
Kind = Literal["env", "physics", "ceiling"]
Section = Literal["", "accelerators", "physics", "ceiling"]  # tables never mix them
# What a library counts in 64 bits: a number of a thousand digits is no count, and no float.
LARGEST = 2**62
Int = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Value = bool | Int | float | str
Settings = dict[str, Value]


def digest(value: object) -> str:
    """A short stable hash of any value msgspec can encode (12 hex digits of SHA-256)."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:12]


def bounded(value: object) -> bool:
    """Whether every whole number in a free-form value (``facts``, ``work``) is one of 64 bits."""
    if isinstance(value, dict):
        return all(map(bounded, value.values()))
    if isinstance(value, list):
        return all(map(bounded, value))
    return not isinstance(value, int) or -LARGEST <= value <= LARGEST
