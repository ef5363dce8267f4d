"""Memory as a fixed part plus a part per environment. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

POINTS = 3  # different numbers of environments; two always lie on a line


@dataclass(frozen=True, kw_only=True)
class MemoryLine:
    """The line through the memory of a row's cells.

    ``environments`` are the measured numbers of existing environments. ``misfit`` is the largest
    distance of a cell from the line, as a share of its memory. ``largest``: how many environments
    fit into the free memory by this line. It is None if that is unknown, or if the memory does not
    grow.
    """

    fixed_bytes: int
    bytes_per_env: int
    environments: tuple[int, ...]
    misfit: float
    largest: int | None


def memory_line(cells: Iterable[tuple[int, int]], free_bytes: int) -> MemoryLine | None:
    """Fit a line to pairs of (environments, bytes); None for fewer than three different numbers.

    By least squares on relative errors, weights 1 / bytes² (Montgomery, Peck and Vining,
    Introduction to Linear Regression Analysis, section 5.5), because the memory of large cells
    varies more. ``free_bytes``: 0 if unknown.
    """
    points = sorted((count, size) for count, size in cells if size > 0)
    counts = tuple(sorted({count for count, _ in points}))
    if len(counts) < POINTS:
        return None
    total = math.fsum(1 / y**2 for _, y in points)
    middle = math.fsum(x / y**2 for x, y in points) / total
    height = math.fsum(1 / y for _, y in points) / total
    spread = math.fsum((x - middle) ** 2 / y**2 for x, y in points)
    slope = math.fsum((x - middle) * (y - height) / y**2 for x, y in points) / spread
    fixed = height - slope * middle
    fit = (free_bytes - fixed) / slope if slope > 0 and free_bytes > 0 else None
    return MemoryLine(
        fixed_bytes=round(fixed),
        bytes_per_env=round(slope),
        environments=counts,
        misfit=max(abs(fixed + slope * x - y) / y for x, y in points),
        largest=None if fit is None else max(0, math.floor(fit + 1e-6)),
    )
