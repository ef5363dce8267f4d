"""The worker's measuring loop on a virtual clock, its sensors, and its actions ."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate
from helpers.skip_or_fail import not_here

from envbench.machine import host
from envbench.model import Load, Protocol


class Clocked:
    """An adapter on a virtual clock: a call takes ``call_ns(n)`` nanoseconds, n from 0."""

    first_calls = 1
    first_observations: Any = None

    def __init__(self, worker: Any, monkeypatch: pytest.MonkeyPatch, call_ns: Any) -> None:
        from envbench_worker.contract import Counts

        self.now, self.made, self.call_ns, self.counts = 0, 0, call_ns, Counts
        for module in (worker.measure, worker.spot_check):
            monkeypatch.setattr(module, "clock", lambda: self.now)

    def compile(self) -> None:
        pass

    def gpu_memory(self) -> None:
        return None

    def prepare(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def reset(self) -> None:
        return None

    def run(self, calls: int) -> Any:
        for _ in range(calls):
            self.now += self.call_ns(self.made)
            self.made += 1
        return self.counts(2 * calls - 1, 1)


def meter(worker: Any, adapter: Any, **protocol: Any) -> Any:
    events: list[dict[str, Any]] = []
    given = msgspec.to_builtins(Protocol(**protocol))
    made = worker.measure.Meter(adapter, given, events.append)
    made.events = events
    return made


def test_the_last_results_of_each_slice_have_a_checksum_if_the_protocol_asks_for_it(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in (True, False):
        adapter: Any = Clocked(worker, monkeypatch, lambda n: 1_000_000)
        adapter.last = lambda adapter=adapter: [np.array([adapter.made])]
        made = meter(worker, adapter, results=asked)
        made.take_turns([("step", 2), ("lead", 2), ("step", 2), ("step", 0)])
        assert len(made.results) == (3 if asked else 0)
        if asked:
            assert made.results[0] != made.results[1] == made.results[2]


# ---------------------------------------------------------------- warm-up and windows


def test_a_steady_backend_is_warm_after_eight_windows_and_its_windows_are_as_long_as_asked(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter, measured_s=2)
    assert made.first_step() == 1_000_000
    assert made.warm_up() is True
    assert 2e9 <= sum(made.warmup.ns) <= 2.2e9
    made.measure()
    assert made.measured.ns == [250_000_000] * 8
    assert made.measured.calls == [250] * 8
    assert made.measured.start_ns == [i * 250_000_000 for i in range(8)]
    assert made.total_steps == 1 + sum(made.warmup.steps) + sum(made.measured.steps)


def test_a_backend_that_never_becomes_steady_is_flagged_after_four_seconds(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 10_000_000 - min(n, 1_000) * 5_000)
    made = meter(worker, adapter)
    assert made.warm_up() is False
    assert 4e9 <= sum(made.warmup.ns) < 4.6e9


def test_a_backend_that_settles_late_is_waited_for(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 5_000_000 if n < 150 else 1_000_000)
    made = meter(worker, adapter)
    assert made.warm_up() is True
    assert 1.5e9 < sum(made.warmup.ns) < 4e9


def test_the_latest_five_windows_decide_how_long_the_next_is(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 31 calls in five windows of the calibration, and five windows of 50 calls, are slow.
    adapter = Clocked(worker, monkeypatch, lambda n: 5_000_000 if n < 281 else 1_000_000)
    made = meter(worker, adapter)
    made.warm_up()
    assert made.warmup.calls[:13] == [1, 2, 4, 8, 16] + [50] * 5 + [50] * 3
    assert set(made.warmup.calls[13:]) == {250}


def test_the_shorter_windows_of_the_calibration_do_not_decide_how_long_the_others_are(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first 63 calls, in six windows, are slower. The seventh is long enough: 64 calls.
    adapter = Clocked(worker, monkeypatch, lambda n: 1_500_000 if n < 63 else 1_000_000)
    made = meter(worker, adapter)
    made.warm_up()
    assert made.warmup.calls == [1, 2, 4, 8, 16, 32, 64] + [250] * 8


@pytest.mark.parametrize(
    ("calls", "windows"), [(1003, [250] * 4 + [3]), (1000, [250] * 4), (2, [2]), (0, [])]
)
def test_a_number_of_calls_is_used_up_exactly(
    worker: Any, monkeypatch: pytest.MonkeyPatch, calls: int, windows: list[int]
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter, calls=calls)
    made.warm_up()
    made.measure()
    assert made.measured.calls == windows


@pytest.mark.parametrize(
    ("steps", "steady"),
    [
        ([100, 100, 100, 100], True),
        ([100, 100, 100], False),  # too few
        ([0, 0, 0, 0], False),
        ([0, 0, 0, 100], False),  # two standard errors are more than the difference
        ([100, 0, 0, 0], False),
        ([0, 100, 0, 100], True),
    ],
)
def test_windows_are_not_steady_if_one_half_has_no_steps(
    worker: Any, steps: list[int], steady: bool
) -> None:
    windows = worker.measure.Windows()
    windows.steps, windows.ns = steps, [250_000_000] * len(steps)
    assert worker.measure.is_steady(windows) is steady


def test_windows_are_back_to_back_and_each_is_reported_as_it_ends(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 700_000 + n % 7)
    made = meter(worker, adapter, measured_s=1)
    emit = made.emit
    ended_at: dict[str, int] = {}  # the latest window of each phase

    def books(event: dict[str, Any]) -> None:
        ended_at[event["phase"]] = adapter.now
        adapter.now += 5_000_000  # bookkeeping takes time, which must be part of a window
        emit(event)

    made.emit = books
    made.warm_up()
    made.measure()
    windows = made.measured
    assert windows.ns[0] > 250 * 700_000 + 4_000_000
    assert sum(windows.ns) == ended_at["measure"] - ended_at["warmup"]
    ends = [start + ns for start, ns in zip(windows.start_ns, windows.ns, strict=True)]
    assert windows.start_ns == [0, *ends[:-1]]
    told = [event for event in made.events if event["phase"] == "measure"]
    assert [event["steps"] for event in told] == windows.steps
    assert [event["ns"] for event in told] == windows.ns


def test_a_step_longer_than_a_window_is_a_window_of_its_own(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 600_000_000)
    made = meter(worker, adapter, measured_s=1)
    assert made.warm_up() is True
    made.measure()
    assert made.measured.calls == [1, 1]


# ---------------------------------------------------------------- slices by order


def test_a_lead_in_is_recorded_with_the_warm_up_and_not_measured(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter)
    made.first_step()
    made.warm_up()
    windows, steps = len(made.warmup.ns), made.total_steps
    made.take_turns([("step", 20), ("lead", 5), ("step", 20), ("lead", 7), ("step", 20)])
    assert made.measured.calls == [20, 20, 20]
    assert made.measured.ns == [20_000_000] * 3
    assert made.measured.start_ns == [0, 25_000_000, 52_000_000]
    assert made.warmup.calls[windows:] == [5, 7]
    assert made.warmup.ns[windows:] == [5_000_000, 7_000_000]
    assert made.warmup.steps[windows:] == [2 * 5 - 1, 2 * 7 - 1]
    assert made.total_steps == steps + 3 * (2 * 20 - 1) + 9 + 13
    # The controller would read the event of a lead-in during the slice after it.
    told = [(event["phase"], event["calls"]) for event in made.events[windows:]]
    assert told == [("measure", 20)] * 3


def warm(worker: Any, monkeypatch: pytest.MonkeyPatch, **protocol: Any) -> tuple[Any, Any]:
    """A meter that has warmed up, and its adapter, whose results are unknown."""
    adapter: Any = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    adapter.last = lambda: None
    made = meter(worker, adapter, **protocol)
    made.first_step()
    made.warm_up()
    return made, adapter


def with_check(
    worker: Any, made: Any, check: Any = None, at: float = 10**12, by: float = math.inf
) -> Any:
    """The meter's spot check: it makes this ``check``, and asks for no results."""
    job = {"spot": 60, "midway": False, "follows_by": "state", "numenv": 2, "protocol": {}}
    made.spot = spot = worker.spot_check.SpotCheck(job, "", own=True)
    spot._later, spot.save = check, lambda adapter, trace: None
    spot.waits, spot.at, spot.by, spot.look_at = check is not None, [at], by, []
    return spot


