"""``check --against FILE``: compare with rates of another day. The verdict is only advice.

The file has a ``baseline`` plan, whose rates are relative to the reference kernel, or a ``run``
plan. A run has no such kernel, so a change of the machine looks like a change of the code. Then a
slowdown up to ``DRIFT``, the drift of shared machines, does not count. The cells are measured anew
with the ``baseline`` experiment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from envbench import backends
from envbench.decisions import slowdown
from envbench.decisions.slowdown import FEWEST_PAIRS, STEPS, Stage
from envbench.engine import resume
from envbench.engine.availability import KERNEL_ARM
from envbench.engine.campaign import Campaign
from envbench.engine.request import CellRequest, Chosen
from envbench.engine.resume import Recorded
from envbench.engine.target import target_of
from envbench.errors import UsageError
from envbench.experiments.check.baseline import BaselineExperiment
from envbench.experiments.check.cells import Size, not_too_many
from envbench.experiments.check.verdicts import CANDIDATE, CellVerdict, pairs_of
from envbench.experiments.pairs import disturbed, trial_of
from envbench.model import (
    BlockRecord,
    Cell,
    Failure,
    Fingerprint,
    MachineFact,
    Plan,
    Rule,
    RunDesign,
    TrialRecord,
    digest,
)
from envbench.results.joining import run_of
from envbench.stats.summary import rate
from envbench.text import counted

IN_ONE_RUN = "--baseline, --baseline-python, --baseline-ref"
DRIFT = 0.10  # between two times, on a shared machine: docs/measurement.md


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Holds a stored cell. ``rates`` has the logarithm of its steps per second, one per process;
    relative to the kernel's if ``beside_kernel``."""

    cell: Cell
    fingerprint: str
    rates: list[float]
    beside_kernel: bool


def read(
    path: Path,
    wanted: CellRequest,
    here: Fingerprint,
    say: Callable[[str], None],
    refuses: Callable[[Cell], bool],
) -> list[Stored]:
    """Return the wanted cells of a file from this machine, except those of rows that ``verify``
    refused; ``UsageError`` if there are none, or if a wanted backend is unknown."""
    if not path.is_file():
        raise UsageError(f"--against: there is no file {path}.")
    for name in wanted.backends or []:
        if name != "all":
            backends.get(name)
    plans, warnings = resume.read(path)
    for warning in warnings:
        say(f"Warning: {warning}")
    every = [each for each in stored(plans) if _is_wanted(each.cell, wanted)]
    cells = [each for each in every if not refuses(each.cell)]
    if len(cells) < len(every):
        count = counted(len(every) - len(cells), "cell")
        say(f"Warning: {count} left out: `envbench verify` refused the figures.")
    if not cells:
        raise UsageError(
            f"{path} has none of these cells with at least five processes.",
            hint="Make one: envbench baseline save --output FILE. Or measure baseline and "
            f"candidate in one run, which is more precise: {IN_ONE_RUN}.",
        )
    facts = [fact for plan in plans for fact in plan.shared if isinstance(fact, MachineFact)]
    known = {digest(here): here, **{fact.hash: fact.fingerprint for fact in facts}}
    found = [known.get(each.fingerprint) for each in cells]
    if other := [each for each in found if each is None or each.hardware != here.hardware]:
        raise UsageError(
            f"{path} was measured on another machine or system "
            f"({other[0].cpu if other[0] else 'unknown'}): rates of two machines say nothing about "
            "a change.",
            hint=f"Measure baseline and candidate here, in one run: {IN_ONE_RUN}.",
        )
    if any(each != here for each in found):
        say(
            f"Note: {path} was measured on another computer of the same hardware, or on an unknown "
            "one. A difference between the two computers looks like a change."
        )
    if not all(each.beside_kernel for each in cells):
        say(
            f"Note: {path} has rates that were measured without a reference kernel, and a shared "
            f"machine drifts. So slowdowns of up to {100 * DRIFT:.0f} % are ignored. "
            "`envbench baseline save` stores rates relative to the kernel, which are more precise."
        )
    return cells


def anew(path: Path, cells: Sequence[Stored], rule: Rule, size: Size) -> BaselineExperiment:
    """Return the experiment that measures cells of a file anew, and never resumes its plans."""
    chosen = not_too_many(Chosen(targets=[target_of(each.cell) for each in cells]))
    pairs = size.of(chosen.targets, rule).pairs
    purpose = f"compare with {sha256(path.read_bytes()).hexdigest()}"
    return BaselineExperiment(targets=chosen.targets, pairs=pairs, purpose=purpose)


