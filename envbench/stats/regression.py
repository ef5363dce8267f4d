"""Is the candidate slower than the baseline? The rule of ``envbench check``. Pure.

A *pair* is two fresh processes, one per arm, that make equal slices alternately, a hundredth of a
second each: what disturbs the machine for longer disturbs neighbours alike. Its effect is
log(candidate's rate / baseline's rate) over the slices that count; a slice that an outside signal
made invalid is left out with its partner. Each pair has two effects. One is of the usual pace
(``usual_effect``): the interquartile mean of the ratios of neighbours, because the outermost ratios
are where something hit one of them, such as a scheduler that put two of its threads on one core for
a while. The other is of all slices (``effect``): only they contain what is done seldom. Pairs are
independent of each other, whatever the noise within one is (autocorrelated, periodic, drifting).
So everything is decided by a t-test on the pairs' effects, and nothing is assumed about slices.
One in some hundreds of processes is slow for its whole life, with two of its threads on one core.
So the test is Yuen's, of the mean without the highest and the lowest tenth of pairs (rounded down).

A stage of n pairs, of which g are trimmed at either end, has the bounds θ ∓ t·e of the mean
effect θ of the others, where e is Yuen's standard error (``trimmed``) and t Student's quantile at
1 − ``false_alarm`` with n − 2g − 1 degrees of freedom:

* the upper bound under log(1 − margin): an alarm, the candidate is slower by more than the margin;
* the lower bound over log(1 + margin): it is faster by more than that;
* else the lower bound over log(1 − tolerance): a slowdown of the tolerance is ruled out, PASS;
* else INCONCLUSIVE.

An alarm of stage one is tried again by as many fresh pairs with the arms exchanged. If it does not
repeat, it does not count. Sizes are fixed beforehand, and no one looks while it runs.

The usual pace is not the throughput: fewer stalls can offset slower steps. So an alarm of the usual
pace counts only where a slowdown of all steps is possible, too (the 95 % interval reaches beyond
the margin). The same holds for an improvement.
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

Verdict = Literal["PASS", "REGRESSION", "IMPROVEMENT", "INCONCLUSIVE", "BROKEN"]
# Of one pair: times per step of baseline and candidate, slice by slice, and which are invalid.
Slices = tuple[Sequence[float], Sequence[float], Sequence[bool]]
CONFIDENCE = 0.95  # of the interval that is shown; two-sided
POWER = 0.975  # per stage; two of them find a slowdown in 0.95
FEWEST_PAIRS = 5
STEPS, ALL_STEPS = "steps", "all steps"  # two of the quantities
LOOSELY = 4  # times the tolerance is what a PASS rules out of all steps
COSTS_LOOSELY = 10  # times the rule's false alarms are those of a cost


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What one stage's pairs say of a quantity that is better when greater.

    ``spread`` is the standard deviation of a pair, as far as outermost ones let it be known;
    ``ratio`` is the candidate's over the baseline's, ``interval`` its 95 % t-interval, ``low`` and
    ``high`` the bounds that decide; ``detectable`` is the smallest slowdown that a stage of this
    size and spread finds in 97.5 % of cases.
    """

    pairs: int
    spread: float
    ratio: float
    interval: tuple[float, float]
    low: float
    high: float
    detectable: float
    verdict: Verdict


def stage(effects: Sequence[float], rule: Rule) -> Stage:
    """The verdict of pairs' effects (logarithms of ratios; at least two of them)."""
    return _stage(len(effects), *trimmed(effects), rule)


def _stage(count: int, mean: float, error: float, degrees: float, rule: Rule) -> Stage:
    """By Student's t, from the mean of so many effects and its standard error."""
    shown = quantile(0.5 + CONFIDENCE / 2, degrees) * error
    bound = quantile(1 - rule.false_alarm, degrees) * error
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


def cut_at_each_end(count: int) -> int:
    """How many of so many pairs are trimmed at either end."""
    return count // 10


def trimmed(effects: Sequence[float]) -> tuple[float, float, int]:
    """The trimmed mean, its standard error and degrees of freedom (Yuen, Biometrika 61, 1974).

    Of fewer than ten the mean itself, s/√n and n - 1.
    """
    count = len(effects)
    cut = cut_at_each_end(count)
    kept = sorted(effects)[cut : count - cut]
    winsorized = [*[kept[0]] * cut, *kept, *[kept[-1]] * cut]
    degrees = len(kept) - 1
    error = stdev(winsorized) * math.sqrt((count - 1) / (len(kept) * degrees))
    return fmean(kept), error, degrees


