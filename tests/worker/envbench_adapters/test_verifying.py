"""Gymnasium's and EnvPool's backends counted a second way, and followed by the reference.

Observed with EnvPool 1.2.5 (which has MuJoCo 3.6.0) and Gymnasium 1.4 with MuJoCo 4.0.0: Pong is
the same to the last bit. With MuJoCo 3.6.0 on both sides the ants are the same to the last bit,
except that EnvPool leaves the 84 contact forces at zero.
"""

from __future__ import annotations

import io
import sys
import time
import weakref
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest
from helpers.following import followed
from helpers.session_cache import once

from envbench import backends, families, testing
from envbench.decisions.agreement import compared
from envbench.decisions.ledger import differences
from envbench.decisions.responses import responds
from envbench.decisions.trace_file import Trace
from envbench.decisions.traces import compare
from envbench.process.code_hash import WORKER_PATH
from envbench.process.reply import Reply

slow = pytest.mark.slow
GYMNASIUM = ("for-loop", "subprocess")
ENVPOOL = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no Windows wheels"),
    )
    for name in ("envpool-sync", "envpool-async")
]
ALL = [*GYMNASIUM, *ENVPOOL]
LED = [("atari", "Pong-v5"), ("mujoco", "Ant-v3")]

ARRAYS = ("observations", "rewards", "ended", "start")


@once
def verified(
    name: str, family: Any, task: str, lock_steps: int = 60, calls: int = 400, together: int = 0
) -> Reply:
    """The reply of a worker with two environments that got given actions and was audited."""
    given = {"threads": "1"} if name.startswith("envpool") else {}  # others want the cores too
    backend = backends.get(name)
    return testing.verified(
        backend, family, task,
        settings=given, lock_steps=lock_steps, calls=calls, together=together,
    )  # fmt: skip


IN_ORDER = 1  # ``together``: then the bank keeps its order, and two workers get the same actions


def trace(name: str, family: str, task: str, steps: int = 60, together: int = 0) -> dict[str, Any]:
    """The arrays of the trace of a worker that got given actions."""
    found = verified(name, family, task, steps, together=together).trace
    assert found is not None
    return dict(np.load(io.BytesIO(found)))


# ---------------------------------------------------------------- the same work, counted twice


@slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("family", "task"), [("atari", "Breakout-v5"), ("mujoco", "Ant-v3")])
def test_environments_count_the_claimed_frames_across_episode_ends(
    name: str, family: str, task: str
) -> None:
    audit = verified(name, family, task, calls=3000).audit  # an episode of Ant lasts up to 1,000
    assert audit is not None
    assert audit.resets >= 4
    assert audit.steps + audit.resets == 2 * audit.calls
    assert audit.frames == audit.steps * families.get(family).frames_per_step(task)


@slow
@pytest.mark.parametrize("name", GYMNASIUM)
def test_a_time_limit_counts_the_steps_of_a_users_own_task(name: str) -> None:
    audit = verified(name, "gym", "CartPole-v1").audit
    assert audit is not None
    assert audit.resets > 4
    assert audit.frames == audit.steps


# ---------------------------------------------------------------- lock-step


@slow
@pytest.mark.parametrize(
    "task", [("atari", "Pong-v5"), ("mujoco", "Ant-v3"), ("gym", "CartPole-v1")]
)
def test_processes_do_what_the_loop_does_to_the_last_bit(task: tuple[str, str]) -> None:
    loop, processes = (trace(name, *task, together=IN_ORDER) for name in ("for-loop", "subprocess"))
    for part in ("observations", "rewards", "ended"):
        assert np.array_equal(loop[part][:60], processes[part][:60])  # later rows are drawn


@slow
@pytest.mark.parametrize("name", ALL)
def test_the_reference_follows_pong_through_no_ops_and_the_ends_of_games(name: str) -> None:
    found = followed("atari", name, 1400)  # a game may last over 1,000
    assert compared(families.get("atari").standards["env"], found)[0] is True
    assert found.ends >= 2
    assert found.start <= 2


@slow
@pytest.mark.parametrize("name", ALL)
def test_the_reference_follows_the_ant_through_contacts_and_falls(name: str) -> None:
    found = followed("mujoco", name)
    assert found.hollow == (name not in GYMNASIUM)  # EnvPool says that it has no contact forces
    found = msgspec.structs.replace(found, hollow=False)
    assert compared(families.get("mujoco").standards["env"], found)[0] is True
    assert found.ends + found.within >= 2
    if name in GYMNASIUM:
        assert max(each.largest for each in found.observations) < 1e-9
        # The largest may be of a call of several steps, in which rounding grows.
        assert max(each.p97 or 0.0 for each in found.rewards) < 1e-9


