"""The worker's slices of other quantities than steps, on a virtual clock."""

from __future__ import annotations

from collections import Counter
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from envbench.model import Histogram, Load, Protocol, Returns

MS = 1_000_000


class Batches:
    """An adapter on a virtual clock. Step n takes ``step_ns(n)``, a reset of all takes 2 ms."""

    first_calls = 1
    first_observations = None
    single_steps = "batches"

    def __init__(self, worker: Any, monkeypatch: pytest.MonkeyPatch, step_ns: Any) -> None:
        from envbench_worker.contract import Counts

        self.now, self.made, self.resets, self.step_ns = 0, 0, 0, step_ns
        self.counts, self.job = Counts, SimpleNamespace(numenv=2, env_instances=2)
        self.batches = cycle(["a", "b", "c"])
        self.taken: list[str] = []
        for module in (worker.measure, worker.after_steps):
            monkeypatch.setattr(module, "clock", lambda: self.now)

    def resume(self) -> None:
        pass

    def run(self, calls: int) -> Any:
        for batch in islice(self.batches, calls):
            self.taken.append(batch)
            self.now += self.step_ns(self.made)
            self.made += 1
        return self.counts(2 * calls, 0)

    def gpu_memory(self) -> None:
        return None

    def reset(self) -> int | None:
        self.resets += 1
        self.now += 2 * MS
        return 2

    def last(self) -> None:
        return None


def meter(worker: Any, adapter: Any, **protocol: Any) -> Any:
    events: list[dict[str, Any]] = []
    given = msgspec.to_builtins(Protocol(**protocol))
    made = worker.measure.Meter(adapter, given, events.append)
    made.events = events
    return made


# ---------------------------------------------------------------- single steps


def test_each_vector_step_has_its_own_time(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: (n + 1) * MS)
    assert worker.after_steps.step_times(adapter, 4) == [2 * MS, 3 * MS, 4 * MS, 5 * MS]


