"""Which figures are equal within noise, and which is the best of its column."""

from __future__ import annotations

import pytest

from envbench.decisions.fastest import DRIFT, best_of_columns, near, verdict


@pytest.mark.parametrize(
    ("ratio", "says"),
    [((1.02, 1.1), "faster"), ((0.9, 0.98), "slower"), ((0.99, 1.01), "~"), ((1.0, 1.2), "~")],
)
def test_an_interval_that_contains_one_is_a_tie(ratio: tuple[float, float], says: str) -> None:
    assert verdict(ratio, 1.0) == says


def test_a_difference_that_drift_can_explain_is_a_tie() -> None:
    assert verdict((1.09, 1.2), DRIFT) == "~"
    assert verdict((1.11, 1.2), DRIFT) == "faster"
    assert verdict((0.8, 0.92), DRIFT) == "~"
    assert verdict((0.8, 0.9), DRIFT) == "slower"


def test_without_an_interval_five_percent_below_the_best_is_a_tie_and_drift_adds_to_it() -> None:
    assert near(95.0, 100.0, 1.0)
    assert not near(94.9, 100.0, 1.0)
    assert near(87.0, 100.0, DRIFT)
    assert not near(86.0, 100.0, DRIFT)


def test_figures_that_are_printed_alike_are_all_the_best_of_their_column() -> None:
    best = best_of_columns([(1, 10.001), (1, 10.004), (8, 3.0), (8, 2.0)])
    assert best == {1: "10.00", 8: "3.00"}
