"""Figures that others published."""

from __future__ import annotations

import msgspec

from envbench.model.values import SCHEMA, Family, Int

LARGEST_FPS, LARGEST_SKIP = 1e12, 1000  # larger values are refused


class Published(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="published"
):
    """A figure that others published. It was not measured here and is never part of a comparison.

    ``fps`` includes frame_skip. ``source`` says who published it, and where.
    """

    schema: Int = SCHEMA
    machine: str
    env: Family
    task: str
    backend: str
    numenv: Int
    fps: float
    frame_skip: Int | float
    source: str
