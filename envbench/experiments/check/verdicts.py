"""Pure: from the pairs of a cell to its verdict. The rule itself is ``decisions.slowdown``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from envbench.backends import is_built_in
from envbench.decisions import slowdown
from envbench.decisions.slowdown import Slices, Stage, Verdict
from envbench.engine.experiment import Facts
from envbench.experiments.pairs import cell_of, disturbed, trial_of
from envbench.model import (
    Behaviour,
    BlockRecord,
    Cell,
    Failure,
    PairsDesign,
    Plan,
    Rule,
    TrialRecord,
    Windows,
)

FIRST, SECOND = 1, 2
BASELINE, CANDIDATE = "baseline", "candidate"
# For each quantity besides the steps: the smallest difference of a pair that matters at all.
FLOORS = {"start-up": 0.05e9, "first step": 0.1e9, "reset": 1e3, "memory": 16 * 2**20}
ENDS = "ends"
RETURNED = ("observations", "rewards", ENDS, ENDS)  # by a step, terminated and truncated apart
WORSE: tuple[Verdict, ...] = ("BROKEN", "REGRESSION", "INCONCLUSIVE", "IMPROVEMENT", "PASS")


@dataclass(frozen=True, kw_only=True)
class SameResults:
    """Do both arms return the same?"""

    compared: int = 0  # slices whose last results were compared between the arms
    different: int = 0  # of these
    parts: int = 0  # after the slices of a pair, in which the results of each step were compared
    parts_different: int = 0
    each_step: int = 0  # steps of an arm in all these parts
    differing: list[str] = field(default_factory=list)  # which of the results differ
    uncompared: str = ""  # why nothing was compared, if both arms have one engine


@dataclass(frozen=True, kw_only=True)
class CellVerdict(SameResults):
    """Says whether one cell got slower, and why.

    ``stages`` has the findings per stage and quantity: the steps' usual pace, the time of all
    steps, and the costs (start-up, first step, reset, memory).
    """

    cell: Cell
    verdict: Verdict
    tolerance: float = 0.0  # the slowdown of the usual pace that a PASS rules out
    stages: list[dict[str, Stage]] = field(default_factory=list)
    slower: list[str] = field(default_factory=list)  # quantities that decided a REGRESSION
    failures: dict[str, Failure] = field(default_factory=dict)  # by arm
    invalid: dict[str, int] = field(default_factory=dict)  # slices, by what disturbed them
    steps: int = 0  # of both arms, in all slices
    resets: int = 0  # episodes that ended in them
    ended: dict[str, int] = field(default_factory=dict)  # of these, by arm
    engines: list[str] = field(default_factory=list)  # baseline's, candidate's, if they differ


def verdict(
    plan: Plan, done: Sequence[BlockRecord], cell: Cell, facts: Facts | None = None
) -> CellVerdict:
    """Judge a cell. A stage counts when all its pairs are made. ``facts`` of adapters, by hash."""
    own = pairs_of(done, cell)
    trials = [trial for block in own for trial in block.trials]
    failures = {trial.arm: trial.failure for trial in trials if trial.failure}
    if failures:
        return CellVerdict(cell=cell, verdict="BROKEN", failures=failures)
    first = whole_stage(plan, own, FIRST)
    if first is None:
        return CellVerdict(cell=cell, verdict="INCONCLUSIVE")
    second = whole_stage(plan, own, SECOND)
    decided, slower = slowdown.of_cell(first, second)
    same = same_results(own, facts or {}, unread(plan, cell))
    ended = {
        arm: sum(sum(trial.measured.resets) for trial in trials if trial.arm == arm)
        for arm in (BASELINE, CANDIDATE)
    }
    reasons = (reason for trial in trials for reason in trial.measured.invalid.values())
    return CellVerdict(
        cell=cell,
        verdict=decided,
        tolerance=_rule(plan).tolerance,
        stages=[first, second] if second else [first],
        slower=slower,
        invalid=dict(Counter(reason.partition(" ")[0] for reason in reasons)),
        steps=sum(sum(trial.measured.steps) for trial in trials),
        resets=sum(ended.values()),
        ended=ended,
        **vars(same),
        engines=_engines(trials, facts or {}),
    )


def whole_stage(plan: Plan, own: Sequence[BlockRecord], stage: int) -> dict[str, Stage] | None:
    """The findings of a stage of a cell; None while a pair is missing."""
    blocks = [block for block in own if block.stage == stage]
    return findings(plan, blocks) if len(blocks) == plan.design_as(PairsDesign).pairs else None


def overall(verdicts: Sequence[CellVerdict]) -> Verdict:
    """Return the worst verdict of all cells."""
    return min((each.verdict for each in verdicts), key=WORSE.index)


def pairs_of(done: Sequence[BlockRecord], cell: Cell) -> list[BlockRecord]:
    return [block for block in done if cell_of(block).key == cell.key]


def _rule(plan: Plan) -> Rule:
    return plan.design_as(PairsDesign).rule or Rule()


def findings(plan: Plan, blocks: Sequence[BlockRecord]) -> dict[str, Stage]:
    """Judge a stage's pairs per quantity: steps, and those costs that are known."""
    if len(blocks) < 2 or any(block.failure for block in blocks):
        return {}
    rule = _rule(plan)
    quantities = slowdown.step_stages([slices_of(block) for block in blocks], rule)
    for name, floor in FLOORS.items():
        costs = [
            (_cost(trial_of(block, BASELINE), name), _cost(trial_of(block, CANDIDATE), name))
            for block in blocks
        ]
        known = [(a, b) for a, b in costs if a and b]
        if len(known) == len(blocks):
            quantities[name] = slowdown.cost_stage(
                known, floor, rule.cost_tolerance, rule.false_alarm
            )
    return quantities


