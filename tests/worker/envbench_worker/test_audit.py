"""Verify's own loop: how many vector steps it makes at once, and what it counts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from envbench.process.code_hash import WORKER_PATH


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The worker's module, imported into this process as the worker imports it."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    import envbench_worker.audit

    yield envbench_worker.audit
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


def test_the_first_half_is_made_a_few_steps_at_a_time_in_different_numbers(audit: Any) -> None:
    strides = {audit.next_stride(made, 1000, 1.0) for made in range(500)}
    assert strides == set(audit.STRIDES)
    assert audit.next_stride(0, 1000, 0.0) == audit.STRIDES[0]  # nothing was timed yet


@pytest.mark.parametrize(
    ("made", "calls", "seconds", "stride"),
    [
        (500, 1000, 50.0, 200),  # 10 per second: only 200 of the other 500 fit into 20 s
        (500, 1000, 1.0, 500),  # all the rest fits
        (500, 600, 0.5, 500),  # half a second's worth, although only 100 are left
        (500, 1000, 5000.0, 32),  # 0.1 per second: still the sum of STRIDES
    ],
)
def test_the_rest_is_made_at_once_as_far_as_it_fits_into_twenty_seconds(
    audit: Any, made: int, calls: int, seconds: float, stride: int
) -> None:
    assert (audit.PATIENCE_S, sum(audit.STRIDES)) == (20.0, 32)
    assert audit.next_stride(made, calls, seconds) == stride


class Counter:
    def __init__(self, frames: float, resets: int) -> None:
        self.seen_frames, self.resets = frames, resets


def test_resets_are_counted_twice_where_environments_step_in_this_process(
    audit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "COUNTERS", [Counter(40.0, 3), Counter(40.0, 4)])
    assert audit.seen_resets() == 7
    seen = [1, 2, 7, 90]  # at the start, before and after the audit, at the end
    assert audit.resets_twice(6, None, seen, 4) == {"resets_claimed": 6, "resets_seen": 5}
    resets, restarted = np.array([0, 2, 0, 3]), np.array([False, False, True, False])
    arrays = dict.fromkeys(("observations", "rewards", "ended", "start"))
    trace = audit.Trace(**arrays, resets=resets, restarted=restarted)
    found = audit.resets_twice(6, trace, seen, 4)
    assert found == {"resets_claimed": 6 + 5, "resets_seen": 89 - 4}  # envbench asked for four
    few = trace._replace(resets=None)  # it does not have all environments
    assert audit.resets_twice(6, few, seen, 4) == {"resets_claimed": 6, "resets_seen": 5}
    monkeypatch.setattr(audit, "COUNTERS", [Counter(0.0, 0)])  # the others are in processes
    assert audit.resets_twice(6, None, [0, 0, 0, 0], 4) == {}
    monkeypatch.setattr(audit, "COUNTERS", [])
    assert audit.resets_twice(6, None, [audit.seen_resets()] * 4, 4) == {}


@pytest.mark.parametrize("whose", [None, "me", 3, ["the library"]])
def test_a_count_of_nobody_that_the_contract_names_is_refused(audit: Any, whose: Any) -> None:
    adapter = SimpleNamespace(counted_by=whose, first_observations=None)
    with pytest.raises(TypeError, match="`counted_by` has to be \"\" or one of 'the emulator', "):
        audit.count_twice(adapter, 10, lambda event: None, own=False)


class Library(Counter):
    """A counter as envbench's own are, if its module has it."""

    __module__ = "envbench_adapters.verifying"
    counted_by = "the library"


class Pretends(Library):
    """A plugin's, which only says so."""

    __module__ = "envbench_adapters.verifying"


@pytest.fixture
def library(audit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import envbench_adapters.verifying

    monkeypatch.setattr(envbench_adapters.verifying, "Library", Library, raising=False)


@pytest.mark.usefixtures("library")
def test_a_counter_of_a_plugins_own_class_is_the_adapters_word(
    audit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for counters, whose in (
        ([Library(1.0, 0), Library(2.0, 0)], "the library"),
        ([Library(1.0, 0), Counter(2.0, 0)], ""),
        ([Counter(2.0, 0)], ""),
        ([Pretends(2.0, 0)], ""),
        ([], ""),
    ):
        monkeypatch.setattr(audit, "COUNTERS", counters)
        assert audit.counters_count() == whose


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(("own", "whose"), [(True, "the emulator"), (False, "the library")])
def test_the_counters_of_a_plugin_say_whose_count_it_is(
    audit: Any, monkeypatch: pytest.MonkeyPatch, own: bool, whose: str
) -> None:
    monkeypatch.setattr(audit, "COUNTERS", [counter := Library(0.0, 0)])

    def run(calls: int) -> Any:
        counter.seen_frames += calls
        return SimpleNamespace(steps=calls, resets=0, _asdict=dict)

    adapter = SimpleNamespace(
        counted_by="the emulator", first_observations=None, run=run, recount=lambda: 1.0
    )
    assert audit.count_twice(adapter, 3, lambda event: None, own=own)["counted_by"] == whose


def test_counters_in_other_processes_are_asked_through_the_vector_env(audit: Any) -> None:
    from envbench_families.base import CountedElsewhere

    seen = {"seen_frames": (8.0, 4.0)}
    envs = SimpleNamespace(call=seen.__getitem__)
    audit.COUNTERS.clear()
    CountedElsewhere(envs, SimpleNamespace(counted_by="the emulator"))
    assert (audit.seen_frames(), audit.counters_count()) == (12.0, "the emulator")
    assert audit.seen_resets() is None  # nothing in this process counts them
