"""Figures that others published."""

from __future__ import annotations

from typing import Annotated

import msgspec

from envbench.model.values import SCHEMA, Count, Family, Int

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
    numenv: Count
    fps: Annotated[float, msgspec.Meta(gt=0, le=LARGEST_FPS)]
    frame_skip: (
        Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SKIP)]
        | Annotated[float, msgspec.Meta(gt=0, le=LARGEST_SKIP)]
    )
    source: str

    @property
    def identity(self) -> tuple[str, str, str, str, int, str]:
        """Of two figures with the same identity, the later one replaces the earlier one."""
        return self.machine, self.env, self.task, self.backend, self.numenv, self.source
