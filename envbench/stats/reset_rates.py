"""Do environments reset as often as the reference's, per step? Pure.

A backend that looks at ends of episodes only now and then resets too seldom, and looks faster. So
the resets in the measured windows are counted, of all processes of a cell, and compared with those
of the reference. The rule accuses no one by chance, so it needs three things at once:

* The rates differ by a factor of ``FACTOR``, either way.
* At least ``FEWEST`` resets were made, or should have been.
* The count is further from the expected one than an unfinished episode of each environment of each
  process, plus four standard errors. Environments may reset together (time limits), so unfinished
  episodes add up. The variance of a count is at least four times that of a Poisson distribution.
  It is larger where the processes of the reference differ by more: Pearson's chi-squared divided by
  its degrees of freedom, the dispersion of a quasi-Poisson model (McCullagh and Nelder, Generalized
  Linear Models, 1989).

Where a few episodes last for far longer than a process does, two honest backends of different speed
can differ. So a user's own tasks are not compared.

docs/studies.md shows by how much honest cells differ ("How far honest cells are from the limits").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from envbench.model import Run

FACTOR = 1.5
FEWEST = 20
ERRORS = 4.0  # standard errors
LEAST_DISPERSION = 4.0  # variance / Poisson variance: lengths of episodes vary, some a lot


class Resets(NamedTuple):
    """What one process counted in its measured windows, and how many environments it had."""

    steps: int
    resets: int
    environments: int


def resets(run: Run) -> Resets:
    """Count those of one run. Windows that do not count for its speed are included."""
    windows = run.measured
    return Resets(sum(windows.steps), sum(windows.resets), run.cell.env_instances)


def total(processes: Sequence[Resets]) -> Resets:
    """The sums over the processes."""
    return Resets(*map(sum, zip(*processes, strict=True))) if processes else Resets(0, 0, 0)


def per_step(processes: Sequence[Resets]) -> float:
    """Resets divided by steps; 0.0 without steps."""
    return _rate(total(processes))


def _rate(*totals: Resets) -> float:
    return sum(each.resets for each in totals) / max(1, sum(each.steps for each in totals))


def differ(own: Sequence[Resets], reference: Sequence[Resets]) -> bool:
    """Do the rates of two backends differ by more than any honest ones do?"""
    made, wanted = total(own), total(reference)
    if not made.steps or not wanted.steps:
        return False
    low, high = sorted((made.resets, made.steps * _rate(wanted)))
    if high < FEWEST or high < FACTOR * low:
        return False
    scale = made.steps / wanted.steps  # by which the reference's counts are multiplied
    poisson = made.steps * _rate(made, wanted) * (1 + scale)
    variance = max(LEAST_DISPERSION, _dispersion(reference)) * poisson
    unfinished = made.environments + scale * wanted.environments
    return high - low > unfinished + ERRORS * math.sqrt(variance)


def _dispersion(processes: Sequence[Resets]) -> float:
    """The variance of the processes' counts, relative to a Poisson distribution of one rate."""
    rate = per_step(processes)
    expected = [(rate * each.steps, each.resets) for each in processes if rate * each.steps > 0]
    if len(expected) < 2:
        return 0.0
    return sum((count - mean) ** 2 / mean for mean, count in expected) / (len(expected) - 1)