def against(now: Sequence[float], then: Sequence[float], rule: Rule) -> Stage:
    """The verdict of logarithms of rates now and then, each relative to the reference kernel.

    Welch's two-sample t-interval. It knows of the noise within each of the two hours, and nothing
    of what the kernel does not follow between them: advice, not proof.
    """
    parts = [stdev(each) ** 2 / len(each) for each in (now, then)]
    variance = sum(parts)
    weights = [part**2 / (len(each) - 1) for part, each in zip(parts, (now, then), strict=True)]
    degrees = variance**2 / sum(weights) if variance else float(len(now) + len(then) - 2)
    return _stage(len(now), fmean(now) - fmean(then), math.sqrt(variance), degrees, rule)


def _verdict(low: float, high: float, rule: Rule) -> Verdict:
    if high < math.log1p(-rule.margin):
        return "REGRESSION"
    if low > math.log1p(rule.margin):
        return "IMPROVEMENT"
    return "PASS" if low > math.log1p(-rule.tolerance) else "INCONCLUSIVE"


def detectable(spread: float, pairs: int, rule: Rule) -> float:
    """The smallest slowdown, as a share, that a stage finds in 97.5 % of cases.

    By the noncentral t distribution (e.g. Montgomery, Applied Statistics, section 9-2.3).
    """
    return _detectable(spread / math.sqrt(pairs), pairs - 2 * cut_at_each_end(pairs) - 1, rule)


def _detectable(error: float, degrees: float, rule: Rule) -> float:
    needed = _noncentrality(rule.false_alarm, degrees) * error
    return 1 - math.exp(math.log1p(-rule.margin) - needed)


def pairs_for(slowdown: float, spread: float, rule: Rule, most: int = 200) -> int:
    """The fewest pairs a stage that find such a slowdown; ``most`` where even that many do not."""
    for pairs in range(FEWEST_PAIRS, most):
        if detectable(spread, pairs, rule) <= slowdown:
            return pairs
    return most


@cache
def _noncentrality(false_alarm: float, degrees: float) -> float:
    """How many standard errors beyond the margin a stage finds in 97.5 % of cases."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(degrees, 1 - POWER, quantile(1 - false_alarm, degrees)))


def spread_interval(spread: float, pairs: int) -> tuple[float, float]:
    """The 95 % interval of the standard deviation of which so many normal effects show this one
    (e.g. Montgomery, section 8-3)."""
    from scipy.special import chdtri

    degrees, tail = pairs - 1, (1 - CONFIDENCE) / 2
    low, high = (spread * math.sqrt(degrees / chdtri(degrees, p)) for p in (tail, 1 - tail))
    return float(low), float(high)


@cache
def quantile(share: float, degrees: float) -> float:
    """Student's t; of 0.999 with 7 degrees of freedom 4.785."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, share))


# ---------------------------------------------------------------- steps


def step_stages(pairs: Sequence[Slices], rule: Rule) -> dict[str, Stage]:
    """What a stage says of steps: of their usual pace (``STEPS``), and of ``ALL_STEPS``."""
    usual, every = ([each for pair in pairs if (each := of(*pair)) is not None]
                    for of in (usual_effect, effect))  # fmt: skip
    return stages_of(usual, every, rule)


def stages_of(usual: Sequence[float], every: Sequence[float], rule: Rule) -> dict[str, Stage]:
    """By the pairs' two effects. A slowdown of either is an alarm.

    What has to be ruled out to pass is, of the usual pace, the rule's tolerance, and of all steps
    ``LOOSELY`` times as much: in them are the stalls of the machine.
    """
    loose = msgspec.structs.replace(rule, tolerance=min(0.5, LOOSELY * rule.tolerance))
    steps, all_steps = stage(usual, rule), stage(every, loose)
    return {STEPS: _as_far_as_possible(steps, all_steps, rule), ALL_STEPS: all_steps}


def _as_far_as_possible(steps: Stage, all_steps: Stage, rule: Rule) -> Stage:
    """The usual pace's finding, where that of all steps does not speak against it."""
    low, high = all_steps.interval
    if steps.verdict == "REGRESSION" and low >= 1 - rule.margin:
        return replace(steps, verdict="INCONCLUSIVE")
    if steps.verdict == "IMPROVEMENT" and high <= 1 + rule.margin:
        return replace(steps, verdict="PASS")
    return steps


