"""Real workers of one block that step alternately, also when one of them fails."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from helpers import run_faulty_worker
from helpers.command_line import wait_until
from helpers.paced_env import interpreter, trouble
from helpers.pair_factories import cycles, make_pair, pairs_plan

from envbench.backends import get
from envbench.engine.availability import Arm, own_runtime
from envbench.engine.campaign import Campaign, Executed
from envbench.engine.local_executor import LocalExecutor
from envbench.engine.target import make_cell, target_of
from envbench.errors import Interrupted, StorageError
from envbench.model import (
    Block,
    BlockRecord,
    Failure,
    Plan,
    Programme,
    Protocol,
    Trial,
    TrialRecord,
    arm_key,
)
from envbench.process import alternate
from envbench.process.one_job import WORKER
from envbench.process.reply import Event, PhaseBegan, Reply, Started, WindowEnded
from envbench.process.signals import raise_on_signals
from envbench.process.supervisor import Limits
from envbench.results import store
from envbench.results.store import Journal

slow = pytest.mark.slow
SHORT = Protocol(window_s=0.02, warmup_min_s=0.1, warmup_max_s=0.2)
PONG = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "ale-vector")
PACED = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
TARGET = target_of(PACED)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark that every process of the test inherits. None may be left at its end."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(run_faulty_worker.MARK, value)
    yield value
    assert run_faulty_worker.marked(value) == []


def paced_block(names: Sequence[str], turns: list[int], **programme: Any) -> Block:
    return Block(
        trials=[Trial(cell=PACED, arm=name, seed=1, protocol=SHORT) for name in names],
        programme=Programme(turns=turns, **{"slice_s": 0.05, **programme}),
    )


def block_with_others(names: Sequence[str]) -> Block:
    """At least four slices of steps per trial, then four of single steps and two of resets."""
    after: dict[Any, float] = {"latency": 0.08, "returns": 0.02, "reset": 0.04}
    protocol = msgspec.structs.replace(SHORT, measured_s=0.2, after=after)
    return Block(
        trials=[Trial(cell=PACED, arm=name, seed=1, protocol=protocol) for name in names],
        programme=Programme(mixed=[0.05] * len(names), lead_in_s=[0.01] * len(names)),
    )


def paced_arms(pythons: dict[str, str], worker: Path = WORKER) -> dict[str, Arm]:
    return {
        arm_key(name, PACED): Arm(name=name, target=TARGET, python=python, worker=worker)
        for name, python in pythons.items()
    }


def executed(block: Block, arms: dict[str, Arm], on_event: Any = None) -> Executed:
    return LocalExecutor().run(block, arms, on_event or (lambda _: None))


# ---------------------------------------------------------------- five backends in one block


class Watcher:
    """Looks at all process trees again and again, and notes which of them can run.

    Between two events of slices at most one tree may run: the one whose slice it is. A look counts
    only if no event came during it.
    """

    def __init__(self) -> None:
        self.own = threading.local()
        self.workers: list[int] = []
        self.ended: list[tuple[int, int, int]] = []  # (worker, its nanoseconds, our clock)
        self.looks: list[tuple[int, set[int]]] = []  # (slices ended by then, workers that ran)
        self.measuring: set[int] = set()
        self._over = threading.Event()

    def event(self, event: Event) -> None:
        if isinstance(event, Started):
            self.own.pid = event.pid
            self.workers.append(event.pid)
        elif isinstance(event, PhaseBegan) and event.phase == "measure":
            self.measuring.add(self.own.pid)
        elif isinstance(event, WindowEnded) and event.phase == "measure":
            self.ended.append((self.own.pid, event.ns, time.perf_counter_ns()))

    def look_on(self) -> None:
        while not self._over.wait(0.003):
            if len(self.measuring) < len(self.workers) or not self.ended:
                continue
            before = len(self.ended)
            running = {pid for pid in self.workers if not is_stopped(pid)}
            if len(running) > 1:  # a thread may need a moment to stop, on a busy machine
                time.sleep(0.005)
                running = {pid for pid in running if not is_stopped(pid)}
            if len(self.ended) == before:
                self.looks.append((before, running))

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        thread = threading.Thread(target=self.look_on)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def is_stopped(pid: int) -> bool:
    """Is every process of the tree stopped, ended, or about to stop?"""
    try:
        tree = psutil.Process(pid)
        return all(_is_still(each.pid) for each in [tree, *tree.children(recursive=True)])
    except psutil.NoSuchProcess:
        return True


def _is_still(pid: int) -> bool:
    try:
        fields = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
    except OSError:
        return True
    pending = int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16)
    return fields["State"][0] in "TtZX" or bool(pending >> (signal.SIGSTOP - 1) & 1)


@slow
def test_five_different_backends_alternate_in_one_block(mark: str) -> None:
    targets = [target_of(make_cell("here", "atari", "Pong-v5", get(name), 2, {})) for name in PONG]
    arms = {
        arm_key("", each.cell): own_runtime(each, {}, setup=False, say=lambda _: None)
        for each in targets
    }
    assert [each for each in arms.values() if each.failure] == []
    turns = cycles(12, 5)
    block = Block(
        trials=[Trial(cell=each.cell, seed=1, protocol=SHORT) for each in targets],
        programme=Programme(
            turns=turns, slice_s=0.05, lead_in_s=[0.03] * len(PONG), equal_calls=False
        ),
    )
    watcher = Watcher()
    with watcher.looking():
        made = executed(block, arms, watcher.event)

    assert [each.failure for each in made.trials] == [None] * 5
    assert [each.cell.backend for each in made.trials] == list(PONG)
    assert made.turns == turns[: len(made.turns)]  # fewer, where a call is longer than a slice
    assert len(made.turns) >= 50
    for index, trial in enumerate(made.trials):
        assert len(trial.measured.ns) == made.turns.count(index)
        assert min(trial.measured.steps) > 0
        assert len({*trial.measured.calls}) == 1  # it depends only on the worker's own pace
    slices_do_not_overlap(watcher)
    all_others_are_stopped(watcher)


def slices_do_not_overlap(watcher: Watcher) -> None:
    """By our own clock, each slice fits between the end of the one before and its own end."""
    for (_, _, before), (_, ns, after) in zip(watcher.ended, watcher.ended[1:], strict=False):
        assert ns <= after - before


def all_others_are_stopped(watcher: Watcher) -> None:
    whose = [pid for pid, _, _ in watcher.ended]
    looks = [(number, ran) for number, ran in watcher.looks if number < len(whose)]
    assert len(looks) > 20
    for number, ran in looks:
        assert ran <= {whose[number]}
    assert len(set().union(*(ran for _, ran in looks))) == 5  # each was seen in a slice


# ---------------------------------------------------------------- pairs


@slow
def test_two_workers_make_equal_slices_alternately_and_nothing_is_left(
    baseline: str, mark: str
) -> None:
    turns = [0, 1, 1, 0, 1, 0, 0, 1] * 3
    block = paced_block(("a", "b"), turns, equal_calls=True, reset_turns=turns, slice_s=0.1)
    began = time.monotonic()
    made = executed(block, paced_arms({"a": baseline, "b": baseline}))
    assert time.monotonic() - began < 60
    for trial in made.trials:
        assert trial.failure is None
        assert len(trial.measured.ns) == 12
        assert sum(trial.resets.resets) > 0
        assert trial.resets.resets == [2 * calls for calls in trial.resets.calls]
    assert made.turns == turns
    ours, theirs = made.trials
    assert ours.measured.calls == theirs.measured.calls
    assert len(set(ours.measured.calls)) == 1
    # Each was stopped while the other stepped: the gap between its slices includes the other's
    # slices.
    starts, lengths = ours.measured.start_ns, ours.measured.ns
    gaps = [b - a - ns for a, b, ns in zip(starts, starts[1:], lengths, strict=False)]
    assert gaps[0] > sum(theirs.measured.ns[:2])  # 1, 1 lies between the first two


@slow
def test_a_fault_of_the_machine_ends_the_block_at_once(
    baseline: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, execute = count(), alternate.execute

    def failing(**given: Any) -> Reply:
        if next(calls) == 1:
            raise StorageError("no room")
        return execute(**given)

    monkeypatch.setattr(alternate, "execute", failing)
    block = paced_block(("a", "b"), [0, 1] * 2000)  # 200 s
    began = time.monotonic()
    with pytest.raises(StorageError):
        executed(block, paced_arms({"a": baseline, "b": baseline}))
    assert time.monotonic() - began < 60


def states(processes: list[psutil.Process]) -> set[str]:
    return {each.status() for each in processes}


@slow
def test_a_waiting_worker_is_stopped_before_its_first_slice_and_after_each(
    baseline: str, mark: str
) -> None:
    workers: list[psutil.Process] = []
    slices: list[set[str]] = []

    def look(event: Event) -> None:
        """At the end of a slice, before the next one is ordered."""
        if isinstance(event, Started):
            workers.append(psutil.Process(event.pid))
        elif isinstance(event, WindowEnded) and event.phase == "measure":
            with contextlib.suppress(AssertionError):  # an exception here would only end the worker
                wait_until(lambda: states(workers) == {psutil.STATUS_STOPPED}, "both stop", 5)
            slices.append(states(workers))

    turns = [0, 1, 1, 0] * 5
    block = paced_block(("a", "b"), turns, equal_calls=True, reset_turns=turns, slice_s=0.02)
    made = executed(block, paced_arms({"a": baseline, "b": baseline}), look)
    assert [each.failure for each in made.trials] == [None, None]
    resets = sum(len(each.resets.ns) for each in made.trials)
    assert slices == [{psutil.STATUS_STOPPED}] * (len(turns) + resets)


# A worker that measures without waiting for orders, as one of an older version would.
HASTY = """
import sys
sys.path.insert(0, {path!r})
from envbench_worker import __main__ as worker
class Hasty(worker.Worker):
    def measure(self):
        self.job["turns"] = None
        return super().measure()
