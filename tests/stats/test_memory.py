"""Memory as a fixed part plus a part per environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.stats.memory import memory_line

MIB = 2**20


@given(
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.lists(st.integers(1, 10_000), min_size=3, max_size=8, unique=True),
)
def test_the_line_through_exact_points_is_found(fixed: int, slope: int, counts: list[int]) -> None:
    found = memory_line([(count, fixed + slope * count) for count in counts], 0)
    assert found is not None
    assert found.bytes_per_env == pytest.approx(slope, rel=1e-6, abs=1e-3 * fixed)
    assert found.misfit < 1e-6
    assert found.environments == tuple(sorted(counts))


def test_the_free_memory_holds_the_fixed_part_and_so_many_environments() -> None:
    points = [(n, (100 + 10 * n) * MIB) for n in (1, 4, 16)]
    found = memory_line(points, 1105 * MIB)
    assert found is not None
    assert found.largest == 100
    full = memory_line(points, 50 * MIB)
    assert full is not None
    assert full.largest == 0


def test_small_cells_count_as_much_as_large_ones() -> None:
    """An error of 10 % in the largest cell does not move the fixed part beyond 10 %."""
    points = [(n, (100 + 10 * n) * MIB) for n in (1, 2, 4, 8)]
    found = memory_line([*points, (1024, int(1.1 * 10_340 * MIB))], 0)
    assert found is not None
    assert found.fixed_bytes == pytest.approx(100 * MIB, rel=0.1)


@pytest.mark.parametrize(
    "cells", [[], [(1, 5)], [(1, 5), (2, 6)], [(1, 5), (2, 6), (2, 7)], [(1, 5), (2, 6), (3, 0)]]
)
def test_fewer_than_three_numbers_of_environments_have_no_line(
    cells: list[tuple[int, int]],
) -> None:
    assert memory_line(cells, 10**9) is None


def test_nothing_is_extrapolated_without_growth_or_without_a_known_free_memory() -> None:
    shrinking = memory_line([(1, 300), (2, 200), (3, 100)], 10**9)
    assert shrinking is not None
    assert shrinking.largest is None
    unknown = memory_line([(1, 100), (2, 200), (3, 300)], 0)
    assert unknown is not None
    assert unknown.largest is None
