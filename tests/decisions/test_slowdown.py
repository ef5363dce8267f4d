"""The rule of ``envbench check``: verdicts at their bounds, pairs, slices and costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import stdev

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean, ttest_1samp, ttest_ind

from envbench.decisions.slowdown import (
    ALL_STEPS,
    Stage,
    cost_stage,
    detectable,
    effect,
    of_cell,
    pairs_for,
    spread_interval,
    stage,
    stages_of,
    step_stages,
    trimmed,
    usual_effect,
)
from envbench.experiments.pairs import turns
from envbench.model import Rule
from envbench.stats.intervals import t_quantile

RULE = Rule()
TIGHT = [-0.0005, 0.0005] * 4  # a quiet machine's pairs


def shifted(by: float) -> list[float]:
    return [by + each for each in TIGHT]


@pytest.mark.parametrize(
    ("slower_by", "verdict"),
    [(0.0, "PASS"), (0.008, "PASS"), (0.03, "REGRESSION"), (0.2, "REGRESSION"),
     (-0.03, "IMPROVEMENT")],
)  # fmt: skip
def test_a_quiet_machine_shows_a_slowdown_beyond_the_margin(slower_by: float, verdict: str) -> None:
    found = stage(shifted(math.log(1 - slower_by)), RULE)
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(1 - slower_by)


def test_a_noisy_machine_is_inconclusive() -> None:
    found = stage([0.1, -0.1] * 4, RULE)
    assert found.verdict == "INCONCLUSIVE"
    assert found.detectable > 0.2


def test_the_bounds_are_those_of_a_t_test() -> None:
    values = [0.010, -0.004, 0.007, 0.001, -0.009, 0.003, 0.012, -0.002]
    found = stage(values, RULE)
    shown = ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.interval == pytest.approx((math.exp(shown.low), math.exp(shown.high)))
    bound = ttest_1samp(values, 0).confidence_interval(0.998)  # 0.1 % on each side
    assert (found.low, found.high) == pytest.approx((math.exp(bound.low), math.exp(bound.high)))
    assert found.spread == pytest.approx(stdev(values))


@pytest.mark.parametrize(("pairs", "cut"), [(9, 0), (10, 1), (13, 1), (19, 1), (20, 2), (95, 9)])
def test_the_outermost_tenths_are_trimmed_as_yuen_does(pairs: int, cut: int) -> None:
    values = np.random.default_rng(pairs).standard_t(2.5, size=pairs).tolist()
    mean, error, degrees = trimmed(values)
    assert degrees == pairs - 2 * cut - 1
    assert mean == pytest.approx(trim_mean(values, 0.1))
    # For two equal samples, SciPy's error is √2 times that of one, with twice the degrees of
    # freedom.
    two = ttest_ind(values, [-each for each in values], equal_var=False, trim=0.1)
    assert two.statistic == pytest.approx(math.sqrt(2) * mean / error)
    assert two.df == pytest.approx(2 * degrees)
    bound = t_quantile(1 - RULE.false_alarm, degrees) * error
    assert stage(values, RULE).low == pytest.approx(math.exp(mean - bound))


@pytest.mark.parametrize("outlier", [-0.3, 0.3])
def test_one_outlier_does_not_change_the_verdict(outlier: float) -> None:
    quiet = [0.004, -0.006, 0.01, 0.0, -0.01, 0.008, -0.004, 0.006, -0.008, 0.002, -0.002, 0.005]
    assert stage([*quiet, outlier], RULE).verdict == "PASS"
    slower = [math.log(0.95) + each for each in quiet]
    assert stage([*slower, outlier], RULE).verdict == "REGRESSION"


@pytest.mark.parametrize("pairs", [8, 13, 40])
def test_the_promised_slowdown_is_found_as_often_as_promised(
    pairs: int,
) -> None:
    chance = np.random.default_rng(7)
    slowdown = detectable(0.015, pairs, RULE)
    made = math.log1p(-slowdown) + 0.015 * chance.standard_normal((4000, pairs))
    found = sum(stage(row.tolist(), RULE).verdict == "REGRESSION" for row in made)
    assert 0.96 < found / 4000 < 1.0


@pytest.mark.parametrize("pairs", [8, 13])
def test_false_alarms_at_the_margin_are_as_rare_as_requested(pairs: int) -> None:
    chance = np.random.default_rng(7)
    rule = Rule(false_alarm=0.02)
    made = math.log1p(-rule.margin) + 0.015 * chance.standard_normal((10_000, pairs))
    found = sum(stage(row.tolist(), rule).verdict == "REGRESSION" for row in made)
    assert 140 < found < 260


def found(**verdicts: str) -> dict[str, Stage]:
    """A stage's results; a quantity that is not named passes."""
    names = {"steps": "PASS", "all_steps": "PASS", "memory": "PASS", **verdicts}
    return {
        name.replace("_", " "): replace(stage(TIGHT, RULE), verdict=verdict)  # type: ignore[arg-type]
        for name, verdict in names.items()
    }


