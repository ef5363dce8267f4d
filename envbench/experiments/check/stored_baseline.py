"""What a results file says of each cell, to compare with at another time. Pure.

Two kinds of records can stand for the past. A block of a ``baseline`` plan has the cell's rate
relative to the reference kernel, measured alternately with it: that ratio is compared. The kernel
follows a machine's clock, and less so its caches, its memory and its other cores. A *run*
(``envbench run``) has a rate alone: how the machine has changed since then cannot be separated from
how the code has. So ``DRIFT``, what shared machines drift by, is granted before anything counts as
slower. Either is advice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from envbench.engine.pairs import cell_of, side
from envbench.experiments.check.baseline import KERNEL, BaselineExperiment
from envbench.model import BlockRecord, Cell, Plan, Rule, RunDesign, TrialRecord
from envbench.model import Stored as StoredRecord
from envbench.results.archive import run_of
from envbench.stats import regression
from envbench.stats.regression import FEWEST_PAIRS, Stage
from envbench.stats.summary import rate

DRIFT = 0.10  # between two times, on a shared machine: docs/measurement.md


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One cell of the past. ``rates`` are logarithms, one per process, of its steps per second;
    divided by the kernel's where ``beside_kernel``."""

    cell: Cell
    fingerprint: str
    rates: list[float]
    beside_kernel: bool


def stored(stored_records: Iterable[StoredRecord]) -> list[Stored]:
    """Each cell by its newest baseline plan, or by its newest ``run`` plan where it has none.

    Those with fewer than five processes are left out: they do not show their own spread.
    """
    records = list(stored_records)
    plans = [each for each in records if isinstance(each, Plan)]
    blocks = {each.block_id: each for each in records if isinstance(each, BlockRecord)}
    alone: dict[str, Stored] = {}
    beside: dict[str, Stored] = {}
    for plan in sorted(plans, key=lambda each: each.started_utc):
        by_cell: dict[str, list[BlockRecord]] = {}
        for block in blocks.values():
            if block.plan_id == plan.plan_id and not block.failure:
                by_cell.setdefault(name_of(cell_of(block)), []).append(block)
        if plan.experiment == BaselineExperiment.name:
            beside |= _enough({name: _of_gauges(plan, own) for name, own in by_cell.items()})
        elif isinstance(plan.design, RunDesign) and not plan.design.quick:
            alone |= _enough({name: _of_runs(plan, own) for name, own in by_cell.items()})
    return [*{**alone, **beside}.values()]


def _enough(found: dict[str, Stored]) -> dict[str, Stored]:
    return {name: each for name, each in found.items() if len(each.rates) >= FEWEST_PAIRS}


def compared(now: Sequence[BlockRecord], then: Stored, rule: Rule) -> Stage:
    """Now over then: of the ratio to the kernel where both have it, else of the rate itself."""
    if then.beside_kernel:
        return regression.against([relative(block) for block in now], then.rates, rule)
    rates = [_rate(block.trials[-1], block.trials[-1].measured.invalid) for block in now]
    return regression.against(rates, then.rates, granting_drift(rule))


def granting_drift(rule: Rule) -> Rule:
    """The rule for rates of two times: slower by ``DRIFT`` is not slower yet."""
    left = 1 - DRIFT
    return msgspec.structs.replace(
        rule, margin=1 - (1 - rule.margin) * left, tolerance=1 - (1 - rule.tolerance) * left
    )


def name_of(cell: Cell) -> str:
    """What was measured, whatever the machine's profile is called."""
    return str(msgspec.to_builtins(msgspec.structs.replace(cell, machine="")))


def relative(block: BlockRecord) -> float:
    """log of the cell's steps per second over the kernel's, of slices that are valid in both."""
    kernel, cell = side(block, KERNEL), block.trials[-1]
    invalid = {**kernel.measured.invalid, **cell.measured.invalid}
    return _rate(cell, invalid) - _rate(kernel, invalid)


def _rate(trial: TrialRecord, invalid: dict[str, str]) -> float:
    """log of steps per second; of all slices where most are invalid."""
    windows = trial.measured
    every = range(len(windows.ns))
    kept = [k for k in every if str(k) not in invalid]
    kept = kept if 2 * len(kept) >= len(windows.ns) else list(every)
    steps, ns = sum(windows.steps[k] for k in kept), sum(windows.ns[k] for k in kept)
    return math.log(steps * 1e9 / ns)


def _is_sound(block: BlockRecord) -> bool:
    """Are these the kernel and a cell, and does each slice have steps and take time?"""
    slices = [trial.measured for trial in block.trials]
    return (
        len(slices) == 2
        and block.trials[0].arm == KERNEL
        and all(
            len(each.steps) == len(each.ns) > 0 and min(each.steps) > 0 and min(each.ns) > 0
            for each in slices
        )
    )


def _of_gauges(plan: Plan, blocks: Sequence[BlockRecord]) -> Stored:
    return Stored(
        cell=cell_of(blocks[-1]),
        fingerprint=plan.fingerprint,
        rates=[relative(block) for block in blocks if _is_sound(block)],
        beside_kernel=True,
    )


def _of_runs(plan: Plan, blocks: Sequence[BlockRecord]) -> Stored:
    runs = [run_of(plan, block, trial, {}) for block in blocks for trial in block.trials]
    speeds = [speed for run in runs if (speed := rate(run).steps_per_second)]
    return Stored(
        cell=runs[-1].cell,
        fingerprint=plan.fingerprint,
        rates=[math.log(speed) for speed in speeds],
        beside_kernel=False,
    )