def test_a_spot_check_comes_between_two_slices_and_in_neither(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, adapter = warm(worker, monkeypatch)
    told: list[tuple[int, float]] = []

    def check(made: Any) -> None:
        told.append((len(made.measured.ns), made.ns_per_call()))
        adapter.now += 10**9

    spot = with_check(worker, made, check, at=30_000_000)
    made.take_turns([("lead", 5), ("step", 20)] * 4)
    assert told == [(2, 1_000_000.0)]
    assert made.measured.ns == [20_000_000] * 4
    spot.now(made)  # only once
    assert len(told) == 1


def test_the_load_leaves_out_a_spot_check_that_fails(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = warm(worker, monkeypatch)
    ended = []
    leave_out = made.sensors.leave_out

    def noted(work: Any) -> None:
        leave_out(work)
        ended.append(work)

    def check(made: Any) -> None:
        raise RuntimeError("it cannot be followed")

    monkeypatch.setattr(made.sensors, "leave_out", noted)
    with_check(worker, made, check, at=30_000_000)
    made.take_turns([("lead", 5), ("step", 20)] * 4)
    assert len(ended) == 1
    assert made.measured.ns == [20_000_000] * 4


def test_a_spot_check_that_waits_comes_before_other_quantities(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, adapter = warm(worker, monkeypatch)
    told: list[int] = []
    with_check(worker, made, lambda made: told.append(adapter.made))
    made.take_turns([("step", 20), ("step", 20), ("reset_ms", 5)])
    assert told == [made.calls]


def test_it_is_known_which_batch_each_step_got_and_a_check_may_come_in_the_warm_up(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noting(Clocked):
        first_observations = np.zeros(1)

        def run(self, calls: int) -> Any:
            for _ in range(calls):
                batch = next(self.batches)
                self.got.append(self.known.index(id(batch)))
                batch[:] = -1  # an adapter may write into it
            next(self.batches)  # or read ahead within a call
            return super().run(calls)

    adapter = Noting(worker, monkeypatch, lambda n: 1_000_000)
    bank = [np.array([number]) for number in range(7)]
    copies = deepcopy(bank)
    adapter.got, adapter.bank = [], bank  # type: ignore[attr-defined]
    adapter.known = [id(each) for each in bank]  # type: ignore[attr-defined]
    adapter.batches = itertools.cycle(adapter.bank)  # type: ignore[attr-defined]
    for by in (600, 3000):
        made = meter(worker, adapter)
        adapter.got.clear()  # type: ignore[attr-defined]
        told: list[tuple[bool, Any, Any]] = []

        def check(made: Any, told: Any = told) -> None:
            noted = [int(each[0]) for each in made.batches_so_far(copies)]
            told.append((not made.measured.ns, noted, list(adapter.got)))

        with_check(worker, made, check, by=by)
        made.adapter.batches = itertools.cycle(adapter.bank)  # type: ignore[attr-defined]
        made.warm_up()
        made.take_turns([("lead", 5), ("step", 200)] * 8)
        ((in_the_warm_up, noted, got),) = told
        assert in_the_warm_up == (by == 600)
        assert noted == got
        assert len(noted) >= by


def test_what_an_adapter_does_when_a_slice_begins_is_timed(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(Clocked):
        def resume(self) -> None:
            self.now += 7_000_000

    made = meter(worker, Ahead(worker, monkeypatch, lambda n: 1_000_000))
    made.first_step()
    made.warm_up()
    made.take_turns([("step", 20)])
    assert made.measured.ns == [27_000_000]


def asked_for_results(
    worker: Any, monkeypatch: pytest.MonkeyPatch, late_ns: int, late: list[bool]
) -> Any:
    """A warm meter. Its adapter's results take so long after the slices that are late."""
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter)
    made.first_step()
    made.warm_up()

    def last() -> None:
        adapter.now += late_ns if late.pop(0) else 1_000

    adapter.last = last
    with_check(worker, made).look_at = [each * 20_000_000 for each in range(5)]  # after each slice
    return made


def test_an_adapter_that_steps_when_it_is_asked_for_results_has_no_figure(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [True, False, True, False, True]
    made = asked_for_results(worker, monkeypatch, 3_000_000, late)
    with pytest.raises(worker.contract.ImpossibleFigure, match="were not made in time"):
        made.take_turns([("lead", 2), ("step", 20)] * 9)
    assert late == []


def test_results_that_are_late_once_or_twice_refute_nothing(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may have interrupted them."""
    late = [True, False, False, True, False]
    made = asked_for_results(worker, monkeypatch, 300_000_000, late)
    made.take_turns([("lead", 2), ("step", 20)] * 9)
    assert (late, made.measured.ns) == ([], [20_000_000] * 9)


def test_results_are_asked_for_once_after_a_slice_and_never_between_a_lead_in_and_its_slice(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [False] * 5
    made = asked_for_results(worker, monkeypatch, 0, late)
    made.spot.look_at = [1, 2, 3, 25_000_000, 30_000_000]  # in the first and in the second slice
    made.take_turns([("lead", 2), ("step", 20)] * 4)
    assert len(late) == 3


def test_checksums_of_a_part_cover_each_of_its_steps(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def results(odd: int) -> list[list[int]]:
        made, adapter = warm(worker, monkeypatch, results=True)
        began = adapter.made
        adapter.last = lambda: [np.zeros(2), np.full(2, float(adapter.made - began == odd))]
        made.take_turns([("step", 20), ("each", 10)])
        assert (made.short_calls.calls, made.measured.calls) == ([10], [20])
        return list(made.results)

    first, second = results(odd=25), results(odd=0)
    assert first[0] == second[0]
    assert first[1][0] == second[1][0]
    assert first[1][1] != second[1][1]


def test_an_adapter_that_shows_no_results_makes_no_such_steps(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, adapter = warm(worker, monkeypatch, results=True)
    adapter.last = lambda: None
    before = adapter.made
    made.take_turns([("step", 20), ("each", 10)])
    assert (adapter.made - before, made.results, made.short_calls.calls) == (20, [], [])


class Batches(Clocked):
    """Records which iterator each ``run`` has, and what it takes from it."""

    def run(self, calls: int) -> Any:
        self.iterators.append(self.batches)
        self.seen.append([next(self.batches) for _ in range(calls)])
        return super().run(calls)


def with_batches(worker: Any, monkeypatch: pytest.MonkeyPatch, **protocol: Any) -> tuple[Any, Any]:
    """A meter that has warmed up, and its adapter, which has seen no batch since then."""
    adapter: Any = Batches(worker, monkeypatch, lambda n: 1_000_000)
    adapter.first_observations, adapter.bank = 0, list(range(40))
    adapter.batches = itertools.cycle(adapter.bank)
    adapter.iterators, adapter.seen = [], []
    made = meter(worker, adapter, **protocol)
    made.first_step()
    made.warm_up()
    return made, adapter


def test_each_slice_has_the_whole_bank_in_an_order_of_its_own(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, adapter = with_batches(worker, monkeypatch)
    adapter.seen, adapter.iterators = [], []
    made.take_turns([("lead", 40), ("step", 40), ("step", 50)])
    assert len(set(map(id, adapter.iterators))) == 3
    assert [sorted(each[:40]) for each in adapter.seen] == [adapter.bank] * 3
    assert len({tuple(each[:40]) for each in [*adapter.seen, adapter.bank]}) == 4
    assert adapter.seen[2][40:] == adapter.seen[2][:10]  # it is cycled


def test_trials_whose_results_are_compared_get_the_bank_in_its_order(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, adapter = with_batches(worker, monkeypatch, results=True)
    adapter.last = lambda: None
    made.take_turns([("lead", 5), ("step", 20), ("step", 3)])
    every = [number for each in adapter.seen for number in each]
    assert every == [number % 40 for number in range(len(every))]


def test_what_an_adapter_does_when_it_gets_its_batches_is_timed(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = with_batches(worker, monkeypatch)

    def receive(own: Any, batches: Any) -> None:
        own.now += 7_000_000
        vars(own)["given"] = batches

    monkeypatch.setattr(Batches, "batches", property(lambda own: own.given, receive), raising=False)
    made.take_turns([("step", 20), ("step", 20)])
    assert made.measured.ns == [27_000_000] * 2


def test_a_lead_in_starts_on_the_same_scale_as_the_rest_of_the_warm_up(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter)
    made.warm_up()
    began, warm = adapter.now - sum(made.warmup.ns), sum(made.warmup.ns)
    adapter.now += 3_000_000  # another process has the machine
    made.take_turns([("lead", 5), ("step", 20)])
    assert made.warmup.start_ns[-1] == warm + 3_000_000
    assert began + made.warmup.start_ns[-1] + made.warmup.ns[-1] == adapter.now - 20_000_000


def test_a_disturbed_lead_in_leaves_the_slice_after_it_valid(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter)
    made.warm_up()
    windows = len(made.warmup.ns)
    throttled = iter([{}, {"throttled_periods": 1}, {}, {}])  # before and after each slice
    monkeypatch.setattr(made.sensors, "window", lambda *_: next(throttled))
    made.take_turns([("lead", 5), ("step", 20)])
    assert made.warmup.invalid == {str(windows): "throttled"}
    assert made.measured.invalid == {}


def test_an_order_to_reset_is_not_a_window_of_steps(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    monkeypatch.setattr(adapter, "reset", lambda: 2, raising=False)
    made = meter(worker, adapter)
    made.take_turns([("reset", 3), ("step", 4)])
    assert (made.resets.calls, made.resets.resets) == ([3], [6])
    assert made.measured.calls == [4]


def test_a_library_that_cannot_reset_has_no_record_of_resets(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    monkeypatch.setattr(adapter, "reset", lambda: None, raising=False)
    made = meter(worker, adapter)
    made.take_turns([("reset", 3), ("step", 4)])
    assert (made.resets.calls, made.resets.ns) == ([], [])
    assert made.measured.calls == [4]


@pytest.mark.parametrize("word", ["hop", "leads", ""])
def test_an_unknown_order_is_refused_and_resets_nothing(
    worker: Any, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter)
    with pytest.raises(ValueError, match=f"'{word} 3' is unknown"):
        made.take_turns([("step", 4), (word, 3)])
    assert made.measured.calls == [4]
    assert (made.resets.calls, adapter.made) == ([], 4)


# ---------------------------------------------------------------- what makes a window invalid


@pytest.mark.parametrize(
    ("signals", "reason"),
    [
        ({}, ""),
        ({"suspended_ns": 40_000_000, "throttled_periods": 0, "steal_share": 0.05}, ""),
        ({"suspended_ns": 60_000_000}, "suspended"),
        ({"throttled_periods": 1}, "throttled"),
        ({"steal_share": 0.051}, "steal"),
        ({"steal_share": 0.1, "steal": 0.01}, ""),  # one tick of the system's clock
        ({"steal_share": 0.1, "steal": 0.02}, "steal"),
        ({"suspended_ns": 10**9, "throttled_periods": 3, "steal_share": 1.0}, "suspended"),
    ],
)
def test_only_declared_signals_make_a_window_invalid(
    worker: Any, signals: dict[str, float], reason: str
) -> None:
    for ns in (1, 250_000_000, 10**12):  # being slow is no reason
        assert worker.measure.invalidity(signals, ns) == reason


def test_a_machine_that_sleeps_invalidates_only_that_window(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep_ns = 0

    def call_ns(n: int) -> int:
        nonlocal asleep_ns
        if n == 3000:
            asleep_ns += 3600 * 10**9  # monotonic time does not advance
        return 1_000_000

    monkeypatch.setattr(worker.sensors, "suspended_ns", lambda: asleep_ns)
    monkeypatch.setattr(worker.sensors, "machine_cpu", lambda _: None)
    monkeypatch.setattr(worker.sensors, "throttling", lambda: None)
    made = meter(worker, Clocked(worker, monkeypatch, call_ns), measured_s=2)
    made.warm_up()
    first = made.adapter.made + 250  # a last warm-up window closes the gap before the first
    made.measure()
    assert made.measured.invalid == {str((3000 - first) // 250): "suspended"}
    assert made.measured.ns == [250_000_000] * 8


def test_sleep_is_boot_time_minus_monotonic_time(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        not_here("a boot-time clock (Linux)")
    real, ahead = time.clock_gettime_ns, 0
    monkeypatch.setattr(
        time, "clock_gettime_ns", lambda c: real(c) + (ahead if c == time.CLOCK_BOOTTIME else 0)
    )
    sensors = worker.sensors.Sensors()
    assert sensors.window()["suspended_ns"] < 1_000_000
    ahead = 90 * 10**9
    assert sensors.window()["suspended_ns"] == pytest.approx(90e9, abs=1e6)
    assert sensors.window()["suspended_ns"] < 1_000_000


def test_a_jump_of_the_wall_clock_changes_nothing(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> float:
        raise AssertionError("the wall clock was read")

    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    monkeypatch.setattr(time, "time", never)
    monkeypatch.setattr(time, "time_ns", never)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: adapter.now)
    importlib.reload(
        worker.measure
    )  # after the reload it reads its own clock again, not that of Clocked
    made = meter(worker, adapter, measured_s=1)
    made.warm_up()
    made.sensors.begin()
    made.measure()
    made.sensors.load()
    assert made.measured.ns == [250_000_000] * 4


def test_steal_and_throttling_are_of_the_window_and_not_of_all_time(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = {"busy": 100.0, "steal": 50.0, "all": 1000.0}
    quota = {"periods": 7, "seconds": 1.5}
    monkeypatch.setattr(worker.sensors, "machine_cpu", lambda cores: dict(cpu))
    monkeypatch.setattr(worker.sensors, "throttling", lambda: dict(quota))
    sensors = worker.sensors.Sensors()
    assert sensors.window()["steal_share"] == 0
    cpu.update(steal=50.3, all=1003.0)
    quota.update(periods=9)
    signals = sensors.window()
    assert signals["steal_share"] == pytest.approx(0.1)
    assert signals["throttled_periods"] == 2
    assert sensors.window()["throttled_periods"] == 0


@pytest.mark.skipif(len(host.usable_cores()) < 2, reason="needs two cores and CPU masks")
def test_only_the_load_of_the_usable_cores_counts(worker: Any) -> None:
    whole, first, second = (worker.sensors.machine_cpu(cores) for cores in ([], [0], [1]))
    assert first["all"] + second["all"] <= whole["all"] + 1.0
    assert 0 < first["busy"] < whole["busy"] + 1.0
    assert worker.sensors.machine_cpu([9999]) is None
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {1})
    try:
        sensors = worker.sensors.Sensors()
    finally:
        os.sched_setaffinity(0, mask)
    sensors.begin()
    sensors.window(measured=True)
    time.sleep(0.2)
    assert 0.1 < sensors.window(measured=True)["all"] < 0.35  # one core, not two


def test_without_any_sensor_a_window_is_valid_and_its_load_is_unknown(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("machine_cpu", "throttling", "pressure"):
        monkeypatch.setattr(worker.sensors, name, lambda *_: None)
    monkeypatch.setattr(worker.sensors, "PROC", Path("/no/such/folder"))
    sensors = worker.sensors.Sensors()
    assert worker.measure.invalidity(sensors.window(), 1) == ""
    sensors.begin()
    load = msgspec.convert(sensors.load(), Load)
    assert (load.cpu_s, load.steal_s, load.throttled_periods, load.switches_voluntary) == (
        None, None, None, None,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_the_load_is_what_this_process_tree_used(worker: Any) -> None:
    code = (
        "import time\nkept = bytearray(64 << 20)\n"
        "while time.process_time() < 0.5: pass\n"
        "print(time.process_time(), flush=True)\ninput()"
    )
    sensors = worker.sensors.Sensors()
    sensors.begin()
    own = time.process_time()
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdout is not None
        childs = float(child.stdout.readline())
        load = msgspec.convert(sensors.load(), Load)
        own = time.process_time() - own
        memory = [worker.sensors.tree_peak_memory(pid) for pid in (os.getpid(), child.pid)]
        child.communicate("\n")
    assert load.cpu_s == pytest.approx(own + childs, abs=0.05)  # each counter has ticks of 10 ms
    assert load.switches_involuntary is not None
    assert memory[1] > 64 << 20
    assert memory[0] - memory[1] > 20 << 20


# ---------------------------------------------------------------- actions


DISCRETE = spaces.Discrete(6, start=2)
BOX = spaces.Box(-0.4, 0.4, (8,), np.float32)
OTHERS = [
    spaces.MultiBinary(5),
    spaces.MultiDiscrete([3, 4]),
    spaces.Box(-np.inf, np.inf, (2,), np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Dict(move=spaces.Discrete(3), aim=spaces.Box(-1, 1, (2,), np.float32)),
    spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]),
]


@pytest.mark.parametrize("space", [DISCRETE, BOX], ids=["discrete", "box"])
def test_actions_are_seeded_and_differ_between_environments_and_steps(
    worker: Any, space: Any
) -> None:
    bank = worker.actions.bank(space, 64, 5, "bank")
    again = worker.actions.bank(space, 64, 5, "bank")
    other = worker.actions.bank(space, 64, 6, "bank")
    assert len(bank) == 1024
    assert all(np.array_equal(a, b) for a, b in zip(bank, again, strict=True))
    assert not np.array_equal(bank[0], other[0])
    assert len({batch.tobytes() for batch in bank}) == 1024
    assert len(np.unique(bank[0], axis=0)) == (6 if space is DISCRETE else 64)
    assert bank[0].shape == ((64,) if space is DISCRETE else (64, 8))
    assert bank[0].dtype == space.dtype


def test_actions_lie_in_their_space(worker: Any) -> None:
    discrete = np.stack(worker.actions.bank(DISCRETE, 16, 0, "bank"))
    box = np.stack(worker.actions.bank(BOX, 16, 0, "bank"))
    assert (discrete.min(), discrete.max()) == (2, 7)
    assert -0.4 <= box.min() < -0.39
    assert 0.39 < box.max() <= 0.4


@pytest.mark.parametrize("space", OTHERS, ids=lambda space: str(space)[:40])
def test_a_vector_env_can_split_the_batches_of_any_space(worker: Any, space: Any) -> None:
    batched = batch_space(space, 3)
    bank = worker.actions.bank(space, 3, 5, "bank", batched)
    assert len(bank) > 1
    for batch in bank[:20]:
        apart = list(iterate(batched, batch))
        assert len(apart) == 3
        assert all(action in space for action in apart)
    assert len(worker.actions.bank(space, 3, 5, "constant", batched)) == 1


def test_constant_actions_are_the_first_batch_of_the_bank(worker: Any) -> None:
    (only,) = worker.actions.bank(BOX, 4, 5, "constant")
    assert np.array_equal(only, worker.actions.bank(BOX, 4, 5, "bank")[0])


def test_a_bank_of_very_large_batches_still_has_sixteen(worker: Any) -> None:
    assert len(worker.actions.bank(BOX, 2**18, 0, "bank")) == 16


def test_actions_of_double_precision_are_those_of_single_precision(worker: Any) -> None:
    double = spaces.Box(BOX.low.astype(np.float64), BOX.high.astype(np.float64), dtype=np.float64)
    single, wide = (np.stack(worker.actions.bank(each, 4, 5, "bank")) for each in (BOX, double))
    assert wide.dtype == np.float64
    assert np.array_equal(wide, single)


def test_a_bank_for_many_environments_stays_small(worker: Any) -> None:
    bank = worker.actions.bank(BOX, 4096, 0, "bank")
    assert len(bank) >= 16
    assert sum(batch.nbytes for batch in bank) <= 2 * worker.actions.BANK_BYTES


# ---------------------------------------------------------------- impossible figures, and the clock


def test_a_backend_that_returns_at_once_raises_an_impossible_figure(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1000)
    monkeypatch.setattr(adapter, "run", lambda calls: adapter.counts(2 * calls, 0))
    made = meter(worker, adapter)
    made.first_step()
    with pytest.raises(worker.measure.ImpossibleFigure, match="cannot have been made"):
        made.warm_up()


def test_one_long_window_does_not_decide_how_long_the_others_are(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    made = meter(worker, adapter)
    made.first_step()
    made.warm_up()
    made.warmup.ns[-1] *= 14
    made.measure()
    assert set(made.measured.calls) == {250}


def test_a_run_that_returns_no_counts_says_what_it_has_to_return(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    monkeypatch.setattr(adapter, "run", lambda calls: None)
    with pytest.raises(TypeError, match=r"`run` has to return Counts\(steps, resets\), not None"):
        meter(worker, adapter).first_step()


def test_preparing_the_measurement_is_not_part_of_the_first_step(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Clocked(worker, monkeypatch, lambda n: 1_000_000)
    adapter.first_calls = 8

    def takes(ns: int) -> Any:
        def passes() -> None:
            adapter.now += ns

        return passes

    monkeypatch.setattr(adapter, "compile", takes(70_000_000))
    monkeypatch.setattr(adapter, "prepare", takes(900_000_000))
    assert meter(worker, adapter).first_step() == 78_000_000