def unread(plan: Plan, cell: Cell) -> str:
    """Why an adapter does not return the results of a slice."""
    if not is_built_in(cell.backend):
        return "its adapter does not return them (`last`, docs/backends.md)"
    device = plan.behaviour.get(cell.backend, Behaviour()).steps_in == "device"
    return "they would have to be copied from the device" if device else "they arrive in any order"


def same_results(own: Sequence[BlockRecord], facts: Facts, why_unread: str = "") -> SameResults:
    """Compare the last results of each slice, and those of each step of the part after them.

    Both arms have the same seed and get the same actions, and their k-th slices end after as many
    steps, unless one arm is so much slower that it could not catch up before the first slice. An
    episode may also have ended at another place in between. Two versions of an engine need not
    agree to the last bit: if a library reports a version, nothing is compared with another one.
    """
    made: Counter[str] = Counter()
    found: set[str] = set()
    for block in own:
        a, b = trial_of(block, BASELINE), trial_of(block, CANDIDATE)
        aligned = sum(a.warmup.calls) == sum(b.warmup.calls) and _engine(a, facts) == _engine(
            b, facts
        )
        if aligned and a.results and b.results:
            slices = list(zip(a.measured.resets, b.measured.resets, strict=True))
            differing = [_differing(*both) for both in zip(a.results, b.results, strict=True)]
            for here, (ends, others) in zip(differing, slices, strict=False):
                here.update({ENDS} if ends != others else set())
            different = [bool(here) for here in differing]
            after = different[len(slices) :]
            made["compared"] += len(slices)
            made["different"] += sum(different[: len(slices)])
            made["parts"] += len(after)
            made["parts_different"] += sum(after)
            made["each_step"] += sum(a.short_calls.steps) if after else 0
            found.update(*differing)
    read = any(trial.results for block in own for trial in block.trials)
    why = "one arm could not make as many steps as the other" if read else why_unread
    return SameResults(
        **made,
        differing=[each for each in dict.fromkeys(RETURNED) if each in found],
        uncompared="" if made["compared"] else why,
    )


def _differing(one: list[int] | int, other: list[int] | int) -> set[str]:
    """Which results of a slice's last step differ. Older records have one checksum for all."""
    if isinstance(one, int) or isinstance(other, int):
        return set() if one == other else {*RETURNED}
    both = zip(RETURNED, one, other, strict=False)
    return {name for name, mine, its in both if mine != its}


def _engines(trials: Iterable[TrialRecord], facts: Facts) -> list[str]:
    """The engines of the arms, the baseline's first; empty if they are the same."""
    found = {trial.arm: str(_engine(trial, facts)) for trial in trials}
    both = [found.get(arm, "") for arm in (BASELINE, CANDIDATE)]
    return both if len({*both}) > 1 else []


def _engine(trial: TrialRecord, facts: Facts) -> Any:
    """The engine that a trial reports, with its version; None if it does not say."""
    work = facts.get(trial.facts, {}).get("work")
    return work.get("engine") if isinstance(work, dict) else None


def slices_of(block: BlockRecord) -> Slices:
    """Times per step of both arms, and which slices the machine disturbed in either."""
    a, b = trial_of(block, BASELINE), trial_of(block, CANDIDATE)
    return _times_per_step(a.measured), _times_per_step(b.measured), disturbed(a, b)


def _times_per_step(windows: Windows) -> list[float]:
    return [ns / max(1, steps) for ns, steps in zip(windows.ns, windows.steps, strict=True)]


def _cost(trial: TrialRecord, name: str) -> float | None:
    """Nanoseconds, or bytes of memory. Time in which the worker was stopped does not count."""
    if name == "memory":
        return trial.peak_memory_bytes
    if name == "reset":
        resets = sum(trial.resets.resets)
        return sum(trial.resets.ns) / resets if resets > 0 else None
    if trial.times is None:
        return None
    parts = ["import_ns", "build_ns"] if name == "start-up" else ["first_step_ns"]
    running = (getattr(trial.times, part) - trial.stopped_ns.get(part, 0) for part in parts)
    return float(max(1, sum(running)))
