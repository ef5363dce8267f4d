"""Two workers that step in turn: what noise there is, both meet it.

``step_in_turn`` has two workers start together (``starting``), lets each warm up alone, and then
has them make slices of equally many vector steps by turns, and in the end resets. The one whose
turn it is not is stopped with every process it has (SIGSTOP), in the midst of a start-up, but
between slices of steps only, so that neither takes time from the other: not by threads that run
ahead, not by processes that spin.

Each worker is executed by ``envbench.process`` in a thread of its own, which sleeps while it is
another's turn. Like ``execute`` this never raises for a worker's trouble, and leaves nothing
behind when it returns or when ``Interrupted`` passes through it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

from envbench.check.procedure import RESET_SLICES
from envbench.check.starting import POLL_S, Start, start, stood_still
from envbench.model import Failure, Job, Side
from envbench.preflight import runtime_fact
from envbench.process import execute as runner
from envbench.process.execute import DEFAULT_LIMITS, WORKER, Reply

STARTING = ("start", "import", "build", "first_step")
LIMITS = replace(  # of two that start by turns each is silent for twice as long
    DEFAULT_LIMITS, **{f"{phase}_s": 2 * DEFAULT_LIMITS.of(phase) for phase in STARTING}
)
LATEST = 5  # warm-up windows whose median says how many calls fill a slice
FEWEST_SLICES = 20  # of both arms, where one is longer than it was to be
FEWEST_RESET_SLICES = 8
MOST_RESETS = 10_000  # a slice
_TAKES_NO_TURNS = Failure(
    reason="invalid-figure",
    phase="measure",
    message="its worker makes slices that nobody asked for",
    hint="Is it of another version of envbench? Name a newer one.",
)


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One side: the interpreter, the variables it sees, and the worker's code."""

    name: str
    python: str
    environment: Mapping[str, str]
    worker: Path = WORKER


def step_in_turn(
    jobs: tuple[Job, Job],
    arms: tuple[Arm, Arm],
    turns: Sequence[int],
    slice_s: float,
    *,
    start_at_once: bool = False,
) -> tuple[Reply, Reply]:
    """Each arm's reply to its job. ``turns``: whose slice it is, 0 or 1, in order; the arm that
    has the first one starts first. A slice lasts about ``slice_s``: as many calls as arm 0 makes
    in it, for both where both do the same, else as many as each makes. Where a single call takes
    longer than that there are fewer slices, by the warm-up, and at least ``FEWEST_SLICES``.
    ``start_at_once``: neither is stopped until it comes to its warm-up."""
    with (
        tempfile.TemporaryDirectory(prefix="envbench-turns-") as folder,
        ThreadPoolExecutor(2) as pool,
    ):
        table = _Table(turns, slice_s * 1e9, alike=jobs[0] == jobs[1])
        beginnings = [
            Start(side, table.changed, table.gone, at_once=start_at_once) for side in (0, 1)
        ]
        players = [
            _Player(table, beginnings[side], jobs[side], arms[side], Path(folder))
            for side in (0, 1)
        ]
        try:
            in_order = (players[turns[0]], players[1 - turns[0]])
            for player in in_order:
                player.start(pool)
            start(*(player.beginning for player in in_order))
            for player in in_order:
                player.beginning.warm_up()
                player.wait_until_ready()
            for player in players:
                player.wait()
        except BaseException:
            table.leave(-1)
            for player in players:
                player.beginning.abandon()
            for player in players:
                player.kill()
            raise
        finally:
            for player in players:
                player.close()
    return players[0].outcome(), players[1].outcome()


def side_of(reply: Reply) -> Side:
    """What a record keeps of one process of a pair."""
    return Side(
        runtime=runtime_fact(reply).hash if reply.python else "",
        times=reply.times,
        stood_still_ns=reply.stood_still_ns,
        measured=reply.measured,
        resets=reply.resets,
        peak_memory_bytes=reply.peak_memory_bytes,
        load=reply.load,
        failure=reply.failure,
    )


class _NotAsked(Exception):
    """The worker makes slices that nobody asked for."""


