"""Is the candidate slower than the baseline? The decision rule of ``envbench check``. Pure.

docs/check.md explains pairs and stages, and gives the reasons. A pair has two effects, each
log(candidate's rate / baseline's rate): of the usual pace (``usual_effect``) and of all slices
(``effect``). Pairs are independent, so a t-test on their effects decides; nothing is assumed about
slices.

A stage of n pairs, g of them trimmed at either end, has the bounds θ ∓ t·e. θ is the mean effect
of the other pairs, e its standard error (``trimmed``), and t Student's quantile at
1 − ``false_alarm`` with n − 2g − 1 degrees of freedom:

* upper bound under log(1 − margin): an alarm, the candidate is slower by more than the margin;
* lower bound over log(1 + margin): the candidate is faster by more than the margin;
* else, lower bound over log(1 − tolerance): PASS, a slowdown of the tolerance is ruled out;
* else INCONCLUSIVE.

An alarm counts if stage two repeats it, with as many fresh pairs and the arms exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, stdev
from typing import Literal

import msgspec

from envbench.model import Rule
from envbench.stats.intervals import TWO_SIDED, t_quantile, welch

Verdict = Literal["PASS", "REGRESSION", "IMPROVEMENT", "INCONCLUSIVE", "BROKEN"]
Figures = Sequence[float]
# Of one pair: times per step of baseline and candidate, slice by slice, and which are invalid.
Slices = tuple[Figures, Figures, Sequence[bool]]
POWER = 0.975  # per stage; both stages find a slowdown in 95 % of cases
FEWEST_PAIRS = 5
STEPS, ALL_STEPS = "steps", "all steps"  # two of the quantities
LOOSELY = 4  # a PASS rules out a slowdown of all steps by this many tolerances
COSTS_LOOSELY = 10  # costs alarm falsely this many times as often as the rule allows for steps


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The result of one stage for a quantity that is better when greater.

    ``ratio`` is candidate over baseline, ``interval`` its 95 % t-interval; ``low`` and ``high`` are
    the deciding bounds. ``spread`` is the (trimmed) standard deviation of a pair. ``detectable`` is
    the smallest slowdown that a stage of this size and spread finds in 97.5 % of cases.
    """

    pairs: int
    spread: float
    ratio: float
    interval: tuple[float, float]
    low: float
    high: float
    detectable: float
    verdict: Verdict


Stages = Mapping[str, Stage]  # by quantity


def stage(effects: Figures, rule: Rule) -> Stage:
    """Return the verdict on the effects of at least two pairs (logarithms of ratios)."""
    return _stage(len(effects), *trimmed(effects), rule)


def _stage(count: int, mean: float, error: float, degrees: float, rule: Rule) -> Stage:
    shown = t_quantile(TWO_SIDED, degrees) * error
    bound = t_quantile(1 - rule.false_alarm, degrees) * error
    return Stage(
        pairs=count,
        spread=error * math.sqrt(count),
        ratio=math.exp(mean),
        interval=(math.exp(mean - shown), math.exp(mean + shown)),
        low=math.exp(mean - bound),
        high=math.exp(mean + bound),
        detectable=_detectable(error, degrees, rule),
        verdict=_verdict(mean - bound, mean + bound, rule),
    )


def trimmed(effects: Figures) -> tuple[float, float, int]:
    """Return the trimmed mean, standard error and degrees of freedom (Yuen, Biometrika 61, 1974).

    Fewer than ten values give the plain mean, s/√n and n - 1.
    """
    count = len(effects)
    cut = count // 10
    kept = sorted(effects)[cut : count - cut]
    winsorized = [*[kept[0]] * cut, *kept, *[kept[-1]] * cut]
    degrees = len(kept) - 1
    error = stdev(winsorized) * math.sqrt((count - 1) / (len(kept) * degrees))
    return fmean(kept), error, degrees


