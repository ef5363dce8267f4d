"""The speed without a stop, compared with the speed in slices."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import msgspec
import pytest
from helpers.record_factories import make_run, make_windows

from envbench.model import Windows
from envbench.stats.without_stops import pooled, without_stops

QUARTER = 250_000_000


def back_to_back(steps: list[int], **given: Any) -> Windows:
    """Windows of 0.25 s, of which each begins where the one before ended."""
    return make_windows(steps, QUARTER, **given)


def ratio_of(warmup: Windows, **given: Any) -> float | None:
    """In slices, it makes 400 steps per second."""
    return without_stops(make_run(warmup=warmup, **{"alternated": True, **given}))


def test_the_first_second_of_the_warm_up_does_not_count() -> None:
    assert ratio_of(back_to_back([1, 1, 1, 1, 90, 90, 90])) == pytest.approx(0.9)


def test_lead_ins_do_not_count() -> None:
    lead_ins = [3 * 10**9, 4 * 10**9]  # recorded after the warm-up, with time between them
    starts = [*accumulate([QUARTER] * 7, initial=0)][:8] + lead_ins
    windows = make_windows([100] * 8 + [1, 1], QUARTER, start_ns=starts)
    assert ratio_of(windows) == pytest.approx(1.0)


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_a_short_warm_up_says_nothing(count: int) -> None:
    assert ratio_of(back_to_back([100] * count)) is None


def test_a_process_that_was_never_stopped_says_nothing() -> None:
    assert ratio_of(back_to_back([100] * 8), alternated=False) is None


def test_a_warm_up_in_which_the_machine_slept_says_nothing() -> None:
    assert ratio_of(back_to_back([100] * 8, invalid={"5": "suspended"})) is None
    assert ratio_of(back_to_back([100] * 8, invalid={"5": "steal"})) == pytest.approx(1.0)


def test_no_step_and_incomplete_windows_say_nothing() -> None:
    assert ratio_of(back_to_back([0] * 8)) is None
    assert ratio_of(back_to_back([100] * 8), measured=make_windows([0] * 4)) is None
    incomplete = msgspec.structs.replace(back_to_back([100] * 8), steps=[100])
    assert ratio_of(incomplete) is None


def test_several_processes_have_a_geometric_mean_and_from_five_on_an_interval() -> None:
    found = pooled([0.5, 2.0])
    assert found is not None
    assert (found.ratio, found.interval, found.processes) == (pytest.approx(1.0), None, 2)
    found = pooled([0.9, 0.9, 0.9, 0.8, 0.8])
    assert found is not None
    assert found.interval is not None
    low, high = found.interval
    assert low < found.ratio < high
    assert math.sqrt(low * high) == pytest.approx(found.ratio)
    assert pooled([]) is None
