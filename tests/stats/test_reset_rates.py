"""Resets per step, compared with the reference's: cheats are found, honest backends are not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.stats.reset_rates import Resets, differ


def together(length: int, steps: int, environments: int, processes: int = 5) -> list[Resets]:
    """Processes of ``steps`` vector steps, in which all episodes have this length and begin
    together."""
    count = steps // length * environments
    return [Resets(steps * environments, count, environments)] * processes


def free(
    chance: random.Random, usual: int, rare: int, share: float, steps: int, environments: int
) -> list[Resets]:
    """Five processes whose episodes have the length ``usual``, or ``rare`` in a share of cases."""
    made = []
    for _ in range(5):
        count = 0
        for _ in range(environments):
            left = float(steps)
            while (left := left - (rare if chance.random() < share else usual)) >= 0:
                count += 1
        made.append(Resets(steps * environments, count, environments))
    return made


CARTPOLE = [Resets(230_000, 10_300 + each, 4) for each in (-300, -100, 0, 100, 300)]


def test_a_backend_that_hardly_ever_resets_differs() -> None:
    assert differ([Resets(230_000, 152, 4)] * 5, CARTPOLE)


def test_a_backend_that_misses_every_second_end_differs() -> None:
    assert differ([Resets(230_000, 5_100, 4)] * 5, CARTPOLE)


def test_a_backend_that_resets_twice_as_often_differs() -> None:
    assert differ([Resets(230_000, 20_600, 4)] * 5, CARTPOLE)


def test_a_backend_that_resets_although_the_reference_never_does_differs() -> None:
    assert differ([Resets(100_000, 100, 1)] * 5, [Resets(100_000, 0, 1)] * 5)


def test_the_same_rate_in_many_more_steps_does_not_differ() -> None:
    assert not differ([Resets(23_000_000, 1_030_000, 64)] * 5, CARTPOLE)


@pytest.mark.parametrize("count", [0, 40])
def test_small_counts_never_differ(count: int) -> None:
    assert not differ([Resets(20_000, count // 5, 1)] * 5, [Resets(20_000, 3, 1)] * 5)


def test_without_a_reference_nothing_differs() -> None:
    assert not differ([Resets(20_000, 900, 1)], [])
    assert not differ([], CARTPOLE)


@given(
    length=st.integers(20, 2000),
    steps=st.integers(50, 20_000),
    others=st.integers(50, 20_000),
    environments=st.integers(1, 1000),
)
def test_episodes_that_all_end_together_never_differ(
    length: int, steps: int, others: int, environments: int
) -> None:
    reference = together(length, others, 8)
    assert not differ(together(length, steps, environments), reference)


@pytest.mark.parametrize(
    ("usual", "rare", "share"),
    [(20, 20, 0.0), (60, 1000, 0.15), (150, 1000, 0.1), (20, 200, 0.05)],
)
def test_episodes_of_very_different_lengths_never_differ(
    usual: int, rare: int, share: float
) -> None:
    chance = random.Random(1)
    for _ in range(100):
        steps, others = chance.choice([100, 400, 2000]), chance.choice([100, 400, 2000])
        own = free(chance, usual, rare, share, steps, chance.choice([1, 8, 24]))
        assert not differ(own, free(chance, usual, rare, share, others, chance.choice([1, 8])))


def test_the_spread_of_the_references_processes_widens_what_is_allowed() -> None:
    own = [Resets(100_000, 60, 1)] * 5
    assert differ(own, [Resets(100_000, 120, 1)] * 5)
    assert not differ(own, [Resets(100_000, count, 1) for count in (20, 60, 120, 180, 220)])
