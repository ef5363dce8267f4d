"""Which measurement of a cell is shown: newest, complete, never pooled."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.record_factories import (
    LAPTOP,
    OTHER,
    make_cell,
    make_fact,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    make_windows,
    measured_plan,
)
from msgspec import structs

from envbench.backends import same_work
from envbench.model import EndedRecord, Load, MachineFact, Run, Windows, digest
from envbench.results.selection import select

CELL = {("for-loop", 1): 100}  # 100 steps in 0.25 s: 1,600 FPS


def figures(records):
    return [found.summary.fps for found in select(records).measured]


def later(speed, **given):
    started = {"started_utc": "2025-11-21T10:00:00Z"}
    return measured_plan({("for-loop", 1): speed}, plan_id="later", **started, **given)


def test_the_newest_complete_measurement_is_shown_and_plans_are_never_pooled():
    records = [*later(200), *measured_plan(CELL)]
    found = select(records)
    assert [each.summary.fps for each in found.measured] == [3200.0]
    assert len(found.measured[0].summary.runs) == 5
    assert found.warnings == []


def test_a_quick_measurement_never_displaces_a_full_one():
    assert figures([*measured_plan(CELL), *later(200, quick=True, repeats=1)]) == [1600.0]
    assert figures(later(200, quick=True, repeats=1)) == [3200.0]


def test_a_newer_failure_never_displaces_a_figure():
    failed = make_run(failure=make_failure(), plan_id="later", started_utc="2025-11-22")
    newer = [make_plan([make_cell()], plan_id="later"), failed]
    assert figures([*measured_plan(CELL), *newer]) == [1600.0]
    assert figures(newer) == [None]


def test_an_unfinished_measurement_is_not_shown_and_becomes_a_warning():
    unfinished = [r for r in later(200) if getattr(r, "round", 0) < 4]
    found = select([*measured_plan(CELL), *unfinished])
    assert [each.summary.fps for each in found.measured] == [1600.0]
    assert "1 cell of laptop (plan later" in found.warnings[0]
    assert select(unfinished).measured == []


def test_an_abandoned_plan_shows_what_it_measured():
    unfinished = [r for r in later(200) if getattr(r, "round", 0) < 4]
    ended = EndedRecord(plan_id="later", how="abandoned", ended_utc="2025-11-22")
    (found,) = select([*unfinished, ended]).measured
    assert (found.fps, len(found.runs), found.summary.interval) == (3200.0, 4, None)
    both = select([*measured_plan(CELL), *unfinished, ended])
    assert [each.fps for each in both.measured] == [1600.0]  # it has an interval
    stopped = [make_run(failure=make_failure(reason="interrupted")), ended]
    assert select([make_plan([make_cell()]), *stopped]).measured == []


def test_an_interrupted_run_does_not_finish_a_measurement():
    plan = make_plan([make_cell()], repeats=2)
    stopped = make_run(round=1, failure=make_failure(reason="interrupted"))
    assert select([plan, make_run(), stopped]).measured == []
    (found,) = select([plan, make_run(), stopped, make_run(round=1)]).measured
    assert len(found.summary.runs) == 2


def test_a_copied_file_does_not_double_its_runs():
    records = measured_plan(CELL)
    (found,) = select([*records, *records]).measured
    assert len(found.summary.runs) == 5
    assert len(found.session.rates) == 5


def test_cells_are_compared_with_the_complete_cells_of_their_plan_only():
    """The last round of EnvPool is not finished, and a foreign run has the key of a cell."""
    speeds = {("for-loop", 1): 100, ("subprocess", 1): 200, ("envpool-sync", 1): 300}
    foreign = make_run(make_cell("for-loop", 1, frame_skip=10**9), block="plan-b0")
    records = [*measured_plan(speeds)[:-1], foreign]
    measured = select(records).measured
    assert [each.cell.backend for each in measured] == ["for-loop", "subprocess"]
    for each in measured:
        standings = each.session.standings
        assert list(standings) == [cell.cell.key for cell in measured]
        assert [place.rank for place in standings.values()] == [2, 1]
        assert each.session.cells[each.cell.key] == each.cell
    ratio = measured[0].session.ratio(measured[0].cell, measured[1].cell)
    assert ratio is not None
    assert ratio.ratio == pytest.approx(0.5)


def test_a_refused_cell_has_no_rank_and_no_ratio_and_nothing_ties_with_it():
    speeds = {("for-loop", 1): 100, ("envpool-async", 1): 300, ("subprocess", 1): 300}
    cheat = make_refusal(make_cell("subprocess", 1))
    measured = select([*measured_plan(speeds), cheat]).measured
    assert [(each.cell.backend, each.fps) for each in measured] == [
        ("envpool-async", 4800), ("for-loop", 1600), ("subprocess", None),
    ]  # fmt: skip
    refused = measured[-1].cell.key
    for each in measured:
        assert {key: place.text for key, place in each.session.standings.items()} == {
            measured[0].cell.key: "1", measured[1].cell.key: "2",
        }  # fmt: skip
        (pair,) = each.session.ratios()
        assert refused not in {cell.key for cell in pair[:2]}
    assert measured[-1].adjusted is None


def test_other_settings_have_their_own_row():
    variant = measured_plan(
        {("envpool-async", 1): 300},
        plan_id="variant",
        cell={"settings": {"overcommit": 2}, "variant": {"overcommit": 2}},
    )
    found = select([*measured_plan({("envpool-async", 1): 100}), *variant]).measured
    assert [each.label for each in found] == ["EnvPool (async)", "EnvPool (async), overcommit=2"]


def test_a_plan_with_an_absurd_number_of_rounds_takes_no_time():
    plan = make_plan([make_cell()], repeats=10**18)
    assert select([plan, make_run()]).measured == []


def test_the_fingerprint_of_the_runs_is_kept():
    (found,) = select(measured_plan(CELL, fingerprint=digest(OTHER))).measured
    assert found.fingerprint == OTHER


def test_a_table_never_shows_two_computers_of_the_same_hardware() -> None:
    """As where a file was copied from another computer."""
    host = structs.replace(LAPTOP, host="another")
    cells = {("for-loop", 1): 100, ("subprocess", 1): 90}
    own = measured_plan(cells)
    copied = [make_fact(host), *later(200, fingerprint=digest(host))]
    found = select([*own, *copied])
    assert sorted(each.summary.fps for each in found.measured) == [1440.0, 1600.0]
    assert [each.fingerprint for each in found.measured] == [LAPTOP] * 2
    assert any("of another computer left out" in warning for warning in found.warnings)


def test_a_profile_shows_its_first_computer_in_every_family_however_much_another_measured() -> None:
    twin = structs.replace(LAPTOP, host="another")
    own = measured_plan({("for-loop", 1): 100}, plan_id="own")
    more = {("for-loop", n): 300 for n in (1, 2, 4)}
    theirs: dict[str, Any] = {"fingerprint": digest(twin), "started_utc": "2026-06-01T00:00:00Z"}
    ant = {"env": "mujoco", "task": "Ant-v3", "frame_skip": 5}
    copied = [
        *measured_plan(more, plan_id="larger", **theirs),
        *measured_plan(more, plan_id="ant", cell=ant, **theirs),
    ]
    found = select([*own, make_fact(twin), *copied])
    assert [each.plan_id for each in found.measured] == ["own"]
    assert any("6 measurements of another computer" in warning for warning in found.warnings)


def test_a_measurement_without_an_interval_never_displaces_one_that_has_it() -> None:
    full = measured_plan({("for-loop", 1): 10}, run={"measured": long_windows(10)})
    few = measured_plan({("for-loop", 1): 99}, 2, plan_id="later", started_utc="2026-01-01T00:00Z")
    found = select([*full, *few])
    assert [shown.plan_id for shown in found.measured] == ["plan"]
    assert found.warnings[0].startswith("1 newer measurement not shown")


def test_other_frames_per_step_have_their_own_row_and_are_the_same_work() -> None:
    own = {"env": "gym", "task": "mine:My-v0", "frame_skip": 1}
    ones = measured_plan({("for-loop", 1): 10}, cell=own)
    fours = measured_plan(
        {("for-loop", 1): 10},
        plan_id="fours",
        cell={**own, "frame_skip": 4, "variant": {"frame_skip": 4}},
    )
    found = select([*ones, *fours]).measured
    assert [each.label for each in found] == ["For-loop", "For-loop, frame_skip=4"]
    assert [same_work(each.cell) for each in found] == [True, True]


def test_a_very_short_measurement_counts_as_quick() -> None:
    full = measured_plan({("for-loop", 1): 10}, 2, run={"measured": long_windows(10)})
    tiny = measured_plan(
        {("for-loop", 1): 99},
        plan_id="later",
        started_utc="2026-01-01T00:00Z",
        run={"measured": make_windows([99])},
    )
    (shown,) = select([*full, *tiny]).measured
    assert shown.plan_id == "plan"


def test_a_run_whose_plan_has_no_such_cell_is_left_out_with_a_warning() -> None:
    records = measured_plan({("for-loop", 1): 10})
    foreign = make_run(make_cell("for-loop", 1, frame_skip=10**9))
    selection = select([*records, foreign])
    assert [each.summary.cell.frame_skip for each in selection.measured] == [4]
    assert any(foreign.run_id in warning for warning in selection.warnings)


def long_windows(steps: int) -> Windows:
    """Windows of four seconds in total."""
    return make_windows([steps] * 16)


def test_a_plan_without_rounds_and_rounds_outside_the_plan_finish_no_measurement() -> None:
    assert select([make_plan([make_cell()], repeats=0), make_run()]).measured == []
    negative = [make_run(round=number) for number in (-1, 0)]
    assert select([make_plan([make_cell()], repeats=2), *negative]).measured == []


def test_the_time_of_a_measurement_is_that_of_its_last_run() -> None:
    records = [
        structs.replace(each, started_utc=f"2025-11-2{each.round}T10:00:00Z")
        if isinstance(each, Run)
        else each
        for each in measured_plan(CELL)
    ]
    (found,) = select(records).measured
    assert found.when == "2025-11-24T10:00:00Z"


def test_a_plan_of_one_cell_is_flagged_and_quick_measurements_are_not_counted() -> None:
    runs = [make_run(round=number, measured=long_windows(10)) for number in range(5)]
    records = [make_plan([make_cell()]), *runs]
    (found,) = select([*records, *later(200, quick=True, repeats=1)]).measured
    assert found.summary.flags == ["one-go"]
    assert found.times == 1


def test_other_load_is_compared_with_all_cpus_of_the_recorded_machine() -> None:
    busy = {
        "load": Load(cpu_s=1.0, other_cpu_s=0.5)
    }  # the windows of a laptop with 12 CPUs were open for 1 s
    (found,) = select(measured_plan(CELL, run=busy)).measured
    assert "other-load" not in found.summary.flags
    unknown = [each for each in measured_plan(CELL, run=busy) if not isinstance(each, MachineFact)]
    (found,) = select(unknown).measured
    assert "other-load" in found.summary.flags


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, ""),
        ({"library_task": "Pong-v5"}, ""),
        ({"library_task": "ALE/Pong-v5"}, ""),
        ({"library_task": "Pong-v4"}, "Pong-v4"),
        ({"library_task": "Pong-v4", "library_arguments": {"x": 1}}, "Pong-v4 (x=1)"),
    ],
)
def test_a_task_that_ran_in_place_of_another_is_named_with_its_arguments(
    facts: dict[str, Any], text: str
) -> None:
    (found,) = select(measured_plan(CELL, run={"facts": facts})).measured
    assert found.ran == text
