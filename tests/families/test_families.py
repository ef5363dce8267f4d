"""Env families as data: each is complete and gives the frames of a step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from envbench import families
from envbench.backends import get, registry
from envbench.backends.builtin import BUILT_IN as BACKENDS
from envbench.engine.target import make_cell
from envbench.errors import UnknownName, UsageError
from envbench.families import BUILT_IN, EnvFamily, Standard
from envbench.families.family import FOR_ANY_FAMILY, LARGEST_SKIP, NO_NUMBER, SMALLEST_SKIP
from envbench.model import Apart
from envbench.process.code_hash import code_files

ROOT = Path(__file__).parents[2]

# ---------------------------------------------------------------- data


@pytest.mark.parametrize("family", BUILT_IN, ids=lambda family: family.name)
def test_a_family_has_a_worker_file_and_a_backend(family: EnvFamily) -> None:
    adapter = get("for-loop").adapter
    own = {path.name for path in code_files(adapter, "measure", family=family.worker)}
    assert f"{family.name}.py" in own
    assert any(family.name in backend.families for backend in registry().values())


@pytest.mark.parametrize("name", ["atari", "classic_control", "dm_control", "mujoco"])
def test_the_documents_state_the_standard_of_equal_work(name: str) -> None:
    standard = families.get(name).standards["env"]
    text = (ROOT / "docs" / "verify.md").read_text()
    (row,) = (
        line for line in text.splitlines() if line.startswith((f"| {name} | `", f"| {name}:"))
    )
    allowed = f"{standard.tolerance:g}".replace("e-0", "e-")
    assert f"| {allowed}" in row


@pytest.mark.parametrize("name", ["classic_control", "dm_control", "box2d"])
def test_a_step_of_the_new_families_is_one_frame(name: str) -> None:
    family = families.get(name)
    assert family.frames_per_step(family.default_task) == 1
    cell = make_cell("here", name, family.default_task, get("for-loop"), 2, {})
    assert (cell.frame_skip, cell.variant) == (1, {})


@pytest.mark.parametrize("given", [1, 2.0, 4.001, 8])
def test_a_frame_skip_that_is_not_the_tasks_own_is_refused(given: float) -> None:
    atari = families.get("atari")
    with pytest.raises(UsageError, match=f"a step of Pong-v5 is 4 frames, not {given:g}"):
        atari.frames_per_step("Pong-v5", given)
    assert atari.frames_per_step("Pong-v5", 4.0) == atari.frames_per_step("Pong-v5") == 4


@pytest.mark.parametrize(
    "given", [SMALLEST_SKIP / 2, LARGEST_SKIP * 2, 0, -1, math.inf, -math.inf, math.nan]
)
def test_a_frame_skip_outside_the_limits_is_refused_for_any_task(given: float) -> None:
    for name, task in (("gym", "mine:My-v0"), ("atari", "Pong-v5")):
        with pytest.raises(UsageError, match="--frame-skip takes a number from"):
            families.get(name).frames_per_step(task, given)


@pytest.mark.parametrize("given", [SMALLEST_SKIP, 2.5, LARGEST_SKIP])
def test_a_frame_skip_within_the_limits_counts_for_a_users_own_task(given: float) -> None:
    assert families.get("gym").frames_per_step("mine:My-v0", given) == given


def test_an_unknown_family_of_a_record_has_its_name_as_title() -> None:
    assert families.of_record("chess").title == "chess"
    with pytest.raises(Exception, match="atari"):
        families.get("atarri")


def test_the_readme_says_how_many_lines_the_files_of_a_small_family_have() -> None:
    root = Path(__file__).parents[2]
    data = (root / "envbench/families/box2d.py").read_text().count("\n")
    worker = (root / "envbench/worker/envbench_families/box2d.py").read_text().count("\n")
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert f"(Box2D's have {data} and {worker} lines)" in readme


def of_plugin(**given: Any) -> EnvFamily:
    """A plugin's family as docs/backends.md shows it. Its worker class has only defaults."""
    return EnvFamily(
        name="revfam",
        title="Rev",
        worker="envbench_families.base:Family",
        default_task="Pendulum-v1",
        frames=1,
        **given,
    )


STEPS = {"env": Standard(steps=100)}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "no comparison is defined for revfam"),
        ({"standards": STEPS}, "nothing sets the state of T-v0"),
        ({"standards": {"env": Standard(episodes=200)}}, ""),
        ({"standards": {"env": Standard(episodes=200, episode_tasks=["T-v0"])}}, ""),
        (
            {"standards": {"env": Standard(episodes=200, episode_tasks=["A-v0", "B-v0"])}},
            "only episodes of A-v0 and B-v0 are compared",
        ),
        ({"standards": STEPS, "follows_by": "seed"}, ""),
        ({"standards": STEPS, "follows_by": "state"}, ""),
        (
            {"standards": STEPS, "follows_by": "state", "state_tasks": ["A-v0"]},
            "envbench cannot put T-v0 into the state that an observation shows",
        ),
    ],
)
def test_steps_are_compared_only_where_the_reference_can_follow(
    given: dict[str, Any], why: str
) -> None:
    assert of_plugin(**given).uncompared("env", "T-v0") == why


