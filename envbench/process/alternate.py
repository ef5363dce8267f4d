"""Workers of one block: they step alternately, so that all of them see the same noise.

``alternate`` starts the workers of a block together (``starting``), lets each warm up alone, and
then orders their slices one by one, as the programme says (``slice_order``). Every worker but the
active one is stopped (SIGSTOP) with every process it has: during start-up, and between slices of
steps. So none takes time from another, neither by threads that run ahead nor by processes that
spin.

A programme without turns runs all workers at once, each on its own: nothing is timed there.

Each worker is executed by ``envbench.process.execute`` in a thread of its own, which sleeps while
another worker is active. A worker that dies, hangs or makes slices that were not ordered is a
failed reply, and the others finish their slices. Nothing is left behind when ``alternate`` returns
or when ``Interrupted`` passes through it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from statistics import median

import msgspec
from msgspec.structs import asdict, replace

from envbench.model import Failure, Job, Programme
from envbench.process.events import Event, OnEvent, PhaseBegan, Started, WindowEnded
from envbench.process.execute import DEFAULT_LIMITS, WORKER, execute
from envbench.process.job_folder import job_folder
from envbench.process.reply import Reply
from envbench.process.slice_order import NotOrdered, SliceOrder
from envbench.process.starting import POLL_S, Start, start, stopped_ns
from envbench.process.supervisor import Limits

STARTING = ("start", "import", "build", "first_step")
LATEST = 5  # warm-up windows whose median decides how many calls fill a slice
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
    """Each worker's reply, and the worker of each slice of steps, in the order made."""

    replies: list[Reply]
    turns: list[int]


def alternate(
    launches: Sequence[Launch], programme: Programme, on_event: OnEvent = lambda _: None
) -> Alternated:
    """Carry out the programme.

    The worker of the first slice starts first. A slice lasts about ``programme.slice_s``. If a
    single vector step takes longer, there are fewer slices, at least ``FEWEST_SLICES`` per worker.
    ``on_event`` is called from the workers' threads.
    """
    count = len(launches)
    with job_folder() as folder, ThreadPoolExecutor(count) as pool:
        order = SliceOrder(programme, count)
        workers = [
            _Worker(launch, side, order, folder, on_event) for side, launch in enumerate(launches)
        ]
        by_start = [workers[side] for side in dict.fromkeys([*programme.turns, *range(count)])]
        try:
            for worker in by_start:
                worker.begin(pool)
            start([worker.start for worker in by_start])
            for worker in by_start:
                worker.start.warm_up()
                order.wait_until_ready(worker.side)
            for worker in workers:
                worker.wait()
        except BaseException:
            order.give_up()
            for worker in workers:
                worker.start.warm_up()
            for worker in workers:
                worker.kill()
            raise
        finally:
            for worker in workers:
                worker.close()
    return Alternated(replies=[worker.reply() for worker in workers], turns=order.made)


class _Worker:
    """One worker of the block, and the thread that drives it."""

    def __init__(
        self, launch: Launch, side: int, order: SliceOrder, folder: Path, listener: OnEvent
    ) -> None:
        self.order = order
        self.side = side
        self.limits = _limits(order.count)
        self.listener = listener
        self.start = Start(order.changed, at_once=order.programme.start == "at once")
        pipe = folder / f"turns-{side}"
        os.mkfifo(pipe)
        self.takes_orders = bool(order.steps)  # without turns, each works on its own
        job = replace(launch.job, turns=str(pipe)) if self.takes_orders else launch.job
        self.launch = replace(launch, job=job)
        self._orders = os.open(pipe, os.O_RDWR)  # reading, too, so that it opens without a reader
        self._future: Future[Reply] | None = None
        self._warm: list[float] = []  # nanoseconds per call of the warm-up's windows

    # ------------------------------------------------------------ called by the main thread

    def begin(self, pool: ThreadPoolExecutor) -> None:
        self._future = pool.submit(self._execute)

    def wait(self) -> None:
        while not self._has_ended():
            pass

    def _has_ended(self) -> bool:
        """Waits for a short time only, so that a signal is handled in between."""
        return self._future is None or bool(wait([self._future], POLL_S).done)

    def kill(self) -> None:
        """End the worker; its guardian ends the processes that it leaves."""
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
        except NotOrdered:
            return Reply(ok=False, failure=_NOT_ORDERED)
        if reply.times is None:
            return reply
        stopped = stopped_ns(self.start.stops, reply.began_ns, reply.times)
        return replace(reply, stopped_ns=stopped)

    # ------------------------------------------------------------ called by its own thread

    def _execute(self) -> Reply:
        try:
            return execute(**asdict(self.launch), limits=self.limits, on_event=self._on_event)
        finally:
            self.start.ended()
            self.order.worker_ended(self.side)

    def _on_event(self, event: Event) -> None:
        if self.takes_orders and isinstance(event, WindowEnded) and event.phase == "measure":
            self.start.tree.stop()  # before anything else: its threads may run ahead
            self.listener(event)
            self.order.slice_made(self.side, event)
            self._next_slice()
            return
        self.listener(event)
        if isinstance(event, Started):
            self.start.began(event.pid, event.guardian)
        elif not self.takes_orders:
            return
        elif isinstance(event, PhaseBegan) and event.phase == "warmup":
            self.start.arrived()
            os.write(self._orders, b"warmup 0\n")
        elif isinstance(event, PhaseBegan) and event.phase == "measure":
            if not self._warm:
                raise NotOrdered
            self.start.tree.stop()
            self.order.worker_ready(self.side, median(self._warm[-LATEST:]))
            self._next_slice()
        elif isinstance(event, WindowEnded) and event.ns and event.calls:
            self._warm.append(event.ns / event.calls)

    def _next_slice(self) -> None:
        """Stay stopped until the next slice is this worker's; then order it."""
        order = self.order.await_turn(self.side)
        self.start.tree.resume()
        os.write(self._orders, order)


def _limits(count: int) -> Limits:
    """While workers start alternately, each may be silent for ``count`` times as long."""
    longer = {f"{phase}_s": count * DEFAULT_LIMITS.of(phase) for phase in STARTING}
    return replace(DEFAULT_LIMITS, **longer)
