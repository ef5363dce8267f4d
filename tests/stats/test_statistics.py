"""Rates and intervals: defined answers for every kind of figure."""

from __future__ import annotations

import math

import msgspec
import pytest
import scipy.stats
from helpers.record_factories import make_cell, make_failure, make_run, make_windows
from hypothesis import assume, given
from hypothesis import strategies as st

from envbench.model import Load
from envbench.report.tables.footnotes import FLAGS as SENTENCES
from envbench.stats.intervals import interval, ratio_interval
from envbench.stats.summary import rate, summarise

SPEEDS = st.floats(min_value=1e-3, max_value=1e9)


def five(**given):
    return [make_run(round=i, **given) for i in range(5)]


# ---------------------------------------------------------------- one run


def test_a_rate_is_total_frames_over_total_time_not_a_mean_of_rates():
    run = make_run(measured=make_windows([100, 100], ns=[100_000_000, 300_000_000]))
    assert rate(run).fps == pytest.approx(200 * 4 / 0.4)
    assert rate(run).steps_per_second == pytest.approx(200 / 0.4)


def test_an_invalid_window_does_not_count_while_most_of_the_time_is_valid():
    found = rate(make_run(measured=make_windows([100, 100, 100, 10], invalid={"3": "steal 9 %"})))
    assert found.steps == 300
    assert found.seconds == pytest.approx(0.75)
    assert not found.disturbed


def test_in_a_run_that_alternated_every_window_counts_in_which_the_machine_was_awake():
    """The others of its block shared the disturbance."""
    invalid = {"2": "suspended", "3": "steal 9 %"}
    measured = make_windows([100, 100, 10, 10], invalid=invalid)
    found = rate(make_run(measured=measured, alternated=True))
    assert found.steps == 210
    assert not found.disturbed


def test_when_most_windows_are_invalid_all_of_them_count():
    invalid = {"1": "steal 9 %", "2": "steal 9 %", "3": "throttled"}
    found = rate(make_run(measured=make_windows([100, 10, 10, 10], invalid=invalid)))
    assert found.steps == 130
    assert found.disturbed


def test_a_suspended_window_never_counts():
    invalid = {"0": "suspended", "1": "suspended", "2": "suspended"}
    found = rate(make_run(measured=make_windows([1, 1, 1, 100], invalid=invalid)))
    assert found.steps == 100
    assert not found.disturbed
    everything = {str(i): "suspended" for i in range(4)}
    assert rate(make_run(measured=make_windows([1] * 4, invalid=everything))).fps is None


@pytest.mark.parametrize(
    "windows",
    [
        make_windows([]),
        make_windows([0, 0]),
        make_windows([10, -20]),
        make_windows([10, 10], ns=0),
        make_windows([10, 10], ns=-5),
        make_windows([10, 10], ns=[1, 2, 3]),
        make_windows([10, 10], calls=[1, 1]),
        make_windows([10**400, 1]),
        make_windows([10**308 * 9, 1], ns=1),
    ],
)
def test_an_impossible_figure_is_invalid_and_never_fast(windows):
    found = rate(make_run(measured=windows))
    assert found.invalid
    assert found.fps is None
    cell = summarise([*five(), make_run(measured=windows)])
    assert cell.fps is None
    assert cell.failure is not None
    assert cell.failure.reason == "invalid-figure"


@pytest.mark.parametrize("skip", [0, -4, math.nan, math.inf])
def test_an_impossible_frame_skip_is_invalid(skip):
    assert rate(make_run(make_cell(frame_skip=skip))).fps is None


@given(st.lists(st.integers(-5, 10**30), max_size=5), st.lists(st.integers(-5, 10**30), max_size=5))
def test_any_windows_give_a_positive_finite_rate_or_none(steps, ns):
    fps = rate(make_run(measured=make_windows(steps, ns=ns))).fps
    assert fps is None or 0 < fps < math.inf


# ---------------------------------------------------------------- one cell


def test_the_headline_is_total_frames_over_total_time_of_the_runs():
    runs = [make_run(steps=[100] * 4), make_run(steps=[200] * 12)]
    found = summarise(runs)
    assert found.fps == pytest.approx((400 + 2400) * 4 / 4.0)
    assert found.steps_per_second == pytest.approx(2800 / 4.0)
    assert found.runs == [run.run_id for run in runs]


