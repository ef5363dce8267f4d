"""The order in which ``run`` measures its cells."""

from __future__ import annotations

from collections import Counter

from made_records import make_cell

from envbench.engine.pairs import schedule


def test_each_round_has_every_cell_once_in_a_different_order():
    cells = [make_cell(numenv=n) for n in range(1, 9)]
    plan = schedule(cells, {"for-loop": 5}, seed=1)
    rounds = [[cell.numenv for number, cell in plan if number == i] for i in range(5)]
    assert all(sorted(order) == list(range(1, 9)) for order in rounds)
    assert len({tuple(order) for order in rounds}) > 1
    assert [number for number, _ in plan] == sorted(number for number, _ in plan)


def test_a_schedule_depends_only_on_its_seed():
    cells = [make_cell(numenv=n) for n in range(1, 9)]
    plan = schedule(cells, {"for-loop": 3}, 7)
    # No plan records its order: another release must compute the same one to resume it.
    assert [cell.numenv for _, cell in plan] == [
        7, 8, 3, 5, 1, 4, 2, 6,
        4, 3, 8, 2, 7, 1, 5, 6,
        8, 5, 3, 6, 2, 1, 4, 7,
    ]  # fmt: skip
    assert schedule(cells, {"for-loop": 3}, 8) != plan


def test_a_backend_takes_part_in_one_round_per_repeat():
    cells = [make_cell("for-loop"), make_cell("brax", env="mujoco", task="Ant-v3")]
    plan = schedule(cells, {"for-loop": 5, "brax": 2}, seed=0)
    assert Counter(cell.backend for _, cell in plan) == {"for-loop": 5, "brax": 2}
    assert schedule([], {}, seed=0) == []
