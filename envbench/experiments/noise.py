"""``doctor``'s own experiment: how much a machine differs from itself.

Pairs of equal workers step the reference kernel alternately. Their spread says how small a change a
default check can see here. This is the smallest experiment there is: it shows what one consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envbench.engine import pairs
from envbench.engine.experiment import ArmsToAsk, Done, Experiment, Facts, Say, Site
from envbench.engine.pairs import DEFAULT_PAIRS, design_of, side
from envbench.engine.preflight import kernel_arm
from envbench.engine.request import Chosen, Target, kernel_target
from envbench.model import Block, BlockRecord, Cell, PairsDesign, Plan, Rule
from envbench.stats import regression
from envbench.stats.regression import Stage

PAIRS = 6
WARM_UP = (0.2, 0.5)
LONGEST_PAUSE_S = 600.0
A, B = "a", "b"


@dataclass(frozen=True, kw_only=True)
class OwnNoise:
    """The spread of pairs of equals with its 95 % interval (so few pairs say little about it), and
    the slowdowns that a default check would find with each of the three."""

    stage: Stage
    spreads: tuple[float, float]
    detectable: float
    detectables: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class NoiseExperiment(Experiment[OwnNoise | None]):
    """Six pairs of equals."""

    rule: Rule = Rule()

    name: ClassVar[str] = "noise"
    unit: ClassVar[str] = "pair of processes"
    longest_pause_s: ClassVar[float | None] = LONGEST_PAUSE_S

    def choose(self, site: Site) -> Chosen:
        return Chosen(targets=[kernel_target(site.profile.name)])

    def design(self, targets: Sequence[Target]) -> PairsDesign:
        return pairs.design(PAIRS, WARM_UP, rule=self.rule)

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> ArmsToAsk:
        return ArmsToAsk(of=[], known=[(kernel_arm(name), targets[0].cell) for name in (A, B)])

    def remaining(self, plan: Plan, done: Done) -> list[tuple[int, Cell]]:
        return pairs.rounds(plan, plan.cells, done)

    def block(self, plan: Plan, todo: tuple[int, Cell]) -> Block:
        number, cell = todo
        return pairs.pair(plan, ((A, cell), (B, cell)), number=number)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> OwnNoise | None:
        """None under two pairs that have a figure."""
        found = (_effect(block) for block in done)
        effects = [effect for effect in found if effect is not None]
        if len(effects) < 2:
            return None
        rule = design_of(plan).rule or Rule()
        stage = regression.stage(effects, rule)
        low, high = regression.spread_interval(stage.spread, len(effects))

        def detectable(spread: float) -> float:
            return regression.detectable(spread, DEFAULT_PAIRS, rule)

        return OwnNoise(
            stage=stage,
            spreads=(low, high),
            detectable=detectable(stage.spread),
            detectables=(detectable(low), detectable(high)),
        )


def _effect(block: BlockRecord) -> float | None:
    if block.failure is not None:
        return None
    return regression.usual_effect(side(block, A).measured.ns, side(block, B).measured.ns)
