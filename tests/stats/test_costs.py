"""Costs of a cell: latency, resets, start-up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from helpers.record_factories import make_failure, make_run, make_windows
from hypothesis import given
from hypothesis import strategies as st

from envbench.model import Histogram, Load, Run, Times
from envbench.stats.costs import Energy, Phase, costs
from envbench.stats.latency import latency, merged, percentile

S = 10**9


def histogram(*values: int) -> Histogram:
    counted = sorted(Counter(values).items())
    return Histogram(values=[each for each, _ in counted], counts=[count for _, count in counted])


# ---------------------------------------------------------------- latency


def test_the_percentiles_are_of_the_steps_of_all_trials() -> None:
    found = latency([histogram(*range(1, 101)), histogram(*range(101, 201))])
    assert found is not None
    assert found.steps == 200
    assert [found.p50_s, found.p95_s, found.p99_s] == [100e-9, 190e-9, 198e-9]
    assert found.slowest_share == pytest.approx((199 + 200) / sum(range(1, 201)))


@pytest.mark.parametrize(
    ("steps", "known"), [(1, []), (19, []), (20, ["p95"]), (99, ["p95"]), (100, ["p95", "p99"])]
)
def test_few_steps_have_no_high_percentile(steps: int, known: list[str]) -> None:
    found = latency([histogram(*[7] * steps)])
    assert found is not None
    assert found.p50_s == 7e-9
    assert [name for name in ("p95", "p99") if getattr(found, f"{name}_s")] == known
    assert (found.slowest_share is not None) == ("p99" in known)


def test_the_slowest_steps_take_one_percent_of_the_time_if_all_are_equal() -> None:
    found = latency([histogram(*[5] * 150)])  # 1 % is one step and a half
    assert found is not None
    assert found.slowest_share == pytest.approx(0.01)


def test_no_step_has_no_latency() -> None:
    assert latency([]) is None
    assert latency([Histogram()]) is None


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=300), st.sampled_from([0.5, 0.95]))
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(
    values: list[int], share: float
) -> None:
    found = percentile(merged([histogram(*values)]), share)
    if found is None:
        assert len(values) < 20
        return
    assert found in values
    assert sum(each <= found for each in values) >= share * len(values) - 1e-6
    assert sum(each < found for each in values) < share * len(values)


# ---------------------------------------------------------------- resets and start-up


def test_a_reset_costs_its_share_of_all_slices_in_which_the_machine_was_awake() -> None:
    slices = make_windows([0, 0, 0], [3 * S, 1 * S, 99 * S], resets=[8, 8, 8])
    slices = msgspec.structs.replace(slices, calls=[2, 2, 1], invalid={"2": "suspended"})
    assert costs([make_run(resets=slices), make_run()]).reset_s == 1.0
    assert costs([make_run()]).reset_s is None


def test_time_in_which_a_process_was_stopped_for_others_is_no_start_up() -> None:
    times = Times(import_ns=5 * S, build_ns=2 * S, first_step_ns=3 * S, warmup_ns=1, measured_ns=1)
    stopped = {"import_ns": 4 * S, "first_step_ns": 2 * S}
    found = costs([make_run(times=times, stopped_ns=stopped)])
    assert (found.start_s, found.first_step_s) == (3.0, 1.0)


def started(round_: int, seconds: int, **given: Any) -> Run:
    times = Times(
        import_ns=seconds * S, build_ns=S, first_step_ns=2 * seconds * S, warmup_ns=1, measured_ns=1
    )
    return make_run(round=round_, times=times, **given)


def test_the_first_process_of_a_cell_is_cold_and_the_median_of_the_later_ones_is_warm() -> None:
    found = costs([started(2, 3), started(0, 40), started(1, 1), started(3, 2)])
    assert found.start_up == {
        "import": Phase(cold_s=40.0, warm_s=2.0),
        "build": Phase(cold_s=1.0, warm_s=1.0),
        "first_step": Phase(cold_s=80.0, warm_s=4.0),
    }


def test_a_process_with_a_spot_check_counts_for_import_and_build_only() -> None:
    found = costs([started(0, 40), started(1, 3, spot=60)])
    assert found.start_up == {
        "import": Phase(cold_s=40.0, warm_s=3.0),
        "build": Phase(cold_s=1.0, warm_s=1.0),
        "first_step": Phase(cold_s=80.0, warm_s=None),
    }


def test_a_single_process_is_cold() -> None:
    found = costs([started(0, 40)])
    assert found.start_up is not None
    assert found.start_up["import"] == Phase(cold_s=40.0, warm_s=None)


def test_no_process_counts_as_cold_if_the_first_one_has_no_times() -> None:
    assert costs([make_run(round=0, times=None), started(1, 3)]).start_up is None


def test_no_process_counts_as_cold_if_an_interrupted_one_was_first() -> None:
    stopped = started(0, 40, run_id="stopped", failure=make_failure(reason="interrupted"))
    assert costs([started(1, 3)], [stopped]).start_up is None
    later = started(2, 3, run_id="later", failure=make_failure(reason="interrupted"))
    assert costs([started(1, 3)], [later]).start_up is not None


# ---------------------------------------------------------------- energy


def test_frames_per_joule_are_all_frames_over_the_energy_of_processors_and_gpus() -> None:
    loads = [Load(cpu_energy_j=30.0, gpu_energy_j=10.0), Load(cpu_energy_j=50.0, gpu_energy_j=10.0)]
    found = costs([make_run(load=each) for each in loads])  # 1,600 frames each
    assert found.energy == Energy(cpu_j=80.0, gpu_j=20.0, frames_per_joule=32.0)
    only = costs([make_run(load=Load(cpu_energy_j=40.0))])
    assert only.energy == Energy(cpu_j=40.0, gpu_j=None, frames_per_joule=40.0)


def test_a_run_without_a_counter_leaves_the_energy_unknown() -> None:
    assert costs([make_run(load=Load(cpu_energy_j=30.0)), make_run()]).energy is None
    assert costs([make_run(load=Load(cpu_energy_j=0.0))]).energy is None
