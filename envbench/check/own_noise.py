"""How much a machine differs from itself: pairs of equal workers that step a fixed kernel in turn.

What ``envbench doctor`` measures in a few seconds, and what says how small a change a default check
can see here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envbench.check import regression
from envbench.check.checking import usable_cores
from envbench.check.gauging import kernel_arm, kernel_job
from envbench.check.pairing import step_in_turn
from envbench.check.procedure import BLOCKS, DEFAULT_PAIRS, SLICE_S, WINDOW_S
from envbench.check.regression import Rule, Stage
from envbench.errors import EnvbenchError
from envbench.model import Protocol

PAIRS = 6
WARM_UP = (0.2, 0.5)


@dataclass(frozen=True, kw_only=True)
class OwnNoise:
    """The spread of pairs of equals, with a 95 % interval (so few pairs say little about it), and
    the slowdowns that a default check would find with each of the three."""

    stage: Stage
    spreads: tuple[float, float]
    detectable: float
    detectables: tuple[float, float]


def measure(rule: Rule, on_pair: Callable[[int, int], None]) -> OwnNoise:
    """Slices as a check's, some four seconds a pair. ``on_pair``: how many of how many are done."""
    effects = []
    for number in range(PAIRS):
        effects.append(_pair(number))
        on_pair(number + 1, PAIRS)
    found = regression.stage(effects, rule)
    low, high = regression.spread_interval(found.spread, PAIRS)
    return OwnNoise(
        stage=found,
        spreads=(low, high),
        detectable=regression.detectable(found.spread, DEFAULT_PAIRS, rule),
        detectables=(
            regression.detectable(low, DEFAULT_PAIRS, rule),
            regression.detectable(high, DEFAULT_PAIRS, rule),
        ),
    )


def _pair(number: int) -> float:
    cores = usable_cores()
    least, most = WARM_UP
    protocol = Protocol(window_s=WINDOW_S, warmup_min_s=least, warmup_max_s=most)
    core = [cores[number % len(cores)]] if cores else []
    job = kernel_job(f"doctor-{number}", protocol, core)
    arms = kernel_arm("a"), kernel_arm("b")
    replies = step_in_turn((job, job), arms, regression.turns(BLOCKS, number), SLICE_S)
    for reply in replies:
        if reply.failure is not None:
            raise EnvbenchError(
                f"the reference kernel failed: {reply.failure.message}", hint=reply.failure.hint
            )
    ours, theirs = (reply.measured.ns for reply in replies)
    found = regression.usual_effect(ours, theirs)
    if found is None:
        raise EnvbenchError(
            "the reference kernel made no slice.", hint="Try again; and look at what else runs."
        )
    return found