@slow
@pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no Windows wheels")
@pytest.mark.parametrize("task", LED)
def test_results_in_any_order_get_the_same_actions(
    task: tuple[str, str],
) -> None:
    together = trace("envpool-sync", *task, together=IN_ORDER)
    settings = {"threads": "1", "overcommit": "1"}  # then all in flight are traced
    reply = testing.verified(
        backends.get("envpool-async"), *task,
        settings=settings, lock_steps=60, calls=400, together=IN_ORDER,
    )  # fmt: skip
    apart = dict(np.load(io.BytesIO(reply.trace or b"")))
    for part in ("start", "observations", "rewards", "ended"):
        assert np.array_equal(together[part][:60], apart[part])


@slow
@pytest.mark.parametrize("name", ALL)
def test_where_episodes_are_compared_only_the_first_observations_are_kept(name: str) -> None:
    found = trace(name, "box2d", "LunarLander-v3", steps=300)
    assert found["rewards"].shape == found["ended"].shape == (300, 2)
    assert found["observations"].shape == (200, 2, 8)
    assert (found["observations"][1:] != found["observations"][:-1]).any(axis=2).mean() > 0.98
    assert found["ended"].any()


# ---------------------------------------------------------------- the reported settings of a step


@slow
@pytest.mark.parametrize("name", ALL)
def test_every_backend_does_the_same_work_as_the_reference_on_pong(name: str) -> None:
    work = verified(name, "atari", "Pong-v5").facts["work"]
    assert differences("atari", "env", work) == {}


@slow
@pytest.mark.parametrize("name", GYMNASIUM)
def test_gymnasiums_ant_differs_only_in_contact_forces(name: str) -> None:
    work = verified(name, "mujoco", "Ant-v3", calls=1000).facts["work"]
    assert differences("mujoco", "env", work) == {"contact_forces": (False, True)}
    assert work["engine"].startswith("MuJoCo ")


@slow
@pytest.mark.parametrize("name", ENVPOOL)
def test_envpools_ant_differs_only_in_unknown_values(name: str) -> None:
    work = verified(name, "mujoco", "Ant-v3", calls=1000).facts["work"]
    unknown = {"solver": ("Newton", "unknown"), "iterations": (100, "unknown")}
    assert differences("mujoco", "env", work) == unknown


# ---------------------------------------------------------------- how the second count is made


class Emulator(gymnasium.Env[int, int]):
    """Emulates ``frames`` frames per step. The third step ends the game after one frame."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, frames: int) -> None:
        self.frames, self.made, self.now = frames, 0, 0
        self.ale = self

    def getFrameNumber(self) -> int:
        return self.now

    def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
        self.now += 7  # no-ops
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.made += 1
        self.now += 1 if self.made == 3 else self.frames
        return 0, 0.0, self.made == 3, False, {}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a module of the worker into this process, as the worker imports it."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    yield lambda name: import_module(f"envbench_{name}")
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


def job(worker: Any, family: str, mode: str = "verify", task: str = "Pong-v5") -> Any:
    return worker("worker.contract").Job(mode, family, task, 1, 1, 4, {"actions": "bank"}, 0)


def counted(worker: Any, family: str, frames: int) -> Any:
    """The emulator, counted."""
    own = job(worker, family)._replace(family_code=families.get(family).worker)
    made = worker("families").of(own)
    return worker("families.base").Counted(Emulator(frames), made)


@pytest.mark.parametrize(("skipped", "frames"), [(4, 12), (2, 8)])
def test_the_emulator_counts_the_frames_of_steps_and_none_of_a_reset(
    worker: Any, skipped: int, frames: int
) -> None:
    env = counted(worker, "atari", skipped)
    env.reset()
    for _ in range(3):
        env.step(0)
    env.reset()
    # The game's end cut the third step short: it is a step of four frames all the same.
    assert env.frames_made() == frames
    assert env.frames_made() == 0


@pytest.mark.parametrize("given", [{}, {"follows_by": "seed"}], ids=["default", "seed"])
def test_environments_that_start_apart_are_not_said_to_ignore_their_actions(
    worker: Any, given: dict[str, Any]
) -> None:
    """As in a plugin's family that docs/backends.md describes."""
    code = "envbench_families.base:Family"
    own = families.EnvFamily(name="own", title="Own", worker=code, **given)
    steps = 200
    order = job(worker, own.name, task="Pendulum-v1")._replace(family_code=code, numenv=2)
    adapter = worker("adapters.gymnasium.for_loop").ForLoop(order)
    adapter.build()
    found = worker("worker.traces").lock_steps(adapter, steps)
    trace = Trace(**{name: getattr(found, name) for name in ARRAYS})
    assert responds(trace, 0) is not False


