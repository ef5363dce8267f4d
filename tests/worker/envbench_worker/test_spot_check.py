"""The steps that a spot check makes between two slices, and the time of a plugin's."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

MS = 1_000_000
STEP = MS // 10


class Plugin:
    """A plugin of two environments on a virtual clock. A vector step takes ``STEP``."""

    first_calls = 1
    begins_anew = True

    def __init__(self, worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from envbench_worker.contract import Counts

        self.counts, self.now, self.made = Counts, 0, 0
        self.job = SimpleNamespace(numenv=2, env_instances=2, observed=None, together=False, seed=0)
        self.bank = [np.zeros((2, 1)) for _ in range(7)]
        self.first_observations = np.zeros((2, 3))
        self.lengths: list[int] = []
        for module in (worker.measure, worker.spot_check, worker.traces):
            monkeypatch.setattr(module, "clock", lambda: self.now)

    def compile(self) -> None:
        pass

    prepare = resume = compile

    def gpu_memory(self) -> None:
        return None

    def facts(self) -> dict[str, Any]:
        return {"autoreset": "same-step"}

    def run(self, calls: int) -> Any:
        self.lengths.append(calls)
        self.made += calls
        self.now += self.cost(calls)
        return self.counts(2 * calls, 0)

    def cost(self, calls: int) -> int:
        return calls * STEP

    def last(self) -> list[Any]:
        ends = np.zeros(2, np.bool_)
        return [np.full((2, 3), float(self.made)), np.ones(2), ends, ends.copy()]

    def reset(self) -> int:
        self.lengths.append(0)
        self.first_observations = np.zeros((2, 3))
        return 2


def measured(worker: Any, adapter: Plugin, folder: Path, spot: int = 0, **job: Any) -> Any:
    """Four slices of 100 steps, the parts of the check somewhere between them."""
    protocol = {
        "window_s": 0.01, "warmup_min_s": 0.01, "warmup_max_s": 0.02, "measured_s": 0.04,
        "calls": None, "after": {"short_calls": 0.2}, "results": False,
    }  # fmt: skip
    job = {"spot": spot, "midway": True, "follows_by": "state", "numenv": 2, **job}
    check = worker.spot_check.SpotCheck({**job, "protocol": protocol}, str(folder), own=False)
    check.save(adapter, check.begin(adapter))
    made = worker.measure.Meter(adapter, protocol, lambda event: None)
    made.spot = check
    made.first_step()
    made.warm_up()
    adapter.lengths.clear()
    made.take_turns([("step", 100)] * 4 + [("reset_ms", 1)])
    return made


def short_calls(made: Any) -> tuple[int, int]:
    """The nanoseconds and vector steps of all parts."""
    return sum(made.short_calls.ns), sum(made.short_calls.calls)


def test_each_process_of_a_plugin_times_short_calls_between_slices(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    adapter = Plugin(worker, monkeypatch)
    made = measured(worker, adapter, tmp_path)
    assert made.short_calls.calls == [500] * 4
    assert made.short_calls.steps == [1_000] * 4
    assert made.short_calls.ns == [50 * MS] * 4
    assert made.calls_ns == 0
    assert made.measured.ns == [10 * MS] * 4
    assert not list(tmp_path.iterdir())


def test_the_process_that_is_followed_makes_the_same_calls_and_saves_them(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    adapter = Plugin(worker, monkeypatch)
    monkeypatch.setattr(worker.trace_parts, "AUTOMATIC_S", 0.0)
    made = measured(worker, adapter, tmp_path, spot=60)
    assert short_calls(made) == (200 * MS, 2_000)
    with np.load(tmp_path / "trace.npz") as trace:
        assert len(trace["actions"]) >= 2_000
        assert trace["entered"].sum() == 3  # each later part begins where the environments are


def test_the_parts_of_a_check_come_at_moments_of_their_own(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    draws = iter([0.1, 0.9, 0.3, 0.6] + [0.0] * 10)
    monkeypatch.setattr(worker.spot_check, "random", lambda: next(draws))
    adapter = Plugin(worker, monkeypatch)
    measured(worker, adapter, tmp_path)
    slices = [i for i, calls in enumerate(adapter.lengths) if calls == 100]
    between = [later - one > 1 for one, later in pairwise(slices)]
    assert between == [True, True, True]
    assert slices[0] == 0  # the last part follows the last slice


@pytest.mark.parametrize("part", range(4))
def test_a_check_of_which_one_part_fails_is_none(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: int
) -> None:
    """A plugin's author could choose which steps are compared."""
    later, made = worker.trace_parts.later, []

    def fails(*args: Any) -> Any:
        made.append(args)
        if len(made) == part + 1:
            raise RuntimeError("it does not want to be followed")
        return later(*args)

    monkeypatch.setattr(worker.trace_parts, "AUTOMATIC_S", 0.0)
    monkeypatch.setattr(worker.trace_parts, "later", fails)
    found = measured(worker, Plugin(worker, monkeypatch), tmp_path, spot=60)
    assert short_calls(found) == (150 * MS, 1_500)
    assert not list(tmp_path.iterdir())


