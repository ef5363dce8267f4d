"""The slices of a block: which worker has the next one, how long it is, and how many there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from helpers.pair_factories import cycles, pairs_plan

from envbench.experiments import pairs
from envbench.model import Job, Programme, Protocol
from envbench.process import alternate
from envbench.process.reply import WindowEnded
from envbench.process.slice_order import MOST_MIXED, NotOrdered, SliceOrder
from envbench.process.supervisor import Limits


def jobs(count: int, **protocol: Any) -> list[Job]:
    values = {"run_id": "r", "adapter": "a:b", "family": "atari", "task": "Pong-v5", "seed": 0}
    counts = {"numenv": 2, "env_instances": 6, "frame_skip": 4, "settings": {}}
    return [Job(**values, **counts, protocol=Protocol(**protocol)) for _ in range(count)]


def table(programme: Programme, *ns_per_call: float, **protocol: Any) -> SliceOrder:
    """A table of workers that are ready. They became ready in reverse order."""
    made = SliceOrder(programme, jobs(len(ns_per_call), **protocol))
    for side, ns in reversed([*enumerate(ns_per_call)]):
        made.worker_ready(side, ns)
    return made


def ended(ns: int = 1, calls: int = 1, resets: int = 0) -> WindowEnded:
    return WindowEnded(phase="measure", ns=ns, calls=calls, steps=calls, resets=resets)


def alternating(reset_slices: int = 0, **given: Any) -> Programme:
    turns = [0, 1, 1, 0] * 50
    values = {"slice_s": 0.01, "equal_calls": True, **given}
    return Programme(turns=turns, reset_turns=turns[:reset_slices], **values)


def test_arms_begin_their_first_slice_after_as_many_steps() -> None:
    made = SliceOrder(alternating(), jobs(2))
    made.worker_ready(0, 1e6, 700)
    made.worker_ready(1, 1e6, 1_000)
    assert [made.lead_in(0), made.lead_in(1)] == [300, 0]
    assert made.await_turn(0) == b"lead 300\nstep 10\n"
    made.slice_made(0, ended(calls=10))
    assert made.lead_in(0) == 0


def test_an_arm_that_is_far_behind_does_not_catch_up() -> None:
    made = SliceOrder(alternating(), jobs(2))
    made.worker_ready(0, 1e8, 10)
    made.worker_ready(1, 1e6, 1_000)
    assert [made.lead_in(0), made.lead_in(1)] == [0, 0]  # it would take 99 s


@pytest.mark.parametrize(
    ("ns_per_call", "calls", "slices"),
    [
        (1e3, 10_000, 200),
        (4e6, 2, 200),
        (3.9e6, 3, 200),  # three calls are a little longer than a slice: no fewer slices
        (20e6, 1, 100),
        (24e6, 1, 80),
        (1e9, 1, 20),
    ],
)
def test_calls_longer_than_a_slice_reduce_the_number_of_slices(
    ns_per_call: float, calls: int, slices: int
) -> None:
    made = table(alternating(), ns_per_call, 1.0)  # the first one decides for both
    assert ([made.calls(0), made.calls(1)], len(made.steps)) == ([calls, calls], slices)


@pytest.mark.parametrize(
    ("ns_per_call", "slices"),
    [
        ([1e6] * 5, 100),  # all fit
        ([10e6] * 5, 100),
        ([20e6] * 5, 50),  # each is twice as long
        ([10e6, 10e6, 10e6, 10e6, 60e6], 50),  # the mean is twice as long
        ([25e6] * 5, 50),  # 40 would be fewer than ten per worker
        ([1e9] * 5, 50),
    ],
)
def test_the_mean_length_of_slices_decides_for_five_workers(
    ns_per_call: list[float], slices: int
) -> None:
    turns = cycles(20, 5)
    made = table(Programme(turns=turns, slice_s=0.01), *ns_per_call)
    assert [each.worker for each in made.steps] == turns[:slices]
    for side, ns in enumerate(ns_per_call):
        assert made.calls(side) == max(1, round(10e6 / ns))
        assert [each.worker for each in made.steps].count(side) == slices / 5


def test_a_first_worker_that_dies_before_it_is_ready_leaves_the_pace_to_the_next() -> None:
    for late in (False, True):
        made = SliceOrder(alternating(), jobs(2))
        if late:
            made.worker_ready(1, 2e6)
        made.worker_ended(0)
        if not late:
            made.worker_ready(1, 2e6)
        assert made.all_ready
        assert made.calls(1) == 5
        assert len(made.steps) == 200
        assert made.await_turn(1) == b"step 5\n"


def test_a_first_worker_that_dies_later_does_not_change_the_slices_of_the_others() -> None:
    made = table(alternating(), 1e6, 2e6)
    made.slice_made(0, ended(calls=10))
    made.worker_ended(0)
    for _ in range(100):
        assert made.await_turn(1) == b"step 10\n"
        made.slice_made(1, ended(calls=10))
    assert made.await_turn(1) == b"\n"
    assert made.made == [0] + [1] * 100


def test_slices_of_ended_workers_are_skipped() -> None:
    made = table(Programme(turns=[0, 1, 2] * 10, slice_s=0.01), 1e6, 1e6, 1e6)
    made.slice_made(0, ended(calls=10))
    made.worker_ended(1)
    for _ in range(9):
        made.slice_made(2, ended(calls=10))
        made.slice_made(0, ended(calls=10))
    made.worker_ended(2)
    assert made.made == [0, *[2, 0] * 9]
    assert made.await_turn(0) == b"\n"  # the last slice was of an ended worker


def test_no_slice_begins_before_all_workers_are_ready_or_have_ended() -> None:
    made = SliceOrder(alternating(), jobs(3))
    made.worker_ready(0, 1e6)
    made.worker_ready(1, 1e6)
    assert not made.may_go(0)
    made.worker_ended(2)
    assert made.may_go(0)
    assert not made.may_go(1)


def test_long_resets_reduce_the_number_of_reset_slices() -> None:
    def resets(ns: int) -> tuple[int, int]:
        made = table(alternating(40), 1e6, 1e6)
        made.next = len(made.steps)
        assert made.await_turn(0) == b"reset 1\n"
        made.slice_made(0, ended(ns=ns, resets=1))
        assert made.await_turn(1) == f"reset {made.resets}\n".encode()
        return made.resets, len(made.others)

    assert [resets(ns) for ns in (10, 10**6, 2 * 10**7, 10**9)] == [
        (10_000, 40), (10, 40), (1, 20), (1, 8)
    ]  # fmt: skip


def test_a_library_without_resets_gets_one_order_to_reset() -> None:
    made = table(alternating(40), 1e6, 1e6)
    made.next = len(made.steps)
    made.slice_made(0, ended(resets=0))
    assert made.await_turn(1) == b"\n"


@pytest.mark.parametrize(("ns", "each"), [(1e6, 200), (1e8, 2)])
def test_arms_whose_results_are_compared_make_a_fifth_as_many_steps_again(
    ns: float, each: int
) -> None:
    made = table(alternating(40), ns, ns, results=True)
    made.next = len(made.steps)
    for side in (0, 1):
        assert made.await_turn(side) == f"each {each}\n".encode()
        made.slice_made(side, ended(calls=each))
    assert made.await_turn(0) == b"reset 1\n"
    made.slice_made(0, ended(resets=0))
    assert made.await_turn(1) == b"\n"


def test_a_lead_in_comes_before_each_slice_because_the_worker_was_stopped() -> None:
    programme = Programme(turns=[0, 0, 1, 0], slice_s=0.01, lead_in_s=[0.005, 0.005])
    made = table(programme, 1e6, 2e6)
    assert made.await_turn(0) == b"lead 5\nstep 10\n"
    made.slice_made(0, ended(calls=10))
    assert made.await_turn(0) == b"lead 5\nstep 10\n"
    made.slice_made(0, ended(calls=10))
    assert made.await_turn(1) == b"lead 3\nstep 5\n"
    made.slice_made(1, ended(calls=5))
    assert made.await_turn(0) == b"lead 5\nstep 10\n"


@pytest.mark.parametrize(("side", "calls"), [(1, 10), (0, 9), (0, 11)])
def test_a_slice_without_an_order_is_refused(side: int, calls: int) -> None:
    made = table(alternating(), 1e6, 1e6)
    with pytest.raises(NotOrdered):
        made.slice_made(side, ended(calls=calls))


def test_a_slice_after_the_last_one_is_refused() -> None:
    made = table(Programme(turns=[0, 1], slice_s=0.01), 1e6, 1e6)
    made.slice_made(0, ended(calls=10))
    made.slice_made(1, ended(calls=10))
    with pytest.raises(NotOrdered):
        made.slice_made(0, ended(calls=10))


def test_after_all_have_ended_no_slice_is_ordered() -> None:
    made = SliceOrder(alternating(), jobs(2))
    made.worker_ended(0, 1)
    assert made.await_turn(0) == b"\n"
    assert made.await_turn(1) == b"\n"


def test_in_a_random_order_each_worker_steps_for_its_time_in_slices_of_its_own() -> None:
    made = table(Programme(mixed=[0.1, 0.5]), 1e6, 2e6, measured_s=6.0)
    measured(made, 1_000_000, 2_000_000)
    assert Counter(made.made) == {0: 60, 1: 12}
    assert {(each.worker, each.calls) for each in made.steps} == {(0, 100), (1, 250)}


def test_in_a_random_order_a_long_call_is_a_slice_and_there_are_at_least_four() -> None:
    made = table(Programme(mixed=[0.1, 0.1]), 1e9, 1e6, measured_s=2.0)
    measured(made, 1_000_000_000, 1_000_000)
    assert Counter(made.made) == {0: 4, 1: 20}
    places = [place for place, each in enumerate(made.made) if each == 0]
    assert [place // 6 for place in places] == [0, 1, 2, 3]  # spread over all slices


def test_in_a_random_order_the_first_worker_that_is_ready_waits_for_the_others() -> None:
    made = SliceOrder(Programme(mixed=[0.1, 0.1]), jobs(2, measured_s=1.0))
    made.worker_ready(0, 1e6)
    assert not made.may_go(0)
    made.worker_ready(1, 1e6)
    assert made.may_go(0) != made.may_go(1)


def measured(made: SliceOrder, *ns_per_call: int) -> list[int]:
    """Make all slices, each worker at that speed. Returns each one's nanoseconds."""
    total = [0] * len(ns_per_call)
    while due := made.due:
        calls = due.calls or 0
        total[due.worker] += calls * ns_per_call[due.worker]
        made.slice_made(due.worker, ended(calls * ns_per_call[due.worker], calls))
    return total