def test_a_task_without_a_counter_has_no_second_count(worker: Any) -> None:
    env = counted(worker, "gym", 4)
    env.reset()
    env.step(0)
    assert env.frames_made() is None


def test_measuring_adds_no_counting_wrapper(worker: Any) -> None:
    for_loop = worker("adapters.gymnasium.for_loop")
    for mode, counting in (("measure", False), ("verify", True)):
        env = for_loop.make(job(worker, "gym", mode, "CartPole-v1"))
        assert env.has_wrapper_attr("frames_made") == counting


class Pool:
    """Three environments, two of which are returned at a time: their ids and elapsed steps."""

    results = (([2, 0], [1, 0]), ([2, 1], [2, 1]), ([2, 0], [0, 1]), ([2, 0], [1, 1]))

    def __init__(self) -> None:
        self.coming = iter(self.results)

    def recv(self) -> Any:
        ids, elapsed = next(self.coming)
        info = {"env_id": np.array(ids), "elapsed_step": np.array(elapsed, np.int32)}
        return None, None, None, None, info


def test_an_elapsed_counter_that_restarts_or_does_not_change_adds_no_steps(worker: Any) -> None:
    watched = worker("adapters.verifying").Watched
    pool = watched(Pool(), "elapsed_step", np.zeros(3, np.int64))
    found = []
    for _ in Pool.results:
        pool.recv()
        found.append(pool.made_in(1))
    assert found == [1, 2, 1, 1]
    assert pool.made_in(2) == 2


def test_a_random_choice_of_the_environments_in_flight_is_traced(worker: Any) -> None:
    bank = [np.array([10 * call, 10 * call + 1]) for call in range(3)]
    chosen = set()
    for seed in range(40):
        order = SimpleNamespace(numenv=2, env_instances=6, observed=None, seed=seed)
        own = SimpleNamespace(bank=bank, job=order)
        driven = worker("adapters.verifying").AnyOrder(own, 3, np.zeros(1))
        chosen.update(driven.traced.tolist())
        ids = np.arange(6)
        driven.begin(ids, -np.ones((6, 1)))
        while not driven.complete():
            actions = driven.next_actions(ids)
            none = np.zeros(6, bool)
            driven.store(ids, actions[:, None] + 0.5, actions, none, none)
        # The k-th row of each column has the result of the k-th action of that column.
        assert np.array_equal(driven.trace.rewards, np.stack(bank))
        assert np.array_equal(driven.trace.observations[:, :, 0], np.stack(bank) + 0.5)
        assert (driven.trace.start == -1).all()
    assert chosen == set(range(6))


def test_of_many_environments_a_random_choice_is_compared_with_its_own_actions(worker: Any) -> None:
    many, most = 70, worker("worker.contract").MOST_TRACED
    order = job(worker, "classic_control", "measure", "CartPole-v1")
    order = order._replace(
        family_code=families.get("classic_control").worker, frame_skip=1, env_instances=many
    )
    own = worker("adapters.gymnasium.for_loop").ForLoop(order._replace(numenv=many))
    own.build()
    trace = worker("worker.traces").lock_steps(own, 40)
    assert trace.rewards.shape == (40, most)
    assert trace.observations.shape == (40, most, 4)
    assert len(set(trace.columns.tolist())) == most < many
    reference = worker("adapters.gymnasium.for_loop").ForLoop(
        order._replace(mode="verify", numenv=most, env_instances=most)
    )
    reference.build()
    predicted = reference.predict(trace)
    standard = families.get("classic_control").standards["env"]
    mine, theirs = (Trace(**{n: getattr(e, n) for n in ARRAYS}) for e in (trace, predicted))
    found = compare(standard, theirs, mine)
    assert found.ends > 0
    assert (found.other_ends, standard.apart(found.rewards)) == (0, 0)
    assert standard.apart(found.observations) <= standard.tolerance


def in_process(worker: Any, family: str, task: str, **more: Any) -> Any:
    """A for-loop of three environments in this process."""
    own = families.get(family)
    given = {"mode": "measure", "seed": 3, "numenv": 3, "env_instances": 3, **more}
    order = job(worker, family, given.pop("mode"), task)._replace(
        family_code=own.worker, frame_skip=own.frames_per_step(task), **given
    )
    made = worker("adapters.gymnasium.for_loop").ForLoop(order)
    made.build()
    return made