worker.Worker = Hasty
worker.main(sys.argv[1], int(sys.argv[2]))
"""


@slow
def test_a_worker_that_makes_slices_without_orders_is_a_failed_trial(
    tmp_path: Path, baseline: str, mark: str
) -> None:
    hasty = tmp_path / "hasty.py"
    hasty.write_text(HASTY.format(path=str(WORKER.parents[1])))
    arms = paced_arms({"a": baseline}, worker=hasty) | paced_arms({"b": baseline, "c": baseline})
    turns = cycles(10, 3)
    before, *now = executed(paced_block(("a", "b", "c"), turns), arms).trials
    assert before.failure is not None
    assert "slices that were not ordered" in before.failure.message
    assert [each.failure for each in now] == [None, None]
    assert [len(each.measured.ns) for each in now] == [10, 10]


@slow
def test_a_worker_that_its_environment_forks_is_a_failed_trial_with_that_reason(
    tmp_path: Path, baseline: str, mark: str
) -> None:
    forks = interpreter(tmp_path / "forks", forks_at=600)
    arms = paced_arms({"a": forks, "b": baseline})
    trial, other = executed(paced_block(("a", "b"), cycles(20, 2)), arms).trials
    assert trial.failure is not None
    # Both processes read the orders. Either one makes too many slices, or gets half an order.
    whole = "slices that were not ordered" in trial.failure.message
    assert whole or "a slice is one of step, reset and lead" in trial.failure.message
    assert "environment forked the worker" in trial.failure.hint + trial.failure.message
    assert other.failure is None


@slow
def test_the_start_of_a_worker_excludes_the_time_of_the_others(tmp_path: Path, mark: str) -> None:
    starts = {"a": 0.5, "b": 1.0}
    pythons = {name: interpreter(tmp_path / name, start=own) for name, own in starts.items()}
    turns = [0, 1, 1, 0] * 5
    made = executed(paced_block(("a", "b"), turns, equal_calls=True), paced_arms(pythons))
    for trial, start_s in zip(made.trials, starts.values(), strict=True):
        assert trial.times is not None
        stopped_s = trial.stopped_ns["import_ns"] / 1e9
        assert stopped_s > 0.2  # they alternate
        took_s = trial.times.import_ns / 1e9 - stopped_s
        assert start_s < took_s < 4 * start_s + 2  # the limit leaves time for Gymnasium's import
        assert len(trial.measured.ns) == 10
        assert min(trial.measured.calls) > 1  # the warm-up of one does not disturb the other's


@slow
def test_the_untimed_steps_before_a_slice_belong_to_none(baseline: str, mark: str) -> None:
    turns = [0, 0, 1, 1, 1, 0, 1, 0] * 3
    arms = paced_arms({"a": baseline, "b": baseline})
    made = executed(paced_block(("a", "b"), turns, lead_in_s=[0.02, 0.02]), arms)
    bare = executed(paced_block(("a", "b"), turns, lead_in_s=[]), arms)
    for side, (trial, without) in enumerate(zip(made.trials, bare.trials, strict=True)):
        assert (trial.failure, without.failure) == (None, None)
        assert len(trial.measured.ns) == len(without.measured.ns) == turns.count(side)
        leads = lead_ins(trial, turns.count(side))
        assert len(set(leads)) == 1
        assert leads[0] == pytest.approx(0.02 / 0.05 * trial.measured.calls[0], abs=1.5)
        assert trial.times is not None
        assert sum(trial.measured.ns) == trial.times.measured_ns


def lead_ins(trial: TrialRecord, count: int) -> list[int]:
    """The calls of the last windows of the warm-up; they lie between slices."""
    windows = trial.warmup
    assert trial.measured.ns
    last = len(windows.ns) - count
    gaps = [
        later - earlier - ns
        for earlier, later, ns in zip(
            windows.start_ns, windows.start_ns[1:], windows.ns, strict=False
        )
    ]
    # Windows of the warm-up lie back to back; between two lead-ins there is a slice at least.
    assert all(gap == 0 for gap in gaps[: last - 1])
    assert all(gap > 0 for gap in gaps[last - 1 :])
    return windows.calls[last:]


@slow
def test_single_steps_and_resets_are_measured_after_all_slices_of_steps(
    baseline: str, mark: str
) -> None:
    arms = paced_arms({"a": baseline, "b": baseline})
    events: list[Event] = []
    made = executed(block_with_others(("a", "b")), arms, events.append)
    for side, trial in enumerate(made.trials):
        assert trial.failure is None
        assert len(trial.measured.ns) == made.turns.count(side) >= 4
        assert trial.latency is not None
        # A step of two environments takes 0.2 ms at least.
        assert min(trial.latency.values) >= 200_000
        assert sum(trial.latency.counts) > 50
        assert [ns / calls >= 200_000 for ns, calls in zip(
            trial.resets.ns, trial.resets.calls, strict=True
        )] == [True, True]  # fmt: skip
        assert trial.returns is None  # every environment is in every batch
        assert trial.times is not None
        assert trial.times.measured_ns == sum(trial.measured.ns)
    windows = [e for e in events if isinstance(e, WindowEnded) and e.phase == "measure"]
    assert len(windows) == len(made.turns) + 2 * (4 + 1 + 2)  # one order of returns for each


# ---------------------------------------------------------------- faults


class Fault:
    """Does something to one worker of a block when it reaches a moment.

    ``moment`` is "start", a phase, "warm-up window", "between slices" or "in a slice". ``strike``
    gets the process id of the worker. The controller's thread for this worker waits for ``strike``,
    except in a slice. Between slices the worker is stopped.
    """

    def __init__(
        self, python: str, moment: str, strike: Callable[[int], None], after: int = 2
    ) -> None:
        self.after = after  # so many of its slices, if the moment is one of slices
        self.python = python
        self.moment = moment
        self.strike = strike
        self.own = threading.local()
        self.struck = False
        self.slices = 0

    def event(self, event: Event) -> None:
        if isinstance(event, Started):
            self.own.pid = event.pid
            # Just after the fork it has the command of its guardian, which names the interpreter.
            while not (command := psutil.Process(event.pid).cmdline()):
                time.sleep(0.001)  # it has no command while it becomes the worker
            self.own.mine = self.python in command
        if self.struck or not self.own.mine:
            return
        if isinstance(event, WindowEnded) and event.phase == "measure":
            self.slices += 1
        if self.moment == "in a slice" and self.slices == self.after:
            self.struck = True
            threading.Thread(target=self._in_the_next_slice, args=(self.own.pid,)).start()
        elif self._now(event):
            self.struck = True
            self.strike(self.own.pid)

    def _now(self, event: Event) -> bool:
        if isinstance(event, Started):
            return self.moment == "start"
        if isinstance(event, PhaseBegan):
            return self.moment == event.phase
        if event.phase == "warmup":
            return self.moment == "warm-up window"
        return self.moment == "between slices" and self.slices == self.after

    def _in_the_next_slice(self, pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker = psutil.Process(pid)
            while worker.status() == psutil.STATUS_STOPPED:
                time.sleep(0.001)
        self.strike(pid)


def kill_worker(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def kill_guardian(pid: int) -> None:
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another interpreter with the same environment. Its path identifies the worker."""
    return interpreter(tmp_path_factory.mktemp("victim"))