def order_of_five(seed: int, *ns_per_call: int) -> list[int]:
    made = table(Programme(mixed=[0.1] * 5, seed=seed), *[1e6] * 5, measured_s=6.0)
    measured(made, *(ns_per_call or [1_000_000] * 5))
    return made.made


def test_the_slices_of_a_worker_are_spread_evenly_over_a_random_order() -> None:
    order = order_of_five(3)
    for index in range(5):
        places = [place for place, each in enumerate(order) if each == index]
        assert max(abs(place - 5 * number) for number, place in enumerate(places)) <= 12
    assert order_of_five(3) == order
    assert order_of_five(4) != order


def test_workers_whose_speed_has_changed_since_the_warm_up_alternate_until_the_end() -> None:
    order = order_of_five(3, 500_000, 1_000_000, 1_000_000, 1_000_000, 2_000_000)
    assert Counter(order) == {0: 120, 1: 60, 2: 60, 3: 60, 4: 30}
    for tenth in range(10):
        part = order[33 * tenth : 33 * (tenth + 1)]
        assert set(part) == set(range(5))


def test_a_worker_measures_for_its_time_even_if_its_speed_has_changed() -> None:
    made = table(Programme(mixed=[0.1] * 4), 1e6, 1e6, 1e6, 1e6, measured_s=6.0)
    made.worker_ended(3)
    fast, steady, slow, dead = measured(made, 300_000, 1_000_000, 2_500_000, 1_000_000)
    assert 6e9 <= fast < 6.03e9
    assert 6e9 <= slow < 6.25e9
    assert (steady, dead) == (6e9, 0)