def test_one_run_has_a_figure_without_an_interval_and_a_flag():
    found = summarise([make_run(steps=[100] * 8)])
    assert (found.fps, found.interval, found.flags) == (1600.0, None, ["few-runs"])
    assert summarise([make_run(steps=[100] * 7)]).flags == ["quick"], "under two seconds"


def test_equal_runs_have_an_interval_of_no_width():
    assert summarise(five()).interval == (1600.0, 1600.0)


def test_a_quick_measurement_has_no_interval_and_is_flagged():
    found = summarise(five(quick=True), alone=True)
    assert (found.interval, found.flags) == (None, ["quick"])


def test_a_failed_run_makes_the_cell_a_failure():
    failed = make_run(failure=make_failure(), measured=make_windows([]))
    found = summarise([*five(), failed])
    assert found.fps is None
    assert found.failure == failed.failure
    assert len(found.runs) == 6


def test_an_interrupted_run_does_not_count_unless_there_are_no_others():
    stopped = make_run(failure=make_failure(reason="interrupted"))
    found = summarise([*five(), stopped])
    assert found.failure is None
    assert len(found.runs) == 5
    assert summarise([stopped]).failure == stopped.failure


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("unsteady", {"steady": False}),
        ("no-reset", {"measured": make_windows([100] * 4, resets=[0] * 4)}),
        ("throttled", {"load": Load(throttled_periods=1)}),
        ("throttled", {"measured": make_windows([100] * 4, invalid={"0": "throttled"})}),
        ("steal", {"measured": make_windows([100] * 4, invalid={"0": "steal 7.0 %"})}),
        ("other-load", {"load": Load(other_cpu_s=0.11)}),
    ],
)
def test_each_flag_is_raised_by_its_cause(flag, given):
    assert summarise(five(**given)).flags == [flag]


def test_a_reset_in_the_warm_up_does_not_count_as_measured():
    quiet = make_windows([100] * 4, resets=[0] * 4)
    assert summarise(five(measured=quiet, warmup=make_windows([5]))).flags == ["no-reset"]


def test_frames_per_cpu_second_are_all_frames_over_the_cpu_time_of_all_runs():
    runs = [make_run(load=Load(cpu_s=seconds)) for seconds in (1.0, 3.0)]
    assert summarise(runs).frames_per_cpu_s == pytest.approx(2 * 1600 / 4.0)


@pytest.mark.parametrize("unknown", [None, 0.0, -1.0])
def test_frames_per_cpu_second_are_unknown_where_one_run_has_no_cpu_time(unknown):
    found = summarise([*five(), make_run(load=Load(cpu_s=unknown))])
    assert found.frames_per_cpu_s is None
    assert found.fps is not None


def test_frames_per_cpu_second_are_unknown_where_they_would_be_impossibly_high():
    found = summarise([make_run(load=Load(cpu_s=1e-308))])
    assert (found.frames_per_cpu_s, found.fps) == (None, 1600)


def test_one_process_without_a_reset_raises_the_flag():
    quiet = make_windows([100] * 4, resets=[0] * 4)
    assert summarise([*five()[:4], *five(measured=quiet)[:1]]).flags == ["no-reset"]


def test_other_load_is_measured_against_the_whole_machine():
    assert summarise(five(load=Load(other_cpu_s=0.11)), cpus=2).flags == []
    assert summarise(five(load=Load(other_cpu_s=0.21)), cpus=2).flags == ["other-load"]


def test_a_cell_measured_alone_has_a_flag():
    assert summarise(five(), alone=True).flags == ["one-go"]
    assert summarise(five()[:4], alone=True).flags == ["few-runs"]


def test_a_cell_that_never_alternated_with_another_cell_has_a_flag():
    assert summarise(five(without_others=True)).flags == ["no-alternation"]
    assert summarise([*five(without_others=True)[:4], *five()[:1]]).flags == []


