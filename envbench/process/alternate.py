"""Workers of one block: they step alternately, so that all of them see the same noise.

``alternate`` starts the workers of a block together (``starting``), lets each warm up alone, and
then orders their slices one by one (``slice_order``). While one worker runs, the others and all
their processes are stopped (SIGSTOP), so they cannot take time from it. A programme without
``turns`` and ``mixed`` runs all workers at once; then nothing is timed.

Each worker is executed by ``envbench.process.one_job`` in its own thread. A worker that dies, hangs
or makes slices that were not ordered gives a failed reply, and the others finish their slices. No
process is left when ``alternate`` returns or when ``Interrupted`` passes through it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from statistics import median

import msgspec
from msgspec.structs import asdict, replace

from envbench.model import Failure, Job, Programme
from envbench.process.killing.leftovers import job_folder
from envbench.process.one_job import DEFAULT_LIMITS, WORKER, execute
from envbench.process.reply import Event, OnEvent, PhaseBegan, Reply, Started, WindowEnded
from envbench.process.slice_order import NotOrdered, SliceOrder
from envbench.process.starting import POLL_S, Start, start, stopped_ns
from envbench.process.supervisor import Limits

STARTING = ("start", "import", "build", "first_step")
SIGNALS_S = 2.0  # where a signal does not end the wait (not Linux), it is handled after this long
LATEST = 5  # warm-up windows whose median decides how many calls fill a slice
_NOT_ORDERED = Failure(
    reason="invalid-figure",
    phase="measure",
    message="its worker makes slices that were not ordered",
    hint="It is of an older envbench (name a newer one), or the environment forked the worker.",
)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Says how to start a worker: its job, interpreter, variables and code."""

    job: Job
    python: str
    environment: Mapping[str, str]
    worker: Path = WORKER


def alternate(
    launches: Sequence[Launch],
    programme: Programme,
    on_event: OnEvent = lambda _: None,
    order_of: Callable[[Programme, Sequence[Job]], SliceOrder] = SliceOrder,
) -> tuple[list[Reply], list[int]]:
    """Run the workers. Return each one's reply, and the worker of each slice of steps, in order.

    The worker of the first slice starts first. A slice lasts about ``programme.slice_s``. If a
    single vector step takes longer, there are fewer slices, at least ``FEWEST_SLICES`` per worker.
    ``on_event`` is called from the workers' threads. ``order_of``: a study may order slices of its
    own kind.
    """
    count = len(launches)
    order = order_of(programme, [each.job for each in launches])
    threads: dict[Future[Reply], _Worker] = {}
    workers: list[_Worker] = []
    with job_folder() as folder, ThreadPoolExecutor(count) as pool:
        try:
            for index in dict.fromkeys([*programme.turns, *range(count)]):
                workers.append(_Worker(launches[index], index, order, folder, on_event))
            for worker in workers:
                threads[pool.submit(worker.run)] = worker
            start([worker.start for worker in workers])
            for worker in workers:
                worker.start.warm_up()
                order.wait_until_ready(worker.index)
                _raise_fault(threads)
            left = {*threads}
            while left:  # it wakes seldom: no slice should share its core with this thread
                left = wait(left, SIGNALS_S, FIRST_COMPLETED).not_done
                _raise_fault(threads)
        except BaseException:
            order.worker_ended(*range(count))  # so no more slices are ordered
            for worker in workers:
                worker.start.warm_up()
            while running := wait(threads, POLL_S).not_done:
                for thread in running:
                    threads[thread].kill()
            raise
        finally:
            for worker in workers:
                os.close(worker.orders)
    replies = {worker.index: worker.reply(thread) for thread, worker in threads.items()}
    return [replies[index] for index in range(count)], order.made


class _Worker:
    """Drives one worker of the block, in a thread of its own."""

    def __init__(
        self, launch: Launch, index: int, order: SliceOrder, folder: Path, listener: OnEvent
    ) -> None:
        self.order = order
        self.index = index
        self.listener = listener
        self.start = Start(order.changed, at_once=order.programme.start == "at once")
        pipe = folder / f"turns-{index}"
        os.mkfifo(pipe)
        self.takes_orders = order.programme.alternates  # else each works on its own
        job = replace(launch.job, turns=str(pipe)) if self.takes_orders else launch.job
        self.launch = replace(launch, job=job)
        self.orders = os.open(pipe, os.O_RDWR)  # opening it only to write would wait for a reader
        self._warm: list[float] = []  # nanoseconds per call of the warm-up's windows
        self._calls = 0  # of the warm-up

    # ------------------------------------------------------------ called by the main thread

    def kill(self) -> None:
        """End the worker; its guardian ends the processes that it leaves."""
        if self.start.tree.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.start.tree.pid, signal.SIGKILL)

    def reply(self, thread: Future[Reply]) -> Reply:
        try:
            reply = thread.result()
        except NotOrdered:
            return Reply(ok=False, failure=_NOT_ORDERED)
        if reply.times is None:
            return reply
        stopped = stopped_ns(self.start.tree.stops, reply.began_ns, reply.times)
        return replace(reply, stopped_ns=stopped)

    # ------------------------------------------------------------ called by its own thread

    def run(self) -> Reply:
        limits = starting_limits(self.order.count)
        try:
            return execute(**asdict(self.launch), limits=limits, on_event=self._on_event)
        finally:
            self.start.ended()
            self.order.worker_ended(self.index)

    def _on_event(self, event: Event) -> None:
        if self.takes_orders and isinstance(event, WindowEnded) and event.phase == "measure":
            self.start.tree.stop()  # before anything else: its threads may run ahead
            self.listener(event)
            self.order.slice_made(self.index, event)
            self._next_slice()
            return
        self.listener(event)
        if isinstance(event, Started):
            self.start.began(event.pid, event.guardian)
        elif not self.takes_orders:
            return
        elif isinstance(event, PhaseBegan) and event.phase == "warmup":
            self.start.arrived()
            os.write(self.orders, b"warmup 0\n")
        elif isinstance(event, PhaseBegan) and event.phase == "measure":
            if not self._warm:
                raise NotOrdered
            self.start.tree.stop()
            self.order.worker_ready(self.index, median(self._warm[-LATEST:]), self._calls)
            self._next_slice()
        elif isinstance(event, WindowEnded) and event.ns and event.calls:
            self._warm.append(event.ns / event.calls)
            self._calls += event.calls

    def _next_slice(self) -> None:
        """Stay stopped until the next slice is this worker's; then order it."""
        order = self.order.await_turn(self.index)
        self.start.tree.resume()
        os.write(self.orders, order)


def _raise_fault(threads: Iterable[Future[Reply]]) -> None:
    """Raise a fault of the machine, such as a full disk, at once: the block is lost."""
    for thread in threads:
        fault = thread.exception() if thread.done() else None
        if fault is not None and not isinstance(fault, NotOrdered):
            raise fault


def starting_limits(count: int) -> Limits:
    """Limits while workers start alternately: each may be silent ``count`` times as long."""
    longer = {f"{phase}_s": count * DEFAULT_LIMITS.of(phase) for phase in STARTING}
    return replace(DEFAULT_LIMITS, **longer)
