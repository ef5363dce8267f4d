"""``check``: pairs of baseline and candidate in rounds, one pair per cell and round; then verdicts.

``remaining`` keeps the guarantees of the rule (``slowdown``). The number of pairs (``Size``) is
fixed in the plan. No verdict is formed before the first stage of every cell is complete. A cell
that raised an alarm is measured again by as many fresh pairs, with seeds of their own and the arms
exchanged; its second stage decides its verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from envbench import backends, families
from envbench.decisions import slowdown
from envbench.decisions.slowdown import FEWEST_PAIRS, Slices, Stage, Verdict
from envbench.engine.availability import Arm, Say
from envbench.engine.experiment import Done, Facts, Site, one_per_arm
from envbench.engine.request import CellRequest, Chosen, choose
from envbench.engine.target import Target
from envbench.errors import UsageError
from envbench.experiments import pairs
from envbench.experiments.check import sources
from envbench.experiments.check.sources import WORKING_TREE, Source
from envbench.experiments.pairs import (
    DEFAULT_PAIRS,
    PairsExperiment,
    cell_of,
    disturbed,
    pair_seconds,
    trial_of,
)
from envbench.model import (
    MOST_ROUNDS,
    Block,
    BlockRecord,
    Cell,
    Failure,
    PairsDesign,
    Plan,
    Rule,
    TrialRecord,
    Windows,
)

MOST_CELLS = 12
DEFAULT_CELLS = ("for-loop/1", "envpool-sync/4", "envpool-async/4")  # of the usual families
PRECISE = 0.02
MOST_PRECISE_PAIRS = 130
# Standard deviation between pairs by ``steps_in``, measured on a shared machine of two cores
# (docs/check.md). They are used while the spread on this machine is not known yet.
SPREADS = {"one-thread": 0.012, "pool": 0.022, "device": 0.022, "processes": 0.05}
FIRST, SECOND = 1, 2
BASELINE, CANDIDATE = "baseline", "candidate"
# For each quantity besides the steps: the smallest difference of a pair that matters at all.
FLOORS = {"start-up": 0.05e9, "first step": 0.1e9, "reset": 1e3, "memory": 16 * 2**20}
WORSE: tuple[Verdict, ...] = ("BROKEN", "REGRESSION", "INCONCLUSIVE", "IMPROVEMENT", "PASS")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What was decided before anything ran: pairs per stage, and seconds of stage one in all."""

    pairs: int
    seconds: float
    detectable: dict[str, float]  # by a cell's key: the slowdown that would be found


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How many pairs: a given number, what fits ``budget`` seconds, or enough for ``PRECISE``."""

    pairs: int | None = None
    budget: float | None = None
    precise: bool = False

    def of(self, targets: Sequence[Target], rule: Rule) -> Sizes:
        """Decide the sizes for these cells. ``UsageError`` if the rule or the budget forbids it."""
        spreads = {each.cell.key: SPREADS[each.backend.behaviour.steps_in] for each in targets}
        pairs, round_s = self.pairs or DEFAULT_PAIRS, len(targets) * pair_seconds()
        if self.precise:
            pairs = precise_pairs(max(spreads.values()), rule)
        elif self.budget is not None:
            pairs = min(int(self.budget / round_s), MOST_ROUNDS)
            if pairs < FEWEST_PAIRS:
                raise UsageError(
                    f"--budget {self.budget:.0f}: {FEWEST_PAIRS} pairs of {len(targets)} cells "
                    f"take about {FEWEST_PAIRS * round_s:.0f} s.",
                    hint="Give --budget at least that, or name fewer cells.",
                )
        return Sizes(
            pairs=pairs,
            seconds=pairs * round_s,
            detectable={k: slowdown.detectable(each, pairs, rule) for k, each in spreads.items()},
        )


def precise_pairs(spread: float, rule: Rule) -> int:
    """Enough pairs to find ``PRECISE``, at most ``MOST_PRECISE_PAIRS``."""
    if rule.margin >= PRECISE:
        raise UsageError(
            f"--precise finds a slowdown of {100 * PRECISE:.0f} %, which does not count with "
            f"--margin {rule.margin:g}.",
            hint="Give a smaller --margin, or --pairs.",
        )
    return slowdown.pairs_for(PRECISE, spread, rule, MOST_PRECISE_PAIRS)


@dataclass(frozen=True, kw_only=True)
class CellVerdict:
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
    compared: int = 0  # slices whose last results were compared between the arms
    different: int = 0  # of these
    engines: list[str] = field(default_factory=list)  # baseline's, candidate's, if they differ


@dataclass(frozen=True, kw_only=True)
class CheckExperiment(PairsExperiment[list[CellVerdict]]):
    """Is the candidate slower than the baseline? Two stages of fixed size."""

    cells: CellRequest = CellRequest()
    baseline: Source = Source()
    candidate: Source = Source()
    rule: Rule = Rule()
    size: Size = field(default_factory=Size)

    name: ClassVar[str] = "check"
    own_runtimes: ClassVar[bool] = False
    watches_code: ClassVar[bool] = True

    @property
    def arm_sources(self) -> dict[str, Source]:
        """The source of each arm. If only a baseline's git ref is named, the candidate is the
        working tree, installed as the baseline is."""
        candidate = self.candidate
        if self.baseline.ref and candidate == Source():
            candidate = Source(ref=WORKING_TREE)
        return {BASELINE: self.baseline, CANDIDATE: candidate}

    def choose(self, site: Site) -> Chosen:
        return cells_to_check(self.cells, site)

    def design(self, targets: Sequence[Target], site: Site) -> PairsDesign:
        return pairs.design(self.size.of(targets, self.rule).pairs, rule=self.rule)

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> list[Arm]:
        both = [sources.prepare(name, source) for name, source in self.arm_sources.items()]
        return [sources.make(each, target, say) for target in one_per_arm(targets) for each in both]

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        return f"stage {block.stage}, {super().place(plan, block)}"

    def remaining(self, plan: Plan, done: Done) -> list[tuple[int, int, Cell]]:
        """(stage, number, cell) of each pair. Stage two begins when stage one is complete."""
        if first := pairs.rounds(plan, plan.cells, done, FIRST):
            return [(FIRST, *each) for each in first]
        again = [
            cell
            for cell in plan.cells
            if slowdown.alarms(_whole_stage(plan, pairs_of(done, cell), FIRST) or {})
        ]
        return [(SECOND, *each) for each in pairs.rounds(plan, again, done, SECOND)]

    def block(self, plan: Plan, todo: tuple[int, int, Cell]) -> Block:
        stage, number, cell = todo
        arms = ((BASELINE, cell), (CANDIDATE, cell))
        return pairs.pair(plan, arms, number=number, stage=stage, exchanged=stage == SECOND)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> list[CellVerdict]:
        """Return a verdict per cell, in the plan's order."""
        return [verdict(plan, done, cell, facts) for cell in plan.cells]


