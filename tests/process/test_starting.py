"""How the workers of a block start, alternately or together, and how long each was stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import psutil
import pytest
from helpers.command_line import wait_until

from envbench.model import Times
from envbench.process.killing.guardian import PR_SET_CHILD_SUBREAPER, prctl
from envbench.process.starting import SLICE_S, Start, Tree, start, stopped_ns


def states(processes: list[psutil.Process]) -> set[str]:
    return {each.status() for each in processes}


@contextmanager
def subreaper() -> Iterator[None]:
    """This process adopts what its children disown, as a guardian does."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0)


def without_threads(path: Any = ".", listdir: Any = os.listdir) -> list[str]:
    """List folders as on a system whose /proc does not list threads."""
    if str(path).endswith("/task"):
        raise FileNotFoundError(path)
    return listdir(path)


STOPPED = {psutil.STATUS_STOPPED}
SPAWNS = "import subprocess, sys\nfor line in sys.stdin: subprocess.Popen(['sleep', '60'])"


@pytest.mark.parametrize("listed", [True, False], ids=["proc", "no proc"])
def test_a_tree_is_stopped_with_every_process_that_it_has_started(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(os, "listdir", without_threads)
    with subprocess.Popen([sys.executable, "-c", SPAWNS], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        worker = Tree(process.pid)
        tree = psutil.Process(process.pid)
        try:
            for count in (1, 2):
                process.stdin.write(b"\n")
                process.stdin.flush()
                wait_until(lambda count=count: len(tree.children()) == count, "one more child")
                every = [tree, *tree.children()]
                wait_until(lambda: all(each.name() == "sleep" for each in tree.children()), "exec")
                worker.stop()
                wait_until(lambda every=every: states(every) == STOPPED, "all are stopped")
                worker.resume()
                wait_until(lambda every=every: not STOPPED & states(every), "all run again")
        finally:
            for each in [*tree.children(), tree]:
                each.kill()


DISOWNS = """
import os, sys, time
if os.fork():
    os.wait()
    print("ready", flush=True)
else:
    if os.fork():
        os._exit(0)
    os.setsid()
end = time.monotonic() + 60  # whatever becomes of the test
while time.monotonic() < end:
    pass
"""


def test_a_daemon_that_the_guardian_adopted_is_stopped_too() -> None:
    script = [sys.executable, "-c", DISOWNS]
    with subreaper(), subprocess.Popen(script, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        mine = psutil.Process()
        every = [each for each in mine.children() if each.status() != psutil.STATUS_ZOMBIE]
        daemon = next(each for each in every if each.pid != process.pid)
        worker = Tree(process.pid, guardian=mine.pid)
        try:
            worker.stop()
            wait_until(lambda: states([psutil.Process(process.pid), daemon]) == STOPPED, "both")
            worker.resume()
            wait_until(lambda: states([daemon]) != STOPPED, "it runs again")
        finally:
            daemon.kill()
            process.kill()


def test_stopping_and_resuming_an_ended_tree_is_no_error() -> None:
    with subprocess.Popen(["true"]) as process:
        pass
    worker = Tree(process.pid)
    worker.stop()
    worker.resume()
    assert len(worker.stops) == 1


@pytest.fixture
def spinning() -> Iterator[list[psutil.Process]]:
    """Three processes that are always busy."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    yield [psutil.Process(each.pid) for each in made]
    for each in made:
        each.kill()
        each.wait()


@pytest.mark.parametrize("count", [2, 3])
def test_workers_start_alternately_and_wait_for_each_other(
    spinning: list[psutil.Process], count: int
) -> None:
    del spinning[count:]
    changed = threading.Condition()
    starts = [Start(changed) for _ in spinning]

    def reaches_its_warm_up(index: int) -> None:
        starts[index].began(spinning[index].pid)
        time.sleep(0.4 + 0.4 * index)
        starts[index].arrived()

    with ThreadPoolExecutor(count) as pool:
        threads = [pool.submit(reaches_its_warm_up, index) for index in range(count)]
        start(starts)
        try:
            wait_until(lambda: states(spinning) == STOPPED, "all wait")
            ran = [sum(each.cpu_times()[:2]) for each in spinning]
            starts[0].warm_up()
            wait_until(lambda: spinning[0].status() != psutil.STATUS_STOPPED, "it warms up")
            assert states(spinning[1:]) == STOPPED
        finally:
            for each in starts:
                each.warm_up()
        for thread in threads:
            thread.result(timeout=10)
        wait_until(lambda: not STOPPED & states(spinning), "all run again")
    running = sorted(
        (since, until, index)
        for index, each in enumerate(starts)
        for (_, since), (until, _) in pairwise(each.tree.stops)
    )
    assert all(
        until <= since for (_, until, _), (since, _, _) in pairwise(running)
    )  # one at a time
    turns = [index for _, _, index in running]
    alternating = min(len(turns) - turns[::-1].index(index) for index in range(count))
    assert alternating > 3 * count
    assert turns[:alternating] == [turn % count for turn in range(alternating)]
    since, until, last = running[-1]
    assert last == count - 1  # it is not stopped any more when the others are ready
    assert until - since > 10 * SLICE_S * 1e9
    assert ran[1] > ran[0]


def test_workers_that_start_together_are_not_stopped_before_their_warm_up(
    spinning: list[psutil.Process],
) -> None:
    changed = threading.Condition()
    starts = [Start(changed, at_once=True) for _ in spinning]
    seen: set[str] = set()

    def reaches_its_warm_up(index: int) -> None:
        starts[index].began(spinning[index].pid)
        for _ in range(10):
            time.sleep(0.02)
            seen.add(spinning[index].status())
        starts[index].arrived()

    with ThreadPoolExecutor(3) as pool:
        threads = [pool.submit(reaches_its_warm_up, index) for index in range(3)]
        start(starts)
        wait_until(lambda: states(spinning) == STOPPED, "all wait")
        for each in starts:
            each.warm_up()
        for thread in threads:
            thread.result(timeout=10)
    assert psutil.STATUS_STOPPED not in seen
    assert [len(each.tree.stops) for each in starts] == [1, 1, 1]


def make_times(**times: int) -> Times:
    nothing = dict.fromkeys(Times.__struct_fields__, 1)
    return Times(**{**nothing, **times})


def test_stopped_time_counts_only_where_it_overlaps_a_phase() -> None:
    stops = [(0, 10), (20, 30), (95, 120), (300, 400)]
    times = make_times(import_ns=100, build_ns=50, first_step_ns=10)
    began = {"import_ns": 5, "build_ns": 110, "first_step_ns": 200}
    assert stopped_ns(stops, began, times) == {"import_ns": 25, "build_ns": 10, "first_step_ns": 0}


@pytest.mark.parametrize("at_once", [False, True])
def test_no_worker_waits_for_one_that_fails_to_start(
    spinning: list[psutil.Process], at_once: bool
) -> None:
    changed = threading.Condition()
    starts = [Start(changed, at_once=at_once) for _ in range(3)]

    def starts_alone() -> None:
        starts[1].began(spinning[1].pid)
        time.sleep(0.3)
        starts[1].arrived()

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(starts_alone)
        starts[0].ended()
        starts[2].ended()
        start(starts)
        starts[1].warm_up()
        thread.result(timeout=10)
    assert sum(until - since for since, until in starts[1].tree.stops) < 0.2e9
    wait_until(lambda: states(spinning[1:2]) != STOPPED, "it runs again")


def test_a_stopped_worker_runs_again_when_its_start_is_given_up() -> None:
    """``alternate`` does this to all workers when the user interrupts it."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            given_up = Start(threading.Condition())
            given_up.began(process.pid)
            known = psutil.Process(process.pid)
            wait_until(lambda: known.status() == psutil.STATUS_STOPPED, "it is stopped")
            given_up.warm_up()
            wait_until(lambda: known.status() != psutil.STATUS_STOPPED, "it runs again")
        finally:
            process.kill()
