"""Workers of one block: they step alternately, so that all of them see the same noise.

``alternate`` starts the workers of a block together (``starting``), lets each warm up alone, and
then orders their slices one by one, as the programme says. Every worker but the active one is
stopped (SIGSTOP) with every process it has: during start-up, and between slices of steps. So none
takes time from another, neither by threads that run ahead nor by processes that spin.

A programme without turns has them all run at once, each on its own: nothing is timed there.

Each worker is executed by ``envbench.process.execute`` in a thread of its own, which sleeps while
another worker is active. Like ``execute`` this never raises for a worker's trouble: one that dies,
hangs or makes slices that were not ordered is a failed reply, and the others finish their slices.
Nothing is left behind when it returns or when ``Interrupted`` passes through it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from statistics import fmean, median

import msgspec
from msgspec.structs import replace

from envbench.model import Failure, Job, Programme
from envbench.process.events import Event, OnEvent, PhaseBegan, Started, WindowEnded
from envbench.process.execute import DEFAULT_LIMITS, WORKER, execute
from envbench.process.job_folder import job_folder
from envbench.process.reply import Reply
from envbench.process.starting import POLL_S, Start, start, stopped_ns
from envbench.process.supervisor import Limits

STARTING = ("start", "import", "build", "first_step")
LATEST = 5  # warm-up windows whose median says how many calls fill a slice
FEWEST_SLICES = 10  # per worker, where one slice is longer than it was meant to be
FEWEST_RESET_SLICES = 4
MOST_RESETS = 10_000  # per slice
_NOT_ORDERED = Failure(
    reason="invalid-figure",
    phase="measure",
    message="its worker makes slices that were not ordered",
    hint="It may be of another version of envbench. Name a newer one.",
)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: its job, its interpreter, the variables it sees, and the worker's code."""

    job: Job
    python: str
    environment: Mapping[str, str]
    worker: Path = WORKER


class Alternated(msgspec.Struct, frozen=True, kw_only=True):
    """Each worker's reply, and whose slice of steps each was, in the order in which they were
    made."""

    replies: list[Reply]
    turns: list[int]


def alternate(
    launches: Sequence[Launch], programme: Programme, on_event: OnEvent = lambda _: None
) -> Alternated:
    """Carry out the programme.

    The worker that has the first slice starts first. A slice lasts about ``programme.slice_s``.
    Where a single vector step takes longer than that there are fewer slices, at least
    ``FEWEST_SLICES`` per worker. ``on_event`` is called from the workers' threads.
    """
    with (
        job_folder() as folder,
        ThreadPoolExecutor(len(launches)) as pool,
    ):
        table = _Table(programme, len(launches))
        players = [
            _Player(table, side, launch, folder, len(launches), on_event)
            for side, launch in enumerate(launches)
        ]
        order = [players[side] for side in dict.fromkeys([*programme.turns, *range(len(players))])]
        try:
            for player in order:
                player.begin(pool)
            start([player.start for player in order])
            for player in order:
                player.start.warm_up()
                player.wait_until_ready()
            for player in players:
                player.wait()
        except BaseException:
            table.give_up()
            for player in players:
                player.start.warm_up()
            for player in players:
                player.kill()
            raise
        finally:
            for player in players:
                player.close()
    return Alternated(replies=[player.reply() for player in players], turns=table.made)


class _NotOrdered(Exception):
    """The worker makes slices that were not ordered."""


