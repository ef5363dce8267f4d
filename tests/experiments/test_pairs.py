"""The order, seeds, slices and cores of pairs."""

from __future__ import annotations

import pytest
from helpers.pair_factories import CELLS, pairs_plan
from helpers.record_factories import make_cell
from msgspec import structs

from envbench.experiments.pairs import design, pair, placement, rounds, slicing
from envbench.model import Behaviour, Cell


def order(cells: list[Cell], count: int, seed: int) -> list[tuple[int, Cell]]:
    plan = structs.replace(pairs_plan(pairs=count), seed=seed)
    return rounds(plan, cells, [])


def test_each_round_has_every_cell_once_in_a_different_order() -> None:
    cells = [make_cell(numenv=n) for n in range(1, 9)]
    plan = order(cells, 5, seed=1)
    found = [[cell.numenv for number, cell in plan if number == i] for i in range(5)]
    assert all(sorted(each) == list(range(1, 9)) for each in found)
    assert len({tuple(each) for each in found}) > 1
    assert [number for number, _ in plan] == sorted(number for number, _ in plan)


def test_a_schedule_depends_only_on_its_seed() -> None:
    cells = [make_cell(numenv=n) for n in range(1, 9)]
    plan = order(cells, 3, seed=7)
    # No plan records its order: another release must compute the same one to resume it.
    assert [cell.numenv for _, cell in plan] == [
        8, 7, 2, 6, 3, 5, 4, 1,
        6, 4, 8, 2, 3, 5, 7, 1,
        6, 7, 2, 3, 8, 4, 1, 5,
    ]  # fmt: skip
    assert order(cells, 3, seed=8) != plan
    assert order([], 3, seed=7) == []


def test_every_pair_of_both_stages_has_its_own_seed() -> None:
    plan, trials = pairs_plan(pairs=4), (("baseline", CELLS[0]), ("candidate", CELLS[0]))
    blocks = [pair(plan, trials, number=n, stage=stage) for stage in (1, 2) for n in range(4)]
    assert len({block.trials[0].seed for block in blocks}) == 8


@pytest.mark.parametrize(("quads", "fewer"), [(50, 5), (9, 1)])
def test_large_batches_have_a_tenth_of_the_slices_but_at_least_one_group(
    quads: int, fewer: int
) -> None:
    fixed = structs.replace(design(5), quads=quads, slice_s=0.01)
    assert slicing(fixed, Behaviour()) == (quads, 0.01)
    assert slicing(fixed, Behaviour(large_batches=True)) == (fewer, 0.1)


def test_blocks_of_a_one_thread_backend_use_the_cores_alternately() -> None:
    plan, one = pairs_plan(cores=[4, 6]), Behaviour(steps_in="one-thread")
    found = [placement(plan, one, number) for number in range(3)]
    assert found == [([4], False), ([6], False), ([4], False)]


def test_two_pools_start_at_the_same_time_only_if_there_are_enough_cores() -> None:
    pool = Behaviour(steps_in="pool")
    assert placement(pairs_plan(), pool, 0) == ([], True)
    assert placement(pairs_plan(cores=[0]), pool, 0) == ([], False)
    assert placement(pairs_plan(quota=1.5), pool, 0) == ([], False)
    large = Behaviour(steps_in="pool", large_batches=True)
    assert placement(pairs_plan(), large, 0) == ([], False)
