"""Spot checks: the reference follows the first steps of some measured trials."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from helpers.record_factories import make_agreement, make_cell, make_fact, make_plan, make_run
from helpers.virtual_environments import lent_packages, make_interpreter

from envbench import backends, families
from envbench.decisions.equal_work import spot_check
from envbench.engine import lock_step, worker_job
from envbench.engine.availability import TRIES, Arm
from envbench.engine.local_executor import LocalExecutor
from envbench.engine.target import MOST_TRACED, reference_of, target_of
from envbench.engine.target import make_cell as resolved
from envbench.experiments.run.rounds import SPOT_STEPS, Measure, spot_round, spot_steps
from envbench.model import (
    Apart,
    Behaviour,
    Block,
    Cell,
    Failure,
    Plan,
    Programme,
    Protocol,
    Trial,
    TrialRecord,
    arm_key,
)
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import TRACE_BYTES
from envbench.report.data_export import measured_json, ratios_json
from envbench.results.selection import select

CHEATS = Path(__file__).parents[2] / "fixtures" / "cheats"


def cell_of(
    backend: str, numenv: int = 4, family: str = "atari", task: str = "", **settings: Any
) -> Cell:
    task = task or families.get(family).default_task
    return resolved("m", family, task, backends.get(backend), numenv, settings)


def plan_of(*cells: Cell, **given: Any) -> Plan:
    behaviour = {each.backend: backends.get(each.backend).behaviour for each in cells}
    return make_plan(list(cells), behaviour=behaviour, **given)


def test_each_cell_is_checked_once_and_not_in_the_first_round() -> None:
    cells = [cell_of("subprocess", numenv) for numenv in range(1, 30)]
    rounds = [spot_round(plan_of(*cells), each) for each in cells]
    assert set(rounds) == {1, 2, 3, 4}
    assert spot_round(plan_of(cells[0], repeats=1), cells[0]) is None  # its start is cold


@pytest.mark.parametrize(
    "given",
    [{"quick": True, "repeats": 1}, {"design": None}],
    ids=["quick", "a number of steps"],
)
def test_quick_and_counted_measurements_have_no_spot_check(given: dict[str, Any]) -> None:
    cell = cell_of("subprocess")
    plan = plan_of(cell, **{name: value for name, value in given.items() if value is not None})
    if "quick" not in given:
        protocols = {cell.backend: Protocol(calls=100)}
        design = msgspec.structs.replace(plan.design, protocol=protocols)
        plan = msgspec.structs.replace(plan, design=design)
    assert spot_round(plan, cell) is None


@pytest.mark.parametrize(
    ("cell", "steps"),
    [
        (cell_of("subprocess"), SPOT_STEPS),
        (cell_of("envpool-async", 12), 27),
        (cell_of("subprocess", 300), 20),  # of 50 environments, drawn at random
        (cell_of("for-loop"), 0),  # the reference itself
        (cell_of("sample-factory", 8), 0),  # does not wait for actions
        (cell_of("brax", 8, "mujoco"), 0),  # another engine
        (cell_of("mjx", 8, "mujoco"), 0),  # compiles with its first steps
        (cell_of("envpool-sync", 4, resize="bilinear"), 0),  # changes the work
        (cell_of("envpool-sync", 4, threads="1"), SPOT_STEPS),  # does not
        (cell_of("envpool-sync", 4, "box2d"), 0),  # whole episodes are compared
        (cell_of("subprocess", 4, "gym", "CartPole-v1"), 0),  # built in
    ],
    ids=lambda each: each.key if isinstance(each, Cell) else None,
)
def test_only_cells_that_a_reference_can_follow_are_checked(cell: Cell, steps: int) -> None:
    assert spot_steps(plan_of(cell), cell) == steps


def test_both_sides_agree_on_the_size_of_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WORKER_PATH)
    contract = import_module("envbench_worker.contract")
    spot_check = import_module("envbench_worker.spot_check")
    traces = import_module("envbench_worker.traces")
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]
    assert contract.MOST_TRACED == MOST_TRACED
    assert spot_check.LONGEST_NS == lock_step.LONGEST_SPOT_NS
    assert traces.MOST_BYTES == TRACE_BYTES


def measured(agreement: Any, work: dict[str, Any]) -> Any:
    cell = make_cell("subprocess", 2)
    runs = [
        make_run(cell, round=number, facts={"work": work}, agreement=agreement if number else None)
        for number in range(5)
    ]
    (found,) = select([make_fact(), make_plan([cell]), *runs]).measured
    return found


def test_a_figure_whose_spot_check_found_other_work_is_refused() -> None:
    work = dict(families.get("atari").work["env"])
    far = [Apart(median=9.0, p90=9.0, largest=9.0)]
    differs = make_agreement(steps=60, observations=far)
    found = measured(differs, work)
    assert found.fps is None
    assert "its steps in a spot check are not the reference's" in (found.summary.failure.message)
    assert measured(make_agreement(steps=60), work).fps is not None
    # It reports another setting: different work, but no lie.
    other = measured(differs, {**work, "fire_reset": True})
    assert other.fps is not None
    assert other.doubt.startswith("its steps in a spot check are not the reference's")


def test_a_figure_whose_process_showed_no_steps_is_not_ranked() -> None:
    work = dict(families.get("atari").work["env"])
    found = measured(make_agreement(steps=0, observations=[], rewards=[]), work)
    assert found.fps is not None
    assert found.doubt.startswith("it could not be checked while it was measured")


def test_a_figure_in_doubt_has_no_rank_and_no_ratio() -> None:
    work = dict(families.get("atari").work["env"])
    hidden = make_agreement(steps=0, observations=[], rewards=[])
    cells = [make_cell(name, 2) for name in ("subprocess", "for-loop", "envpool-sync")]
    runs = [
        make_run(
            cell,
            round=number,
            block=f"b{number}",
            facts={"work": work},
            agreement=hidden if number and cell is cells[0] else None,
        )
        for number in range(5)
        for cell in cells
    ]
    measured = select([make_fact(), make_plan(cells), *runs]).measured
    shown = {each.cell.backend: measured_json(each, other_hardware=False) for each in measured}
    ranks = {name: each["rank"] for name, each in shown.items()}
    assert ranks == {"subprocess": None, "for-loop": 1, "envpool-sync": 1}
    assert shown["subprocess"]["adjusted_fps"] is not None
    assert "could not be checked" in shown["subprocess"]["doubt"]
    assert shown["for-loop"]["ties"] == (cells[2].key,)
    ratios = [{each["cell"], each["to"]} for each in ratios_json(measured[0].session)]
    assert ratios == [{cells[1].key, cells[2].key}]


def test_a_refused_figure_puts_the_others_of_its_row_in_doubt() -> None:
    work = dict(families.get("atari").work["env"])
    far = [Apart(median=9.0, p90=9.0, largest=9.0)]
    differs = make_agreement(steps=60, observations=far)
    cells = [make_cell("subprocess", 2), make_cell("subprocess", 4), make_cell("for-loop", 2)]
    runs = [
        make_run(
            cell,
            round=number,
            facts={"work": work},
            agreement=differs if number and cell is cells[0] else None,
        )
        for number in range(5)
        for cell in cells
    ]
    found = {
        (each.cell.backend, each.numenv): each
        for each in select([make_fact(), make_plan(cells), *runs]).measured
    }
    assert found["subprocess", 2].fps is None
    assert found["subprocess", 4].doubt == "another figure of its row was refused by a spot check"
    assert found["for-loop", 2].doubt == ""


def test_a_few_steps_do_not_show_how_starts_are_distributed() -> None:
    starts = make_agreement(steps=60, p_values={"start": 1e-9})
    assert measured(starts, dict(families.get("atari").work["env"])).fps is not None


def executed(
    folder: Path, backend: str, family: str, adapter: str = "", task: str = ""
) -> TrialRecord:
    """A real measured trial with a spot check. ``adapter``: instead of the backend's own."""
    python = str(make_interpreter(folder / "venv", paths=[CHEATS, *lent_packages()]))
    cell = cell_of(backend, 3, family, task)
    target, reference = target_of(cell), reference_of(cell)
    assert reference is not None
    own = msgspec.structs.replace(target.backend, adapter=adapter or target.backend.adapter)
    target = msgspec.structs.replace(target, backend=own)
    arms = {arm_key("", each.cell): Arm(target=each, python=python) for each in (target, reference)}
    protocol = Protocol(warmup_min_s=0.2, warmup_max_s=0.4, measured_s=0.5)
    trial = Trial(cell=cell, seed=5, protocol=protocol, spot=SPOT_STEPS)
    block = Block(trials=[trial], programme=Programme(mixed=[0.1], lead_in_s=[0.0]))
    (record,) = LocalExecutor().run(block, arms, lambda _: None).trials
    assert record.failure is None, record.failure.message
    assert sum(record.measured.steps) > 0
    assert record.spot == SPOT_STEPS
    return record


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no Windows wheels")
@pytest.mark.parametrize("family", ["atari", "mujoco"])
@pytest.mark.parametrize(
    ("backend", "adapter", "equal"),
    [
        ("subprocess", "", True),
        ("envpool-sync", "", True),
        ("envpool-async", "", True),
        ("subprocess", "cheats:IgnoresActionsWhenMeasured", False),
        ("subprocess", "cheats:HalvesCallsWhenMeasured", False),
        ("subprocess", "cheats:WritesItsActions", False),
    ],
    ids=["subprocess", "envpool-sync", "envpool-async", "ignores", "halves", "writes"],
)
def test_the_reference_follows_real_measured_trials(
    tmp_path: Path, family: str, backend: str, adapter: str, *, equal: bool
) -> None:
    record = executed(tmp_path, backend, family, adapter)
    assert record.agreement is not None
    assert record.agreement.steps > SPOT_STEPS // 4
    work = dict(families.get(family).work["env"])
    same, text, refused = spot_check(record.cell, work, record.agreement)
    assert (same, refused) == (equal, not equal), text


