"""How two real workers of a pair start, step and stand still by turns."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from paced import interpreter
from place import wait_until

from envbench.backends import get
from envbench.check import arms, stopping
from envbench.check.pairing import Arm, _Table, step_in_turn
from envbench.check.starting import Start, start, stood_still
from envbench.check.stopping import Tree
from envbench.model import Times
from envbench.plan import make_cell, order
from envbench.process.execute import WORKER

slow = pytest.mark.slow


@slow
def test_two_workers_make_equal_slices_by_turns_and_nothing_is_left(baseline: str) -> None:
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    sides = tuple(
        arms.with_settings(Arm(name=name, python=baseline, environment={}), get("for-loop"), {})
        for name in ("baseline", "candidate")
    )
    began = time.monotonic()
    replies = step_in_turn((job, job), (sides[0], sides[1]), [0, 1, 1, 0, 1, 0, 0, 1], 0.1)
    assert time.monotonic() - began < 30
    for reply in replies:
        assert reply.ok, reply.failure
        assert len(reply.measured.ns) == 4
        assert sum(reply.resets.resets) > 0
        assert reply.resets.resets == [2 * calls for calls in reply.resets.calls]
    ours, theirs = replies
    assert ours.measured.calls == theirs.measured.calls
    assert len(set(ours.measured.calls)) == 1
    # Each stood still while the other stepped: its slices lie apart by the other's.
    starts, lengths = ours.measured.start_ns, ours.measured.ns
    gaps = [b - a - ns for a, b, ns in zip(starts, starts[1:], lengths, strict=False)]
    assert max(gaps) > 1.5 * theirs.measured.ns[0]  # 1, 1 lies between the first two


@pytest.mark.parametrize(
    ("ns_a_call", "calls", "slices"),
    [(1e3, 10_000, 200), (4e6, 2, 200), (20e6, 1, 100), (24e6, 1, 80), (1e9, 1, 20)],
)
def test_calls_that_are_longer_than_a_slice_make_fewer(
    ns_a_call: float, calls: int, slices: int
) -> None:
    table = _Table([0, 1, 1, 0] * 50, 10e6, alike=True)
    table.sit_down(0, ns_a_call)
    table.sit_down(1, 1.0)  # the baseline says it for both
    assert (table.calls, len(table.steps)) == ([calls, calls], slices)


def test_resets_fill_slices_too_and_long_ones_make_fewer() -> None:
    def resets(ns: int) -> tuple[int, int]:
        table = _Table([0, 1, 1, 0] * 50, 10e6, alike=True)
        table.next = len(table.steps)
        table.done({"ns": ns, "calls": 1, "resets": 1})
        return table.resets, len(table.reset_slices)

    assert [resets(ns) for ns in (10, 10**6, 2 * 10**7, 10**9)] == [
        (10_000, 40), (10, 40), (1, 20), (1, 8)
    ]  # fmt: skip


@slow
def test_who_waits_for_its_slice_is_stopped_before_the_first_and_after_each(
    baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    arm = Arm(name="arm", python=baseline, environment={})
    workers: dict[int, psutil.Process] = {}
    began, await_turn = Start.began, _Table.await_turn
    waited = [0, 0]

    def noting(start: Start, pid: int) -> None:
        workers[start.side] = psutil.Process(pid)
        began(start, pid)

    def looking(table: _Table, side: int) -> bytes:
        wait_until(lambda: workers[side].status() == psutil.STATUS_STOPPED, "it is stopped")
        waited[side] += 1
        return await_turn(table, side)

    monkeypatch.setattr(Start, "began", noting)
    monkeypatch.setattr(_Table, "await_turn", looking)
    replies = step_in_turn((job, job), (arm, arm), [0, 1, 1, 0], 0.02)
    assert all(reply.ok for reply in replies), replies
    assert waited == [2 + 1 + len(each.resets.ns) for each in replies]


@slow
def test_a_worker_that_takes_no_turns_is_no_arm(tmp_path: Path, baseline: str) -> None:
    old = tmp_path / "envbench_worker"
    shutil.copytree(WORKER.parent, old)
    main = old / "__main__.py"
    text = main.read_text()
    takes_turns = 'turns(self.job["turns"]) if self.job["turns"] else None'
    assert takes_turns in text
    main.write_text(text.replace(takes_turns, "None"))
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    made = (
        Arm(name="baseline", python=baseline, environment={}, worker=main),
        Arm(name="candidate", python=baseline, environment={}),
    )
    ours, theirs = (arms.with_settings(arm, get("for-loop"), {}) for arm in made)
    before, now = step_in_turn((job, job), (ours, theirs), [0, 1, 1, 0], 0.1)
    assert before.failure is not None
    assert "slices that nobody asked for" in before.failure.message
    assert now.failure is None


def states(processes: list[psutil.Process]) -> set[str]:
    return {each.status() for each in processes}


SPAWNS = "import subprocess, sys\nfor line in sys.stdin: subprocess.Popen(['sleep', '60'])"


@pytest.mark.parametrize("listed", [True, False], ids=["proc", "no proc"])
def test_whose_turn_it_is_not_stands_still_with_all_that_it_has_by_then(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(stopping, "_of_thread", lambda *_: Path("/nowhere").read_bytes())
    with subprocess.Popen([sys.executable, "-c", SPAWNS], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        worker = Tree(process.pid)
        tree = psutil.Process(process.pid)
        try:
            for count in (1, 2):
                process.stdin.write(b"\n")
                process.stdin.flush()
                wait_until(lambda count=count: len(tree.children()) == count, "it has a child more")
                family = [tree, *tree.children()]
                wait_until(lambda: all(each.name() == "sleep" for each in tree.children()), "exec")
                worker.stop()
                wait_until(
                    lambda family=family: states(family) == {psutil.STATUS_STOPPED},
                    "all are stopped",
                )
                worker.go_on()
                wait_until(
                    lambda family=family: psutil.STATUS_STOPPED not in states(family), "all go on"
                )
        finally:
            for each in [*tree.children(), tree]:
                each.kill()


@pytest.fixture
def spinning() -> Iterator[list[psutil.Process]]:
    """Two processes that are always busy."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield [psutil.Process(each.pid) for each in made]
    for each in made:
        each.kill()
        each.wait()