def test_every_flag_has_a_sentence_and_cells_show_flags_in_the_order_of_the_sentences():
    disturbed = five(
        without_others=True,
        steady=False,
        load=Load(throttled_periods=1, other_cpu_s=0.11),
        measured=make_windows([100] * 4, resets=[0] * 4, invalid=dict.fromkeys("012", "steal 7 %")),
    )
    quick = [msgspec.structs.replace(run, quick=True) for run in disturbed]
    few, alone = summarise(disturbed[:4]).flags, summarise(disturbed, alone=True).flags
    first = [*summarise(quick).flags[:1], *few[:1], *alone[:1]]
    assert first == ["quick", "few-runs", "one-go"]
    assert [*first, *alone[1:]] == list(SENTENCES)


# ---------------------------------------------------------------- intervals


def test_the_interval_is_the_textbook_one_on_logarithms():
    # logs 0, 1, 2, 3, 4: mean 2, s = sqrt(2.5), t(0.975, 4) = 2.7764451
    low, high = interval([math.exp(x) for x in range(5)])
    half = 2.7764451 * math.sqrt(2.5 / 5)
    assert math.log(low) == pytest.approx(2 - half, rel=1e-6)
    assert math.log(high) == pytest.approx(2 + half, rel=1e-6)


@given(st.lists(SPEEDS, max_size=4))
def test_fewer_than_five_runs_have_no_interval(speeds):
    assert interval(speeds) is None


@given(st.lists(SPEEDS, min_size=5, max_size=12))
def test_the_interval_contains_the_geometric_mean(speeds):
    low, high = interval(speeds)
    mean = math.exp(math.fsum(map(math.log, speeds)) / len(speeds))
    assert low <= mean * (1 + 1e-9)
    assert high >= mean * (1 - 1e-9)


@given(st.lists(SPEEDS, min_size=5, max_size=12), st.floats(1e-3, 1e3))
def test_the_interval_scales_with_the_figures(speeds, factor):
    scaled = interval([speed * factor for speed in speeds])
    assume(scaled is not None and math.isfinite(scaled[1]))
    assert scaled == pytest.approx([end * factor for end in interval(speeds)], rel=1e-6)


@given(
    st.lists(SPEEDS, min_size=5, max_size=12).flatmap(
        lambda speeds: st.tuples(st.just(speeds), st.permutations(speeds))
    )
)
def test_the_order_of_runs_does_not_matter(pair):
    assert interval(pair[0]) == pytest.approx(interval(pair[1]), rel=1e-9)


# ---------------------------------------------------------------- ratios


def test_the_interval_of_a_ratio_is_welchs_on_logarithms():
    above, below = [math.exp(x) for x in (1, 2, 3, 4, 5)], [math.exp(x) for x in (0, 0, 1, 1, 0, 1)]
    low, high = ratio_interval(above, below)
    expected = scipy.stats.ttest_ind(
        [math.log(x) for x in above], [math.log(x) for x in below], equal_var=False
    ).confidence_interval(0.95)
    assert (math.log(low), math.log(high)) == pytest.approx((expected.low, expected.high))


@given(st.lists(SPEEDS, min_size=5, max_size=9), st.lists(SPEEDS, max_size=4))
def test_a_ratio_has_no_interval_if_a_side_has_fewer_than_five_runs(many, few):
    assert ratio_interval(many, few) is None
    assert ratio_interval(few, many) is None


def test_a_ratio_has_no_interval_without_any_spread():
    assert ratio_interval([2.0] * 5, [1.0] * 5) is None
    assert ratio_interval([2.0] * 5, [1.0, 1.1, 1.2, 1.1, 1.0]) is not None


@given(st.lists(SPEEDS, min_size=5, max_size=9), st.lists(SPEEDS, min_size=5, max_size=9))
def test_exchanging_the_sides_inverts_the_interval(first, second):
    found = ratio_interval(first, second)
    assume(found is not None and found[0] > 0 and math.isfinite(found[1]))
    low, high = ratio_interval(second, first)
    assert (1 / high, 1 / low) == pytest.approx(found)


def test_a_figure_of_zero_is_invalid_and_has_no_ratio():
    cell = make_cell("for-loop", 8, frame_skip=5e-324)  # as in a hostile results file
    run = make_run(cell, measured=make_windows([1] * 4, ns=10**12))
    assert rate(run).invalid == "its figure is zero or impossibly high"
    assert ratio_interval([0.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert ratio_interval([1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 1.0, 1.0, 1.0]) is None
