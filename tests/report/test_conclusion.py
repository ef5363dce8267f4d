"""What the results of one machine and task say, in a sentence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    make_cell,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    make_windows,
    measured_plan,
    varied_plan,
)

from envbench.model import Run
from envbench.report.by_machine import machine_results
from envbench.report.conclusion import Conclusion, conclude
from envbench.results.selection import select

FAST, AS_FAST, SLOW = (200, 204, 198, 202, 199), (201, 197, 203, 199, 202), (99, 101, 100, 98, 102)


def said(records: list[Any]) -> Conclusion | None:
    (results,) = (each for each in machine_results(select(records), {}).values() if each.measured)
    return conclude(results)


def sentence(records: list[Any]) -> str:
    found = said(records)
    return found.sentence if found else ""


def test_the_winner_comes_with_its_factor_and_its_ties() -> None:
    cells = {("for-loop", 8): SLOW, ("envpool-sync", 8): AS_FAST, ("envpool-async", 8): FAST}
    text = sentence(varied_plan(cells))
    start = "On Pong-v5, EnvPool (async) has the highest FPS at 8 environments: 2.0 × For-loop "
    assert text.startswith(start)
    assert text.endswith("× For-loop (2.0 to 2.1); EnvPool (sync) ties.")


def test_a_winner_without_a_tie_is_the_fastest() -> None:
    text = sentence(varied_plan({("for-loop", 8): SLOW, ("envpool-async", 8): FAST}))
    assert text == (
        "On Pong-v5, EnvPool (async) is fastest at 8 environments: 2.0 × For-loop (2.0 to 2.1)."
    )


def test_a_tie_with_the_python_loop_has_no_factor() -> None:
    text = sentence(varied_plan({("for-loop", 8): AS_FAST, ("envpool-async", 8): FAST}))
    assert " × " not in text
    assert text.endswith("FPS ±2 %; For-loop ties.")


def test_ties_at_another_number_of_environments_say_theirs() -> None:
    cells = {("for-loop", 1): SLOW, ("envpool-sync", 4): AS_FAST, ("envpool-async", 8): FAST,
             ("ale-vector", 8): FAST}  # fmt: skip
    assert sentence(varied_plan(cells)).endswith("and EnvPool (sync) at 4 tie.")


def test_without_a_python_loop_the_best_other_row_shows_by_how_much() -> None:
    cells = {("envpool-sync", 1): SLOW, ("envpool-async", 1): FAST, ("ale-vector", 1): (9,) * 5}
    found = said(varied_plan(cells))
    assert found is not None
    assert found.sentence == (
        "On Pong-v5, EnvPool (async) is fastest at 1 environment: 3,210 FPS ±1 %, "
        "2.0 × EnvPool (sync) (2.0 to 2.0)."
    )
    document = found.json()
    assert document["to"] == "atari/Pong-v5/envpool-sync/1"
    assert document["ratio"] == pytest.approx(2, rel=0.02)
    assert document["interval"][0] < document["ratio"] < document["interval"][1]


def test_if_the_python_loop_wins_the_best_other_row_shows_by_how_much() -> None:
    found = said(varied_plan({("for-loop", 2): FAST, ("subprocess", 4): SLOW}))
    assert found is not None
    assert found.sentence == (
        "On Pong-v5, For-loop is fastest at 2 environments: 3,210 FPS ±2 %, "
        "2.0 × Subprocess at 4 (2.0 to 2.1)."
    )
    assert found.json()["to"] == "atari/Pong-v5/subprocess/4"
    assert (found.base, found.factor) == (None, "2.0 × Subprocess at 4 (2.0 to 2.1)")


def test_no_lower_figure_is_the_best_if_nothing_connects_the_highest_one() -> None:
    """As on a GPU, whose programs have blocks of their own."""
    plan = varied_plan({("for-loop", 8): SLOW, ("subprocess", 8): AS_FAST, ("ale-vector", 8): FAST})
    records = [
        msgspec.structs.replace(
            each, block=f"{each.run_id}-alone", measured=make_windows([900 + each.round] * 4)
        )
        if isinstance(each, Run) and each.cell.backend == "ale-vector"
        else each
        for each in plan
    ]
    found = said(records)
    assert found is not None
    assert found.best.label == "ALE (vector)"
    assert found.ties == []
    assert found.results.leaders == {8: []}  # nothing is bold


def test_a_tie_of_two_rows_without_a_python_loop_has_no_factor() -> None:
    text = sentence(varied_plan({("envpool-sync", 1): AS_FAST, ("envpool-async", 1): FAST}))
    assert " × " not in text
    assert text.endswith("FPS ±2 %; EnvPool (sync) ties.")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({("envpool-async", 8): 100}, "EnvPool (async) reaches 1,600 FPS at 8 environments. "),
        (
            {("envpool-async", 4): 100, ("envpool-async", 8): 200},
            "EnvPool (async) reaches up to 3,200 FPS, at 8 environments. ",
        ),
    ],
)
def test_a_single_row_is_not_called_the_fastest(
    cells: dict[tuple[str, int], int], expected: str
) -> None:
    text = sentence(measured_plan(cells, repeats=1, windows=8))
    assert text.startswith(
        f"On Pong-v5, {expected}This is provisional: the figures have no interval"
    )


def test_rows_that_do_not_compete_are_not_called_slower() -> None:
    found = said(varied_plan({("for-loop", 8): SLOW, ("an-unverified-plugin", 8): FAST}))
    assert found is not None
    assert (found.rows, found.alone) == (1, True)
    assert found.sentence.endswith(
        "an-unverified-plugin has a higher FPS, but its work is not known to be equal."
    )


def test_a_lower_row_that_does_not_compete_is_not_named() -> None:
    found = said(varied_plan({("for-loop", 8): FAST, ("an-unverified-plugin", 8): SLOW}))
    assert found is not None
    assert found.sentence.endswith("; no other row is comparable.")


def test_a_higher_row_is_named_where_others_compete() -> None:
    cells = {("for-loop", 8): SLOW, ("subprocess", 8): SLOW, ("an-unverified-plugin", 8): FAST}
    found = said(varied_plan(cells))
    assert found is not None
    assert "a higher FPS, but its work is not known to be equal" in found.sentence


def test_a_fast_cell_of_less_than_two_seconds_leaves_no_slower_one_the_fastest() -> None:
    """With a number of steps, the fastest cells are the shortest."""
    cells = {("for-loop", 8): SLOW, ("subprocess", 8): SLOW, ("envpool-async", 8): FAST}
    records = [
        msgspec.structs.replace(each, measured=make_windows([100] * 4, ns=50_000_000))
        if isinstance(each, Run) and each.cell.backend == "envpool-async"
        else each
        for each in varied_plan(cells)
    ]
    found = said(records)
    assert found is not None
    assert found.best.quick
    assert found.best.cell.backend == "envpool-async"
    assert "quick figures are never ranked" in found.provisional
    assert not any(found.results.leaders.values())


def test_a_row_that_an_interval_ties_with_the_highest_is_not_called_near() -> None:
    """Although the answer is provisional, because one of the two figures is quick."""
    records = [
        msgspec.structs.replace(each, measured=make_windows([40] * 4, ns=50_000_000))
        if isinstance(each, Run) and each.cell.backend == "envpool-async"
        else each
        for each in varied_plan({("subprocess", 8): FAST, ("envpool-async", 8): FAST})
    ]
    found = said(records)
    assert found is not None
    assert "; EnvPool (async) ties. This is provisional" in found.sentence


def test_quick_figures_give_a_provisional_answer() -> None:
    cells = {("for-loop", 8): 100, ("envpool-async", 8): 206}
    records = measured_plan(cells, repeats=1, quick=True, run={"quick": True})
    assert sentence(records) == (
        "On Pong-v5, EnvPool (async) has the highest FPS at 8 environments: 2.1 × For-loop. This "
        "is provisional: quick figures are never ranked. Measure for longer, without --quick, to "
        "be sure."
    )


def test_processes_that_did_not_alternate_are_compared_by_their_spread() -> None:
    cells = {("for-loop", 8): SLOW, ("envpool-async", 8): FAST}
    found = said(varied_plan(cells, alternate=False))
    assert found is not None
    assert found.provisional == ""
    assert found.relation is not None
    assert found.relation.interval is not None


def test_a_refused_row_is_never_named() -> None:
    cells = {("for-loop", 8): SLOW, ("envpool-async", 8): FAST}
    records = varied_plan(cells)
    text = sentence([*records, make_refusal(make_cell("envpool-async", 8))])
    assert text.startswith("On Pong-v5, For-loop reaches ")


def test_no_figure_no_conclusion() -> None:
    cell = make_cell("for-loop", 8)
    assert said([make_plan([cell]), make_run(cell, failure=make_failure())]) is None


def test_figures_of_another_session_than_the_tables_are_provisional() -> None:
    old = varied_plan({("for-loop", 8): SLOW, ("envpool-async", 8): FAST}, plan_id="old")
    plugin = {("example-serial", many): SLOW for many in (1, 2, 4, 8)}
    new = varied_plan(plugin, plan_id="new", started_utc="2025-11-21T10:00:00Z")
    text = sentence([*old, *new])
    assert "fastest" not in text
    assert text.endswith("provisional: these figures are of another session than the table's.")


def test_without_a_second_block_no_row_is_shown_to_be_the_fastest() -> None:
    text = sentence(
        measured_plan({("for-loop", 8): 100, ("envpool-async", 8): 300}, repeats=1, windows=8)
    )
    assert "EnvPool (async) has the highest FPS" in text
    assert "tie" not in text
    assert "This is provisional: the figures have no interval." in text


@pytest.mark.parametrize("quick", [False, True])
def test_a_newer_session_of_half_of_the_same_cells_is_the_tables(*, quick: bool) -> None:
    """Also a longer one after a quick look at more cells."""
    more = ["envpool-async"] if quick else []
    speeds = {(name, n): 100 for name in ("for-loop", "envpool-sync", *more) for n in range(1, 5)}
    first = measured_plan(speeds, **({"quick": True, "repeats": 1} if quick else {}))
    numbers = (4, 8) if quick else (2, 4, 8)
    wanted = {("envpool-sync", n): FAST for n in numbers}
    wanted |= {("for-loop", n): SLOW for n in numbers}
    later = varied_plan(wanted, plan_id="later", started_utc="2025-12-01T10:00:00Z")
    (results,) = (
        each for each in machine_results(select([*first, *later]), {}).values() if each.measured
    )
    assert results.session == "later"
    assert {numenv for numenv, leaders in results.leaders.items() if leaders} == {*numbers}
    assert "is fastest" in sentence([*first, *later])
