"""Figures above the ceiling, or with other resets than the reference: refused or doubtful."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    LAPTOP,
    make_agreement,
    make_cell,
    make_fact,
    make_plan,
    make_run,
    make_windows,
)

from envbench import backends, families
from envbench.model import Plan, Protocol, Record, Run, digest
from envbench.results.measured_cells import Measured
from envbench.results.plausible import AT_FIRST, UNCHECKED
from envbench.results.selection import select

ENGINE = {"engine": "ALE 0.12.0", "frame_skip": 4, "noop_max": 30, "autoreset": "next-step"}
NO_RESETS = {**ENGINE, "autoreset": "none"}
CEILING = {**ENGINE, "noop_max": 0}
OWN_BUILD = {**ENGINE, "engine": "ALE, EnvPool's own build"}


def records(
    speeds: dict[str, int], work: dict[str, dict[str, Any]], *, repeats: int = 5
) -> list[Record]:
    """A session whose cells alternated: steps per window of each backend, and what it reports."""
    cells = [make_cell(name, 2, kind="ceiling" if name == "ceiling" else "env") for name in speeds]
    runs = [
        make_run(
            cell,
            [speeds[cell.backend] + number % 3] * 4,
            round=number,
            block=f"{number}",
            facts={"work": work.get(cell.backend, {})},
        )
        for number in range(repeats)
        for cell in cells
    ]
    return [make_fact(), make_plan(cells, repeats, quick=repeats == 1), *runs]


def shown(made: list[Record], backend: str) -> Measured:
    return next(each for each in select(made).measured if each.cell.backend == backend)


def test_a_figure_above_the_ceiling_of_the_same_engine_is_refused() -> None:
    work = {"for-loop": ENGINE, "ceiling": CEILING}
    found = shown(records({"for-loop": 2200, "ceiling": 2000}, work), "for-loop")
    assert found.fps is None
    assert found.summary.failure is not None
    assert found.summary.failure.message.startswith("1.10 times the ceiling, with the same engine")
    assert found.session.cells.keys() == {shown(records({"ceiling": 1}, work), "ceiling").cell.key}


def test_the_other_figures_of_a_row_above_the_ceiling_are_doubtful() -> None:
    work = {"facts": {"work": CEILING}}
    cells = [make_cell("for-loop", 1), make_cell("for-loop", 2), make_cell("subprocess", 1)]
    cells.append(make_cell("ceiling", 2, kind="ceiling"))
    speeds = [900, 2200, 800, 2000]
    runs = [
        make_run(cell, [speed + number % 3] * 4, round=number, block=f"{number}", **work)
        for number in range(5)
        for cell, speed in zip(cells, speeds, strict=True)
    ]
    found = {each.cell.key: each for each in select([make_plan(cells, 5), *runs]).measured}
    one, two, other, _ = (found[cell.key] for cell in cells)
    assert (one.fps is None, two.fps is None, other.doubt) == (False, True, "")
    assert one.doubt == "another figure of its row was refused by the ceiling"
    assert one.session.cells.keys() == {cell.key for cell in cells[2:]}


def test_the_highest_ceiling_counts_not_the_newest() -> None:
    """A later one may have been measured on fewer cores."""
    work = {"for-loop": ENGINE, "ceiling": CEILING}
    first = records({"for-loop": 2000, "ceiling": 2100}, work)
    cell = make_cell("ceiling", 1, kind="ceiling")
    later = {"plan_id": "later", "started_utc": "2026-12-01T10:00:00Z"}
    facts = {"work": CEILING}
    runs = [make_run(cell, [500] * 4, round=n, facts=facts, **later) for n in range(5)]
    found = shown([*first, make_plan([cell], **later), *runs], "for-loop")
    assert found.fps is not None


def test_a_figure_above_the_ceiling_of_another_build_says_what_differs() -> None:
    work = {"envpool-sync": OWN_BUILD, "ceiling": CEILING}
    found = shown(records({"envpool-sync": 2200, "ceiling": 2000}, work), "envpool-sync")
    assert found.fps is not None
    assert found.doubt == (
        "1.10 times the ceiling: engine is ALE, EnvPool's own build (ceiling: ALE 0.12.0)"
    )


@pytest.mark.parametrize(
    ("backend", "gpus", "limited"),
    [("mujoco-warp", ["H100"], False), ("mujoco-warp", [], True), ("envpool-sync", ["H100"], True)],
)
def test_a_ceiling_of_processors_does_not_limit_a_gpu(
    backend: str, gpus: list[str], *, limited: bool
) -> None:
    machine = msgspec.structs.replace(LAPTOP, gpus=gpus)
    work = {backend: OWN_BUILD, "ceiling": CEILING}
    _, plan, *runs = records({backend: 22_000, "ceiling": 2000}, work)
    behaviour = {name: backends.get(name).behaviour for name in (backend, "ceiling")}
    plan = msgspec.structs.replace(plan, fingerprint=digest(machine), behaviour=behaviour)
    runs = [msgspec.structs.replace(run, fingerprint=digest(machine)) for run in runs]
    found = shown([make_fact(machine), plan, *runs], backend)
    assert (found.fps is not None, bool(found.doubt), found.on_gpu) == (True, limited, not limited)


def test_a_backend_that_never_resets_does_other_work_than_the_ceiling() -> None:
    work = {"for-loop": NO_RESETS, "ceiling": CEILING}
    found = shown(records({"for-loop": 2200, "ceiling": 2000}, work), "for-loop")
    assert found.doubt == "1.10 times the ceiling: autoreset is none (ceiling: next-step)"


def test_not_to_reset_does_not_explain_a_figure_far_above_the_ceiling() -> None:
    work = {"for-loop": NO_RESETS, "ceiling": CEILING}
    found = shown(records({"for-loop": 3200, "ceiling": 2000}, work), "for-loop")
    assert found.summary.failure is not None
    assert found.summary.failure.message.startswith("1.60 times the ceiling, with the same engine")


def test_a_backend_that_does_not_name_its_engine_may_have_another() -> None:
    found = shown(records({"x": 4000, "ceiling": 2000}, {"ceiling": CEILING}), "x")
    assert found.doubt == "2.00 times the ceiling: its engine is unknown"


def test_an_accelerator_of_a_plugin_with_the_ceilings_engine_is_limited_by_it() -> None:
    work = {"mine": ENGINE, "ceiling": CEILING}
    made = records({"mine": 40_000, "ceiling": 2000}, work)
    cell = msgspec.structs.replace(make_cell("mine", 2), accelerator=True)
    made = [
        msgspec.structs.replace(each, cell=cell, agreement=make_agreement(steps=60))
        if isinstance(each, Run) and each.cell.backend == "mine"
        else msgspec.structs.replace(each, cells=[cell, *each.cells[1:]])
        if isinstance(each, Plan)
        else each
        for each in made
    ]
    found = shown(made, "mine")
    assert found.summary.failure is not None
    assert "no backend can be that fast" in found.summary.failure.message


def test_a_plugin_is_no_ceiling() -> None:
    work = {"for-loop": ENGINE, "ceiling": CEILING, "mine": CEILING}
    made = records({"for-loop": 2200, "ceiling": 2000, "mine": 90_000}, work)
    own = make_cell("mine", 2, kind="ceiling")
    made = [
        msgspec.structs.replace(each, cell=own)
        if isinstance(each, Run) and each.cell.backend == "mine"
        else msgspec.structs.replace(each, cells=[*each.cells[:2], own])
        if isinstance(each, Plan)
        else each
        for each in made
    ]
    assert shown(made, "for-loop").fps is None


@pytest.mark.parametrize("speed", [1500, 2000, 2080])
def test_a_figure_up_to_the_ceilings_own_cost_above_it_is_shown(speed: int) -> None:
    work = {"for-loop": ENGINE, "ceiling": CEILING}
    found = shown(records({"for-loop": speed, "ceiling": 2000}, work), "for-loop")
    assert (found.fps is None, found.doubt) == (False, "")


@pytest.mark.parametrize(("speed", "refused"), [(2900, False), (3100, True)])
def test_without_an_interval_only_a_much_higher_figure_is_refused(
    speed: int, *, refused: bool
) -> None:
    work = {"for-loop": ENGINE, "ceiling": CEILING}
    made = records({"for-loop": speed, "ceiling": 2000}, work, repeats=1)
    assert (shown(made, "for-loop").fps is None) is refused


def test_a_figure_far_above_the_ceiling_is_doubtful_although_its_interval_is_wide() -> None:
    """Two processes, one of which is 20 times as fast: the interval says nothing."""
    work = {"for-loop": ENGINE, "ceiling": CEILING}
    made = [
        msgspec.structs.replace(each, measured=make_windows([40_000] * 4))
        if isinstance(each, Run) and each.cell.backend == "for-loop" and each.round
        else each
        for each in records({"for-loop": 2000, "ceiling": 2000}, work, repeats=2)
    ]
    found = shown(made, "for-loop")
    assert found.fps is not None
    assert found.doubt.endswith("times the ceiling, with an interval too wide to refuse it")
    assert found.cell.key not in found.session.cells


@pytest.mark.parametrize(("checked", "doubtful"), [(100, False), (60, False), (45, True)])
def test_processes_that_are_much_faster_without_a_spot_check_are_doubtful(
    checked: int, *, doubtful: bool
) -> None:
    made = [
        msgspec.structs.replace(
            each,
            measured=make_windows([100 if each.round else checked] * 4),
            agreement=None if each.round else make_agreement(steps=60),
        )
        if isinstance(each, Run)
        else each
        for each in records({"for-loop": 100, "mine": 100}, {})
    ]
    found = shown(made, "mine")
    assert found.fps is not None
    assert ("without a spot check is 2.2 times as fast" in found.doubt) == doubtful, found.doubt
    assert shown(made, "for-loop").doubt == ""


def test_engines_write_the_name_of_an_integrator_in_capitals_or_not() -> None:
    euler = {**ENGINE, "integrator": "Euler"}, {**CEILING, "integrator": "EULER"}
    work = dict(zip(("for-loop", "ceiling"), euler, strict=True))
    assert shown(records({"for-loop": 2200, "ceiling": 2000}, work), "for-loop").fps is None


# ---------------------------------------------------------------- resets per step

USUAL = dict(families.get("classic_control").work["env"])


def resetting(
    counts: dict[str, int], work: dict[str, Any] = USUAL, *, plan: str = "plan", steps: int = 500
) -> list[Record]:
    """A session of CartPole: how many resets each window of ``steps`` steps has, by backend."""
    cells = [
        make_cell(name, 4, env="classic_control", task="CartPole-v1", frame_skip=1, env_instances=4)
        for name in counts
    ]
    runs = [
        make_run(
            cell,
            plan_id=plan,
            round=number,
            block=f"{plan}-{number}",
            measured=make_windows([steps + number] * 10, resets=[counts[cell.backend]] * 10),
            facts={"work": work},
        )
        for number in range(5)
        for cell in cells
    ]
    return [make_fact(), make_plan(cells, plan_id=plan), *runs]


def test_a_backend_that_resets_much_less_often_than_the_reference_is_refused() -> None:
    made = resetting({"for-loop": 23, "subprocess": 2})
    found = shown(made, "subprocess")
    assert found.summary.failure is not None
    assert found.summary.failure.reason == "invalid-figure"
    assert found.summary.failure.message == (
        "its environments reset 3.98 times in 1,000 steps, the reference's 45.8 times"
    )
    assert shown(made, "for-loop").fps is not None


def test_a_backend_that_resets_about_as_often_as_the_reference_is_shown() -> None:
    for count in (17, 23, 30):
        found = shown(resetting({"for-loop": 23, "subprocess": count}), "subprocess")
        assert (found.fps is None, found.doubt) == (False, "")


def test_a_backend_with_other_settings_that_resets_less_often_is_doubtful() -> None:
    work = {**USUAL, "integrator": "another"}
    found = shown(resetting({"for-loop": 23, "subprocess": 2}, work), "subprocess")
    assert found.fps is not None
    assert found.doubt.startswith("its environments reset 3.98 times in 1,000 steps")


def test_a_few_resets_accuse_nobody() -> None:
    found = shown(resetting({"for-loop": 1, "subprocess": 0}, steps=5000), "subprocess")
    assert (found.fps is None, found.doubt) == (False, "")


def test_resets_are_compared_with_another_session_if_theirs_has_no_reference() -> None:
    before = resetting({"for-loop": 23}, plan="before")
    assert shown([*before, *resetting({"subprocess": 2})], "subprocess").fps is None
    assert shown([*before, *resetting({"subprocess": 22})], "subprocess").fps is not None


def test_without_a_measured_reference_no_resets_are_compared() -> None:
    assert shown(resetting({"subprocess": 2}), "subprocess").fps is not None


def test_resets_that_are_refused_once_make_later_figures_of_the_row_doubtful() -> None:
    caught = resetting({"for-loop": 23, "subprocess": 2}, plan="a")
    again = resetting({"for-loop": 23, "subprocess": 23}, plan="b")
    assert shown([*caught, *again], "subprocess").doubt == (
        "another figure of its row was refused by a comparison of resets"
    )


# ---------------------------------------------------------------- slices and warm-up


@pytest.mark.parametrize(("warm", "doubtful"), [(45, True), (55, False), (100, False)])
def test_a_figure_of_slices_over_twice_as_fast_as_their_warm_up_is_doubtful(
    warm: int, doubtful: bool
) -> None:
    """Without a pause there is no untimed moment to work in."""
    made = records({"for-loop": 100, "mine": 100}, {})
    made = [
        msgspec.structs.replace(
            each,
            warmup=make_windows([warm] * 8),
            measured=make_windows([100] * 4),
            alternated=True,
            agreement=make_agreement(steps=60),
        )
        if isinstance(each, Run) and each.cell.backend == "mine"
        else each
        for each in made
    ]
    found = shown(made, "mine")
    assert found.fps is not None
    assert found.doubt.startswith("its slices are 2.2 times as fast") == doubtful
    assert shown(made, "for-loop").doubt == ""


@pytest.mark.parametrize(
    ("steps", "ns", "doubtful"),
    [
        (100, 250_000_000, False),  # as fast as the slices
        (75, 250_000_000, False),
        (60, 250_000_000, True),
        (60, 150_000_000 + 20_000_000, False),  # 20 microseconds per call are not counted
    ],
)
def test_a_figure_of_slices_much_faster_than_short_calls_is_doubtful(
    steps: int, ns: int, *, doubtful: bool
) -> None:
    """An adapter may leave out work in calls that are too long to be compared."""
    made = [
        msgspec.structs.replace(
            each,
            measured=make_windows([100] * 4),
            short_calls=make_windows([steps], ns=ns, calls=[1_000]),
            agreement=make_agreement(steps=60),
        )
        if isinstance(each, Run) and each.cell.backend == "mine"
        else each
        for each in records({"for-loop": 100, "mine": 100}, {})
    ]
    found = shown(made, "mine")
    assert found.fps is not None
    assert ("as fast as short calls" in found.doubt) == doubtful, found.doubt
    assert shown(made, "for-loop").doubt == ""


def test_calls_of_one_step_that_are_much_faster_than_slices_are_doubtful() -> None:
    """Their work is done elsewhere."""
    made = [
        msgspec.structs.replace(
            each,
            measured=make_windows([100] * 4),
            short_calls=make_windows([100], ns=1_000_000, calls=[1_000]),
            agreement=make_agreement(steps=60),
        )
        if isinstance(each, Run) and each.cell.backend == "mine"
        else each
        for each in records({"for-loop": 100, "mine": 100}, {})
    ]
    says = "short calls are 250.0 times as fast as its slices: their work may be done outside"
    assert shown(made, "mine").doubt.startswith(says)


def test_processes_that_differ_too_much_to_say_so_are_doubtful_too() -> None:
    """If short calls of most processes are much slower."""
    short = iter([90, 42, 34, 40, 100])
    made = [
        msgspec.structs.replace(
            each,
            measured=make_windows([100] * 4),
            short_calls=make_windows([next(short)], calls=[1_000]),
            agreement=make_agreement(steps=60),
        )
        if isinstance(each, Run) and each.cell.backend == "mine"
        else each
        for each in records({"for-loop": 100, "mine": 100}, {})
    ]
    assert shown(made, "mine").doubt.endswith("that may be noise")


def in_short_calls(steps: list[int], plan: str) -> list[Record]:
    """A session of a plugin: the steps per millisecond of short calls in each process. A slice has
    100."""
    made = [
        msgspec.structs.replace(
            each,
            plan_id=plan,
            measured=make_windows([100] * 4),
            short_calls=make_windows([steps[each.round]], calls=[1_000]),
            calls_ns=0,
            agreement=make_agreement(steps=60),
        )
        for each in records({"mine": 100}, {})
        if isinstance(each, Run)
    ]
    return [make_fact(), make_plan([made[0].cell], plan_id=plan), *made]


@pytest.mark.parametrize(
    ("steps", "doubtful"),
    [([63, 58, 63, 33, 55], True), ([63, 58, 68, 33, 55], False)],
)
def test_one_process_that_waits_does_not_hide_that_all_are_slower(
    steps: list[int], *, doubtful: bool
) -> None:
    """It makes the interval of the mean wide."""
    found = shown(in_short_calls(steps, "a"), "mine")
    assert found.doubt.endswith("leave out work in long calls") == doubtful, found.doubt


def test_a_doubtful_pace_is_not_forgotten_when_the_cell_is_measured_again() -> None:
    slow, chance = [55, 57, 56, 54, 58], [62, 76, 64, 54, 70]
    assert "as fast as short calls" in shown(in_short_calls(slow, "a"), "mine").doubt
    assert shown(in_short_calls(chance, "b"), "mine").doubt == ""
    both = shown([*in_short_calls(slow, "a"), *in_short_calls(chance, "b")], "mine")
    assert both.plan_id == "b"
    assert both.doubt.startswith("over all its sessions, its slices are 1.7 times as fast as short")


def test_one_session_on_a_busy_machine_does_not_accuse_later_ones() -> None:
    busy, usual = [30, 60, 40, 55, 25], [100, 98, 101, 99, 102]
    assert shown(in_short_calls(busy, "a"), "mine").doubt
    assert shown([*in_short_calls(busy, "a"), *in_short_calls(usual, "b")], "mine").doubt == ""


# ---------------------------------------------------------------- plugins without a spot check


@pytest.mark.parametrize(
    ("env", "task", "instances", "doubtful"),
    [
        ("atari", "Pong-v5", 2, True),
        ("atari", "Pong-v5", 6, False),  # its results may arrive in any order
        ("mujoco", "Ant-v3", 2, False),  # the reference can begin anywhere
    ],
)
def test_a_plugin_of_atari_that_was_checked_at_first_only_is_not_ranked(
    env: str, task: str, instances: int, *, doubtful: bool
) -> None:
    cell = make_cell("mine", 2, env=env, task=task, env_instances=instances)
    plan = make_plan([cell])
    asked = {"mine": Protocol(after={"short_calls": 0.2})}
    plan = msgspec.structs.replace(
        plan, design=msgspec.structs.replace(plan.design, protocol=asked)
    )
    runs = [make_run(cell, round=number, agreement=make_agreement(steps=60)) for number in range(5)]
    (found,) = select([make_fact(), plan, *runs]).measured
    assert (found.doubt == AT_FIRST) == doubtful, found.doubt


@pytest.mark.parametrize(
    ("env", "task", "doubtful"),
    [
        ("atari", "Pong-v5", True),
        ("gym", "CartPole-v1", True),
        ("box2d", "LunarLander-v3", True),  # its states cannot be set
        ("box2d", "CarRacing-v3", False),  # no plugin gets a ✓ there
    ],
)
@pytest.mark.parametrize("variant", [{}, {"threads": 2}])
def test_a_plugin_whose_steps_were_not_checked_is_never_ranked(
    env: str, task: str, variant: dict[str, Any], *, doubtful: bool
) -> None:
    cell = make_cell("mine", 2, env=env, task=task, variant=variant)
    runs = [make_run(cell, round=number) for number in range(5)]
    (found,) = select([make_fact(), make_plan([cell]), *runs]).measured
    assert found.fps is not None
    assert (found.doubt == UNCHECKED) == doubtful