def test_a_family_may_name_the_built_in_backends_that_step_any_family() -> None:
    assert set(FOR_ANY_FAMILY) <= {each.name for each in BACKENDS}


@pytest.mark.parametrize("family", BUILT_IN, ids=lambda family: family.name)
def test_the_rows_and_references_of_a_family_are_backends_that_run_it(family: EnvFamily) -> None:
    running = {each.name for each in BACKENDS if family.name in each.families}
    assert {*family.rows} <= running
    assert {each.reference for each in family.standards.values()} <= running
    assert msgspec.convert(msgspec.to_builtins(family), EnvFamily) == family  # within the bounds
    assert families.trouble(replace(family, backends=["for-loop"], standards={})) == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"title": "Rev - Laptop"}, "cannot contain ( or ' - '"),
        ({"title": "Rev (published)"}, "cannot contain ( or ' - '"),
        ({"title": "envbench: overview"}, "begin with envbench"),
        ({"standards": {"env": Standard(steps=9, tolerance=math.inf)}}, "tolerance is infinite"),
    ],
)
def test_a_plugins_title_cannot_read_as_another_marker_and_its_tolerance_is_finite(
    given: dict[str, Any], why: str
) -> None:
    family = replace(of_plugin(backends=["for-loop"], rows=["for-loop"]), **given)
    assert why in families.FAMILIES.problem(family)


def test_a_plugins_tables_have_only_rows_that_can_run_it() -> None:
    assert of_plugin(backends=["for-loop", "subprocess"]).table_rows == ["for-loop", "subprocess"]
    assert families.get("box2d").table_rows == list(families.get("box2d").rows)


def test_a_task_without_frames_gets_the_rule_of_its_own_family() -> None:
    mine = families.EnvFamily(name="m", title="M", worker="a:B", frames_of={"Own": 2})
    with pytest.raises(UnknownName) as caught:
        mine.frames_per_step("Other-v0")
    assert caught.value.hint == (
        "Known: Own. For another task, give its frames per step by --frame-skip."
    )
    with pytest.raises(UnknownName) as caught:
        families.get("mujoco").frames_per_step("Amt-v3")
    assert (
        "give its frames per step (its control step / 0.01 s) by --frame-skip" in caught.value.hint
    )


@pytest.mark.parametrize(
    ("family", "task", "frames"),
    [
        ("atari", "Pong-v5", "4 frames"),
        ("classic_control", "CartPole-v1", "1 frame"),
        ("mujoco", "Hopper-v3", "0.8 frames"),
    ],
)
def test_a_frame_skip_that_is_not_the_familys_is_refused(
    family: str, task: str, frames: str
) -> None:
    with pytest.raises(UsageError) as caught:
        families.get(family).frames_per_step(task, 3)
    assert str(caught.value) == f"a step of {task} is {frames}, not 3."
    assert caught.value.hint == "Leave out --frame-skip."


@pytest.mark.parametrize(
    ("percentiles", "medians", "apart"),
    [
        ([0.0, 0.0, 0.3, 0.3], [0.0] * 4, 0.0),  # two of four lie in contact
        ([0.0, 0.3, 0.3, 0.3], [0.0] * 4, 0.3),
        ([0.0, 0.0, 0.0, 0.3], [0.0, 0.0, 0.0, 0.2], 0.2),  # it differs in most of its steps
        ([0.3], [0.0], 0.3),
    ],
)
def test_without_resets_half_of_the_environments_may_differ_in_more_than_a_tenth_of_their_steps(
    percentiles: list[float], medians: list[float], apart: float
) -> None:
    found = [
        Apart(median=median, p90=p90, largest=1.0)
        for median, p90 in zip(medians, percentiles, strict=True)
    ]
    standard = families.get("mujoco").standards["physics"]
    assert standard.apart(found) == apart
    assert standard.apart([*found, Apart(median=0.0, p90=0.0, largest=NO_NUMBER)]) == NO_NUMBER


def test_games_whose_state_cannot_be_set_completely_are_not_compared() -> None:
    atari = families.get("atari")
    assert atari.uncompared("env", "Surround-v5") == (
        "the state of Surround-v5 cannot be set completely"
    )
    assert atari.uncompared("env", "Boxing-v5") == ""