def test_two_start_by_turns_and_wait_for_each_other(spinning: list[psutil.Process]) -> None:
    changed, gone = threading.Condition(), set[int]()
    sides = [Start(side, changed, gone) for side in (0, 1)]

    def comes_to_its_warm_up(side: int) -> None:
        sides[side].began(spinning[side].pid)
        time.sleep(0.4 + 0.4 * side)
        sides[side].arrived()

    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(comes_to_its_warm_up, side) for side in (0, 1)]
        began = time.perf_counter_ns()
        start(*sides)
        try:
            wait_until(lambda: states(spinning) == {psutil.STATUS_STOPPED}, "both wait")
            ran = [sum(each.cpu_times()[:2]) for each in spinning]
            sides[0].warm_up()
            wait_until(lambda: spinning[0].status() != psutil.STATUS_STOPPED, "it warms up")
            assert spinning[1].status() == psutil.STATUS_STOPPED
        finally:
            sides[0].warm_up()
            sides[1].warm_up()
        for each in threads:
            each.result(timeout=10)
        wait_until(lambda: psutil.STATUS_STOPPED not in states(spinning), "both go on")
    times = make_times(import_ns=400_000_000)
    found = [stood_still(side.stops, {"import_ns": began}, times)["import_ns"] for side in sides]
    assert all(0.1e9 < each < 0.3e9 for each in found)  # half of the first one's start
    later = stood_still(sides[1].stops, {"import_ns": began + 500_000_000}, times)["import_ns"]
    assert later < 0.4e9  # its other half was alone, until it waited
    assert ran[1] > ran[0]


def test_two_that_start_at_once_are_not_stopped_before_they_have(
    spinning: list[psutil.Process],
) -> None:
    changed, gone = threading.Condition(), set[int]()
    sides = [Start(side, changed, gone, at_once=True) for side in (0, 1)]
    seen: set[str] = set()

    def comes_to_its_warm_up(side: int) -> None:
        sides[side].began(spinning[side].pid)
        for _ in range(10):
            time.sleep(0.02)
            seen.add(spinning[side].status())
        sides[side].arrived()

    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(comes_to_its_warm_up, side) for side in (0, 1)]
        start(*sides)
        wait_until(lambda: states(spinning) == {psutil.STATUS_STOPPED}, "both wait")
        for each in sides:
            each.warm_up()
        for thread in threads:
            thread.result(timeout=10)
    assert psutil.STATUS_STOPPED not in seen
    assert [len(each.stops) for each in sides] == [1, 1]


def make_times(**times: int) -> Times:
    nothing = dict.fromkeys(Times.__struct_fields__, 1)
    return Times(**{**nothing, **times})


def test_only_what_overlaps_a_time_is_taken_from_it() -> None:
    stops = [(0, 10), (20, 30), (95, 120), (300, 400)]
    times = make_times(import_ns=100, build_ns=50, first_step_ns=10)
    began = {"import_ns": 5, "build_ns": 110, "first_step_ns": 200}
    assert stood_still(stops, began, times) == {"import_ns": 25, "build_ns": 10, "first_step_ns": 0}


def test_who_fails_to_start_keeps_nobody_waiting(spinning: list[psutil.Process]) -> None:
    changed, gone = threading.Condition(), set[int]()
    sides = [Start(side, changed, gone) for side in (0, 1)]

    def starts_alone() -> None:
        sides[1].began(spinning[1].pid)
        time.sleep(0.3)
        sides[1].arrived()

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(starts_alone)
        with changed:
            gone.add(0)
        start(*sides)
        thread.result(timeout=10)
    assert sum(until - since for since, until in sides[1].stops) < 0.2e9
    wait_until(lambda: states(spinning[1:]) != {psutil.STATUS_STOPPED}, "it goes on")


@slow
def test_a_longer_start_is_measured_and_the_others_turns_are_not(tmp_path: Path) -> None:
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    made = [
        Arm(name=name, python=interpreter(tmp_path / name, start=start), environment={})
        for name, start in (("baseline", 0.5), ("candidate", 1.0))
    ]
    ours, theirs = (arms.with_settings(arm, get("for-loop"), {}) for arm in made)
    replies = step_in_turn((job, job), (ours, theirs), [0, 1, 1, 0], 0.05)
    for reply, start_s in zip(replies, (0.5, 1.0), strict=True):
        assert reply.times is not None
        still_s = reply.stood_still_ns["import_ns"] / 1e9
        assert still_s > 0.2  # by turns
        took_s = reply.times.import_ns / 1e9 - still_s
        assert start_s < took_s < 4 * start_s + 2  # and Gymnasium's import, on cores of others
        assert len(reply.measured.ns) == 2
        assert min(reply.measured.calls) > 1  # who waits for the other does not warm up meanwhile
