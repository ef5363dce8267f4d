"""The cells of one session, compared with each other."""

from __future__ import annotations

import random

import pytest
from helpers.record_factories import make_cell, make_failure, make_run

from envbench.decisions.session import Session, session
from envbench.model import Run

SPEEDS = {("for-loop", 1): 1000, ("envpool-sync", 1): 1000, ("envpool-async", 1): 2000}


NOISE = [0.01, -0.01, 0.0, 0.005, -0.005]  # of a cell's blocks; other cells start elsewhere


def alternating(speeds: dict[tuple[str, int], int] = SPEEDS) -> list[Run]:
    """Every cell in five blocks. The blocks differ by up to a factor of two, the cells do not."""
    chance = random.Random(1)
    runs = []
    for number in range(5):
        machine = chance.uniform(1, 2)
        for place, ((backend, numenv), speed) in enumerate(speeds.items()):
            steps = round(speed * machine * (1 + NOISE[(number + place) % 5]))
            runs.append(make_run(make_cell(backend, numenv), [steps] * 4, block=f"b{number}"))
    return runs


def key(backend: str, numenv: int = 1) -> str:
    return make_cell(backend, numenv).key


def test_a_cell_that_is_shown_to_be_faster_is_first_and_equal_cells_tie() -> None:
    standings = session(alternating(), {}).standings
    assert {name: each.rank for name, each in standings.items()} == {
        key("for-loop"): 2,
        key("envpool-sync"): 2,
        key("envpool-async"): 1,
    }
    assert standings[key("for-loop")].ties == (key("envpool-sync"),)
    assert [each.text for each in standings.values()] == ["2=", "2=", "1"]


def test_the_ratio_does_not_contain_the_differences_between_blocks() -> None:
    found = session(alternating(), {})
    ratio = found.ratio(make_cell("envpool-async"), make_cell("for-loop"))
    assert ratio is not None
    assert ratio.interval is not None
    assert ratio.ratio == pytest.approx(2.0, rel=0.03)
    assert ratio.interval[1] / ratio.interval[0] < 1.1


def test_each_pair_of_one_task_has_one_ratio_and_other_tasks_have_none() -> None:
    other = [
        make_run(make_cell("for-loop", 1, task="Breakout-v5"), [500] * 4, block=f"b{number}")
        for number in range(5)
    ]
    pairs = [{one.key, to.key} for one, to, _ in session([*alternating(), *other], {}).ratios()]
    assert len(pairs) == 3
    assert not any("Breakout" in name for pair in pairs for name in pair)


def test_columns_of_other_numbers_of_environments_are_ranked_apart() -> None:
    speeds = {("for-loop", 1): 1000, ("for-loop", 2): 3000}
    assert [each.rank for each in session(alternating(speeds), {}).standings.values()] == [1, 1]


def test_a_single_cell_beside_the_kernel_has_rank_one_and_no_ties_and_no_ratios() -> None:
    kernel = make_cell("reference-kernel")
    runs = []
    for run in alternating({("for-loop", 1): 1000}):
        runs += [run, make_run(kernel, [300] * 4, block=run.block, arm="kernel")]
    found = session(runs, {})
    (standing,) = found.standings.values()
    assert (standing.rank, standing.ties) == (1, ())
    assert found.adjusted(make_cell("for-loop", 1)) is None
    assert list(found.ratios()) == []
    assert list(found.kernels) == [kernel.key]


def test_cells_that_ran_one_after_another_tie_and_have_no_adjusted_figure() -> None:
    runs = [
        make_run(run.cell, [100], block=f"{number}") for number, run in enumerate(alternating())
    ]
    found = session(runs, {})
    assert {each.rank for each in found.standings.values()} == {1}
    assert {len(each.ties) for each in found.standings.values()} == {2}
    assert found.adjusted(make_cell("for-loop")) is None


def test_a_failed_cell_has_no_place_and_an_interrupted_run_does_not_matter() -> None:
    failed = make_run(make_cell("for-loop"), failure=make_failure())
    stopped = make_run(make_cell("envpool-sync"), failure=make_failure(reason="interrupted"))
    found = session([*alternating(), failed, stopped], {})
    assert set(found.standings) == {key("envpool-sync"), key("envpool-async")}


def test_a_refused_cell_is_not_ranked() -> None:
    found = session(alternating(), {}).without({key("envpool-async")})
    assert {name: each.rank for name, each in found.standings.items()} == {
        key("for-loop"): 1,
        key("envpool-sync"): 1,
    }


def test_the_other_cells_stay_adjusted_if_all_but_one_are_refused() -> None:
    found = session(alternating(), {})
    kept = make_cell("for-loop")
    left = found.without(found.cells.keys() - {kept.key})
    assert found.adjusted(kept) is not None
    assert left.adjusted(kept) == found.adjusted(kept)
    assert {name: each.rank for name, each in left.standings.items()} == {kept.key: 1}


def test_a_session_without_runs_compares_nothing() -> None:
    assert Session().standings == {} == session([], {}).standings


def test_a_kernel_with_other_threads_is_another_kernel() -> None:
    cell = make_cell("pooled-kernel")
    runs = [
        make_run(cell, [300] * 4, block=f"b{n}", arm="kernel", facts={"threads": threads})
        for n, threads in enumerate((2, 2, 8))
    ]
    assert len(session(runs, {}).kernels) == 2


def test_cells_of_one_block_each_cannot_be_told_apart() -> None:
    assert session(alternating(), {}).resolves
    once = [run for run in alternating() if run.block == "b0"]
    assert not session(once, {}).resolves
    assert not Session().resolves