def the_others_are_whole(made: Executed, turns: list[int], fails: int) -> Failure:
    """Check that the others made all their slices. Returns the failure of the failed one."""
    for side, trial in enumerate(made.trials):
        if side != fails:
            assert trial.failure is None, (side, trial.failure)
            assert len(trial.measured.ns) == turns.count(side)
            assert made.turns.count(side) == turns.count(side)
    failure = made.trials[fails].failure
    assert failure is not None
    record = make_pair(*made.trials, turns=made.turns)
    assert record.failure == failure
    assert not record.interrupted
    return failure


KILLS = [
    ("start", kill_worker, 1),
    ("import", kill_worker, 0),
    ("build", kill_guardian, 1),
    ("warm-up window", kill_worker, 1),
    ("measure", kill_worker, 2),  # stopped, before its first slice
    ("between slices", kill_worker, 0),
    ("between slices", kill_guardian, 2),
    ("in a slice", kill_worker, 1),
    ("in a slice", kill_guardian, 0),
]


@slow
@pytest.mark.parametrize(("moment", "strike", "place"), KILLS)
def test_killing_one_worker_does_not_affect_the_others(
    baseline: str, victim: str, moment: str, strike: Any, place: int, mark: str
) -> None:
    names = ["a", "b"]
    names.insert(place, "victim")
    turns = cycles(10, 3)
    fault = Fault(victim, moment, strike)
    arms = paced_arms({"a": baseline, "b": baseline, "victim": victim})
    made = executed(paced_block(names, turns), arms, fault.event)
    assert fault.struck
    failure = the_others_are_whole(made, turns, place)
    assert failure.killed


