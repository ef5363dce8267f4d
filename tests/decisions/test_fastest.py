"""Which figures without an interval are the best of their column, or near it."""

from __future__ import annotations

from envbench.decisions.fastest import best_of_columns, near


def test_without_an_interval_up_to_five_percent_below_the_best_is_a_tie() -> None:
    assert near(95.0, 100.0)
    assert not near(94.9, 100.0)
    assert near(100.0, 100.0)


def test_figures_that_are_printed_alike_are_all_the_best_of_their_column() -> None:
    best = best_of_columns([(1, 10.001), (1, 10.004), (8, 3.0), (8, 2.0)])
    assert best == {1: "10.00", 8: "3.00"}