def verdict(outcome: Campaign[dict[str, Failure]], then: Stored, rule: Rule) -> CellVerdict:
    """Judge a stored cell that was measured anew."""
    if failure := outcome.findings.get(then.cell.key):
        return CellVerdict(cell=then.cell, verdict="BROKEN", failures={CANDIDATE: failure})
    stage = compared(pairs_of(outcome.done, then.cell), then, rule)
    return CellVerdict(
        cell=then.cell,
        verdict=stage.verdict,
        tolerance=_allowing(then, rule).tolerance,
        stages=[{STEPS: stage}],
    )


def _is_wanted(cell: Cell, wanted: CellRequest) -> bool:
    named = [] if wanted.takes_all else wanted.backends or []
    return (
        wanted.family in (None, cell.env)
        and wanted.task in (None, cell.task)
        and cell.backend in (named or [cell.backend])
        and cell.numenv in (wanted.numenv or [cell.numenv])
    )


# ---------------------------------------------------------------- rates


def stored(plans: Iterable[Recorded]) -> list[Stored]:
    """Return each cell by its newest baseline plan, or by its newest ``run`` plan if it has none.

    Failed cells are left out, and those of fewer than five processes, which do not show their
    spread.
    """
    newest: dict[str, Stored] = {}
    for each in sorted(plans, key=lambda each: (_is_baseline(each.plan), each.plan.started_utc)):
        for cell in each.plan.cells:
            rates = _rates(each, cell)
            if len(rates) >= FEWEST_PAIRS:
                newest[cell.key] = Stored(
                    cell=cell,
                    fingerprint=each.plan.fingerprint,
                    rates=rates,
                    beside_kernel=_is_baseline(each.plan),
                )
    return [*newest.values()]


def _is_baseline(plan: Plan) -> bool:
    return plan.experiment == BaselineExperiment.name


def _rates(recorded: Recorded, cell: Cell) -> list[float]:
    """Logarithms of a cell's rates; none for a plan without comparable ones, or if it failed."""
    plan, blocks = recorded.plan, pairs_of(recorded.done, cell)
    if _is_baseline(plan):
        failed = any(block.failure for block in blocks)
        return [] if failed else [relative(block) for block in blocks if _is_sound(block)]
    if not isinstance(plan.design, RunDesign) or plan.design.quick:
        return []
    every = [run_of(plan, block, each, {}) for block in recorded.done for each in block.trials]
    runs = [run for run in every if run.cell.key == cell.key]
    rates = [] if any(run.failure for run in runs) else [rate(run) for run in runs]
    return [math.log(each.steps_per_second) for each in rates if each.steps_per_second]


def compared(now: Sequence[BlockRecord], then: Stored, rule: Rule) -> Stage:
    """Compare new rates with stored ones, relative to the kernel if the stored ones are."""
    beside = then.beside_kernel
    rates = [relative(block) if beside else _rate(block.trials[-1]) for block in now]
    return slowdown.against(rates, then.rates, _allowing(then, rule))


def _allowing(then: Stored, rule: Rule) -> Rule:
    """The rule for a stored cell. Without a kernel, the machine may have drifted."""
    return rule if then.beside_kernel else granting_drift(rule)


def granting_drift(rule: Rule) -> Rule:
    """Return the rule for rates measured hours apart: a slowdown up to ``DRIFT`` does not count."""
    left = 1 - DRIFT
    return msgspec.structs.replace(
        rule, margin=1 - (1 - rule.margin) * left, tolerance=1 - (1 - rule.tolerance) * left
    )


def relative(block: BlockRecord) -> float:
    """Logarithm of the cell's rate over the kernel's, of slices that are valid in both."""
    kernel, cell = trial_of(block, KERNEL_ARM), block.trials[-1]
    return _rate(cell, kernel) - _rate(kernel, cell)


def _rate(trial: TrialRecord, *others: TrialRecord) -> float:
    """Logarithm of steps per second, over the slices that are valid in all these trials."""
    kept = _kept(trial, *others)
    return math.log(sum(steps for steps, _ in kept) * 1e9 / sum(ns for _, ns in kept))


def _kept(trial: TrialRecord, *others: TrialRecord) -> list[tuple[float, float]]:
    """The steps and nanoseconds of the slices that are valid in all these trials."""
    windows = trial.measured
    return slowdown.counting(windows.steps, windows.ns, disturbed(trial, *others))


def _is_sound(block: BlockRecord) -> bool:
    """Are these the kernel and a cell, does each slice take time, and do both make steps? A slice
    of a slow environment may only reset."""
    kernel, cell = block.trials[0], block.trials[-1]
    slices = [trial.measured for trial in block.trials]
    whole = all(
        len(each.steps) == len(each.ns) > 0 and min(each.ns) > 0 and min(each.steps) >= 0
        for each in slices
    )
    if kernel.arm != KERNEL_ARM or not whole:
        return False
    both = (_kept(kernel, cell), _kept(cell, kernel))
    return all(sum(steps for steps, _ in kept) > 0 for kept in both)