def test_the_actions_continue_as_if_no_step_had_been_timed(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    batches = adapter.batches
    worker.after_steps.step_times(adapter, 2)
    assert adapter.batches is batches
    adapter.run(2)
    assert adapter.taken == list("abcabc")


def test_steps_that_a_pool_may_have_made_ahead_are_not_timed(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: 10 if n < 3 else MS)
    adapter.job.env_instances = 6  # three batches in flight
    assert worker.after_steps.step_times(adapter, 3) == [MS] * 3


def test_a_device_is_awaited_after_every_timed_step(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: (n + 1) * MS)
    adapter.single_steps = "calls"
    assert worker.after_steps.step_times(adapter, 3) == [MS, 2 * MS, 3 * MS]


def test_a_program_of_many_steps_has_no_times_of_single_ones(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    adapter.single_steps = ""
    assert worker.after_steps.step_times(adapter, 3) is None
    assert adapter.made == 0


@pytest.mark.parametrize(
    ("ms_per_step", "steps"),
    [
        (0.001, 450),  # at most 3,000 per second
        (1, 150),
        (5, 30),
        (40, 4),  # at least 30 per second ...
        (100, 3),  # ... unless they take twice as long as asked
        (1000, 1),
    ],
)
def test_a_slice_has_as_many_steps_as_fit_into_its_time(
    worker: Any, ms_per_step: float, steps: int
) -> None:
    assert worker.after_steps.fitting(0.15, ms_per_step * MS) == steps


@pytest.mark.parametrize(
    ("ns", "kept"), [(0, 0), (7, 7), (999, 999), (1234, 1230), (98_765_432, 98_800_000)]
)
def test_times_are_kept_to_three_digits(worker: Any, ns: int, kept: int) -> None:
    assert worker.after_steps.rounded(ns) == kept


def test_equal_times_are_counted_together(worker: Any) -> None:
    made = worker.after_steps.histogram(Counter([30, 10, 30]))
    assert msgspec.convert(made, Histogram) == Histogram(values=[10, 30], counts=[1, 2])
    assert worker.after_steps.histogram(Counter()) is None


def test_a_loop_that_takes_its_batches_before_it_steps_has_no_latency(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times between its batches are not those of its steps."""
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    run = adapter.run

    def ahead(calls: int) -> Any:
        batches, adapter.batches = adapter.batches, iter([*islice(adapter.batches, calls)])
        try:
            return run(calls)
        finally:
            adapter.batches = batches

    adapter.run = ahead  # type: ignore[method-assign]
    assert worker.after_steps.step_times(adapter, 10) is None


# ---------------------------------------------------------------- returns


def test_returns_are_counted_per_environment_with_the_steps_between_them(worker: Any) -> None:
    ids = [np.array(each, np.int32) for each in ([0, 1], [0, 2], [1, 0], [0, 2])]
    made = worker.after_steps.returns(ids, 4)
    assert msgspec.convert(made, Returns) == Returns(
        calls=4, counts=[4, 2, 2, 0], ages=Histogram(values=[1, 2], counts=[3, 2])
    )
    assert msgspec.convert(made, Returns).fits(2, 4)


def test_environments_that_return_once_have_no_age(worker: Any) -> None:
    made = worker.after_steps.returns([np.array([0, 1])], 2)
    assert msgspec.convert(made, Returns) == Returns(calls=1, counts=[1, 1], ages=Histogram())


def test_an_order_of_returns_records_one_slice_of_a_pool_that_knows_its_ids(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    adapter.job.env_instances = 4
    batches = cycle([[0, 1], [2, 3]])
    known = lambda calls: [np.array(each) for each in islice(batches, calls)]  # noqa: E731
    monkeypatch.setattr(adapter, "returned", known, raising=False)
    made = meter(worker, adapter)
    made.warm_up()
    made.take_turns([("returns_ms", 20)])
    assert made.returns["counts"] == [10] * 4
    assert made.returns["ages"] == {"values": [2], "counts": [36]}
    event = made.events[-1]
    assert (event["calls"], event["steps"]) == (20, 40)


# ---------------------------------------------------------------- after the windows


def test_other_quantities_change_neither_the_windows_nor_their_load(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    made = meter(worker, adapter)
    made.warm_up()
    spent = iter([{}, {"cpu_s": 1.0}, {"cpu_s": 99.0}])
    monkeypatch.setattr(made.sensors, "load", lambda share: next(spent))
    made.take_turns([("step", 20), ("lead", 5), ("latency_ms", 30), ("reset_ms", 10)])
    windows = len(made.measured.ns)
    assert (windows, made.measured.calls) == (1, [20])
    assert made.latency == {MS: 30}
    assert (made.resets.calls, made.resets.ns) == ([5], [10 * MS])
    assert made.load() == {}  # as it was before the first of them
    told = [(event["calls"], event["steps"], event["resets"]) for event in made.events[-2:]]
    assert told == [(30, 60, 0), (5, 0, 10)]


def test_a_worker_without_orders_measures_them_after_its_windows(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    made = meter(worker, adapter, measured_s=1, after={"latency": 0.05, "reset": 0.01})
    made.warm_up()
    made.measure()
    assert made.measured.ns == [250 * MS] * 4
    assert (made.latency, made.resets.calls) == ({MS: 50}, [5])
    assert msgspec.convert(made.load(), Load)


def test_what_a_library_lacks_is_reported_with_no_step_and_no_reset(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    adapter.single_steps = ""
    monkeypatch.setattr(adapter, "reset", lambda: None)
    made = meter(worker, adapter)
    made.warm_up()
    told = len(made.events)
    made.take_turns([("latency_ms", 50), ("reset_ms", 50)])
    assert [(e["steps"], e["resets"]) for e in made.events[told:]] == [(0, 0), (0, 0)]
    assert (made.latency, made.resets.ns) == ({}, [])


def test_single_steps_do_not_count_if_the_machine_slept(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    made = meter(worker, adapter)
    made.warm_up()
    monkeypatch.setattr(made.sensors, "window", lambda *_: {"suspended_ns": 10**9})
    made.take_turns([("latency_ms", 50)])
    assert made.latency == {}


def test_each_timed_reset_comes_after_a_step_that_is_not_timed(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset that directly follows another one could return a copy."""
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    last_reset = [-1]

    def reset() -> int:
        adapter.now += 0 if adapter.made == last_reset[0] else 2 * MS
        last_reset[0] = adapter.made
        return 2

    monkeypatch.setattr(adapter, "reset", reset)
    made = meter(worker, adapter)
    made.take_turns([("reset_ms", 10)])
    assert (made.resets.calls, made.resets.ns) == ([5], [10 * MS])


def test_a_reset_that_takes_longer_than_its_slice_is_made_once(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Batches(worker, monkeypatch, lambda n: MS)
    made = meter(worker, adapter)
    made.take_turns([("reset_ms", 1)])
    assert (made.resets.calls, made.resets.ns) == ([1], [2 * MS])


def test_enough_calls_of_a_spot_check_make_one_step(worker: Any) -> None:
    """Longer calls left 18 of 60 steps, and episodes end in some: a cell was not checked."""

    def of_one_step() -> int:
        lengths, made, single = worker.after_steps.call_lengths(60), 0, 0
        while made < 60:
            length = min(next(lengths), 60 - made)
            made, single = made + length, single + (length == 1)
        return single

    found = [of_one_step() for _ in range(1000)]
    assert 24 <= min(found) < max(found) <= 55