@pytest.mark.slow
@pytest.mark.parametrize("family", ["atari", "mujoco"])
@pytest.mark.parametrize(
    ("adapter", "honest"), [("cheats:Plain", True), ("cheats:StartsAlikeWhenMeasured", False)]
)
def test_a_spot_check_of_a_plugin_shows_how_its_episodes_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, adapter: str, *, honest: bool
) -> None:
    record = executed(tmp_path, "subprocess", family, adapter)
    own = msgspec.structs.replace(backends.get("for-loop"), name="mine")
    monkeypatch.setattr(backends.BACKENDS, "loaded", ({**backends.registry(), "mine": own}, []))
    cell = msgspec.structs.replace(record.cell, backend="mine")
    assert record.agreement is not None
    work = dict(families.get(family).work["env"])
    same, text, _ = spot_check(cell, work, record.agreement)
    assert same == honest, text
    assert honest or "its episodes begin differently" in text


@pytest.mark.slow
def test_a_plugin_that_postpones_steps_has_no_figure(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="its steps were not made in time"):
        executed(tmp_path, "subprocess", "mujoco", "cheats:Postpones")


@pytest.mark.slow
def test_an_adapter_that_can_be_followed_only_to_verify_is_measured(tmp_path: Path) -> None:
    record = executed(tmp_path, "subprocess", "mujoco", "cheats:FollowsOnlyToVerify")
    assert record.agreement is not None
    assert record.agreement.steps == 0