def test_a_worker_makes_four_slices_even_if_they_last_longer_than_its_time() -> None:
    made = table(Programme(mixed=[0.1]), 1e6, measured_s=0.3)
    assert measured(made, 5_000_000) == [4 * 500_000_000]


def test_a_worker_whose_clock_stands_still_does_not_step_for_ever() -> None:
    made = table(Programme(mixed=[0.1]), 1e6, measured_s=1.0)
    assert measured(made, 0) == [0]
    assert len(made.made) == 2 * MOST_MIXED


def test_a_very_large_number_of_vector_steps_is_made_in_longer_slices() -> None:
    total = 10**12
    made = table(Programme(mixed=[0.1]), 1e6, calls=total)
    assert measured(made, 1) == [total]
    assert len(made.made) == MOST_MIXED


@pytest.mark.parametrize("total", [1, 99, 100, 101, 1234])
def test_a_number_of_vector_steps_is_made_exactly(total: int) -> None:
    made = table(Programme(mixed=[0.1, 0.1]), 1e6, 3e6, calls=total)
    assert measured(made, 1, 1) == [total, total]


def test_a_lead_in_lasts_its_time_or_returns_what_was_in_flight_if_that_costs_little() -> None:
    made = table(Programme(mixed=[0.5, 0.5], lead_in_s=[0.03, 0.005]), 1e6, 5e6, measured_s=1.0)
    assert made.lead_in(0) == 30
    assert made.lead_in(1) == 3  # six environments in flight, two per batch
    assert table(Programme(mixed=[0.5], lead_in_s=[0.005]), 20e6).lead_in(0) == 1  # not 60 ms
    assert table(Programme(mixed=[0.1]), 1e6).lead_in(0) == 0  # none is wanted