def against(now: Figures, then: Figures, rule: Rule) -> Stage:
    """Judge the logarithms of new and stored rates, each relative to the reference kernel.

    Welch's two-sample t-interval. It includes the noise within each session, but not a drift that
    the kernel does not follow. So it is advice, not proof.
    """
    error, degrees = welch([now, then])
    return _stage(len(now), fmean(now) - fmean(then), error, degrees, rule)


def _verdict(low: float, high: float, rule: Rule) -> Verdict:
    if high < math.log1p(-rule.margin):
        return "REGRESSION"
    if low > math.log1p(rule.margin):
        return "IMPROVEMENT"
    return "PASS" if low > math.log1p(-rule.tolerance) else "INCONCLUSIVE"


def detectable(spread: float, pairs: int, rule: Rule) -> float:
    """Return the smallest slowdown, as a share, that a stage finds in 97.5 % of cases.

    From the noncentral t distribution (e.g. Montgomery, Applied Statistics, section 9-2.3).
    """
    return _detectable(spread / math.sqrt(pairs), pairs - 2 * (pairs // 10) - 1, rule)


def _detectable(error: float, degrees: float, rule: Rule) -> float:
    needed = _noncentrality(rule.false_alarm, degrees) * error
    return 1 - math.exp(math.log1p(-rule.margin) - needed)


def pairs_for(slowdown: float, spread: float, rule: Rule, most: int = 200) -> int:
    """Return the fewest pairs per stage that find this slowdown; at most ``most``."""
    sizes = range(FEWEST_PAIRS, most)
    return next((n for n in sizes if detectable(spread, n, rule) <= slowdown), most)


@cache
def _noncentrality(false_alarm: float, degrees: float) -> float:
    """The effect beyond the margin, in standard errors, that a stage finds in 97.5 % of cases."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(degrees, 1 - POWER, t_quantile(1 - false_alarm, degrees)))


def spread_interval(spread: float, pairs: int) -> tuple[float, float]:
    """Return the 95 % interval of a standard deviation, estimated as ``spread`` from ``pairs``
    normal effects (e.g. Montgomery, section 8-3)."""
    from scipy.special import chdtri

    degrees = pairs - 1
    tails = 1 - TWO_SIDED, TWO_SIDED
    low, high = (spread * math.sqrt(degrees / chdtri(degrees, tail)) for tail in tails)
    return low, high


def step_stages(pairs: Sequence[Slices], rule: Rule) -> dict[str, Stage]:
    """Return a stage's results for the usual pace (``STEPS``) and for ``ALL_STEPS``."""
    usual = [each for pair in pairs if (each := usual_effect(*pair)) is not None]
    every = [each for pair in pairs if (each := effect(*pair)) is not None]
    return stages_of(usual, every, rule)


def stages_of(usual: Figures, every: Figures, rule: Rule) -> dict[str, Stage]:
    """``step_stages`` from the pairs' two effects. A slowdown of either is an alarm.

    A PASS rules out the rule's tolerance for the usual pace, and ``LOOSELY`` times as much for all
    steps, because these contain the stalls of the machine.
    """
    loose = msgspec.structs.replace(rule, tolerance=min(0.5, LOOSELY * rule.tolerance))
    steps, all_steps = stage(usual, rule), stage(every, loose)
    low, high = all_steps.interval
    # Undecided if the interval of all steps contradicts it: fewer stalls can offset slower steps.
    if steps.verdict == "REGRESSION" and low >= 1 - rule.margin:
        steps = replace(steps, verdict="INCONCLUSIVE")
    elif steps.verdict == "IMPROVEMENT" and high <= 1 + rule.margin:
        steps = replace(steps, verdict="PASS")
    return {STEPS: steps, ALL_STEPS: all_steps}


def of_cell(first: Stages, second: Stages | None) -> tuple[Verdict, list[str]]:
    """Return the verdict on a cell, and the quantities that got slower.

    ``second`` is None where there was no stage two. STEPS and ALL_STEPS can confirm each other.
    """
    if second is None:
        return ("INCONCLUSIVE" if alarms(first) else _without_alarm(first)), []
    once, again = alarms(first), alarms(second)
    if {STEPS, ALL_STEPS} & once:
        once |= {STEPS, ALL_STEPS}
    slower = [name for name in second if name in once & again]
    if slower:
        return "REGRESSION", slower
    unconfirmed = again or once - set(second)  # a new alarm, or one that stage two cannot repeat
    return ("INCONCLUSIVE" if unconfirmed else _without_alarm(second)), []


def alarms(found: Stages) -> set[str]:
    """Return the quantities with an alarm in a stage."""
    return {name for name, stage in found.items() if stage.verdict == "REGRESSION"}


def _without_alarm(found: Stages) -> Verdict:
    unclear = found[ALL_STEPS].verdict == "INCONCLUSIVE"
    return "INCONCLUSIVE" if unclear else found[STEPS].verdict


def effect(baseline: Figures, candidate: Figures, invalid: Sequence[bool] = ()) -> float | None:
    """Return a pair's effect over all slices: log(total baseline time / total candidate time).

    ``baseline`` and ``candidate`` hold the time per unit of work (a step, a reset) of each slice;
    ``invalid`` says for each k whether the k-th slice of either arm is invalid. Invalid slices do
    not count, unless fewer than half are left: then all count. None without any slice.
    """
    kept = counting(baseline, candidate, invalid)
    return math.log(sum(b for b, _ in kept) / sum(c for _, c in kept)) if kept else None


def usual_effect(
    baseline: Figures, candidate: Figures, invalid: Sequence[bool] = ()
) -> float | None:
    """Return a pair's effect at the usual pace: the interquartile mean of log(baseline's k-th slice
    / candidate's k-th slice). The arguments are those of ``effect``.

    In ABBA the k-th slices of both arms are neighbours in time. The lowest and the highest quarter
    of the ratios (rounded down) are cut off.
    """
    ratios = sorted(b / c for b, c in counting(baseline, candidate, invalid))
    cut = len(ratios) // 4
    return fmean(map(math.log, ratios[cut : len(ratios) - cut])) if ratios else None


def counting(first: Figures, second: Figures, invalid: Sequence[bool]) -> list[tuple[float, float]]:
    """Both figures of each valid slice; of every slice if fewer than half are valid."""
    every = list(zip(first, second, strict=True))
    valid = [pair for pair, bad in zip(every, invalid, strict=False) if not bad]
    return valid if invalid and 2 * len(valid) >= len(every) else every


def cost_stage(
    pairs: Sequence[tuple[float, float]], floor: float, tolerance: float, false_alarm: float
) -> Stage:
    """Return the verdict on a cost that is better when smaller: start-up, compile, reset, memory.

    ``pairs`` are (baseline, candidate). REGRESSION where the candidate certainly costs more by over
    ``tolerance`` (0.25: a quarter more), and on average by at least ``floor``: a very small cost
    may double. Otherwise PASS, which claims nothing about changes within the tolerance.

    A process gives one figure per cost, but a hundred slices of steps, and the margin of costs is
    wide. So a cost alarms falsely at ``COSTS_LOOSELY`` times ``false_alarm`` (1 %) per stage,
    0.01 % over both.
    """
    margin = 1 - 1 / (1 + tolerance)  # log1p(-margin) = -log(1 + tolerance)
    false_alarm = max(false_alarm, min(0.05, COSTS_LOOSELY * false_alarm))
    rule = Rule(margin=margin, tolerance=1 - 1e-12, false_alarm=false_alarm)
    found = stage([math.log(ours / theirs) for ours, theirs in pairs], rule)
    more = fmean(theirs - ours for ours, theirs in pairs)
    if found.verdict == "REGRESSION" and more >= floor:
        return found
    return replace(found, verdict="PASS")
