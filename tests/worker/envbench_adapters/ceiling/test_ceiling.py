"""ceiling: each family's core can be built and stepped, and its steps are counted a second time.

The engines of atari, mujoco and dm_control count them. The others have no counter: here the tests
count the ends of the carts' episodes, and the steps of Box2D's worlds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import gymnasium
import pytest
from helpers.record_factories import make_cell, make_fact, make_plan, make_run

from envbench import backends, families, testing
from envbench.model import Family
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import Reply
from envbench.results.selection import select
from envbench.testing import BackendContract

CEILING = backends.get("ceiling")
slow = pytest.mark.slow
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes share a POSIX file")


@slow
class TestCeilingAtari(BackendContract):
    single_steps = False
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


@slow
@pytest.mark.parametrize("family", ["atari", "mujoco", "dm_control", "classic_control", "box2d"])
def test_a_figure_above_the_ceiling_is_refused_or_says_which_engine_made_it(family: Family) -> None:
    """By what the workers really report: Gymnasium's environments have the ceiling's engine,
    EnvPool has its own build."""
    task = families.default_task(family)
    frames = families.get(family).frames_per_step(task)
    cells, runs = [], []
    for name, speed in {"for-loop": 2200, "envpool-sync": 2200, "ceiling": 2000}.items():
        backend = backends.get(name)
        kind = "ceiling" if name == "ceiling" else "env"
        cell = make_cell(name, 2, env=family, task=task, frame_skip=frames, kind=kind)
        work = testing.verified(backend, family, task, lock_steps=10, calls=1).facts["work"]
        cells.append(cell)
        for n in range(5):
            facts = {"work": work}
            runs.append(make_run(cell, [speed + n] * 4, round=n, block=f"{n}", facts=facts))
    found = {
        each.cell.backend: each for each in select([make_fact(), make_plan(cells), *runs]).measured
    }
    refused, doubtful = found["for-loop"], found["envpool-sync"]
    assert refused.fps is None
    assert refused.summary.failure is not None
    assert "with the same engine and settings" in refused.summary.failure.message
    assert doubtful.fps is not None
    assert doubtful.doubt.startswith("1.10 times the ceiling: engine is ")
    assert "EnvPool's own" in doubtful.doubt


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
    assert carts.work() == {
        "engine": f"Gymnasium {gymnasium.__version__}",
        "timestep_s": 0.02,
        "max_steps": 500,
    }


def test_both_sides_agree_on_the_worlds_of_a_process(
    core: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("envbench_adapters.ceiling.ceiling")
    contract = import_module("envbench_worker.contract")
    each = {name: family.ceiling_states for name, family in families.registry().items()}
    assert {name: states for name, states in each.items() if states > 1} == module.STATES
    monkeypatch.setattr(module.numa_nodes, "usable_cores", lambda: [0, 1, 2, 3])
    for numenv, shares in ((2048, [1024, 1024]), (10, [10]), (5000, [1250] * 4)):
        job = contract.Job("measure", "classic_control", "CartPole-v1", numenv, numenv, 1, {}, 0)
        assert [part.numenv for _, part in module.Ceiling(job).shares()] == shares


# ---------------------------------------------------------------- with the real Box2D

FALLING = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import Box2D
from envbench_adapters.ceiling.cart_pole_and_lander import LanderCore
from envbench_worker.contract import Job

job = Job("measure", "box2d", "LunarLander-v3", 1, 1, 1, {"actions": "bank"}, 3)
core = LanderCore(job, job, 0)
core.probe()
core.build()
cpu, step, inside, landed = time.thread_time_ns, Box2D.b2World.Step, [], []

def measured(world, *arguments):
    assert arguments == (0.02, 180, 60)
    began = cpu()
    step(world, *arguments)
    inside.append(cpu() - began)

def watched(world, *arguments):
    step(world, *arguments)
    landed.append(any(each.contact.touching for body in world.bodies for each in body.contacts))

def ran(stepped, calls, log):
    Box2D.b2World.Step = stepped
    log.clear()
    began = cpu()
    counts = core.run(calls)
    return [*counts, len(log), cpu() - began]

found = [[*ran(measured, calls, inside), sum(inside)] for calls in (1, 70, 9, 6000, 6000, 6000)]
print(json.dumps([found, ran(watched, 6000, landed), sum(landed)]))
"""


@slow
def test_nearly_all_time_of_the_landers_ceiling_is_in_the_step_of_box2ds_world() -> None:
    """The CPU time includes the test's own clock. Each episode has to touch the ground."""
    python = testing.interpreter(CEILING, family="box2d")
    words = [python, "-c", FALLING, str(WORKER_PATH)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found, (steps, resets, watched, _), landed = json.loads(done.stdout)
    for (made, starts, stepped, *_), calls in zip(found, (1, 70, 9, *[6000] * 3), strict=True):
        assert (made, made + starts) == (stepped, calls)
    assert min(1 - inside / total for *_, total, inside in found[-3:]) < 0.15
    assert steps == watched
    assert 50 < steps / resets < 100  # about 70: Gymnasium's lander falls as long without engines
    assert 0.01 < landed / steps < 0.2