class _Table:
    """Whose turn it is, to do what and how often. Shared by the threads."""

    def __init__(self, turns: Sequence[int], slice_ns: float, *, alike: bool) -> None:
        self.steps = [("step", side) for side in turns]
        self.reset_slices = [("reset", side) for side in turns[:RESET_SLICES]] if alike else []
        self.slice_ns = slice_ns
        self.alike = alike
        self.next = 0
        self.calls = [0, 0]  # of a side's slice
        self.resets = 1
        self.ready: set[int] = set()
        self.gone: set[int] = set()
        self.changed = threading.Condition()

    @property
    def turns(self) -> list[tuple[str, int]]:
        return self.steps + self.reset_slices

    def await_turn(self, side: int) -> bytes:
        """The order of the slice that is now this side's; an empty line: there is none left."""
        with self.changed:
            self.changed.wait_for(lambda: self._may_go(side))
            if self._over():
                return b"\n"
            what, _ = self.turns[self.next]
            amount = self.calls[side] if what == "step" else self.resets
            return f"{what} {amount}\n".encode()

    def _may_go(self, side: int) -> bool:
        return self._over() or (len(self.ready) == 2 and self.turns[self.next][1] == side)

    @property
    def finished(self) -> bool:
        """Were all slices made?"""
        return self.next >= len(self.turns)

    def _over(self) -> bool:
        return bool(self.gone) or self.finished

    def done(self, event: Mapping[str, Any]) -> None:
        """This turn's slice was made."""
        with self.changed:
            what, side = ("", 0) if self.finished else self.turns[self.next]
            if not what or (what == "step" and event["calls"] != self.calls[side]):
                raise _NotAsked
            self.next += 1
            if what == "reset" and self.next == len(self.steps) + 1:
                self._measure_out_resets(event)
            self.changed.notify_all()

    def _measure_out_resets(self, event: Mapping[str, Any]) -> None:
        """How long the first reset took says how many fill a slice, and how many slices."""
        if not event["resets"]:  # not to be had, from either
            self.reset_slices = self.reset_slices[:1]
            return
        self.resets = min(max(1, round(self.slice_ns / max(1, event["ns"]))), MOST_RESETS)
        count = self._fitting(self.reset_slices, event["ns"] * self.resets, FEWEST_RESET_SLICES)
        self.reset_slices = self.reset_slices[:count]

    def sit_down(self, side: int, ns_a_call: float) -> None:
        """This side is warm, and says how many calls its slices have; arm 0 says it for both
        where they do the same. How long they last then says how many slices there are."""
        with self.changed:
            fitting = max(1, round(self.slice_ns / ns_a_call))
            if not self.alike:
                self.calls[side] = fitting
            elif side == 0:
                self.calls = [fitting, fitting]
            if side == 0 or not self.alike:
                count = self._fitting(self.steps, ns_a_call * fitting, FEWEST_SLICES)
                self.steps = self.steps[:count]
            self.ready.add(side)
            self.changed.notify_all()

    def _fitting(self, slices: Sequence[object], ns: float, fewest: int) -> int:
        """So many of these slices, in whole blocks, take the time that all were meant to take."""
        count = int(len(slices) * self.slice_ns / max(self.slice_ns, ns))
        return max(count // 4 * 4, fewest)

    def has_seen(self, side: int, timeout_s: float) -> bool:
        """Does it sit here, or has it gone? Waits for it so long."""
        with self.changed:
            return self.changed.wait_for(lambda: side in self.ready | self.gone, timeout_s)

    def leave(self, side: int) -> None:
        """It has ended, well or not: then it is over for the other, too."""
        with self.changed:
            self.gone.add(side)
            self.changed.notify_all()


class _Player:
    """One worker at the table."""

    def __init__(self, table: _Table, beginning: Start, job: Job, arm: Arm, folder: Path) -> None:
        self.table = table
        self.beginning = beginning
        self.side = side = beginning.side
        self.arm = arm
        pipe = folder / f"turns-{side}"
        os.mkfifo(pipe)
        self.job = replace(job, turns=str(pipe), run_id=f"{job.run_id}-{side}")
        self._orders = os.open(pipe, os.O_RDWR)  # ours to read, too: else the open would wait
        self._future: Future[Reply] | None = None
        self._dismissed = False  # sent home before all slices were made
        self._warm: list[float] = []  # nanoseconds a call of the warm-up's windows

    # ------------------------------------------------------------ the main thread's

    def start(self, pool: ThreadPoolExecutor) -> None:
        self._future = pool.submit(self._execute)

    def wait_until_ready(self) -> None:
        """Until it is warm and stopped, or has ended."""
        while not self.table.has_seen(self.side, POLL_S):
            pass

    def wait(self) -> None:
        while not self._look():
            pass

    def _look(self) -> bool:
        """Has it ended? A short wait at a time: a signal is handled in between."""
        return self._future is None or bool(wait([self._future], POLL_S).done)

    def kill(self) -> None:
        """End the worker; its guardian ends what it leaves."""
        while not self._look():
            if self.beginning.tree.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.beginning.tree.pid, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._orders)

    def outcome(self) -> Reply:
        """Its reply. One that was sent home because the other failed has not failed itself."""
        assert self._future is not None
        try:
            reply = self._future.result()
        except _NotAsked:
            return Reply(ok=False, failure=_TAKES_NO_TURNS)
        if reply.times is not None:
            still = stood_still(self.beginning.stops, reply.began_ns, reply.times)
            reply = replace(reply, stood_still_ns=still)
        failure = reply.failure
        if self._dismissed and failure is not None and failure.reason == "invalid-figure":
            return replace(reply, ok=True, failure=None)
        return reply

    # ------------------------------------------------------------ its own thread's

    def _execute(self) -> Reply:
        try:
            return runner.execute(
                self.job,
                python=self.arm.python,
                environment=self.arm.environment,
                limits=LIMITS,
                on_event=self._on_event,
                worker=self.arm.worker,
            )
        finally:
            self.table.leave(self.side)

    def _on_event(self, event: dict[str, Any]) -> None:
        kind, phase = event["event"], event.get("phase")
        if kind == "started":
            self.beginning.began(event["pid"])
        elif kind == "phase" and phase == "warmup":
            self.beginning.arrived()
            os.write(self._orders, b"warmup 0\n")
        elif kind == "window" and phase == "warmup":
            self._warm.append(event["ns"] / event["calls"])
        elif phase == "measure":
            self._between_slices(event)

    def _between_slices(self, event: dict[str, Any]) -> None:
        """Stopped until the next slice is ours; then order it."""
        tree = self.beginning.tree
        if event["event"] == "phase":
            if not self._warm:
                raise _NotAsked
            tree.stop()
            self.table.sit_down(self.side, median(self._warm[-LATEST:]))
        else:
            tree.stop()
            self.table.done(event)
        order = self.table.await_turn(self.side)
        self._dismissed = not order.strip() and not self.table.finished
        tree.go_on()
        os.write(self._orders, order)
