"""What others have published."""

from __future__ import annotations

import msgspec

from envbench.model.values import SCHEMA, Family, Int

LARGEST_FPS, LARGEST_SKIP = 1e12, 1000  # larger values are not believed


class Published(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="published"
):
    """A figure that others have published. It was not measured here and never enters a comparison.

    ``fps`` has frame_skip multiplied in; ``source`` says who published it, and where.
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