def test_the_cost_of_calls_is_that_of_all_parts_together(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So a few long calls of each part are enough."""
    asked: list[int] = []
    cost = worker.spot_check.cost_of_calls
    monkeypatch.setattr(
        worker.spot_check, "cost_of_calls", lambda e: asked.append(len(e)) or cost(e)
    )
    measured(worker, Plugin(worker, monkeypatch), tmp_path)
    assert asked == sorted(set(asked))
    assert len(asked) == 4


def step_ns(worker: Any, calls: list[tuple[int, int]]) -> float:
    """How long a vector step takes, without what its calls cost."""
    took = sum(ns for ns, _ in calls) - worker.spot_check.cost_of_calls(calls)
    return took / sum(steps for _, steps in calls)


LENGTHS = [*[1] * 900, *[2, 3, 5, 8, 13, 20, 40] * 14]  # about as drawn for 2,300 vector steps


def test_what_calls_cost_is_taken_off(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Costly(Plugin):
        def cost(self, calls: int) -> int:
            return 8_000 + calls * STEP // 50

    made = measured(worker, Costly(worker, monkeypatch), tmp_path)
    ns, calls = short_calls(made)
    assert (ns - made.calls_ns) / calls == pytest.approx(STEP / 50, rel=0.02)


def test_a_call_that_is_not_quick_costs_a_fixed_time(worker: Any) -> None:
    cost = worker.spot_check.cost_of_calls
    assert cost([(400_000, 1)] * 90 + [(8_000_000, 20)] * 10) == 100 * 20_000
    assert cost([(30_000, 1)] * 90) == 90 * 15_000  # no long call says more
    assert cost([(600_000, 20)] * 9) == 0
    quick = [(30_000, 1)] * 90 + [(500_000, 20)] * 10  # a step takes 24,750 ns, a call 5,000 more
    assert cost(quick) == sum(ns for ns, _ in quick) - 290 * 24_750


@pytest.mark.parametrize("seldom", [1, 2])
@pytest.mark.parametrize("waits", [14_000, 18_500, 90_000, 150_000])
def test_waiting_in_short_calls_does_not_pass_for_what_a_call_costs(
    worker: Any, waits: int, seldom: int
) -> None:
    """Each step takes 4 microseconds, in slices about 1. All calls of one step wait, or just over
    half of them."""
    calls = [
        (max(4_000, waits) if steps == 1 and (seldom == 1 or i % 15 < 8) else 4_000 * steps, steps)
        for i, steps in enumerate(LENGTHS)
    ]
    assert step_ns(worker, calls) > 3_500


def test_interruptions_slow_calls_down_as_they_do_slices(worker: Any) -> None:
    """A call costs 8 microseconds, a step 2. On a busy machine, half of the time is another
    program's, and slices take twice as long."""
    quiet = [(8_000 + 2_000 * steps, steps) for steps in LENGTHS]
    assert step_ns(worker, quiet) == pytest.approx(2_000, rel=0.05)
    lost = sum(ns for ns, _ in quiet)
    busy = [(ns + lost // 4 * (i % 250 == 0), steps) for i, (ns, steps) in enumerate(quiet)]
    assert step_ns(worker, busy) == pytest.approx(4_000, rel=0.05)


def test_where_no_state_can_be_set_the_timed_steps_follow_a_reset(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There the reference can follow no others."""
    adapter = Plugin(worker, monkeypatch)
    made = measured(worker, adapter, tmp_path, midway=False)
    after = [later for one, later in pairwise(adapter.lengths) if one == 0]  # a reset
    assert max(after[:4]) <= 40  # then come the resets that are measured
    assert short_calls(made) == (200 * MS, 2_000)


def test_steps_that_no_reference_could_follow_are_not_timed(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    adapter = Plugin(worker, monkeypatch)
    adapter.begins_anew = False
    assert measured(worker, adapter, tmp_path, midway=False).short_calls.calls == []
    assert measured(worker, adapter, tmp_path).short_calls.calls == [500] * 4


def test_long_calls_that_leave_out_steps_are_faster_than_the_timed_ones(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class LeavesOut(Plugin):
        def cost(self, calls: int) -> int:
            return calls * STEP // (5 if calls > 40 else 1)

    made = measured(worker, LeavesOut(worker, monkeypatch), tmp_path)
    assert made.measured.ns == [2 * MS] * 4
    ns, calls = short_calls(made)
    assert ns == calls * STEP


class MadeInLast(Plugin):
    """A step is made when its result is asked for."""

    def last(self) -> list[Any]:
        self.now += 2 * MS
        return super().last()


class MadeInList(Plugin):
    """A step is made when the list of its results is read."""

    def last(self) -> list[Any]:
        plugin = self

        class Lazy(list):  # type: ignore[type-arg]
            def __iter__(self) -> Any:
                plugin.now += 2 * MS
                return super().__iter__()

        return Lazy(super().last())


class MadeInSetter(Plugin):
    """A step is made as its actions are given."""

    @property
    def batches(self) -> Any:
        return self._batches

    @batches.setter
    def batches(self, given: Any) -> None:
        self._batches = given
        self.now += 2 * MS


@pytest.mark.parametrize("kind", [MadeInLast, MadeInList, MadeInSetter])
def test_work_that_is_done_around_a_short_call_is_a_part_of_it(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[Plugin]
) -> None:
    adapter = kind(worker, monkeypatch)
    monkeypatch.setattr(worker.spot_check, "LATE_NS", 10 * MS)
    made = measured(worker, adapter, tmp_path)
    ns, calls = short_calls(made)
    assert ns - calls * STEP >= 2 * calls // 5 * 2 * MS  # at least two of five calls make one step


def test_the_actions_after_a_compared_call_cannot_be_known(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Foretells(Plugin):
        batches: Any = iter([])
        foreseen: Any = None
        hits = 0

        def run(self, calls: int) -> Any:
            given = [next(self.batches, None) for _ in range(2)]
            self.hits += given[0] is self.foreseen and calls == 1
            self.foreseen = given[1]
            return super().run(calls)

    adapter = Foretells(worker, monkeypatch)
    made = measured(worker, adapter, tmp_path)
    _, calls = short_calls(made)
    assert 0 < adapter.hits < calls / 4  # by chance: one of seven batches


def test_a_fast_plugin_makes_no_more_timed_steps_than_a_reference_can_follow(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Fast(Plugin):
        def cost(self, calls: int) -> int:
            return calls * STEP // 100

    made = measured(worker, Fast(worker, monkeypatch), tmp_path)
    assert made.short_calls.calls == [worker.spot_check.MOST_TIMED // 8] * 4
