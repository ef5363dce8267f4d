"""The block model: closed forms of balanced designs, what connects, outliers, coverage."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from envbench.stats.block_model import BlockModel, Ratio, TrialRate, fit, quasi

# A block of three cells each; every two of the seven cells meet in one block (Fano's plane).
BALANCED_INCOMPLETE = ("abc", "ade", "afg", "bdf", "beg", "cdg", "cef")


def trials(
    blocks: Sequence[str], logs: Sequence[Sequence[float]], classes: str | dict[str, str] = "pool"
) -> list[TrialRate]:
    """The k-th letter of a block is a cell, and its k-th value the logarithm of the rate."""
    named = classes if isinstance(classes, dict) else dict.fromkeys("".join(blocks), classes)
    return [
        TrialRate(cell=cell, block=number, steps_in=named[cell], rate=math.exp(log))
        for number, (block, own) in enumerate(zip(blocks, logs, strict=True))
        for cell, log in zip(block, own, strict=True)
    ]


def noise(seed: int, *shape: int, spread: float = 0.02) -> Any:
    return np.random.default_rng(seed).normal(scale=spread, size=shape)


def known(found: Ratio | None) -> Ratio:
    assert found is not None
    assert found.interval is not None
    return found


def half(found: Ratio | None) -> float:
    low, high = known(found).interval or (1.0, 1.0)
    return math.log(high / low) / 2


def same(one: BlockModel, other: BlockModel) -> None:
    """Do two models give the same ratios?"""
    for pair in combinations(one.cells, 2):
        first, second = known(one.ratio(*pair)), known(other.ratio(*pair))
        assert first.ratio == pytest.approx(second.ratio, rel=1e-5)
        assert first.error == pytest.approx(second.error, rel=1e-3)


# ---------------------------------------------------------------- closed forms


def test_complete_blocks_of_one_class_give_the_ordinary_analysis_of_variance() -> None:
    """Randomised complete blocks: Montgomery, Design and Analysis of Experiments, section 4-1."""
    logs = noise(19, 5, 4) + np.array([[0.3], [0.1], [0.0], [-0.2], [0.5]]) + [0.0, 0.1, 0.2, 0.3]
    model = fit(trials(["abcd"] * 5, logs))
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    error = math.sqrt((residuals**2).sum() / 12 * 2 / 5)
    found = known(model.ratio("d", "a"))
    assert model.degrees == 12
    assert found.degrees == pytest.approx(12)
    assert found.ratio == pytest.approx(math.exp((logs[:, 3] - logs[:, 0]).mean()))
    assert found.error == pytest.approx(error, rel=1e-3)
    assert half(found) == pytest.approx(scipy.stats.t.ppf(0.975, 12) * error, rel=1e-3)
    assert model.error_spread["pool"] == pytest.approx(error * math.sqrt(5 / 2), rel=1e-3)
    assert model.block_spread == {}


def test_balanced_incomplete_blocks_give_the_analysis_within_blocks() -> None:
    """Variance of a difference: 2kσ²/(λt); Montgomery, section 4-4. Here k = 3, λ = 1, t = 7."""
    logs = noise(2, 7, 3) + noise(3, 7, 1, spread=0.3)
    model = fit(trials(BALANCED_INCOMPLETE, logs))
    totals = dict.fromkeys("abcdefg", 0.0)  # of each cell, adjusted for its blocks
    for block, own in zip(BALANCED_INCOMPLETE, logs, strict=True):
        for cell, log in zip(block, own, strict=True):
            totals[cell] += log - own.mean()
    for one, other in combinations("abcdefg", 2):
        found = known(model.ratio(one, other))
        assert math.log(found.ratio) == pytest.approx(3 / 7 * (totals[one] - totals[other]))
        assert found.error == pytest.approx(model.error_spread["pool"] * math.sqrt(6 / 7))
        assert found.degrees == pytest.approx(8)


@pytest.mark.parametrize("second", ["pool", "processes"])
def test_blocks_of_two_cells_give_the_paired_t_interval_whatever_their_classes(second: str) -> None:
    """So a cell beside the reference kernel has exact intervals with five blocks."""
    logs = noise(4, 5, 2) + noise(5, 5, 1, spread=0.3)
    found = known(fit(trials(["ab"] * 5, logs, {"a": "pool", "b": second})).ratio("a", "b"))
    paired = scipy.stats.ttest_rel(logs[:, 0], logs[:, 1])
    assert np.log(found.interval) == pytest.approx(tuple(paired.confidence_interval()), rel=1e-3)
    assert found.degrees == pytest.approx(4)


def test_ratios_through_the_kernel_have_the_variance_of_both_steps() -> None:
    blocks = ["ak"] * 5 + ["bk"] * 5
    model = fit(trials(blocks, noise(6, 10, 2)))
    errors = [known(model.ratio(*pair)).error or 0.0 for pair in ("ak", "bk", "ab")]
    assert errors[2] == pytest.approx(math.hypot(*errors[:2]))
    ratios = [known(model.ratio(*pair)).ratio for pair in ("ak", "kb", "ab")]
    assert ratios[2] == pytest.approx(ratios[0] * ratios[1])


def test_adjusted_rates_keep_the_geometric_mean_and_have_the_ratios_of_the_cells() -> None:
    logs = noise(7, 5, 3) + np.array([1.0, 2.0, 3.0])
    model = fit(trials(["abc"] * 5, logs))
    rates = [model.adjusted[cell].rate for cell in "abc"]
    assert np.log(rates) == pytest.approx(logs.mean(axis=0))
    error = known(model.ratio("a", "b")).error or 0.0
    for cell in "abc":
        found = model.adjusted[cell]
        assert found.error == pytest.approx(error / math.sqrt(2))
        assert found.interval is not None
        assert math.sqrt(found.interval[0] * found.interval[1]) == pytest.approx(found.rate)


def test_quasi_errors_are_exact_where_the_cells_are_independent() -> None:
    single = np.array([1.0, 2.0, 0.5, 4.0])
    errors = np.hypot.outer(single, single)
    np.fill_diagonal(errors, np.nan)
    assert quasi(errors) == pytest.approx(single, rel=1e-4)
    errors[3], errors[:, 3] = np.nan, np.nan
    assert quasi(errors)[:3] == pytest.approx(single[:3], rel=1e-4)
    assert math.isnan(quasi(errors)[3])
    assert quasi(np.array([[np.nan, 2.0], [2.0, np.nan]])) == pytest.approx([math.sqrt(2)] * 2)


# ---------------------------------------------------------------- what the result depends on


def test_the_speed_of_a_block_does_not_matter() -> None:
    logs = noise(8, 7, 3)
    one = trials(BALANCED_INCOMPLETE, logs)
    other = trials(BALANCED_INCOMPLETE, logs + noise(9, 7, 1, spread=1.0))
    same(fit(one), fit(other))


def test_the_order_of_the_trials_does_not_matter() -> None:
    classes = dict(zip("abcdefg", ["pool"] * 4 + ["processes"] * 3, strict=True))
    made = trials(BALANCED_INCOMPLETE * 2, noise(10, 14, 3), classes)
    same(fit(made), fit(made[::-1]))


def test_two_lives_of_a_cell_may_share_a_block() -> None:
    model = fit(trials(["aab"] * 5, noise(11, 5, 3)))
    assert known(model.ratio("a", "b")).degrees == pytest.approx(9)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_only_positive_finite_rates_are_accepted(rate: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        fit([TrialRate(cell="a", block=0, steps_in="pool", rate=rate)])


def test_nothing_and_a_cell_of_two_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="positive finite"):
        fit([])
    two = [TrialRate(cell="a", block=0, steps_in=each, rate=1.0) for each in ("pool", "device")]
    with pytest.raises(ValueError, match="two classes"):
        fit(two)


KINDS = dict(
    zip("abcdef", ["one-thread", "pool", "pool", "pool", "processes", "device"], strict=True)
)
RATES = st.one_of(
    st.sampled_from([1.0, 2.0]),
    st.floats(min_value=900, max_value=1100),
    st.floats(min_value=1e-300, max_value=1e300),
)
ANY_TRIALS = st.lists(
    st.tuples(st.sampled_from(sorted(KINDS)), st.integers(0, 5), RATES), min_size=1, max_size=40
)


@given(ANY_TRIALS)
def test_whatever_was_measured_ratios_lie_in_their_intervals(
    rows: list[tuple[str, int, float]],
) -> None:
    model = fit(
        [TrialRate(cell=cell, block=block, steps_in=KINDS[cell], rate=rate)
         for cell, block, rate in rows]
    )  # fmt: skip
    for (cell, to), found in model.ratios.items():
        assert 0 < found.ratio < math.inf
        back = model.ratio(to, cell)
        assert back is not None
        assert back.ratio == pytest.approx(1 / found.ratio)
        if found.interval is not None:
            low, high = found.interval
            assert 0 < low <= found.ratio <= high < math.inf
            assert found.degrees is not None
            assert 1 <= found.degrees <= len(rows)
            assert {cell, to} <= set(model.adjusted)


# ---------------------------------------------------------------- what is not known


def test_cells_that_were_alone_in_their_blocks_have_no_ratio() -> None:
    model = fit(trials(["a", "b"] * 5, noise(12, 10, 1)))
    assert model.ratio("a", "b") is None
    assert model.ratios == {}
    assert model.adjusted == {}
    assert model.error_spread == {}


def test_only_cells_that_a_chain_of_blocks_connects_have_a_ratio() -> None:
    model = fit(trials(["ab", "bc", "de", "f"] * 5, [[1.0] * 2, [1.0] * 2, [1.0] * 2, [1.0]] * 5))
    assert model.ratio("a", "c") is not None
    assert model.ratio("d", "e") is not None
    assert model.ratio("a", "d") is None
    assert model.ratio("a", "f") is None
    assert model.ratio("a", "a") is None
    assert set(model.ratios) == {("a", "b"), ("a", "c"), ("b", "c"), ("d", "e")}


def test_one_block_per_cell_gives_ratios_without_intervals() -> None:
    model = fit(trials(["abc"], [[0.0, 0.1, 0.3]]))
    found = model.ratio("c", "a")
    assert found == Ratio(ratio=pytest.approx(math.exp(0.3)))
    assert model.adjusted["a"].rate == pytest.approx(1.0)
    assert model.adjusted["a"].interval is None


def test_a_cell_with_one_block_has_no_interval_beside_cells_that_have_more() -> None:
    """Whether that one process was a slow one cannot be seen."""
    logs = noise(13, 5, 3).tolist()
    model = fit(trials(["abc"] * 4 + ["abx"], logs))
    found = model.ratio("a", "x")
    assert found is not None
    assert found.interval is None
    assert known(model.ratio("a", "b"))


def test_equal_rates_give_an_interval_of_almost_no_width() -> None:
    found = known(fit(trials(["ab"] * 5, [[1.0, 2.0]] * 5)).ratio("b", "a"))
    assert found.ratio == pytest.approx(math.e)
    assert half(found) < 1e-6


# ---------------------------------------------------------------- classes and outliers


def test_a_class_that_reacts_differently_widens_only_the_ratios_across_classes() -> None:
    rng = np.random.default_rng(14)
    logs = rng.normal(scale=0.01, size=(30, 4))
    logs[:, 2:] += rng.normal(scale=0.1, size=(30, 1))
    classes = dict(zip("abcd", ["pool", "pool", "processes", "processes"], strict=True))
    model = fit(trials(["abcd"] * 30, logs, classes))
    assert half(model.ratio("a", "b")) < 0.007
    assert half(model.ratio("c", "d")) < 0.007
    assert half(model.ratio("a", "c")) == pytest.approx(2.05 * 0.1 / math.sqrt(30), rel=0.3)
    assert known(model.ratio("a", "b")).degrees == pytest.approx(58, rel=0.5)  # of two cells' error
    assert known(model.ratio("a", "c")).degrees == pytest.approx(29, rel=0.1)  # of the blocks
    sum_of_classes = math.hypot(*model.block_spread.values())
    assert sum_of_classes == pytest.approx(0.1, rel=0.3)


def test_a_noisy_class_does_not_widen_the_ratios_of_a_quiet_one() -> None:
    rng = np.random.default_rng(15)
    logs = rng.normal(size=(20, 6)) * ([0.01] * 3 + [0.1] * 3)
    classes = dict(zip("abcdef", ["pool"] * 3 + ["processes"] * 3, strict=True))
    model = fit(trials(["abcdef"] * 20, logs, classes))
    assert model.error_spread["pool"] == pytest.approx(0.01, rel=0.3)
    assert model.error_spread["processes"] == pytest.approx(0.1, rel=0.3)
    assert half(model.ratio("a", "b")) < 0.1 * half(model.ratio("d", "e")) * 1.6


def test_a_process_that_is_slow_for_its_whole_life_hardly_moves_a_ratio() -> None:
    blocks = BALANCED_INCOMPLETE * 5
    logs = noise(16, 35, 3)
    before = known(fit(trials(blocks, logs)).ratio("a", "b"))
    logs[0, 0] -= 0.4
    after = known(fit(trials(blocks, logs)).ratio("a", "b"))
    least_squares = 0.4 * 3 / 7 / 5 * (1 - 1 / 3)
    assert abs(math.log(after.ratio / before.ratio)) < 0.15 * least_squares
    assert half(after) < 1.15 * half(before)
    logs[0, 0] -= 5.0  # how slow it is makes no difference, but it still counts
    slower = known(fit(trials(blocks, logs)).ratio("a", "b"))
    assert slower.ratio == pytest.approx(after.ratio, rel=1e-4)
    assert slower.ratio != pytest.approx(before.ratio, rel=1e-4)


# ---------------------------------------------------------------- coverage and speed


def plan(rng: Any, cells: Sequence[str], rounds: int, size: int) -> list[Any]:
    parts = math.ceil(len(cells) / size)
    return [part for _ in range(rounds) for part in np.array_split(rng.permutation(cells), parts)]


def simulated(rng: Any, classes: dict[str, str], rounds: int) -> list[TrialRate]:
    """All cells are equally fast; a class reacts to a block with 2 %, an error is 2 %."""
    made = []
    for number, block in enumerate(plan(rng, list(classes), rounds, 5)):
        reaction = dict(zip(set(classes.values()), rng.normal(scale=0.02, size=9), strict=False))
        speed = rng.normal(scale=0.1)
        for cell in block:
            log = speed + reaction[classes[cell]] + rng.normal(scale=0.02)
            made.append(
                TrialRate(cell=cell, block=number, steps_in=classes[cell], rate=math.exp(log))
            )
    return made


def test_intervals_cover_the_truth_within_and_across_classes() -> None:
    rng = np.random.default_rng(17)
    kinds = ["one-thread", "pool", "pool", "pool", "processes"] * 2
    classes = dict(zip("abcdefghij", kinds, strict=True))
    covered: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(300):
        for (one, other), found in fit(simulated(rng, classes, 5)).ratios.items():
            low, high = known(found).interval or (1.0, 1.0)
            covered[classes[one] == classes[other]].append(low <= 1 <= high)
    assert 0.93 < fmean(covered[True]) < 0.97
    assert 0.93 < fmean(covered[False]) < 0.97


def test_the_largest_plan_takes_a_fraction_of_a_second() -> None:
    rng = np.random.default_rng(18)
    classes = {str(k): ("one-thread", "pool", "pool", "processes")[k % 4] for k in range(56)}
    made = simulated(rng, classes, 5)
    spent = []
    for _ in range(3):
        began = time.thread_time()
        assert len(fit(made).ratios) == 56 * 55 // 2
        spent.append(time.thread_time() - began)
    assert min(spent) < 0.3