R = "REGRESSION"


@pytest.mark.parametrize(
    ("first", "second", "verdict", "slower"),
    [
        (found(), None, "PASS", []),
        (found(steps="IMPROVEMENT"), None, "IMPROVEMENT", []),
        (found(all_steps="INCONCLUSIVE"), None, "INCONCLUSIVE", []),
        (found(steps=R), None, "INCONCLUSIVE", []),  # stage two has not run yet
        (found(steps=R), found(), "PASS", []),
        (found(steps=R), found(steps=R), R, ["steps"]),
        (found(steps=R), found(all_steps=R), R, ["all steps"]),  # both are about steps
        (found(steps=R), found(memory=R), "INCONCLUSIVE", []),  # two quantities with one alarm each
        (found(memory=R), found(steps=R, memory=R), R, ["memory"]),
        (found(memory=R), {k: v for k, v in found().items() if k != "memory"}, "INCONCLUSIVE", []),
    ],
)
def test_an_alarm_counts_only_if_it_repeats(
    first: dict[str, Stage], second: dict[str, Stage] | None, verdict: str, slower: list[str]
) -> None:
    assert of_cell(first, second) == (verdict, slower)


def test_a_slower_usual_pace_is_no_regression_unless_all_steps_are_slower() -> None:
    steady = [100.0 + k % 3 for k in range(10)]
    stalls = [97.0 + k % 3 for k in range(9)] + [127.0]  # the same total, but a faster usual pace
    pairs = [(stalls, [each + k / 100 for each in steady], ()) for k in range(8)]
    assert stage([usual_effect(*pair) or 0 for pair in pairs], RULE).verdict == "REGRESSION"
    found = step_stages(pairs, RULE)
    assert (found["steps"].verdict, found["all steps"].verdict) == ("INCONCLUSIVE", "PASS")
    turned = step_stages([(b, a, ()) for a, b, _ in pairs], RULE)
    assert (turned["steps"].verdict, turned["all steps"].verdict) == ("PASS", "PASS")
    slower = [(a, [1.05 * each for each in b], ()) for a, b, _ in pairs]
    assert step_stages(slower, RULE)["steps"].verdict == "REGRESSION"


def test_the_interval_of_a_standard_deviation_equals_that_of_a_table() -> None:
    low, high = spread_interval(1.0, 6)
    assert (low, high) == pytest.approx((0.624, 2.453), abs=1e-3)  # from a table


@pytest.mark.parametrize("spread", [0.005, 0.012, 0.03])
def test_pairs_for_gives_the_fewest_pairs_that_find_a_slowdown(spread: float) -> None:
    pairs = pairs_for(0.05, spread, RULE)
    assert detectable(spread, pairs, RULE) <= 0.05
    assert pairs == 5 or detectable(spread, pairs - 1, RULE) > 0.05


