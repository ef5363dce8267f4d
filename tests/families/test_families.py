"""Env families: each is complete, its backends keep the contract, and equal work is found equal."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envbench import families, testing
from envbench.backends import get, registry
from envbench.decisions import traces
from envbench.decisions.equal_work import compared
from envbench.decisions.traces import Trace
from envbench.engine.request import make_cell, target_of
from envbench.errors import UsageError
from envbench.families import BUILT_IN, EnvFamily, Standard
from envbench.families.family import LARGEST_SKIP, SMALLEST_SKIP
from envbench.process.code_hash import code_files
from envbench.testing import BackendContract

NEW = ("classic_control", "dm_control", "box2d")
NAMES = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "envpool-numa")
not_on_windows = pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheels there")


# ---------------------------------------------------------------- data


@pytest.mark.parametrize("family", BUILT_IN, ids=lambda family: family.name)
def test_a_family_has_a_worker_file_and_a_backend(family: EnvFamily) -> None:
    adapter = get("for-loop").adapter
    own = {path.name for path in code_files(adapter, "measure", family=family.worker)}
    assert f"{family.name}.py" in own
    assert any(family.name in backend.families for backend in registry().values())


@pytest.mark.parametrize("name", NEW)
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
        ({"standards": STEPS}, "nothing sets a common start of T-v0"),
        ({"standards": {"env": Standard(episodes=200)}}, ""),
        ({"standards": STEPS, "fixed_start": "seed"}, ""),
        ({"standards": STEPS, "fixed_start": "noiseless"}, ""),
        ({"standards": STEPS, "fixed_start": "observation"}, ""),
        (
            {"standards": STEPS, "fixed_start": "observation", "start_tasks": ["A-v0"]},
            "nothing sets a common start of T-v0",
        ),
    ],
)
def test_steps_are_compared_only_from_a_common_start(given: dict[str, Any], why: str) -> None:
    assert of_plugin(**given).uncompared("env", "T-v0") == why


# ---------------------------------------------------------------- distributions of episodes

BOX2D = Standard(reference="for-loop", episodes=200)


def played(seed: int, length: float, reward: float = -1.0, steps: int = 6000) -> Trace:
    """Two environments whose episodes last about so long."""
    chance = np.random.default_rng(seed)
    return Trace(
        observations=np.zeros((steps, 2, 8)),
        rewards=reward + chance.normal(0, 1, (steps, 2)),
        ended=chance.random((steps, 2)) < 1 / length,
    )


def test_equal_distributions_of_episodes_count_as_equal() -> None:
    found = traces.compare(BOX2D, played(1, 20), played(2, 20))
    assert compared(BOX2D, found)[0] is True
    assert min(found.p_values.values()) > 0.001


@pytest.mark.parametrize(
    ("length", "reward"), [(27, -1.0), (20, -0.5)], ids=["longer episodes", "higher rewards"]
)
def test_different_lengths_or_returns_count_as_unequal(length: float, reward: float) -> None:
    found = traces.compare(BOX2D, played(1, 20), played(2, length, reward))
    assert compared(BOX2D, found)[0] is False


def test_too_few_episodes_decide_nothing() -> None:
    found = traces.compare(BOX2D, played(1, 20, steps=300), played(2, 20, steps=300))
    assert compared(BOX2D, found)[0] is None


# ---------------------------------------------------------------- real backends


def contract(name: str, family: str) -> type[BackendContract]:
    fields: dict[str, Any] = {
        "backend": get(name),
        "family": family,
        "task": families.default_task(family),
        "sees_resets": family != "dm_control",  # its episodes have 1,000 steps
        "pytestmark": [pytest.mark.slow, not_on_windows],
    }
    return type(f"Test{name.title()}{family.title()}".replace("-", ""), (BackendContract,), fields)


for _family in NEW:
    for _name in NAMES:
        _made = contract(_name, _family)
        globals()[_made.__name__] = _made


@pytest.mark.slow
@not_on_windows
def test_the_cheetah_of_envpool_matches_dm_controls_within_1e_9() -> None:
    """dm_control starts from EnvPool's first observation and gets the same actions."""
    standard = families.get("dm_control").standards["env"]
    found = agreement("dm_control", "envpool-sync", lock_steps=200)
    assert compared(standard, found)[0] is True
    assert max(found.distances) < 1e-9


@pytest.mark.slow
@not_on_windows
def test_envpools_carts_move_as_gymnasiums_carts_do() -> None:
    standard = families.get("classic_control").standards["env"]
    found = agreement("classic_control", "envpool-async", lock_steps=200)
    assert compared(standard, found)[0] is True
    assert max(found.distances[:8]) < 1e-6


def agreement(family: str, name: str, lock_steps: int) -> Any:
    """As ``envbench verify`` compares: the other backend first, the reference from its start."""
    from envbench import runtimes
    from envbench.engine.local_executor import make_job
    from envbench.model import Trial, Verify
    from envbench.process.one_job import execute

    replies = []
    for backend in (get(name), get("for-loop")):
        cell = make_cell("here", family, families.default_task(family), backend, 2, {})
        amount = Verify(lock_steps=lock_steps, audit_calls=10)
        trial = Trial(cell=cell, mode="verify", verify=amount)
        job = make_job(trial, target_of(cell), "here")
        files = {"start.npz": replies[0].trace} if replies else {}
        python = testing.interpreter(backend, family=family)
        reply = execute(job, python=python, environment=runtimes.environment(backend), files=files)
        assert reply.ok, reply.failure
        replies.append(reply)
    own, led = (traces.read_trace(each.trace) for each in replies)
    return traces.compare(families.get(family).standards["env"], led, own)
