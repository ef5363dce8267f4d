"""Ranks, ties and the best of a column: few false claims, and none that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from envbench.decisions.ranking import Place, best_of_columns, best_row, near, proven, rank
from envbench.stats.block_model import Adjusted, BlockModel, Ratio, TrialRate, fit

DEGREES = 20.0


def known(logs: dict[str, float], error: float, unknown: Sequence[str] = "") -> Any:
    """A model with these logarithms. The cells in ``unknown`` are connected to nothing."""

    def ratio(cell: str, to: str) -> Ratio | None:
        if cell in unknown or to in unknown:
            return None
        return Ratio(ratio=math.exp(logs[cell] - logs[to]), error=error, degrees=DEGREES)

    adjusted = {cell: Adjusted(rate=math.exp(log)) for cell, log in logs.items()}
    for cell in unknown:
        del adjusted[cell]
    return SimpleNamespace(ratio=ratio, adjusted=adjusted)


def simulated(rng: Any, logs: dict[str, float], blocks: int) -> BlockModel:
    return fit(
        [
            TrialRate(cell=cell, block=k, steps_in="pool", rate=math.exp(log + 0.02 * rng.normal()))
            for k in range(blocks)
            for cell, log in logs.items()
        ]
    )


def test_clear_differences_give_a_rank_each_and_a_best_without_ties() -> None:
    ranking = rank(known({"a": 0.0, "b": 2.0, "c": 1.0}, 0.01), "abc")
    assert ranking.best == "b"
    assert ranking.ties == ()
    assert {cell: each.rank for cell, each in ranking.places.items()} == {"b": 1, "c": 2, "a": 3}


def test_without_clear_differences_all_share_the_first_rank_and_tie() -> None:
    ranking = rank(known({"a": 0.0, "b": 0.01, "c": 0.02}, 0.1), "abc")
    assert ranking.best == "c"
    assert ranking.ties == ("a", "b")
    assert {each.rank for each in ranking.places.values()} == {1}


def test_a_cell_can_tie_with_two_that_differ_from_each_other() -> None:
    ranking = rank(
        known({"fast": 0.04, "middle": 0.02, "slow": 0.0}, 0.01), ["slow", "middle", "fast"]
    )
    assert ranking.places == {
        "fast": Place(rank=1, ties=("middle",)),
        "middle": Place(rank=1, ties=("slow", "fast")),
        "slow": Place(rank=2, ties=("middle",)),
    }


def test_a_single_cell_has_rank_one_and_no_ties() -> None:
    ranking = rank(known({"a": 1.0}, 0.1), ["a"])
    assert ranking.places == {"a": Place(rank=1, ties=())}
    assert ranking.best == "a"
    assert ranking.ties == ()


def test_a_cell_that_nothing_connects_ties_with_all_and_is_never_the_best() -> None:
    ranking = rank(known({"a": 0.0, "b": 2.0, "x": 9.0}, 0.01, unknown="x"), "abx")
    assert ranking.best == "b"
    assert ranking.ties == ("x",)
    assert ranking.places["x"] == Place(rank=1, ties=("a", "b"))
    alone = rank(known({"x": 1.0, "y": 2.0}, 0.01, unknown="xy"), "xy")
    assert alone.best is None
    assert alone.ties == ()
    assert alone.places["x"] == Place(rank=1, ties=("y",))


def test_each_step_of_holm_has_one_hypothesis_less_than_the_last() -> None:
    """With three cells there are six hypotheses. The bounds are 5 % / 6, / 5 and / 4."""
    needed = [-scipy.stats.t.ppf(0.05 / count, DEGREES) for count in (6, 5, 4)]
    below = 0.01 * np.array(needed)
    just = known({"a": 0.0, "b": below[1] * 1.001, "c": below[1] * 1.001 + below[2] * 1.001}, 0.01)
    assert proven(just, "abc") == {("c", "a"), ("b", "a"), ("c", "b")}
    under = known({"a": 0.0, "b": below[1] * 0.999, "c": below[1] * 0.999 + below[2] * 0.9}, 0.01)
    assert proven(under, "abc") == {("c", "a")}
    first = known({"a": 0.0, "b": below[0] * 0.999}, 0.01)
    assert proven(first, "ab") == {("b", "a")}  # one pair has two hypotheses: 5 % / 2


def test_a_model_without_intervals_proves_nothing() -> None:
    logs = {"a": 0.0, "b": 5.0}
    ranking = rank(simulated(np.random.default_rng(1), logs, 1), "ab")
    assert ranking.best == "b"
    assert ranking.ties == ("a",)


@pytest.mark.parametrize("logs", [[0.0] * 6, [0.0, 0.0, 0.06, 0.06, 0.12, 0.12]])
def test_at_most_one_column_in_twenty_has_a_false_claim(logs: list[float]) -> None:
    rng = np.random.default_rng(2)
    truth = dict(zip("abcdef", logs, strict=True))
    made = [proven(simulated(rng, truth, 5), list(truth)) for _ in range(400)]
    false = sum(any(truth[one] <= truth[other] for one, other in claims) for claims in made)
    assert false <= scipy.stats.binom.ppf(0.99, 400, 0.05)
    if any(logs):
        found = sum(len(claims) for claims in made) / len(made)
        assert found > 11  # of the twelve true claims


ROWS = {"A": ["a1", "a2"], "B": ["b1", "b2"], "C": ["c1"]}


def test_a_row_is_the_best_if_one_of_its_cells_is_faster_than_all_cells_of_the_others() -> None:
    logs = {"a1": 0.0, "a2": 3.0, "b1": 1.0, "b2": 2.0, "c1": 1.5}
    assert best_row(known(logs, 0.01), ROWS) == ("a2", [])


def test_a_row_ties_with_the_best_if_one_of_its_cells_may_be_as_fast() -> None:
    logs = {"a1": 0.0, "a2": 2.02, "b1": 1.0, "b2": 2.0, "c1": 1.5}
    assert best_row(known(logs, 0.01), ROWS) == ("a2", ["B"])
    assert best_row(known({**logs, "c1": 9.0}, 0.01, unknown=("c1",)), ROWS) == ("a2", ["B", "C"])


def test_rows_without_any_rate_have_no_best() -> None:
    nothing = known({"a1": 0.0}, 0.01, unknown=("a1",))
    assert best_row(nothing, {"A": ["a1"]}) == (None, [])


def test_at_most_one_set_of_equal_rows_in_twenty_has_a_best() -> None:
    """Three rows of five equal cells each. The row with the greatest maximum is often clearly ahead
    of some cell of another row, but seldom of all of them."""
    rng = np.random.default_rng(3)
    rows = {name: [f"{name}{k}" for k in range(5)] for name in "ABC"}
    truth = {cell: 0.0 for cells in rows.values() for cell in cells}
    made = [best_row(simulated(rng, truth, 5), rows) for _ in range(200)]
    assert sum(not ties for _, ties in made) <= scipy.stats.binom.ppf(0.99, 200, 0.05)


def test_a_row_that_is_faster_at_one_numenv_is_found() -> None:
    rng = np.random.default_rng(4)
    rows = {name: [f"{name}{k}" for k in range(5)] for name in "ABC"}
    truth = {cell: 0.0 for cells in rows.values() for cell in cells} | {"B3": 0.1}
    made = [best_row(simulated(rng, truth, 5), rows) for _ in range(50)]
    assert sum(each == ("B3", []) for each in made) > 45


# ---------------------------------------------------------------- figures without an interval


def test_without_an_interval_up_to_five_percent_below_the_best_is_a_tie() -> None:
    assert near(95.0, 100.0)
    assert not near(94.9, 100.0)
    assert near(100.0, 100.0)


def test_figures_that_are_printed_alike_are_all_the_best_of_their_column() -> None:
    best = best_of_columns([(1, 10.001), (1, 10.004), (8, 3.0), (8, 2.0)])
    assert best == {1: "10.00", 8: "3.00"}
