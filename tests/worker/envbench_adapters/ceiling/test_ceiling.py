"""ceiling: each family's core can be built and stepped, and its steps are counted a second time.

The engines of atari, mujoco and dm_control count them. The others have no counter: here the tests
count the ends of the carts' episodes, and the steps of a stand-in for Box2D's world.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from envbench import backends, families, testing
from envbench.model import Family
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import Reply
from envbench.testing import BackendContract

CEILING = backends.get("ceiling")
slow = pytest.mark.slow
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes share a POSIX file")


@slow
class TestCeilingAtari(BackendContract):
    backend = CEILING
    family = "atari"
    task = "Pong-v5"


@slow
class TestCeilingMujoco(BackendContract):
    backend = CEILING
    family = "mujoco"
    task = "Ant-v3"


def verified(family: Family, task: str, calls: int) -> Reply:
    return testing.verified(CEILING, family, task, lock_steps=10, calls=calls)


@slow
@pytest.mark.parametrize(
    ("family", "task", "calls"),
    [
        ("atari", "Breakout-v5", 1500),
        ("mujoco", "Ant-v3", 2100),
        ("dm_control", "CheetahRun-v1", 2100),
    ],
)
def test_frames_counted_by_the_engine_agree_across_episode_ends(
    family: Family, task: str, calls: int
) -> None:
    reply = verified(family, task, calls)
    audit = reply.audit
    assert audit is not None
    assert audit.resets >= 2
    assert audit.steps + audit.resets == audit.calls * 2
    assert audit.frames == pytest.approx(audit.steps * families.get(family).frames_per_step(task))
    assert reply.trace is None  # nothing is observed


@slow
@pytest.mark.parametrize("family", ["classic_control", "box2d"])
def test_an_engine_without_a_counter_is_stepped_across_episode_ends(family: Family) -> None:
    reply = verified(family, families.default_task(family), 1500)
    audit = reply.audit
    assert audit is not None
    assert audit.resets >= 2
    assert audit.steps + audit.resets == audit.calls * 2
    assert (audit.frames, reply.trace) == (None, None)


@slow
@pytest.mark.parametrize("family", ["atari", "mujoco", "dm_control", "box2d"])
def test_nothing_is_observed_and_each_process_has_a_core(family: Family) -> None:
    facts = verified(family, families.default_task(family), 1).facts
    assert (facts["observation_shape"], facts["observation_dtype"]) == ([], "none")
    assert [process["numenv"] for process in facts["processes"]] == [1, 1]
    assert all("-" not in process["cores"] for process in facts["processes"])


# ---------------------------------------------------------------- in this process


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes the core of a family as a process of the ceiling does."""
    monkeypatch.syspath_prepend(WORKER_PATH)

    def make(family: Family, numenv: int = 1) -> Any:
        contract = import_module("envbench_worker.contract")
        cores = import_module("envbench_adapters.ceiling.ceiling").CORES
        task, actions = families.default_task(family), {"actions": "bank"}
        job = contract.Job("verify", family, task, numenv, numenv, 1, actions, 0)
        return contract.named(cores[family])(job, job, 0)

    yield make
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


def test_a_cart_whose_pole_fell_is_reset_in_its_next_step(core: Any) -> None:
    carts = core("classic_control", numenv=3)
    carts.probe()
    carts.build()
    step, ends = carts.envs.step, []
    carts.envs.step = lambda batch: ends.append(step(batch)[2:4])
    for calls in (1, 40, 500):
        known = len(ends)
        counts = carts.run(calls)
        # The reset after an end is the result of the call after it.
        before = ends[max(known - 1, 0) : len(ends) - 1]
        resets = sum(int((terminated | truncated).sum()) for terminated, truncated in before)
        assert (counts.steps, counts.resets) == (3 * calls - resets, resets)
    assert resets > 3
    assert carts.work() == {"timestep_s": 0.02, "max_steps": 500}


class Lander:
    """A replacement for Gymnasium's LunarLander. It counts its steps, and lands after ten."""

    def __init__(self) -> None:
        self.lander = SimpleNamespace(awake=True)
        self.world = self.unwrapped = self
        self.made = self.resets = 0

    def reset(self, seed: int | None = None) -> None:
        self.game_over, self.resets = False, self.resets + 1

    def Step(self, seconds: float, *iterations: int) -> None:
        assert (seconds, iterations) == (0.02, (180, 60))
        self.made += 1
        self.game_over = self.made % 10 == 0


def test_a_lander_that_landed_is_reset_and_the_reset_is_no_step(
    core: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Lander()
    monkeypatch.setattr("gymnasium.make", lambda task: world)
    monkeypatch.setitem(sys.modules, "Box2D", SimpleNamespace())
    lander = core("box2d")
    lander.probe()
    lander.build()
    for calls in (1, 40, 500):
        made, resets = world.made, world.resets
        counts = lander.run(calls)
        assert (counts.steps, counts.resets) == (world.made - made, world.resets - resets)
        assert sum(counts) == calls
    assert counts.resets > 3