def test_an_interrupted_attempt_says_nothing_about_a_cell() -> None:
    cell, work = make_cell("subprocess", 2), dict(families.get("atari").work["env"])
    killed = Failure(reason="interrupted", message="killed from outside")
    differs = make_agreement(9.0)
    runs = [make_run(cell, round=number, facts={"work": work}) for number in range(5)]
    attempt = make_run(cell, round=1, facts={"work": work}, agreement=differs, failure=killed)
    records = [make_fact(), make_plan([cell]), attempt, *runs]
    (found,) = (each for each in select(records).measured if each.cell == cell)
    assert (found.spot, found.doubt) == (None, "")


class Nothing(msgspec.Struct):
    """Instead of a launch."""


def test_a_reference_that_something_kills_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Failure(reason="signal", message="killed", phase="measure", signal="SIGKILL")
    replies = [SimpleNamespace(failure=killed), SimpleNamespace(failure=None)]
    monkeypatch.setattr(worker_job, "execute", lambda **_: replies.pop(0))
    assert worker_job.reply_of(Nothing(), {}).failure is None
    replies = [SimpleNamespace(failure=killed)] * TRIES
    assert worker_job.reply_of(Nothing(), {}).failure is killed
    assert replies == []


def test_an_engine_that_is_no_text_is_compared_as_one() -> None:
    lists = [SimpleNamespace(facts={"work": {"engine": ["mujoco", each]}}) for each in (3, 4)]
    assert not lock_step.same_engine(*lists)
    assert lock_step.same_engine(lists[0], SimpleNamespace(facts={"work": {"engine": ""}}))


