"""How long blocks of ``run`` are expected to take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers.record_factories import block_of, make_cell, make_failure, make_plan, make_run

from envbench.experiments.run.expected import REST_S, START_S, Expected
from envbench.model import BlockRecord, Cell, Protocol, RunDesign, Times

FAST, SLOW = make_cell("for-loop", 1), make_cell("subprocess", 8)
PLAN = make_plan([FAST, SLOW])
SECOND = 10**9


def block(starts: dict[str, float], seconds: float, measured: float = 6.0) -> BlockRecord:
    runs = [
        make_run(
            cell,
            times=Times(
                import_ns=0,
                build_ns=round(starts[cell.key] * SECOND),
                first_step_ns=0,
                warmup_ns=0,
                measured_ns=round(measured * SECOND),
            ),
            block="block",
        )
        for cell in (FAST, SLOW)
    ]
    return msgspec.structs.replace(block_of(runs)[1], seconds=seconds)


DONE = block({FAST.key: 1.0, SLOW.key: 5.0}, seconds=22.0)  # 6 s + 12 s, and 2 s per trial


def measured_s() -> float:
    return PLAN.design_as(RunDesign).protocol["for-loop"].measured_s


def test_without_records_a_trial_has_the_usual_start() -> None:
    expected = Expected(PLAN, ())
    assert expected.seconds(FAST) == pytest.approx(START_S + measured_s() + REST_S)


def test_each_cell_has_its_own_start_and_every_trial_the_same_rest() -> None:
    expected = Expected(PLAN, [DONE])
    assert expected.seconds(FAST) == pytest.approx(1.0 + measured_s() + 2.0)
    assert expected.seconds(SLOW) == pytest.approx(5.0 + measured_s() + 2.0)


def test_an_unknown_cell_starts_like_the_nearest_of_its_backend() -> None:
    expected = Expected(PLAN, (), [DONE])
    assert expected.seconds(make_cell("subprocess", 12)) == expected.seconds(SLOW)


def test_starts_at_once_never_give_less_than_the_steps() -> None:
    at_once = block({FAST.key: 10.0, SLOW.key: 10.0}, seconds=14.0)
    assert Expected(PLAN, [at_once]).seconds(FAST) >= measured_s()


def test_failed_blocks_show_nothing() -> None:
    failed = block_of([make_run(FAST, failure=make_failure(), block="block")])[1]
    assert Expected(PLAN, [failed]).seconds(FAST) == Expected(PLAN, ()).seconds(FAST)


def test_a_number_of_steps_takes_as_long_as_it_did() -> None:
    calls = 5 * sum(DONE.trials[0].measured.calls)  # of five repeats
    design: Any = msgspec.structs.replace(
        PLAN.design_as(RunDesign), protocol={"for-loop": Protocol(calls=calls)}
    )
    plan = msgspec.structs.replace(PLAN, design=design)
    assert Expected(plan, ()).seconds(FAST) == pytest.approx(START_S + REST_S)
    assert (Expected(plan, ()).knows(FAST), Expected(plan, [DONE]).knows(FAST)) == (False, True)
    assert Expected(plan, [DONE]).seconds(FAST) == pytest.approx(1.0 + 6.0 + 2.0)


def test_the_build_of_more_environments_than_any_before_is_on_a_line() -> None:
    one, ten = (make_cell("for-loop", numenv) for numenv in (1, 10))
    times = {one.key: 1.0, ten.key: 2.8}  # 0.2 s per environment
    done = [built(each, times[each.key]) for each in (one, ten)]
    expected = Expected(PLAN, done)
    rest = expected.rest + measured_s()
    assert expected.seconds(make_cell("for-loop", 60)) == pytest.approx(2.8 + 50 * 0.2 + rest)
    assert expected.seconds(make_cell("for-loop", 9)) == pytest.approx(2.8 + rest)  # the nearest
    faster = [built(one, 5.0), built(ten, 2.0)]  # such as a compilation that was cached
    assert Expected(PLAN, faster).seconds(make_cell("for-loop", 60)) == pytest.approx(2.0 + rest)


def built(cell: Cell, seconds: float) -> BlockRecord:
    """A block of one trial, which takes 2 s beyond its build and its 6 s of steps."""
    times = Times(
        import_ns=0,
        build_ns=round(seconds * SECOND),
        first_step_ns=0,
        warmup_ns=0,
        measured_ns=6 * SECOND,
    )
    made = block_of([make_run(cell, times=times)])[1]
    return msgspec.structs.replace(made, seconds=seconds + 8)


def test_far_more_environments_than_were_measured_are_unknown() -> None:
    known = Expected(PLAN, [DONE])
    assert [known.knows(make_cell("subprocess", n)) for n in (8, 80, 81)] == [True, True, False]
    fresh = Expected(PLAN, ())
    assert [fresh.knows(make_cell("subprocess", n)) for n in (1000, 1001)] == [True, False]
