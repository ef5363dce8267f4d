"""``doctor``'s own experiment: how noisy is this machine?

Pairs of equal workers step the reference kernel alternately. Their spread shows how small a change
a default check can detect here. This is the smallest experiment: read it first to write another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envbench.decisions import slowdown
from envbench.decisions.slowdown import Stage
from envbench.engine.availability import Arm, Say, kernel_arm
from envbench.engine.experiment import Done, Facts, Site
from envbench.engine.request import Chosen
from envbench.engine.target import Target, kernel_target
from envbench.experiments import pairs
from envbench.experiments.pairs import DEFAULT_PAIRS, PairsExperiment, trial_of
from envbench.model import Block, Cell, PairsDesign, Plan, Rule

PAIRS = 6
WARM_UP = (0.2, 0.5)
A, B = "a", "b"


@dataclass(frozen=True, kw_only=True)
class OwnNoise:
    """Holds the spread between pairs of equal workers with its 95 % interval, which is wide because
    there are few pairs. ``detectable`` is the slowdown that a default check would find with this
    spread; its interval is for the ends of the spread's interval."""

    stage: Stage
    spread_interval: tuple[float, float]
    detectable: float
    detectable_interval: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class NoiseExperiment(PairsExperiment[OwnNoise | None]):
    """Steps six pairs of equal workers, which differ by the machine's noise alone."""

    name: ClassVar[str] = "noise"
    longest_pause_s: ClassVar[float | None] = 600.0

    def choose(self, site: Site) -> Chosen:
        return Chosen(targets=[kernel_target(site.profile.name)])

    def design(self, targets: Sequence[Target], site: Site) -> PairsDesign:
        return pairs.design(PAIRS, WARM_UP, rule=Rule())

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> list[Arm]:
        return [kernel_arm(name, targets[0]) for name in (A, B)]

    def block(self, plan: Plan, todo: tuple[int, Cell]) -> Block:
        number, cell = todo
        return pairs.pair(plan, ((A, cell), (B, cell)), number=number)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> OwnNoise | None:
        """None with fewer than two pairs that have an effect."""
        trials = [(trial_of(each, A), trial_of(each, B)) for each in done if each.failure is None]
        usual = [slowdown.usual_effect(a.measured.ns, b.measured.ns) for a, b in trials]
        effects = [effect for effect in usual if effect is not None]
        if len(effects) < 2:
            return None
        rule = plan.design_as(PairsDesign).rule or Rule()
        stage = slowdown.stage(effects, rule)
        low, high = slowdown.spread_interval(stage.spread, len(effects))
        found, least, most = (
            slowdown.detectable(spread, DEFAULT_PAIRS, rule) for spread in (stage.spread, low, high)
        )
        return OwnNoise(
            stage=stage,
            spread_interval=(low, high),
            detectable=found,
            detectable_interval=(least, most),
        )
