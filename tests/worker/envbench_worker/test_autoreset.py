"""Autoreset modes are read where the library states them, and counted accordingly or refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envbench import families
from envbench.process.code_hash import WORKER_PATH

NUMENV = 3


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The worker's modules are on the path, and imported afresh by each test."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    yield
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


def job(mode: str = "measure", family: str = "gym", task: str = "CartPole-v1", **given: Any) -> Any:
    from envbench_worker.contract import Job

    fields = {"frame_skip": 1, "settings": {"actions": "bank"}, "seed": 1, **given}
    return Job(
        mode=mode,
        family=family,
        family_code=families.get(family).worker,
        task=task,
        numenv=NUMENV,
        env_instances=NUMENV,
        **fields,
    )


class Counting(gymnasium.Wrapper):
    """Counts the steps that truly reach the environment, and its resets."""

    def __init__(self, env: Any, made: dict[str, int]) -> None:
        super().__init__(env)
        self.made = made

    def step(self, action: Any) -> Any:
        self.made["steps"] += 1
        return self.env.step(action)

    def reset(self, **given: Any) -> Any:
        self.made["resets"] += 1
        return self.env.reset(**given)


def adapter(envs: Any, mode: str = "measure") -> Any:
    """A for-loop adapter over these vector environments."""
    from envbench_adapters.gymnasium.for_loop import ForLoop

    class Planted(ForLoop):  # type: ignore[misc]
        def make_vector(self) -> Any:
            return envs

    made = Planted(job(mode))
    made.build()
    return made


def vector(made: dict[str, int], mode: AutoresetMode) -> Any:
    one = partial(lambda: Counting(gymnasium.make("CartPole-v1"), made))
    return SyncVectorEnv([one] * NUMENV, autoreset_mode=mode)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_steps_and_resets_are_those_that_reach_the_environments(mode: AutoresetMode) -> None:
    made = {"steps": 0, "resets": 0}
    ours = adapter(vector(made, mode))
    made.update(steps=0, resets=0)
    counts = [ours.run(calls) for calls in (1, 2, 3, 50, 500, 7)]
    calls = sum((1, 2, 3, 50, 500, 7))
    steps, resets = (sum(column) for column in zip(*counts, strict=True))
    assert (steps, resets) == (made["steps"], made["resets"])
    assert resets > 10  # a game of random actions lasts some twenty steps
    same = mode is AutoresetMode.SAME_STEP
    assert steps + (0 if same else resets) == calls * NUMENV
    facts = ours.facts()
    assert (
        facts["autoreset"] == facts["work"]["autoreset"] == ("same-step" if same else "next-step")
    )
    assert facts["autoreset_source"] == "metadata"


def test_environments_that_never_reset_are_refused_with_the_reason() -> None:
    from envbench_worker.autoreset import UnsupportedAutoreset

    envs = vector({"steps": 0, "resets": 0}, AutoresetMode.DISABLED)
    message = "SyncVectorEnv states the autoreset mode disabled.*next-step and same-step"
    with pytest.raises(UnsupportedAutoreset, match=message):
        adapter(envs)


def test_a_trace_says_if_a_step_that_ends_an_episode_also_resets() -> None:
    from envbench_families.base import Counted, Family
    from envbench_worker import traces

    one = partial(lambda: Counted(gymnasium.make("CartPole-v1"), Family(job("verify"))))
    envs = SyncVectorEnv([one] * NUMENV, autoreset_mode=AutoresetMode.SAME_STEP)
    ours = adapter(envs, "verify")
    assert traces.lock_steps(ours, 10).same_step
    assert ours.run(100).steps == 100 * NUMENV


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (AutoresetMode.NEXT_STEP, "next-step"),
        (AutoresetMode.SAME_STEP, "same-step"),
        ("NextStep", "next-step"),
        ("SAME_STEP", "same-step"),
    ],
)
def test_a_mode_may_be_an_enum_member_or_a_name(stated: Any, expected: str) -> None:
    from envbench_worker import autoreset

    envs = SimpleNamespace(metadata={"autoreset_mode": stated})
    assert autoreset.of(envs, ("next-step", "same-step")) == (expected, "metadata")


def test_without_a_stated_mode_the_mode_follows_from_the_version() -> None:
    from envbench_worker import autoreset

    for envs in (SimpleNamespace(metadata={}), SimpleNamespace(metadata=None), SimpleNamespace()):
        assert autoreset.of(envs, ("next-step",)) == ("next-step", "version")


@pytest.mark.parametrize("stated", [AutoresetMode.DISABLED, "WheneverItLikes", "SameStep"])
def test_a_mode_that_is_not_counted_is_refused_by_its_name(stated: Any) -> None:
    from envbench_worker import autoreset

    envs = SimpleNamespace(metadata={"autoreset_mode": stated})
    with pytest.raises(autoreset.UnsupportedAutoreset, match="counted for next-step only"):
        autoreset.of(envs, ("next-step",))


# ---------------------------------------------------------------- native vector environments


def ale_job(mode: str = "measure", **settings: Any) -> Any:
    given = {"actions": "bank", "threads": 1, "affinity": -1, "fire_reset": False, **settings}
    return job(mode, "atari", "Pong-v5", settings=given, frame_skip=4)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_ale_vector_refuses_a_mode_that_it_does_not_count(
    monkeypatch: pytest.MonkeyPatch, mode: AutoresetMode
) -> None:
    from envbench_adapters import ale_vector
    from envbench_worker import autoreset

    class Stating(ale_vector.AtariVectorEnv):  # type: ignore[misc]
        @property
        def metadata(self) -> Any:
            return {"autoreset_mode": mode}

    monkeypatch.setattr(ale_vector, "AtariVectorEnv", Stating)
    ours = ale_vector.AleVector(ale_job())
    ours.probe()
    with pytest.raises(autoreset.UnsupportedAutoreset, match="Stating states"):
        ours.build()


def test_ale_vector_reports_the_mode_that_ale_states() -> None:
    from envbench_adapters import ale_vector

    ours = ale_vector.AleVector(ale_job())
    ours.probe()
    ours.build()
    facts = ours.facts()
    assert (facts["autoreset"], facts["autoreset_source"]) == ("next-step", "metadata")
    assert facts["work"]["autoreset"] == "next-step"
    ours.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_mode_that_envpool_states_is_read_and_same_step_is_refused(
    monkeypatch: pytest.MonkeyPatch, mode: AutoresetMode
) -> None:
    pytest.importorskip("envpool")
    from envbench_adapters.envpool import pool as envpool_tasks
    from envbench_adapters.envpool.sync import EnvPoolSync
    from envbench_worker import autoreset

    make = envpool_tasks.envpool.make

    def stating(*arguments: Any, **given: Any) -> Any:
        pool = make(*arguments, **given)
        pool.metadata = {"autoreset_mode": mode}
        return pool

    monkeypatch.setattr(envpool_tasks.envpool, "make", stating)
    settings = {"actions": "bank", "threads": 1, "affinity": -1}
    ours = EnvPoolSync(job("measure", "mujoco", "Ant-v3", settings=settings, frame_skip=5))
    if mode is AutoresetMode.SAME_STEP:
        with pytest.raises(autoreset.UnsupportedAutoreset, match="same-step"):
            ours.build()
        return
    ours.build()
    facts = ours.facts()
    assert facts["autoreset"] == facts["work"]["autoreset"] == "next-step"
    ours.close()
