"""How much a machine differs from itself: pairs of equal workers that step a fixed kernel in turn.

What ``envbench doctor`` measures in a few seconds, and what says how small a change a default check
can see here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from envbench import regression
from envbench.check_plan import DEFAULT_PAIRS
from envbench.errors import EnvbenchError
from envbench.gauging import kernel_arm, kernel_job
from envbench.model import Protocol
from envbench.pairing import step_in_turn
from envbench.regression import Rule, Stage

PAIRS, BLOCKS, SLICE_S = 6, 3, 0.05


@dataclass(frozen=True, kw_only=True)
class OwnNoise:
    """The spread of pairs of equals, and the slowdown that a default check would find with it."""

    stage: Stage
    detectable: float


def measure(rule: Rule, on_pair: Callable[[int, int], None]) -> OwnNoise:
    """About two seconds a pair. ``on_pair`` is told how many of how many are done."""
    effects = []
    for number in range(PAIRS):
        effects.append(_pair(number))
        on_pair(number + 1, PAIRS)
    found = regression.stage(effects, rule)
    return OwnNoise(
        stage=found, detectable=regression.detectable(found.spread, DEFAULT_PAIRS, rule)
    )


def _pair(number: int) -> float:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    protocol = Protocol(window_s=SLICE_S, warmup_min_s=0.2, warmup_max_s=0.5)
    core = [cores[number % len(cores)]] if cores else []
    job = kernel_job(f"doctor-{number}", protocol, core)
    arms = kernel_arm("a"), kernel_arm("b")
    replies = step_in_turn((job, job), arms, regression.turns(BLOCKS, number))
    for reply in replies:
        if reply.failure is not None:
            raise EnvbenchError(
                f"the reference kernel failed: {reply.failure.message}", hint=reply.failure.hint
            )
    ours, theirs = (reply.measured.ns for reply in replies)
    return regression.usual_effect(ours, theirs) or 0.0
