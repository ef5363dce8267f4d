"""How much a host drifts between sessions, from the records."""

from __future__ import annotations

import math
import random

import pytest

from envbench.stats.drift import Uncertain, drift, ratio_between


def test_nothing_is_known_without_a_cell_of_two_sessions() -> None:
    assert drift([("host", {"monday": 1.0}), ("host", {"tuesday": 2.0})]) is None
    assert drift([]) is None


def test_the_spread_of_two_sessions_is_that_of_their_rates() -> None:
    found = drift([("host", {"monday": 0.0, "tuesday": 0.1})])
    assert found is not None
    assert found.spread == pytest.approx(0.1 / math.sqrt(2))
    assert (found.degrees, found.sessions) == (1, 2)


def test_degrees_of_freedom_count_sessions_of_each_host_and_not_cells() -> None:
    cells = [("one", {"a": 0.0, "b": 0.1, "c": 0.2})] * 50 + [("two", {"d": 0.0, "e": 0.3})]
    found = drift(cells)
    assert found is not None
    assert (found.degrees, found.sessions) == (3, 5)


def test_sessions_that_no_cell_connects_give_one_degree_less_each() -> None:
    found = drift([("h", {"A": 0.0, "B": 0.1}), ("h", {"C": 0.0, "D": -0.1})])
    assert found is not None
    assert (found.degrees, found.sessions) == (2, 4)
    joined = drift([("h", {"A": 0.0, "B": 0.1}), ("h", {"B": 0.0, "C": 0.1, "D": 0.2})])
    assert joined is not None
    assert joined.degrees == 3


def test_intervals_between_sessions_contain_the_truth_in_95_of_100_cases() -> None:
    chance, inside, trials = random.Random(3), 0, 600
    for _ in range(trials):
        days = [chance.gauss(0, 0.1) for _ in range(12)]
        # The drift is that of whole sessions: all cells of a day share it.
        cells = [
            ("host", {f"{day}": shift + chance.gauss(0, 0.01) for day, shift in enumerate(days)})
            for _ in range(5)
        ]
        found = drift(cells)
        assert found is not None
        one, other = (
            Uncertain(log=chance.gauss(0, 0.1) + chance.gauss(0, 0.02), error=0.02, degrees=4)
            for _ in range(2)
        )
        low, high = ratio_between(one, other, found)
        inside += low <= 1 <= high
    assert 0.92 <= inside / trials <= 0.98