def cells_to_check(request: CellRequest, site: Site) -> Chosen:
    """Return the named cells, or those of the profile; at most ``MOST_CELLS``."""
    profile, cpus = site.profile, site.fingerprint.usable_cpus
    if request.family or request.backends or request.numenv or request.task:
        return not_too_many(choose(request, profile, cpus))
    targets: list[Target] = []
    notes: dict[str, None] = {}
    usual = [each.name for each in families.registry().values() if each.usual]
    for text in profile.check or [f"{name}/{cell}" for name in usual for cell in DEFAULT_CELLS]:
        family, backend, numenv = text.split("/")
        if not profile.check and family not in backends.get(backend).families:
            continue
        one = msgspec.structs.replace(
            request, family=family, backends=[backend], numenv=[int(numenv)]
        )
        chosen = choose(one, profile, cpus)
        targets += chosen.targets
        notes |= dict.fromkeys(chosen.notes)
    return Chosen(targets=targets, notes=[*notes])


def not_too_many(chosen: Chosen) -> Chosen:
    """Return the same cells; ``UsageError`` if there are too many."""
    if len(chosen.targets) > MOST_CELLS:
        raise UsageError(
            f"a check compares at most {MOST_CELLS} cells, and these are {len(chosen.targets)}.",
            hint="Name fewer with --env, --backend and --numenv.",
        )
    return chosen


def verdict(
    plan: Plan, done: Sequence[BlockRecord], cell: Cell, facts: Facts | None = None
) -> CellVerdict:
    """Judge a cell. A stage counts when all its pairs are made. ``facts`` of adapters, by hash."""
    own = pairs_of(done, cell)
    trials = [trial for block in own for trial in block.trials]
    failures = {trial.arm: trial.failure for trial in trials if trial.failure}
    if failures:
        return CellVerdict(cell=cell, verdict="BROKEN", failures=failures)
    first = _whole_stage(plan, own, FIRST)
    if first is None:
        return CellVerdict(cell=cell, verdict="INCONCLUSIVE")
    second = _whole_stage(plan, own, SECOND)
    decided, slower = slowdown.of_cell(first, second)
    compared, different = same_results(own, facts or {})
    reasons = (reason for trial in trials for reason in trial.measured.invalid.values())
    return CellVerdict(
        cell=cell,
        verdict=decided,
        tolerance=_rule(plan).tolerance,
        stages=[first, second] if second else [first],
        slower=slower,
        invalid=dict(Counter(reason.partition(" ")[0] for reason in reasons)),
        steps=sum(sum(trial.measured.steps) for trial in trials),
        resets=sum(sum(trial.measured.resets) for trial in trials),
        compared=compared,
        different=different,
        engines=_engines(trials, facts or {}),
    )


def _whole_stage(plan: Plan, own: Sequence[BlockRecord], stage: int) -> dict[str, Stage] | None:
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


def same_results(own: Sequence[BlockRecord], facts: Facts) -> tuple[int, int]:
    """How many slices' last results are compared between the arms, and how many of them differ.

    Both arms have the same seed and get the same actions, and their k-th slices end after as many
    steps, unless one arm is so much slower that it could not catch up before the first slice. An
    episode may also have ended at another place in between. Two versions of an engine need not
    agree to the last bit: if a library reports a version, nothing is compared with another one.
    """
    compared = different = 0
    for block in own:
        a, b = trial_of(block, BASELINE), trial_of(block, CANDIDATE)
        aligned = sum(a.warmup.calls) == sum(b.warmup.calls) and _engine(a, facts) == _engine(
            b, facts
        )
        if aligned and a.results and b.results:
            both = zip(a.results, b.results, a.measured.resets, b.measured.resets, strict=True)
            same = [one == other and ends == others for one, other, ends, others in both]
            compared, different = compared + len(same), different + same.count(False)
    return compared, different


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
