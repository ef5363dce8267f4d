"""How evenly environments are served, and how old their observations are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.model import Histogram, Returns
from envbench.stats.service import jain, service


def returns(counts: list[int], ages: Histogram | None = None) -> Returns:
    return Returns(calls=sum(counts), counts=counts, ages=ages or Histogram())


def test_equal_service_is_fair() -> None:
    found = service([returns([5, 5, 5], Histogram(values=[3], counts=[100]))])
    assert found is not None
    assert (found.fairness, found.smallest, found.largest) == (1.0, 1.0, 1.0)
    assert (found.age_p50, found.age_p99) == (3, 3)


def test_an_environment_that_never_returns_is_the_least_served() -> None:
    found = service([returns([0, 6, 6])])
    assert found is not None
    assert found.fairness == pytest.approx(144 / (3 * 72))
    assert (found.smallest, found.largest) == (0.0, 1.5)
    assert found.age_p50 is None


def test_fairness_is_the_median_of_the_processes_and_ages_are_of_all() -> None:
    fair, unfair = returns([2, 2]), returns([4, 0])
    found = service([fair, fair, unfair])
    assert found is not None
    assert found.fairness == 1.0
    ages = [Histogram(values=[2], counts=[90]), Histogram(values=[2, 9], counts=[8, 2])]
    found = service([returns([1, 1], each) for each in ages])
    assert found is not None
    assert (found.age_p50, found.age_p99) == (2, 9)


def test_no_return_has_no_service() -> None:
    assert service([]) is None
    assert service([returns([0, 0])]) is None


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50).filter(any))
def test_jains_index_lies_between_one_over_n_and_one(counts: list[int]) -> None:
    assert 1 / len(counts) - 1e-9 <= jain(counts) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("calls", "counts", "ages", "fits"),
    [
        (2, [2, 1, 1], Histogram(values=[1], counts=[1]), True),
        (2, [2, 1], Histogram(), False),  # of too few environments
        (2, [2, 2, 1], Histogram(), False),  # more than two batches of two
        (2, [5, 0, -1], Histogram(), False),
        (0, [0, 0, 0], Histogram(), False),
        (2, [2, 1, 1], Histogram(values=[1], counts=[]), False),
    ],
)
def test_returns_must_fit_the_cell(
    calls: int, counts: list[int], ages: Histogram, fits: bool
) -> None:
    assert Returns(calls=calls, counts=counts, ages=ages).fits(2, 3) == fits