def test_the_limits_of_the_start_grow_with_the_number_of_workers() -> None:
    limits = alternate.starting_limits(5)
    assert limits.import_s == 5 * Limits().import_s
    assert limits.measure_s == Limits().measure_s


def test_the_slice_order_follows_the_programme_of_a_pair() -> None:
    plan = pairs_plan()
    block = pairs.pair(plan, (("baseline", plan.cells[0]), ("candidate", plan.cells[0])), number=0)
    made = table(block.programme, 1e6, 1e6)
    assert [each.worker for each in made.steps] == block.programme.turns


# ---------------------------------------------------------------- other quantities than steps


def mixed_with_others(*after: dict[Any, float]) -> SliceOrder:
    """Workers with slices of other quantities; a step takes 100 ms, and a trial half a second."""
    programme = Programme(mixed=[0.1] * len(after), lead_in_s=[0.03] * len(after))
    protocols = [{"measured_s": 0.5, "after": each} for each in after]
    made = SliceOrder(programme, [jobs(1, **protocol)[0] for protocol in protocols])
    for index in range(len(after)):
        made.worker_ready(index, 1e8)
    return made


def carried_out(made: SliceOrder, *, lacks: tuple[str, ...] = (), ns: int = 10**8) -> list[str]:
    """The orders until the end, as ``worker: order``. Every slice of steps takes ``ns``."""
    orders = []
    while (due := made.due) is not None:
        order = made.await_turn(due.worker).decode().splitlines()[-1]
        orders.append(f"{due.worker}: {order}")
        word = order.partition("_ms")[0]
        counts = {"steps": 0, "resets": 0} if word in lacks else {"steps": 1, "resets": 1}
        calls = due.calls or made.calls(due.worker)
        made.slice_made(due.worker, WindowEnded(phase="measure", ns=ns, calls=calls, **counts))
    return orders


BOTH: dict[Any, float] = {"latency": 0.6, "reset": 0.2}
ALL: dict[Any, float] = {**BOTH, "returns": 0.2}


def test_returns_come_in_one_slice_between_the_single_steps_and_the_resets() -> None:
    orders = carried_out(mixed_with_others(ALL), lacks=("latency",))
    assert orders[5:] == ["0: latency_ms 150", "0: returns_ms 200", *["0: reset_ms 100"] * 2]


def test_other_quantities_follow_the_steps_of_all_workers() -> None:
    orders = carried_out(mixed_with_others(BOTH, BOTH))
    steps, latencies, resets = orders[:10], orders[10:18], orders[18:]
    assert {each[3:] for each in steps} == {"step 1"}
    assert Counter(latencies) == {"0: latency_ms 150": 4, "1: latency_ms 150": 4}
    assert Counter(resets) == {"0: reset_ms 100": 2, "1: reset_ms 100": 2}
    for pair in zip(latencies[::2], latencies[1::2], strict=True):  # in rounds
        assert pair[0] != pair[1]


def test_they_follow_the_slices_that_a_faster_worker_gets_at_the_end() -> None:
    orders = carried_out(mixed_with_others(BOTH), ns=5 * 10**7)
    assert orders == [*["0: step 1"] * 10, *["0: latency_ms 150"] * 4, *["0: reset_ms 100"] * 2]


def test_a_worker_without_them_makes_only_steps() -> None:
    orders = carried_out(mixed_with_others({}, BOTH))
    assert [each for each in orders[10:] if each.startswith("0")] == []
    assert len(orders) == 10 + 4 + 2


def test_what_a_library_lacks_is_ordered_once() -> None:
    orders = carried_out(mixed_with_others(BOTH), lacks=("reset",))
    assert orders[5:] == [*["0: latency_ms 150"] * 4, "0: reset_ms 100"]


def test_only_the_other_quantities_of_a_worker_that_ended_are_left_out() -> None:
    made = mixed_with_others(BOTH, BOTH)
    for _ in range(10):
        assert made.due is not None
        made.slice_made(made.due.worker, ended(ns=10**8))
    made.worker_ended(0)
    assert carried_out(made) == [*["1: latency_ms 150"] * 4, *["1: reset_ms 100"] * 2]


def test_the_end_of_a_worker_takes_no_steps_from_one_that_is_faster_than_expected() -> None:
    made = mixed_with_others(BOTH, BOTH)
    made.worker_ended(0)
    orders = carried_out(made, ns=5 * 10**7)
    assert orders.count("1: step 1") == 10


def test_a_switch_to_another_worker_has_a_lead_in_before_its_single_steps_too() -> None:
    made = mixed_with_others(BOTH, BOTH)
    for _ in range(10):
        assert made.due is not None
        made.slice_made(made.due.worker, ended(ns=10**8))
    assert made.due is not None
    assert made.await_turn(made.due.worker) == b"lead 1\nlatency_ms 150\n"