# ---------------------------------------------------------------- a cell


def of_cell(
    first: Mapping[str, Stage], second: Mapping[str, Stage] | None
) -> tuple[Verdict, list[str]]:
    """The verdict of a cell, and what got slower, from what its stages say of each quantity.

    ``second`` is None where there was no stage two. An alarm of one kind of steps
    may be confirmed by the other.
    """
    if second is None:
        return ("INCONCLUSIVE" if alarms(first) else _without_alarm(first)), []
    once, again = alarms(first), alarms(second)
    if {STEPS, ALL_STEPS} & once:
        once |= {STEPS, ALL_STEPS}
    slower = [name for name in second if name in once & again]
    if slower:
        return "REGRESSION", slower
    unconfirmed = again or once - set(second)  # only now, or what stage two cannot say
    return ("INCONCLUSIVE" if unconfirmed else _without_alarm(second)), []


def alarms(found: Mapping[str, Stage]) -> set[str]:
    """The quantities in which a stage raises an alarm."""
    return {name for name, stage in found.items() if stage.verdict == "REGRESSION"}


def _without_alarm(found: Mapping[str, Stage]) -> Verdict:
    unclear = found[ALL_STEPS].verdict == "INCONCLUSIVE"
    return "INCONCLUSIVE" if unclear else found[STEPS].verdict


# ---------------------------------------------------------------- one pair


def effect(
    baseline: Sequence[float], candidate: Sequence[float], invalid: Sequence[bool] = ()
) -> float | None:
    """The pair's effect: log of total baseline time / total candidate time, of all slices.

    ``baseline`` and ``candidate`` are times a unit of work (a step, a reset) of each one's k-th
    slice; ``invalid``: did an outside signal spoil either k-th slice? Such slices leave the total,
    unless fewer than half are left: then all of them count. None without any slice.
    """
    kept = _that_count(invalid, len(baseline))
    if not kept:
        return None
    return math.log(sum(baseline[k] for k in kept) / sum(candidate[k] for k in kept))


def usual_effect(
    baseline: Sequence[float], candidate: Sequence[float], invalid: Sequence[bool] = ()
) -> float | None:
    """The pair's effect by the usual pace: the interquartile mean of log(baseline's k-th slice /
    candidate's k-th slice) over the slices that count; arguments as of ``effect``.

    In ABBA the k-th slices of both arms are neighbours in time. A quarter of the ratios is cut off
    at either end (rounded down): so many slices may be hit in one arm alone.
    """
    kept = _that_count(invalid, len(baseline))
    if not kept:
        return None
    ratios = sorted(baseline[k] / candidate[k] for k in kept)
    cut = len(ratios) // 4
    return fmean(map(math.log, ratios[cut : len(ratios) - cut]))


def _that_count(invalid: Sequence[bool], slices: int) -> list[int]:
    flags = list(invalid) or [False] * slices
    kept = [k for k, bad in enumerate(flags) if not bad]
    return kept if 2 * len(kept) >= len(flags) else list(range(len(flags)))


# ---------------------------------------------------------------- costs


def cost_stage(
    pairs: Sequence[tuple[float, float]], floor: float, tolerance: float, false_alarm: float
) -> Stage:
    """The verdict on a cost that is better when smaller: start-up, compile, reset, memory.

    ``pairs`` are (baseline, candidate). REGRESSION where the candidate surely costs more than the
    baseline by over ``tolerance`` (0.25: a quarter more), and on average by ``floor`` or more: a
    very small cost may double. Else PASS: nothing is claimed of changes within the tolerance.

    A cost is one figure a process, where steps are a hundred slices, and its margin is wide: so it
    alarms at ``COSTS_LOOSELY`` times ``false_alarm`` (1 %) a stage, in two stages at 0.01 %.
    """
    margin = 1 - 1 / (1 + tolerance)  # log1p(-margin) = -log(1 + tolerance)
    loosely = max(false_alarm, min(0.05, COSTS_LOOSELY * false_alarm))
    rule = Rule(margin=margin, tolerance=1 - 1e-12, false_alarm=loosely)
    found = stage([math.log(ours / theirs) for ours, theirs in pairs], rule)
    more = fmean(theirs - ours for ours, theirs in pairs)
    if found.verdict == "REGRESSION" and more >= floor:
        return found
    return replace(found, verdict="PASS")