class _Table:
    """Whose slice comes next, of what kind and how long. Shared by the threads."""

    def __init__(self, programme: Programme, count: int) -> None:
        self.steps = [("step", side) for side in programme.turns]
        self.reset_slices = [("reset", side) for side in programme.reset_turns]
        self.slice_ns = programme.slice_s * 1e9
        self.lead_in_ns = programme.lead_in_s * 1e9
        self.equal_calls = programme.equal_calls
        self.at_once = programme.start == "at once"
        self.count = count
        self.next = 0
        self.resets = 0  # per slice; 0: not measured out yet
        self.made: list[int] = []
        self.ns_per_call: dict[int, float] = {}  # of those that are ready
        self.gone: set[int] = set()
        self.given_up = self.settled = False
        self.changed = threading.Condition()

    @property
    def slices(self) -> list[tuple[str, int]]:
        return self.steps + self.reset_slices

    # ------------------------------------------------------------ getting ready

    def sit_down(self, side: int, ns_per_call: float) -> None:
        """This worker is warm. When all are, the number of slices is settled."""
        with self.changed:
            self.ns_per_call[side] = ns_per_call
            self._settle()

    def leave(self, side: int) -> None:
        """This worker has ended, well or not. Its slices are skipped."""
        with self.changed:
            self.gone.add(side)
            self._settle()

    def give_up(self) -> None:
        """No more slices, for anyone."""
        with self.changed:
            self.given_up = True
            self.changed.notify_all()

    @property
    def all_ready(self) -> bool:
        return len(self.ns_per_call.keys() | self.gone) == self.count

    def _settle(self) -> None:
        """Once all speeds are known, cut the programme to the time that it was meant to take."""
        if self.all_ready and not self.settled:
            self.settled = True
            if self.ns_per_call:
                # Not by calls: that a slice has a whole number of them shortens no programme.
                slices = [max(self.slice_ns, self.pace(side)) for side in self.ns_per_call]
                self.steps = self.steps[: self._fitting(self.steps, fmean(slices), FEWEST_SLICES)]
        self._skip()
        self.changed.notify_all()

    def pace(self, side: int) -> float:
        """Nanoseconds per vector step; of the pacemaker, where all make equally many."""
        if self.equal_calls:
            side = min(self.ns_per_call)
        return self.ns_per_call[side]

    def calls(self, side: int) -> int:
        """Vector steps of this worker's slices."""
        return max(1, round(self.slice_ns / self.pace(side)))

    def _lead_in(self, side: int) -> int:
        return math.ceil(self.lead_in_ns / self.ns_per_call[side])

    def _fitting(self, slices: Sequence[object], ns: float, fewest: int) -> int:
        """How many slices of ``ns`` take the time that all were meant to take; all of them where
        they are short enough. Each worker keeps equally many, in whole groups of two per worker."""
        count = int(len(slices) * self.slice_ns / max(self.slice_ns, ns))
        group = 2 * self.count
        return max(count // group * group, fewest * self.count)

    # ------------------------------------------------------------ slice by slice

    def await_turn(self, side: int) -> bytes:
        """The order of this worker's next slice; an empty line: none is left."""
        with self.changed:
            self.changed.wait_for(lambda: self._may_go(side))
            if self._over:
                return b"\n"
            what, _ = self.slices[self.next]
            if what == "reset":
                return f"reset {max(1, self.resets)}\n".encode()
            lead = self._lead_in(side) if self.made[-1:] != [side] else 0
            led = f"lead {lead}\n" if lead else ""
            return f"{led}step {self.calls(side)}\n".encode()

    def _may_go(self, side: int) -> bool:
        return self._over or (self.all_ready and self.slices[self.next][1] == side)

    @property
    def _over(self) -> bool:
        return self.given_up or self.next >= len(self.slices)

    def done(self, side: int, window: WindowEnded) -> None:
        """The slice that was ordered is made. ``_NotOrdered`` for any other."""
        with self.changed:
            what, whose = ("", 0) if self._over else self.slices[self.next]
            if whose != side or not what or (what == "step" and window.calls != self.calls(side)):
                raise _NotOrdered
            if what == "step":
                self.made.append(side)
            elif not self.resets:
                self._measure_out_resets(window)
            self.next += 1
            self._skip()
            self.changed.notify_all()

    def _skip(self) -> None:
        """Pass over the slices of workers that have ended."""
        while not self._over and self.slices[self.next][1] in self.gone:
            self.next += 1

    def _measure_out_resets(self, window: WindowEnded) -> None:
        """How long the first reset took says how many fill a slice, and how many slices fit."""
        if not window.resets:  # the library has no reset for all environments
            self.reset_slices = self.reset_slices[:1]
            return
        self.resets = min(max(1, round(self.slice_ns / max(1, window.ns))), MOST_RESETS)
        count = self._fitting(self.reset_slices, window.ns, FEWEST_RESET_SLICES)
        self.reset_slices = self.reset_slices[:count]

    def has_seen(self, side: int, timeout_s: float) -> bool:
        """Wait that long for this worker to be ready, or to end."""
        with self.changed:
            return self.changed.wait_for(
                lambda: side in self.ns_per_call or side in self.gone, timeout_s
            )


class _Player:
    """One worker at the table."""

    def __init__(
        self,
        table: _Table,
        side: int,
        launch: Launch,
        folder: Path,
        count: int,
        on_event: OnEvent,
    ) -> None:
        self.table = table
        self.side = side
        self.launch = launch
        self.limits = _limits(count)
        self.listener = on_event
        self.start = Start(table.changed, at_once=table.at_once)
        pipe = folder / f"turns-{side}"
        os.mkfifo(pipe)
        self.ordered = bool(table.steps)  # without turns, each works on its own
        self.job = replace(launch.job, turns=str(pipe)) if self.ordered else launch.job
        self._orders = os.open(pipe, os.O_RDWR)  # ours to read, too: else the open would wait
        self._future: Future[Reply] | None = None
        self._warm: list[float] = []  # nanoseconds per call of the warm-up's windows

    # ------------------------------------------------------------ called by the main thread

    def begin(self, pool: ThreadPoolExecutor) -> None:
        self._future = pool.submit(self._execute)

    def wait_until_ready(self) -> None:
        """Until it is warm and stopped, or has ended."""
        while not self.table.has_seen(self.side, POLL_S):
            pass

    def wait(self) -> None:
        while not self._has_ended():
            pass

    def _has_ended(self) -> bool:
        """Waits for a short time only, so that a signal is handled in between."""
        return self._future is None or bool(wait([self._future], POLL_S).done)

    def kill(self) -> None:
        """End the worker; its guardian ends what it leaves."""
        while not self._has_ended():
            if self.start.tree.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.start.tree.pid, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._orders)

    def reply(self) -> Reply:
        assert self._future is not None
        try:
            reply = self._future.result()
        except _NotOrdered:
            return Reply(ok=False, failure=_NOT_ORDERED)
        if reply.times is None:
            return reply
        stopped = stopped_ns(self.start.stops, reply.began_ns, reply.times)
        return replace(reply, stopped_ns=stopped)

    # ------------------------------------------------------------ called by its own thread

    def _execute(self) -> Reply:
        try:
            return execute(
                self.job,
                python=self.launch.python,
                environment=self.launch.environment,
                limits=self.limits,
                on_event=self._on_event,
                worker=self.launch.worker,
            )
        finally:
            self.start.ended()
            self.table.leave(self.side)

    def _on_event(self, event: Event) -> None:
        if not self.ordered:
            self.listener(event)
            if isinstance(event, Started):
                self.start.began(event.pid, event.guardian)
            return
        if isinstance(event, WindowEnded) and event.phase == "measure":
            self.start.tree.stop()  # first of all: its threads may run ahead
            self.listener(event)
            self.table.done(self.side, event)
            self._go_on()
            return
        self.listener(event)
        if isinstance(event, Started):
            self.start.began(event.pid, event.guardian)
        elif isinstance(event, PhaseBegan) and event.phase == "warmup":
            self.start.arrived()
            os.write(self._orders, b"warmup 0\n")
        elif isinstance(event, PhaseBegan) and event.phase == "measure":
            if not self._warm:
                raise _NotOrdered
            self.start.tree.stop()
            self.table.sit_down(self.side, median(self._warm[-LATEST:]))
            self._go_on()
        elif isinstance(event, WindowEnded):
            self._warm_window(event)

    def _warm_window(self, window: WindowEnded) -> None:
        if window.ns and window.calls:
            self._warm.append(window.ns / window.calls)

    def _go_on(self) -> None:
        """Stay stopped until the next slice is this worker's; then order it."""
        order = self.table.await_turn(self.side)
        self.start.tree.resume()
        os.write(self._orders, order)


def _limits(count: int) -> Limits:
    """While workers start alternately, each is silent for as many times as long."""
    longer = {f"{phase}_s": count * DEFAULT_LIMITS.of(phase) for phase in STARTING}
    return replace(DEFAULT_LIMITS, **longer)
