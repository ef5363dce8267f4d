"""What a results file says of each cell, to compare with at another time. Pure.

Two kinds of records can stand for the past. A *gauge* has the cell's rate relative to the reference
kernel, measured by turns with it: that ratio is compared. The kernel follows a machine's clock, and
less so its caches, its memory and its other cores. A *run* (``envbench run``) has a rate alone:
what the machine has changed by since then cannot be told from what the code has, so that as much
as shared machines drift by (``DRIFT``) is granted before anything counts as slower. Either is
advice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from envbench.check import regression
from envbench.check.regression import FEWEST_PAIRS, Rule, Stage
from envbench.model import Cell, Gauge, Record, Run, Side
from envbench.statistics import rate

DRIFT = 0.10  # between two times, on a shared machine: docs/measurement.md


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One cell of the past. ``rates`` are logarithms, a process each, of its steps a second:
    over the kernel's where ``beside_kernel``."""

    cell: Cell
    fingerprint: str
    rates: list[float]
    beside_kernel: bool


def stored(records: Iterable[Record]) -> list[Stored]:
    """Each cell's gauges, or where it has none its newest plan's runs; in the file's order.

    Those with less than five processes are left out: they do not tell their own spread.
    """
    gauges: dict[str, list[Gauge]] = {}
    runs: dict[str, list[Run]] = {}
    for record in records:
        if isinstance(record, Gauge):
            if _is_sound(record):
                gauges.setdefault(name_of(record.cell), []).append(record)
        elif isinstance(record, Run) and record.failure is None and not record.quick:
            known = runs.setdefault(name_of(record.cell), [])
            if known and known[-1].plan_id != record.plan_id:
                known.clear()
            known.append(record)
    found = {name: _of_runs(known) for name, known in runs.items()}
    found |= {name: _of_gauges(known) for name, known in gauges.items()}
    return [each for each in found.values() if len(each.rates) >= FEWEST_PAIRS]


def compared(now: Sequence[Gauge], then: Stored, rule: Rule) -> Stage:
    """Now over then: of the ratio to the kernel where both have it, else of the rate itself."""
    if then.beside_kernel:
        return regression.against([relative(gauge) for gauge in now], then.rates, rule)
    rates = [_rate(gauge.measured, gauge.measured.measured.invalid) for gauge in now]
    return regression.against(rates, then.rates, granting_drift(rule))


def granting_drift(rule: Rule) -> Rule:
    """The rule for rates of two times: slower by ``DRIFT`` is not slower yet."""
    left = 1 - DRIFT
    return replace(
        rule, margin=1 - (1 - rule.margin) * left, tolerance=1 - (1 - rule.tolerance) * left
    )


def name_of(cell: Cell) -> str:
    """What was measured, whatever the machine's profile is called."""
    return str(msgspec.to_builtins(msgspec.structs.replace(cell, machine="")))


def relative(gauge: Gauge) -> float:
    """log of the cell's steps a second over the kernel's, of slices that no signal spoilt."""
    spoilt = {**gauge.kernel.measured.invalid, **gauge.measured.measured.invalid}
    return _rate(gauge.measured, spoilt) - _rate(gauge.kernel, spoilt)


def _rate(side: Side, spoilt: dict[str, str]) -> float:
    """log of steps a second; of all slices where most are spoilt."""
    windows = side.measured
    every = range(len(windows.ns))
    kept = [k for k in every if str(k) not in spoilt]
    kept = kept if 2 * len(kept) >= len(windows.ns) else list(every)
    steps, ns = sum(windows.steps[k] for k in kept), sum(windows.ns[k] for k in kept)
    return math.log(steps * 1e9 / ns)


def _is_sound(gauge: Gauge) -> bool:
    """Does each slice have steps, and take time?"""
    sides = (gauge.kernel.measured, gauge.measured.measured)
    return all(
        len(side.steps) == len(side.ns) > 0 and min(side.steps) > 0 and min(side.ns) > 0
        for side in sides
    )


def _of_gauges(gauges: Sequence[Gauge]) -> Stored:
    return Stored(
        cell=gauges[-1].cell,
        fingerprint=gauges[-1].fingerprint,
        rates=[relative(gauge) for gauge in gauges],
        beside_kernel=True,
    )


def _of_runs(runs: Sequence[Run]) -> Stored:
    speeds = [speed for run in runs if (speed := rate(run).steps_per_second)]
    return Stored(
        cell=runs[-1].cell,
        fingerprint=runs[-1].fingerprint,
        rates=[math.log(speed) for speed in speeds],
        beside_kernel=False,
    )