@slow
@pytest.mark.parametrize(("moment", "after"), [("between slices", 6), ("in a slice", 9)])
def test_killing_a_worker_after_its_steps_takes_nothing_from_the_others(
    baseline: str, victim: str, moment: str, after: int, mark: str
) -> None:
    fault = Fault(victim, moment, kill_worker, after)
    arms = paced_arms({"a": baseline, "victim": victim})
    made = executed(block_with_others(("a", "victim")), arms, fault.event)
    assert fault.struck
    other, failed = made.trials
    assert failed.failure is not None
    assert failed.failure.killed
    assert other.failure is None
    assert other.latency is not None
    assert len(other.resets.ns) == 2
    assert made.turns.count(0) == len(other.measured.ns) >= 4


TROUBLES = [
    ("start", "import"),
    ("build", "first_step"),
    ("warmup", "warmup"),
    ("between slices", "measure"),
]


@slow
@pytest.mark.parametrize(("moment", "phase"), TROUBLES)
@pytest.mark.parametrize(("what", "reason"), [("raise", "exception"), ("hang", "stalled")])
def test_an_environment_that_fails_or_hangs_does_not_affect_the_other_workers(
    tmp_path: Path,
    baseline: str,
    moment: str,
    phase: str,
    what: str,
    reason: str,
    mark: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = Limits(import_s=4, first_step_s=1, warmup_s=2, measure_s=2, grace_s=0.3)
    monkeypatch.setattr(alternate, "DEFAULT_LIMITS", short)
    victim = interpreter(tmp_path / "victim")
    fault = Fault(victim, moment, lambda _: trouble(victim).write_text(what))
    turns = cycles(10, 3)
    arms = paced_arms({"a": baseline, "victim": victim, "b": baseline})
    made = executed(paced_block(("a", "victim", "b"), turns), arms, fault.event)
    failure = the_others_are_whole(made, turns, 1)
    assert (failure.reason, failure.phase) == (reason, phase)


@slow
@pytest.mark.parametrize("moment", ["warm-up window", "between slices", "in a slice"])
def test_killing_a_child_of_one_worker_does_not_affect_the_others(
    baseline: str, victim: str, moment: str, mark: str
) -> None:
    """The worker itself started it: an environment's process of ``subprocess``."""
    many = get("subprocess")
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", many, 2, {})
    turns = cycles(10, 3)
    block = paced_block(("a", "b"), turns)
    trial = Trial(cell=cell, arm="victim", seed=1, protocol=SHORT)
    block = Block(trials=[*block.trials, trial], programme=block.programme)
    arms = paced_arms({"a": baseline, "b": baseline})
    arms[arm_key("victim", cell)] = Arm(name="victim", target=target_of(cell), python=victim)

    def kill_child(pid: int) -> None:
        psutil.Process(pid).children()[0].kill()

    fault = Fault(victim, moment, kill_child)
    made = executed(block, arms, fault.event)
    assert fault.struck, made.trials[2].failure
    the_others_are_whole(made, turns, 2)


@slow
def test_the_other_worker_makes_its_slices_if_the_first_worker_dies(
    baseline: str, victim: str, mark: str
) -> None:
    for moment in ("start", "between slices"):
        turns = [0, 1, 1, 0] * 5
        fault = Fault(victim, moment, kill_worker)
        block = paced_block(("victim", "b"), turns, equal_calls=True, reset_turns=turns)
        made = executed(block, paced_arms({"victim": victim, "b": baseline}), fault.event)
        the_others_are_whole(made, turns, 0)
        assert made.trials[1].resets.resets


@slow
def test_every_worker_of_a_block_may_fail(tmp_path: Path, mark: str) -> None:
    dies = interpreter(tmp_path / "dies", dies_at=5)
    made = executed(paced_block(("a", "b"), cycles(10, 2)), paced_arms({"a": dies, "b": dies}))
    assert [each.failure is not None for each in made.trials] == [True, True]
    assert made.turns == []


@slow
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_others_make_their_slices_if_one_arm_cannot_run(
    baseline: str, place: int, mark: str
) -> None:
    missing = Failure(reason="setup", message="it is not here", phase="start")
    arms = paced_arms({"a": baseline, "b": baseline})
    arms[arm_key("none", PACED)] = Arm(name="none", target=TARGET, failure=missing)
    names = ["a", "b"]
    names.insert(place, "none")
    turns = cycles(10, 3)
    made = executed(paced_block(names, turns), arms)
    assert the_others_are_whole(made, turns, place) == missing
    assert made.turns == [side for side in turns if side != place]
    assert [each.arm for each in made.trials] == names


def test_a_block_is_recorded_even_if_no_arm_can_run() -> None:
    missing = Failure(reason="setup", message="it is not here", phase="start")
    arms: dict[str, Arm] = {
        arm_key(name, PACED): Arm(name=name, target=TARGET, failure=missing) for name in "ab"
    }
    made = executed(paced_block(("a", "b"), [0, 1, 1, 0]), arms)
    assert [each.failure for each in made.trials] == [missing, missing]
    assert made.turns == []


# ---------------------------------------------------------------- interrupts


class OneBlock:
    """An experiment of one block."""

    name = "check"
    block_seconds = 1.0

    def __init__(self, block: Block) -> None:
        self.block = block

    def next(self, plan: Plan, done: Sequence[BlockRecord]) -> Block | None:
        return None if done else self.block

    def left(self, plan: Plan, done: Sequence[BlockRecord]) -> int:
        return 0 if done else 1

    def conclude(self, plan: Plan, done: Sequence[BlockRecord], facts: Any) -> None: ...


class Silent:
    """A listener that shows nothing and passes events to the fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def say(self, *_: object) -> None: ...
    def began(self, *_: object) -> None: ...
    def block_began(self, *_: object) -> None: ...
    def trying_again(self, *_: object) -> None: ...
    def block_ended(self, *_: object) -> None: ...
    def close(self) -> None: ...
    def event(self, event: Event) -> None:
        self.fault.event(event)


@slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("moment", "after"),
    [
        *((moment, 2) for moment in ("start", "import", "first_step", "warm-up window", "measure")),
        *((moment, after) for moment in ("between slices", "in a slice") for after in (2, 6)),
    ],
)
def test_an_interrupted_block_is_recorded_as_interrupted_and_leaves_no_process(
    tmp_path: Path, baseline: str, victim: str, moment: str, after: int, number: int, mark: str
) -> None:
    """``after`` six slices, it measures other quantities than steps."""

    def interrupt(_: int) -> None:
        os.kill(os.getpid(), number)

    fault = Fault(victim, moment, interrupt, after)
    names = ("a", "victim")
    block = block_with_others(names) if after > 2 else paced_block(names, cycles(10, 2))
    plan = pairs_plan()
    journal = Journal.create(tmp_path, "m", plan.started_utc)
    journal.append(plan)
    campaign = Campaign(
        journal,
        plan,
        OneBlock(block),
        paced_arms({"a": baseline, "victim": victim}),
        executor=LocalExecutor(),
        listener=Silent(fault),
    )
    with pytest.raises(Interrupted) as stopped, raise_on_signals():
        campaign.carry_out()
    assert stopped.value.exit_code == 128 + number
    assert fault.struck
    assert run_faulty_worker.marked(mark) == []
    every = [record for _, record in store.read(journal.path).records]
    (record,) = [each for each in every if isinstance(each, BlockRecord)]
    assert record.interrupted
    assert [each.arm for each in record.trials] == ["a", "victim"]
    assert campaign.done == []  # it does not count: the same command measures it again