def test_a_refusal_stays_when_the_cell_is_measured_again() -> None:
    cell, work = make_cell("subprocess", 2), dict(families.get("atari").work["env"])
    far = make_agreement(steps=60, observations=[Apart(median=9.0, p90=9.0, largest=9.0)])
    records: list[Any] = [make_fact()]
    for plan_id, agreement in (("first", far), ("later", make_agreement(steps=60))):
        records.append(make_plan([cell], plan_id=plan_id))
        records += [
            make_run(
                cell,
                plan_id=plan_id,
                round=number,
                facts={"work": work},
                agreement=agreement if number else None,
                started_utc=f"2026-01-0{1 + (plan_id == 'later')}T00:00:00Z",
            )
            for number in range(5)
        ]
    (found,) = select(records).measured
    assert found.plan_id == "later"
    assert found.doubt == "another figure of its row was refused by a spot check"


def test_a_plugin_without_a_spot_check_is_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says of itself: here, that it steps on a device."""
    honest = backends.get("for-loop")
    own = msgspec.structs.replace(honest, name="mine")
    monkeypatch.setattr(backends.BACKENDS, "loaded", ({**backends.registry(), "mine": own}, []))
    for cell in (make_cell("mine", 2), make_cell("mine", 2, env="box2d", task="LunarLander-v3")):
        runs = [make_run(cell, round=number) for number in range(5)]
        (found,) = select([make_fact(), make_plan([cell]), *runs]).measured
        assert found.fps is not None
        assert found.doubt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adapter", "equal"), [("cheats:Plain", True), ("cheats:IgnoresActionsWhenMeasured", False)]
)
def test_a_plugin_in_gym_is_checked_from_the_same_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: str, *, equal: bool
) -> None:
    own = msgspec.structs.replace(backends.get("subprocess"), name="mine", adapter=adapter)
    monkeypatch.setattr(backends.BACKENDS, "loaded", ({**backends.registry(), "mine": own}, []))
    record = executed(tmp_path, "mine", "gym", task="CartPole-v1")
    assert record.agreement is not None
    assert record.agreement.repeats is (None if equal else True)
    same, text, refused = spot_check(record.cell, {}, record.agreement)
    assert (same, refused) == (equal, False), text


@pytest.mark.parametrize(("repeats", "same"), [(True, False), (False, None)])
def test_a_task_that_its_seed_does_not_fix_accuses_no_plugin(
    repeats: bool,
    same: bool | None,
) -> None:
    cell = make_cell("mine", 2, env="gym", task="CartPole-v1")
    found = make_agreement(1.0, steps=60, repeats=repeats, first_difference=3)
    assert spot_check(cell, {}, found)[0] is same


@pytest.mark.parametrize(("first", "same"), [(-1, None), (0, False), (30, False)])
def test_a_plugin_is_excused_only_if_its_first_observations_differ(
    first: int,
    same: bool | None,
) -> None:
    """If they do not, an episode may still begin otherwise later, because an earlier one ended."""
    cell = make_cell("mine", 2, env="gym", task="CartPole-v1")
    found = make_agreement(1.0, steps=60, start=0.1, repeats=True, first_difference=first)
    assert spot_check(cell, {}, found)[0] is same


@pytest.mark.parametrize(
    ("given", "timed"),
    [
        ({}, True),
        ({"behaviour": Behaviour(steps_in="one-thread", large_batches=True)}, True),
        ({"behaviour": Behaviour(steps_in="device")}, False),
        ({"accelerator": True}, False),
    ],
    ids=["usual", "large batches", "device", "accelerator"],
)
def test_calls_of_one_step_of_a_plugin_are_timed_unless_each_length_is_compiled(
    given: dict[str, Any], timed: bool
) -> None:
    """Otherwise a plugin could leave out work in long calls, and be ranked."""
    mine = msgspec.structs.replace(backends.get("for-loop"), name="mine", **given)
    assert ("short_calls" in Measure().protocol_of(mine).after) == timed
    assert "short_calls" not in Measure().protocol_of(backends.get("for-loop")).after