def against_the_reference(worker: Any, found: Any, family: str, task: str) -> Any:
    """The agreement of a trace with what the reference predicts."""
    predicted = in_process(worker, family, task, mode="verify", seed=4).predict(found)
    fields = Trace.__dataclass_fields__
    mine, theirs = (
        Trace(**{name: getattr(each, name) for name in fields}) for each in (found, predicted)
    )
    return compare(families.get(family).standards["env"], theirs, mine)


FOLLOWED = [
    ("classic_control", "CartPole-v1"),  # ends about every 20 steps
    ("classic_control", "MountainCar-v0"),  # has a time limit of 200 steps
    pytest.param("mujoco", "Ant-v3", marks=slow),
    pytest.param("atari", "Pong-v5", marks=slow),
]


@pytest.mark.parametrize(
    ("family", "task"),
    [("classic_control", "CartPole-v1"), pytest.param("mujoco", "Ant-v3", marks=slow)],
)
def test_the_last_part_leads_to_the_time_limit(worker: Any, family: str, task: str) -> None:
    parts, data = worker("worker.trace_parts"), families.get(family)
    traces = worker("worker.traces")
    own = in_process(worker, family, task)
    whole = traces.lock_steps(own, 100)
    amount = {"limit": data.time_limit("env", task), "lasting": data.lasting}
    found = parts.with_later(own, whole, lambda event: None, amount)
    agreement = against_the_reference(worker, found, family, task)
    numenv = found.rewards.shape[1]
    assert (agreement.limits, agreement.other_limits) == (numenv, 0)
    assert agreement.ends == found.ended[: found.chosen].sum() > 0
    assert agreement.actions_apart < 0.15
    exact = data.standards["env"].of(same_engine=True, rounded=False)
    assert exact.apart(agreement.observations) <= exact.tolerance
    unlimited = found._replace(ended=found.ended & ~found.truncated, truncated=found.truncated & 0)
    agreement = against_the_reference(worker, unlimited, family, task)
    assert agreement.other_limits == numenv


@pytest.mark.parametrize(("family", "task"), FOLLOWED)
def test_the_reference_follows_calls_of_several_steps_after_a_reset(
    worker: Any, family: str, task: str
) -> None:
    traces, parts = worker("worker.traces"), worker("worker.trace_parts")
    own = in_process(worker, family, task)
    whole = traces.lock_steps(own, 220)
    own.run(57)
    found = parts.with_later(own, whole, lambda event: None, {"limit": 0})
    calls = np.diff(found.at)
    assert (calls[:220] == 1).all()
    assert calls.max() > 1
    resets = np.flatnonzero(found.restarted)
    assert (resets[0], len(resets)) == (220, 1 + parts.STARTS)
    standard = families.get(family).standards["env"]
    agreement = against_the_reference(worker, found, family, task)
    assert agreement.other_ends == 0
    assert largest(agreement.observations) <= standard.of(same_engine=True, rounded=False).tolerance
    assert largest(agreement.rewards) <= max(standard.reward_tolerance, 1e-9)
    wrong = found.observations.copy()
    wrong[-1] += 3
    agreement = against_the_reference(worker, found._replace(observations=wrong), family, task)
    assert largest(agreement.observations) >= 1


