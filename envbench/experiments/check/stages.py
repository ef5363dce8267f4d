"""``check``: pairs of baseline and candidate in rounds, one pair per cell and round; then verdicts.

``remaining`` keeps the guarantees of the rule (``slowdown``). The number of pairs (``Size``) is
fixed in the plan. No verdict is formed before the first stage of every cell is complete. A cell
that raised an alarm is measured again by as many fresh pairs, with seeds of their own and the arms
exchanged; its second stage decides its verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from envbench.decisions import slowdown
from envbench.engine.availability import Arm, Say
from envbench.engine.experiment import Done, Facts, Site, one_per_arm
from envbench.engine.request import CellRequest, Chosen
from envbench.engine.target import Target
from envbench.experiments import pairs
from envbench.experiments.check import sources
from envbench.experiments.check.cells import Size, cells_to_check
from envbench.experiments.check.sources import WORKING_TREE, Source
from envbench.experiments.check.verdicts import (
    BASELINE,
    CANDIDATE,
    FIRST,
    SECOND,
    CellVerdict,
    pairs_of,
    verdict,
    whole_stage,
)
from envbench.experiments.pairs import PairsExperiment
from envbench.model import Block, BlockRecord, Cell, PairsDesign, Plan, Rule


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
            if slowdown.alarms(whole_stage(plan, pairs_of(done, cell), FIRST) or {})
        ]
        return [(SECOND, *each) for each in pairs.rounds(plan, again, done, SECOND)]

    def block(self, plan: Plan, todo: tuple[int, int, Cell]) -> Block:
        stage, number, cell = todo
        arms = ((BASELINE, cell), (CANDIDATE, cell))
        return pairs.pair(plan, arms, number=number, stage=stage, exchanged=stage == SECOND)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> list[CellVerdict]:
        """Return a verdict per cell, in the plan's order."""
        return [verdict(plan, done, cell, facts) for cell in plan.cells]
