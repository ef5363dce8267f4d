"""The registry of backends, their settings and presets."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench import backends, families
from envbench.backends import (
    Backend,
    Setting,
    env_instances,
    get,
    preset_settings,
    resolve_settings,
)
from envbench.backends.builtin import BUILT_IN, PRESETS
from envbench.errors import UnknownName, UsageError
from envbench.process.code_hash import WORKER_PATH

BY_NAME = {backend.name: backend for backend in BUILT_IN}
ASYNC = BY_NAME["envpool-async"]


# ---------------------------------------------------------------- the built-ins


def test_the_built_in_backends_are_listed_in_the_order_of_table_rows() -> None:
    labels = [backend.label for backend in backends.registry().values()][: len(BUILT_IN)]
    assert labels == [
        "For-loop",
        "Subprocess",
        "Sample-Factory",
        "EnvPool (sync)",
        "EnvPool (async)",
        "EnvPool (numa+async)",
        "ALE (vector)",
        "Brax",
        "Isaac Gym",
        "MuJoCo (rollout)",
        "MJX",
        "MuJoCo Warp",
        "Genesis",
        "Ceiling",
    ]


@pytest.mark.parametrize("backend", BUILT_IN, ids=lambda backend: backend.name)
def test_a_built_in_backend_obeys_the_rules_for_plugins(backend: Backend) -> None:
    assert backends.trouble(backend) == ""


def test_a_label_cannot_hold_a_mark_of_the_tables() -> None:
    backend = msgspec.structs.replace(backends.get("for-loop"), label="Fast ✓")
    wrong = backends.trouble(backend)
    assert wrong == "its label holds a mark of the tables (✓≠✗≈)"


def test_a_plugin_cannot_be_a_ceiling() -> None:
    assert "a plugin cannot be a ceiling" in backends.BACKENDS.problem(backends.get("ceiling"))
    assert backends.BACKENDS.problem(backends.get("for-loop")) == ""


@pytest.mark.parametrize("backend", BUILT_IN, ids=lambda b: b.name)
def test_the_adapter_of_a_built_in_is_a_class_of_its_module(backend: Backend) -> None:
    """The module itself may need a library that is not installed here."""
    module, _, attribute = backend.adapter.partition(":")
    source = WORKER_PATH / Path(*module.split(".")).with_suffix(".py")
    classes = [
        each for each in ast.parse(source.read_text()).body if isinstance(each, ast.ClassDef)
    ]
    (adapter,) = [each for each in classes if each.name == attribute]
    assert adapter.bases


def test_listing_the_backends_imports_nothing_that_is_measured() -> None:
    code = (
        "import sys; from envbench import backends, runtimes;"
        "[runtimes.status(b, {}) for b in backends.registry().values()];"
        "heavy = {'gymnasium', 'envpool', 'numpy', 'pandas', 'rich'} & set(sys.modules);"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_error_for_an_unknown_backend_suggests_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'envpool-async'") as caught:
        get("envpol-async")
    assert caught.value.exit_code == 2
    assert "for-loop" in caught.value.hint


def test_the_error_for_an_unsupported_family_lists_the_supported_ones() -> None:
    with pytest.raises(UsageError, match="it runs mujoco") as caught:
        backends.check_family(get("brax"), "atari")
    assert caught.value.exit_code == 2
    assert "envpool-async" in caught.value.hint
    with pytest.raises(UnknownName, match="Did you mean 'atari'"):
        backends.check_family(get("for-loop"), "atary")
    for backend in BUILT_IN:
        for family in backend.families:
            backends.check_family(backend, family)


# ---------------------------------------------------------------- settings


def test_defaults_fill_a_cells_settings_but_not_its_variant() -> None:
    settings, variant = resolve_settings(ASYNC, "atari", {})
    assert settings == {
        "actions": "bank",
        "threads": 0,
        "affinity": -1,
        "resize": "area",
        "fire_reset": False,
        "overcommit": 3.0,
    }
    assert variant == {}


def test_only_what_differs_from_the_default_is_a_variant() -> None:
    given = {"overcommit": "2", "threads": "0", "fire_reset": "no"}
    settings, variant = resolve_settings(ASYNC, "atari", given)
    assert variant == {"overcommit": 2.0}
    assert settings["threads"] == 0


def test_a_setting_of_another_family_has_no_default_and_is_refused() -> None:
    settings, _ = resolve_settings(ASYNC, "mujoco", {})
    assert "resize" not in settings
    with pytest.raises(UsageError, match="applies to atari only"):
        resolve_settings(ASYNC, "mujoco", {"resize": "area"})


@pytest.mark.parametrize("text", ["true", "1", "yes", "TRUE"])
def test_a_boolean_setting_accepts_several_spellings(text: str) -> None:
    settings, _ = resolve_settings(BY_NAME["envpool-sync"], "atari", {"fire_reset": text})
    assert settings["fire_reset"] is True


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("overcommit", "0.5", "a number of at least 1"),
        ("overcommit", "nan", "a number of at least 1"),
        ("overcommit", "inf", "a number of at least 1"),
        ("overcommit", "", "a number of at least 1"),
        ("threads", "-1", "a whole number from 0 to 4096"),
        ("threads", "1.5", "a whole number from 0 to 4096"),
        ("threads", "9999999999", "a whole number from 0 to 4096"),
        ("threads", "1_0", "a whole number from 0 to 4096"),
        ("fire_reset", "maybe", "true or false"),
        ("resize", "areal", "Did you mean 'area'"),
        ("overcomit", "3", "Did you mean 'overcommit'"),
    ],
)
def test_the_error_for_a_wrong_setting_says_what_it_accepts(
    name: str, text: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        resolve_settings(ASYNC, "atari", {name: text})
    assert name in str(caught.value)
    assert caught.value.exit_code == 2


@given(st.text(), st.sampled_from(["bool", "int", "float", "str"]))
def test_any_text_becomes_a_value_of_the_right_type_or_a_usage_error(text: str, kind: str) -> None:
    setting = Setting(name="x", type=kind, default=0)  # type: ignore[arg-type]
    try:
        value = setting.parse(text)
    except UsageError:
        return
    assert type(value).__name__ == kind
    assert not isinstance(value, float) or math.isfinite(value)


def test_the_published_preset_has_the_settings_of_envpools_benchmark() -> None:
    given = preset_settings("envpool-published", ASYNC, "atari")
    _, variant = resolve_settings(ASYNC, "atari", given)
    assert variant == {
        "actions": "constant",
        "resize": "bilinear",
        "fire_reset": True,
        "affinity": 0,
    }
    assert preset_settings("envpool-published", ASYNC, "mujoco") == {
        "actions": "constant",
        "affinity": "0",
    }


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_suits_every_backend_and_family(name: str) -> None:
    for backend in BUILT_IN:
        for family in backend.families:
            given = preset_settings(name, backend, family)
            _, variant = resolve_settings(backend, family, given)
            assert variant.keys() == given.keys()  # none of them is the default


def test_the_error_for_an_unknown_preset_suggests_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'envpool-published'"):
        preset_settings("envpool", ASYNC, "atari")


def test_async_envpool_keeps_more_environments_than_it_returns() -> None:
    assert env_instances(ASYNC, 8, {"overcommit": 3.0}) == 24
    assert env_instances(ASYNC, 3, {"overcommit": 2.5}) == round(7.5)
    assert env_instances(ASYNC, 1, {"overcommit": 1.0}) == 1
    assert env_instances(BY_NAME["for-loop"], 8, {}) == 8
    with pytest.raises(UsageError, match="overcommit"):
        env_instances(ASYNC, 10**9, {"overcommit": 3.0})


def test_frames_of_a_step_are_fixed_except_for_a_users_own_task() -> None:
    assert families.get("atari").frames_per_step("Pong-v5") == 4
    assert (
        families.get("mujoco").frames_per_step("Ant-v3")
        == families.get("mujoco").frames_per_step("Ant-v3", 5)
        == 5
    )
    assert families.get("gym").frames_per_step("CartPole-v1") == 1
    assert families.get("gym").frames_per_step("my_package:Mine-v0", 3.0) == 3
    assert families.get("mujoco").frames_per_step("HumanoidStandup-v5") == 1.5
    assert families.get("mujoco").frames_per_step("CheetahRun-v1", 1) == 1
    for family, task, given_skip in [
        ("atari", "Pong-v5", 2),
        ("mujoco", "Ant-v3", 1),
        ("gym", "CartPole-v1", 0),
        ("gym", "CartPole-v1", float("nan")),
    ]:
        with pytest.raises(UsageError):
            families.get(family).frames_per_step(task, given_skip)


def test_a_mujoco_task_with_unknown_control_step_needs_frame_skip() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'Ant-v3'") as caught:
        families.get("mujoco").frames_per_step("Amt-v3")
    assert "--frame-skip" in caught.value.hint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", families.get("mujoco").frames_of)
def test_a_mujoco_frame_is_a_hundredth_of_a_simulated_second(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gymnasium

    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the current folder
    env = gymnasium.make(f"{name}-v5")
    assert families.get("mujoco").frames_per_step(f"{name}-v5") == pytest.approx(
        env.unwrapped.dt / 0.01
    )
    env.close()


def test_a_rows_label_shows_the_settings_that_differ() -> None:
    assert backends.row_label("envpool-async", {}) == "EnvPool (async)"
    label = backends.row_label("envpool-async", {"overcommit": 2.0, "fire_reset": True})
    assert label == "EnvPool (async), fire_reset=true, overcommit=2"
    assert backends.row_label("from-another-machine", {}) == "from-another-machine"