@pytest.mark.parametrize(("family", "task"), FOLLOWED)
def test_a_backend_that_makes_fewer_steps_in_longer_calls_differs(
    worker: Any, family: str, task: str
) -> None:
    own = in_process(worker, family, task)
    run = own.run
    own.run = lambda calls: run(max(1, calls // 2))
    found = worker("worker.traces").lock_steps(own, 100, several=True)
    agreement = against_the_reference(worker, found, family, task)
    standard = families.get(family).standards["env"]
    assert agreement.in_calls > standard.tolerance
    assert compared(standard, agreement)[0] is False


def largest(environments: Any) -> float:
    return max(each.largest for each in environments)


def test_a_time_limit_is_not_the_end_of_a_task(worker: Any) -> None:
    task = "classic_control", "MountainCar-v0"
    found = worker("worker.traces").lock_steps(in_process(worker, *task), 220)
    assert (found.ended.sum(), found.truncated.sum()) == (3, 3)
    assert against_the_reference(worker, found, *task).other_ends == 0
    swapped = found._replace(truncated=np.zeros_like(found.truncated))
    assert against_the_reference(worker, swapped, *task).other_ends == 3


def test_an_array_that_is_overwritten_later_is_noticed(worker: Any) -> None:
    traces = worker("worker.traces")
    order = job(worker, "classic_control", "measure", "CartPole-v1")
    order = order._replace(
        family_code=families.get("classic_control").worker, numenv=2, env_instances=2
    )
    own = worker("adapters.gymnasium.for_loop").ForLoop(order)
    own.build()
    assert not traces.lock_steps(own, 40).reused
    ring, step, turn = [np.zeros((2, 4), np.float32) for _ in range(3)], own.envs.step, [0]

    def overwriting(actions: Any) -> Any:
        found = step(actions)
        turn[0] = (turn[0] + 1) % 3
        ring[turn[0]][...] = found[0]
        return (ring[turn[0]], *found[1:])

    own.envs.step = overwriting
    assert traces.lock_steps(own, 40).reused


def test_an_array_of_rewards_that_the_next_step_overwrites_is_noticed(worker: Any) -> None:
    traces = worker("worker.traces")
    own = in_process(worker, "classic_control", "CartPole-v1")
    held, step = np.zeros(3), own.envs.step

    def overwriting(actions: Any) -> Any:
        observations, rewards, *rest = step(actions)
        held[...] = rewards + held[0] % 2  # they differ from step to step
        return (observations, held, *rest)

    own.envs.step = overwriting
    assert traces.lock_steps(own, 40).reused


def test_nothing_that_an_adapter_can_look_up_tells_its_next_actions(worker: Any) -> None:
    """It finds lists in the caller's frame: the actions of the next call are not drawn yet."""
    traces = worker("worker.traces")
    own = in_process(worker, "mujoco", "Ant-v3")
    own.bank = [batch + row / 1e3 for row, batch in enumerate(own.bank)]  # no two are alike
    run, seen = own.run, []

    def looking(calls: int) -> Any:
        lists = [each for each in sys._getframe(1).f_locals.values() if type(each) is list]
        rows = [[row.tobytes() for row in each if hasattr(row, "tobytes")] for each in lists]
        seen.append([row for row in rows if len(row) > 3])
        return run(calls)

    own.run = looking
    asked = [each.tobytes() for each in traces.lock_steps(own, 60).actions]
    told = [
        each
        for calls, rows in enumerate(seen[:-3])
        for each in rows
        if any(each[at : at + 4] == asked[calls : calls + 4] for at in range(len(each)))
    ]
    assert any(len(each) > 40 for each in seen[50])  # it did find lists of actions
    assert not told


def test_what_runs_when_an_array_is_freed_is_timed(worker: Any) -> None:
    traces = worker("worker.traces")
    own = in_process(worker, "classic_control", "CartPole-v1")
    last, freed, took = own.last, [], []

    def working() -> None:
        freed.append(time.sleep(0.002))

    def finalized() -> Any:
        found = [np.array(each) for each in last()]
        for each in found:
            weakref.finalize(each, working)
        return found

    own.last = finalized
    traces.lock_steps(own, 40, note=lambda ns, counts, stride: took.append(ns))
    assert len(freed) > 4 * 30
    # The arrays of the last two calls, and those that are held to the end, are freed after them.
    assert sum(took) / 1e9 > 0.002 * (len(freed) - 4 * 2 - traces.HELD - 1)


def test_rewards_of_another_shape_are_an_error_that_names_it(worker: Any) -> None:
    traces = worker("worker.traces")
    own = in_process(worker, "classic_control", "CartPole-v1")
    last = own.last
    own.last = lambda: [each[:, None] if i == 1 else each for i, each in enumerate(last())]
    with pytest.raises(ValueError, match=r"return rewards of shape \(3,\), not \(3, 1\)"):
        traces.lock_steps(own, 10)


@pytest.mark.parametrize(("family", "task"), FOLLOWED)
def test_steps_continue_in_calls_of_several_steps_without_a_reset(
    worker: Any, family: str, task: str
) -> None:
    traces, parts = worker("worker.traces"), worker("worker.trace_parts")
    own = in_process(worker, family, task)
    whole = traces.lock_steps(own, 220)
    found = parts.continued(own, whole)
    assert len(found.actions) == 440
    assert (np.diff(found.at)[:219] == 1).all()
    assert np.diff(found.at).max() > 1
    assert found.restarted is None or not found.restarted.any()
    standard = families.get(family).standards["env"].of(same_engine=True, rounded=False)
    agreement = against_the_reference(worker, found, family, task)
    assert standard.apart(agreement.observations) <= standard.tolerance
    assert (agreement.other_ends, agreement.not_reset, agreement.reused) == (0, 0, False)


@pytest.mark.parametrize(("family", "task"), FOLLOWED[:2])
def test_the_reference_goes_on_where_steps_without_a_row_led(
    worker: Any, family: str, task: str
) -> None:
    parts, own = worker("worker.trace_parts"), in_process(worker, family, task)
    begun = worker("worker.traces").lock_steps(own, 60)
    own.run(77)
    found = parts.with_carried_on(own, begun, midway=True)
    assert np.flatnonzero(found.entered).tolist() == [60]
    assert not found.restarted.any()
    assert (np.diff(found.at) == 1).all()  # the row of the gap takes the place of one step
    agreement = against_the_reference(worker, found, family, task)
    standard = families.get(family).standards["env"]
    assert agreement.steps > 60
    assert agreement.other_ends == 0
    assert largest(agreement.observations) <= standard.of(same_engine=True, rounded=False).tolerance
    assert largest(agreement.rewards) <= 1e-9
    wrong = found.observations.copy()
    wrong[62] += 3
    agreement = against_the_reference(worker, found._replace(observations=wrong), family, task)
    assert largest(agreement.observations) >= 1


@slow
def test_a_game_is_followed_again_once_the_next_one_begins(worker: Any) -> None:
    """The state of an emulator in the middle of a game is not known."""
    parts = worker("worker.trace_parts")
    own = in_process(worker, "atari", "Breakout-v5")
    begun = worker("worker.traces").lock_steps(own, 20)
    own.run(700)
    found = parts.with_carried_on(own, begun, midway=False)
    assert found.ended[21:].sum() >= parts.AUTOMATIC
    assert np.diff(found.at).max() > 1  # no row where no game is young
    predicted = in_process(worker, "atari", "Breakout-v5", mode="verify", seed=4).predict(found)
    assert predicted.lost[21].all()
    assert not predicted.lost[-1].all()
    assert predicted.automatic.sum() >= parts.AUTOMATIC
    agreement = against_the_reference(worker, found, "atari", "Breakout-v5")
    assert (largest(agreement.observations), largest(agreement.rewards)) == (0, 0)
    assert agreement.other_ends == 0
    wrong = found.observations.copy()
    wrong[-1][~predicted.lost[-1]] += 100
    agreement = against_the_reference(
        worker, found._replace(observations=wrong), "atari", "Breakout-v5"
    )
    assert largest(agreement.observations) > 2


@pytest.mark.parametrize(
    ("family", "task", "before"),
    [
        ("classic_control", "CartPole-v1", 33),
        ("classic_control", "MountainCar-v0", 170),  # the time limit comes within the trace
        pytest.param("mujoco", "Ant-v3", 60, marks=slow),
    ],
)
def test_the_reference_begins_in_the_middle_of_episodes(
    worker: Any, family: str, task: str, before: int
) -> None:
    own = in_process(worker, family, task)
    own.run(before)
    arrays = own.last()
    found = worker("worker.traces").lock_steps(own, 300, start=arrays)
    assert found.over.tolist() == (arrays[2] | arrays[3]).tolist()
    assert np.array_equal(found.start[0], arrays[0])
    standard = families.get(family).standards["env"]
    agreement = against_the_reference(worker, found, family, task)
    assert agreement.other_ends == 0
    assert agreement.p_values.get("start", 1.0) > 0.001
    assert agreement.ends > 0
    assert largest(agreement.observations) <= standard.of(same_engine=True, rounded=False).tolerance
    assert largest(agreement.rewards) <= 1e-9
    wrong = found.rewards.copy()
    wrong[1] += 3
    agreement = against_the_reference(worker, found._replace(rewards=wrong), family, task)
    assert largest(agreement.rewards) >= 1
    wrong = found.observations.copy()
    wrong[-1] += 3
    agreement = against_the_reference(worker, found._replace(observations=wrong), family, task)
    assert largest(agreement.observations) >= 1


def test_a_trace_that_is_too_large_is_written_without_its_later_part(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    traces = worker("worker.traces")
    own = in_process(worker, "classic_control", "CartPole-v1")
    short, whole = traces.lock_steps(own, 4), traces.lock_steps(own, 400)
    for most, rows in ((2**20, 400), (1_000, 4)):
        monkeypatch.setattr(traces, "MOST_BYTES", most)
        traces.save(whole, str(tmp_path), short)
        with np.load(tmp_path / "trace.npz") as arrays:
            assert len(arrays["rewards"]) == rows


def test_a_check_between_slices_continues_or_begins_anew_by_chance(worker: Any) -> None:
    parts = worker("worker.trace_parts")
    own = in_process(worker, "classic_control", "CartPole-v1")
    own.run(5)
    kinds = {parts.later(own, 4, share=0.5).over is None for _ in range(40)}
    assert kinds == {True, False}
    assert all(parts.later(own, 4, share=0.0).over is None for _ in range(10))
    assert all(parts.later(own, 4, share=1.0).over is not None for _ in range(10))
    own.reset = lambda: None  # the library cannot
    assert all(parts.later(own, 4, share=0.5).over is not None for _ in range(10))
    assert parts.later(own, 4, share=0.0) is None


def do_not_renew(own: Any) -> None:
    """Its resets keep showing the first observations from before."""
    reset, first = own.reset, own.first_observations

    def not_renewed() -> Any:
        made = reset()
        own.first_observations = first
        return made

    own.reset = not_renewed


def test_starts_follow_a_check_that_continues_and_their_first_part_is_as_long(worker: Any) -> None:
    parts = worker("worker.trace_parts")
    own = in_process(worker, "classic_control", "CartPole-v1")
    own.run(5)
    trace = parts.later(own, 30, share=1.0)
    more = parts.with_starts(own, trace, midway=True, between=True)
    first_reset, second_reset = more.at[np.flatnonzero(more.restarted)[:2]]
    assert second_reset - first_reset == 31  # the reset, and 30 steps
    assert first_reset >= 30 + parts.PART + parts.YOUNG  # it waited for automatic starts
    assert (first_reset - 30 - parts.YOUNG) % parts.PART == 0
    assert more.ended[: list(more.at).index(first_reset)].sum() >= parts.AUTOMATIC
    do_not_renew(own)
    assert parts.with_starts(own, trace, midway=True, between=True) is None


def test_after_a_reset_that_shows_no_first_observations_nothing_is_compared(worker: Any) -> None:
    parts = worker("worker.trace_parts")
    own = in_process(worker, "classic_control", "CartPole-v1")
    own.run(5)
    do_not_renew(own)
    found = [parts.later(own, 4, share=0.5) for _ in range(40)]
    assert None in found
    assert all(each is None or each.over is not None for each in found)


def test_a_subprocess_without_shared_memory_is_compared_from_the_middle_only(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gymnasium's processes then reset an episode that has just ended again in the next step."""
    parts = worker("worker.trace_parts")
    subprocess = worker("adapters.gymnasium.subprocess_vector").Subprocess
    order = job(worker, "classic_control", "measure", "CartPole-v1")
    for shared in (True, False):
        made = subprocess(order._replace(settings={"shared_memory": shared}))
        assert made.begins_anew == shared
    own = in_process(worker, "classic_control", "CartPole-v1")
    monkeypatch.setattr(type(own), "begins_anew", False)
    own.run(5)
    assert all(parts.later(own, 4, share=0.5).over is not None for _ in range(10))
    assert not any(parts.waits(own, midway=False) for _ in range(10))


class Mutable(gymnasium.Env[Any, Any]):
    """Returns its own array, and changes it in the next step. Its numbers are float64."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=2)
        self.made = 0
        return self.state, {}

    def step(self, action: Any) -> Any:
        self.made += 1
        self.state += 0.1 * (action + 1) + self.np_random.normal(size=2) / 7
        return self.state, float(self.state[0]), self.made >= 9, False, {}


def test_an_environment_may_return_one_array_again_and_again(worker: Any) -> None:
    gymnasium.register("Mutable-v0", Mutable, disable_env_checker=True)
    try:
        found = worker("worker.traces").lock_steps(in_process(worker, "gym", "Mutable-v0"), 60)
        predicted = in_process(worker, "gym", "Mutable-v0", mode="verify").predict(found)
    finally:
        del gymnasium.registry["Mutable-v0"]
    names = Trace.__dataclass_fields__
    mine, theirs = (Trace(**{n: getattr(e, n) for n in names}) for e in (found, predicted))
    standard = families.get("gym").standards["env"]
    agreement = compare(standard, theirs, mine)
    assert agreement.ends > 0
    assert agreement.start <= standard.tolerance
    assert largest(agreement.observations) <= standard.tolerance
    assert largest(agreement.rewards) <= standard.reward_tolerance


class Repeated(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Repeats each action four times."""

    def step(self, action: Any) -> Any:
        for _ in range(4):
            found = self.env.step(action)
            if found[2] or found[3]:
                break
        return found


@pytest.mark.parametrize("frames", [1, 4])
def test_a_wrapper_around_the_time_limit_may_repeat_actions(worker: Any, frames: int) -> None:
    own = job(worker, "gym", task="CartPole-v1")
    made = worker("families").of(
        own._replace(family_code=families.get("gym").worker, frame_skip=frames)
    )
    env = worker("families.base").Counted(Repeated(gymnasium.make("CartPole-v1")), made)
    env.reset(seed=0)
    steps = 0
    for _ in range(50):
        steps += 1
        if env.step(1)[2]:
            env.reset()
    assert env.frames_made() == frames * steps


@slow
def test_the_reference_of_physics_gets_the_actions_of_the_trace(worker: Any) -> None:
    rollout, ant = worker("adapters.mujoco.rollout"), worker("adapters.mujoco.ant")
    order = job(worker, "mujoco", task="Ant-v3")._replace(
        settings={"threads": 1, "horizon": 1}, numenv=3, env_instances=3
    )
    own, reference = (rollout.MujocoRollout(order._replace(numenv=count)) for count in (3, 5))
    own.build()
    reference.build()
    controls = np.random.default_rng(0).uniform(-1, 1, (20, 3, own.bank[0].shape[1]))
    states = [own.observed()]
    for each in controls:
        own.states = own._rollout(each[:, None], None)
        states.append(own.observed())
    given = ant.trace(np.stack(states))
    predicted = reference.predict(given._replace(actions=controls, columns=np.array([4, 0, 2])))
    assert predicted.observations.shape == given.observations.shape
    assert np.abs(predicted.observations - given.observations).max() < 1e-9
    other = reference.predict(given).observations  # the bank's own actions
    assert np.abs(other - given.observations).max() > 0.1
    for each in (own, reference):
        each.close()


# ---------------------------------------------------------------- games whose starts differ


@pytest.mark.parametrize("task", ["Boxing-v5", "Freeway-v5"])
def test_the_reference_follows_games_whose_memory_differs_from_reset_to_reset(
    worker: Any, task: str
) -> None:
    parts = worker("worker.trace_parts")
    own = in_process(worker, "atari", task)
    trace = worker("worker.traces").lock_steps(own, 12)
    memories = set()
    for _ in range(20):
        trace = parts.joined(trace, parts.restarted(own, 12, trace.columns))
        own.envs.envs[0].unwrapped.ale.reset_game()
        memories.add(own.envs.envs[0].unwrapped.ale.getRAM().tobytes())
    assert len(memories) == 2
    found = against_the_reference(worker, trace, "atari", task)
    assert {each.largest for each in (*found.observations, *found.rewards)} == {0.0}
    assert found.other_ends == 0


class Console:
    """Two games that look alike and end after 3 and after 4 steps. It is also its own emulator."""

    noop_max = 30

    def __init__(self) -> None:
        self.unwrapped = self
        self.state = (0, 0)

    def restore_state(self, state: tuple[int, int]) -> None:
        self.state = state

    def clone_state(self) -> tuple[int, int]:
        return self.state

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        made, length = self.state
        self.state = made + 1, length
        return np.zeros((84, 84)), 0.0, made + 1 >= length, False, {}


@pytest.mark.parametrize(
    ("rows", "same_step", "ends"),
    [
        ([(3, True)], False, [True]),
        ([(3, False), (1, True)], False, [False, True]),
        ([(4, True)], True, [True]),  # the observation is the next game's
        ([(3, False), (1, False)], False, [False, True]),  # it ends where none does
    ],
)
def test_of_games_that_look_alike_the_one_that_ends_as_the_trace_says_is_followed(
    worker: Any, rows: list[tuple[int, bool]], same_step: bool, ends: list[bool]
) -> None:
    module = worker("families.atari")
    seen = np.zeros((4, 84, 84))
    starts = [module._Start(1, (0, length), seen[0]) for length in (3, 4)]
    game = module._Game(Console(), 0, starts)
    game.begin(seen)
    found = []
    for steps, over in rows:
        after = seen + 100 if over and same_step else seen
        found.append(game.follow(seen, [0] * steps, after, same_step, over, False)[2])
    assert found == ends


def test_a_game_is_lost_if_it_is_not_known_whether_it_ended_within_a_call(worker: Any) -> None:
    module = worker("families.atari")
    seen = np.zeros((4, 84, 84))
    starts = [module._Start(1, (0, length), seen[0]) for length in (3, 4)]
    for resets, within in ((True, 0), (False, 0)):
        game = module._Game(Console(), 0, starts)
        game.begin(seen)
        outcome = game.follow(seen, [0] * 4, seen, False, True, resets)
        assert (outcome is None, game.within) == (resets, within)