@given(quads=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_the_order_of_slices_is_balanced_against_drift(quads: int, seed: int) -> None:
    order = turns(quads, seed)
    assert len(order) == 4 * quads
    for k in range(0, len(order), 4):
        first, second, third, fourth = order[k : k + 4]
        assert first == fourth != second == third
    assert order == turns(quads, seed)


def test_an_effect_compares_totals_and_is_positive_for_a_faster_candidate() -> None:
    assert effect([10, 10], [5, 5]) == pytest.approx(math.log(2))
    # One slow slice counts: a reset every thousand steps is work.
    assert effect([10, 10], [10, 30]) == pytest.approx(-math.log(2))


def test_an_invalid_slice_counts_for_neither_arm() -> None:
    ours, theirs = [10, 10, 10, 10], [10, 10, 10, 90]
    assert effect(ours, theirs, [False, False, False, True]) == 0
    # On a machine that is always disturbed, every slice counts.
    assert effect(ours, theirs, [True, True, True, False]) == pytest.approx(math.log(40 / 120))
    assert effect([], []) is None


def test_the_usual_effect_ignores_a_disturbance_of_one_neighbour() -> None:
    # The machine is slow for a while, and each arm has one disturbed slice.
    ours, theirs = [10, 10, 20, 200, 20, 10, 10, 10], [20, 20, 40, 40, 40, 200, 20, 20]
    assert usual_effect(ours, theirs) == pytest.approx(math.log(1 / 2))
    shaken = [*ours[:7], 10 / 3], [*theirs[:7], 20]
    assert usual_effect(*shaken) == pytest.approx(math.log(1 / 2))
    invalid = [k == 2 for k in range(8)]
    assert usual_effect(ours, theirs, invalid) == pytest.approx(math.log(1 / 2))
    # The middle half: two of eight are cut off at each end.
    assert usual_effect([1] * 8, [1, 1, 2, 2, 2, 2, 9, 9]) == pytest.approx(-math.log(2))
    assert usual_effect([1] * 8, [1, 1, 1, 2, 2, 2, 9, 9]) == pytest.approx(-0.75 * math.log(2))
    assert usual_effect([10, 20], [5, 10]) == pytest.approx(math.log(2))
    assert usual_effect([], []) is None


@given(
    times=st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=1, max_size=20),
    slower=st.floats(0.5, 2),
)
@pytest.mark.parametrize("of", [effect, usual_effect])
def test_a_slowdown_changes_an_effect_by_its_logarithm(
    of: Callable[..., float], times: list[tuple[float, float]], slower: float
) -> None:
    ours, theirs = zip(*times, strict=True)
    moved = of(ours, [slower * each for each in theirs]) - of(ours, theirs)
    assert moved == pytest.approx(-math.log(slower))
    assert of(theirs, ours) == pytest.approx(-of(ours, theirs), abs=1e-12)


@pytest.mark.parametrize(
    ("factor", "floor", "verdict"),
    [(1.0, 0, "PASS"), (1.2, 0, "PASS"), (1.5, 0, "REGRESSION"), (0.5, 0, "PASS"),
     (1.5, 10.0, "PASS")],
)  # fmt: skip
def test_a_cost_may_grow_by_its_tolerance(factor: float, floor: float, verdict: str) -> None:
    pairs = [(1 + noise, factor * (1 - noise)) for noise in TIGHT]
    assert cost_stage(pairs, floor, 0.25, 0.001).verdict == verdict


def test_a_cost_alarms_at_one_per_cent_per_stage() -> None:
    # The growth is 3.5 standard errors above the tolerance of 25 %. Student's t with 8 degrees of
    # freedom is 2.9 at 1 %, and 4.5 at 0.1 %.
    unit = [(k - 4) / stdev(range(9)) * math.sqrt(9) for k in range(9)]
    pairs = [(1.0, 1.25 * math.exp(0.01 * (3.5 + each))) for each in unit]
    assert cost_stage(pairs, 0, 0.25, 0.001).verdict == "REGRESSION"
    assert cost_stage(pairs, 0, 0.25, 0.0001).verdict == "PASS"


@pytest.mark.parametrize(
    ("false_alarm", "errors", "verdict"),
    [
        (0.01, 1.9, "REGRESSION"), (0.01, 1.8, "PASS"),  # ten times the rule's, but at most 5 %
        (0.1, 1.5, "REGRESSION"), (0.1, 1.3, "PASS"),  # unless the rule allows more for steps
    ],
)  # fmt: skip
def test_a_cost_alarms_at_five_per_cent_at_most_unless_the_rule_allows_more(
    false_alarm: float, errors: float, verdict: str
) -> None:
    # Student's t with 8 degrees of freedom is 1.86 at 5 %, and 1.40 at 10 %.
    unit = [(k - 4) / stdev(range(9)) * math.sqrt(9) for k in range(9)]
    pairs = [(1.0, 1.25 * math.exp(0.01 * (errors + each))) for each in unit]
    assert cost_stage(pairs, 0, 0.25, false_alarm).verdict == verdict


def test_t_quantiles_equal_those_of_a_printed_table() -> None:
    assert t_quantile(0.999, 7) == pytest.approx(4.785, abs=5e-4)  # from a printed table


def test_a_wide_tolerance_is_loosened_to_half_at_most() -> None:
    """Four times the tolerance of 0.3 would be a slowdown of more than 100 %."""
    rule = msgspec.structs.replace(RULE, tolerance=0.3, margin=0.6)
    slower = [math.log(0.45) + noise for noise in (-0.001, 0.001)] * 4
    assert stages_of(slower, slower, rule)[ALL_STEPS].verdict == "INCONCLUSIVE"
