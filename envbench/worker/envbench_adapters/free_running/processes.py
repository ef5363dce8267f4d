"""Processes that run freely on cores of their own, all counted over one shared window.

``FreeRunning`` is an adapter that splits its environments among processes. Each process runs a
``Member`` for its part, in chunks of a few milliseconds, and publishes its number of results in
shared memory after each chunk. The processes exchange nothing else while windows are open. They
start at one barrier (``allowed``, the number of calls that a process may make) and do not stop
between windows. A window of n calls ends when all processes together have received another n x
numenv results; any further results belong to the next window. So windows are back to back, and
nothing is lost or counted twice. In a block, all processes are stopped between two slices. What
they make while no clock runs (until they stop, and before the clock starts) is left out. In mode
verify each process makes exactly n calls and waits.

A member's autoreset is next-step: a result is either a transition or a reset. POSIX only.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import time
import traceback
from abc import abstractmethod
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from envbench_worker import actions
from envbench_worker.contract import Adapter, Counts, Job, Trace, named

from envbench_adapters.free_running import numa_nodes
from envbench_adapters.free_running.numa_nodes import Node

ROW = np.dtype(
    {
        "names": ["allowed", "received", "resets", "frames"],
        "formats": ["i8", "i8", "i8", "f8"],
        "offsets": [0, 64, 72, 80],  # no two processes write to one cache line
        "itemsize": 128,
    }
)
WITHOUT_END = 2**62  # calls allowed
NO_MORE = -1
CHUNK_NS = 4_000_000  # much longer than publishing (microseconds), much shorter than a window
PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
PATIENCE_S = 10.0  # for a process to end by itself
SERVE = "envbench_adapters.free_running.processes:serve"


def split(total: int, parts: int) -> List[int]:
    """Split as evenly as possible, the larger parts first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


class ProcessDied(Exception):
    """A process ended too early. Its own traceback, if it sent one, is the cause."""


class FreeRunning(Adapter):
    """An adapter whose environments step in free-running processes.

    ``member``: the ``Member`` that each process runs, as ``module:attribute``.
    """

    member: str

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.processes: List[_Process] = []

    @abstractmethod
    def shares(self) -> List[Tuple[Node, Job]]:
        """Return each process's node and part of the job. The parts add up to the whole."""

    def build(self) -> None:
        shares = self.shares()
        self.selector = selectors.DefaultSelector()
        shared = multiprocessing.get_context("spawn").RawArray("b", len(shares) * ROW.itemsize)
        self.table = np.frombuffer(shared, dtype=ROW)
        try:
            first, seed = 0, self.job.seed
            for row, (node, part) in enumerate(shares):
                job = part._replace(seed=seed)
                process = _Process(node, job, self.job, first, self.member, shared, row)
                self.processes.append(process)
                self.selector.register(process.connection, selectors.EVENT_READ, process)
                # Each environment has a seed of its own.
                first, seed = first + job.numenv, seed + job.env_instances
            self.described = [process.answer() for process in self.processes]
            self.counted_by = self.described[0]["counted_by"]
        except BaseException:
            self.close(patience_s=0.0)
            raise
        self.credited = 0  # results of earlier windows
        self.credited_resets = 0
        self.received = self.received_resets = 0  # when the latest window ended
        self.frames = self.latest_frames = 0.0
        self.freely = self.job.mode != "verify"
        self.table["allowed"] = WITHOUT_END if self.freely else 0

    def run(self, calls: int) -> Counts:
        results = calls * self.job.numenv
        if not self.freely:
            self.table["allowed"] += calls
        self._wait_for(self.credited + results)
        self.credited += results
        # A very short window may have more resets than results: the next one gets the rest.
        resets = min(int(self.table["resets"].sum()) - self.credited_resets, results)
        self.credited_resets += resets
        self.received, self.received_resets = self._received()
        frames = float(self.table["frames"].sum())
        self.latest_frames, self.frames = frames - self.frames, frames
        return Counts(results - resets, resets)

    def resume(self) -> None:
        """Leave out what the processes made since the latest window: no clock ran."""
        received, resets = self._received()
        self.credited += received - self.received
        self.credited_resets += resets - self.received_resets

    def _received(self) -> Tuple[int, int]:
        return int(self.table["received"].sum()), int(self.table["resets"].sum())

    def _wait_for(self, target: int) -> None:
        """Sleep until all processes together have ``target`` results, or one ends or fails."""
        pause = 0.0
        began, before = time.perf_counter(), int(self.table["received"].sum())
        while True:
            for key, _ in self.selector.select(pause):
                key.data.answer()  # raises: a running process sends nothing but its failure
            received = int(self.table["received"].sum())
            if received >= target:
                return
            # Sleep for half of the estimated rest: about ten wake-ups per window. Estimated from
            # this window alone, because between two windows all processes may be stopped.
            elapsed, made = time.perf_counter() - began, received - before
            left = elapsed * (target - received) / made if made else 0.0
            pause = min(max(PAUSE_S, left / 2), LONGEST_PAUSE_S)

    def unfinished(self) -> int:
        beyond = int(self.table["received"].sum()) - self.credited
        return max(0, beyond - (int(self.table["resets"].sum()) - self.credited_resets))

    def dead_child(self) -> Optional[int]:
        codes = (process.ended_early for process in self.processes)
        return next(filter(None, codes), None)

    def follow(self, calls: int) -> Optional[Trace]:
        for process in self.processes:
            process.connection.send(calls)
        traces = [process.answer() for process in self.processes]
        if any(trace is None for trace in traces):
            return None
        found = [Trace(*trace) for trace in traces]
        joined: Dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in found], axis=1)
            for name in ("observations", "rewards", "ended", "start", "actions", "truncated")
            if getattr(found[0], name) is not None
        }
        return Trace(same_step=found[0].same_step, **joined)

    def recount(self) -> Optional[float]:
        return None if np.isnan(self.latest_frames) else self.latest_frames

    def facts(self) -> Dict[str, Any]:
        """Those of the first process, and the cores, memory and environments of each."""
        processes = [
            {
                "cores": process.cores,
                "memory": described["memory"],
                "numenv": process.job.numenv,
                "env_instances": process.job.env_instances,
            }
            for process, described in zip(self.processes, self.described)
        ]
        instances = self.job.env_instances
        return dict(self.described[0]["facts"], env_instances=instances, processes=processes)

    def close(self, patience_s: float = PATIENCE_S) -> None:
        self.table["allowed"] = NO_MORE
        until = time.monotonic() + patience_s
        for process in self.processes:
            process.ended(max(0.0, until - time.monotonic()))
            process.connection.close()
        self.selector.close()


class _Process:
    """A process that runs a member, and the connection to it."""

    def __init__(
        self, node: Node, job: Job, whole: Job, first: int, member: str, shared: Any, row: int
    ) -> None:
        self.job, self.cores = job, numa_nodes.shown(node.cores)
        self.connection, theirs = multiprocessing.Pipe()
        arguments = (node, SERVE, theirs, os.getpid(), shared, row, member, job, whole, first)
        spawn = multiprocessing.get_context("spawn")
        self.child = spawn.Process(target=numa_nodes.call_bound, args=arguments, daemon=True)
        self.child.start()
        self.ended_early: Optional[int] = None  # its exit code, if it ended without a word
        theirs.close()

    def answer(self) -> Any:
        """Its next message; ``ProcessDied`` if it failed or ended."""
        try:
            said, value = self.connection.recv()
        except (EOFError, ConnectionError):
            code = self.ended_early = self.ended(PATIENCE_S)
            how = "of signal {}".format(-code) if code < 0 else "with exit code {}".format(code)
            raise self._died("ended " + how) from None
        if said == "error":
            text, trace = value
            raise self._died(text) from Exception("in that process:\n" + trace)
        return value

    def _died(self, how: str) -> ProcessDied:
        return ProcessDied("the process on cores {} {}".format(self.cores, how))

    def ended(self, patience_s: float) -> int:
        """Wait for its exit code. Kill it if that takes too long."""
        self.child.join(patience_s)
        if self.child.is_alive():
            self.child.kill()
            self.child.join()
        return int(self.child.exitcode or 0)


# ---------------------------------------------------------------- in each process


class Member(Adapter):
    """The adapter of one process: columns ``first`` … ``first + job.numenv - 1`` of the job."""

    def __init__(self, job: Job, whole: Job, first: int) -> None:
        super().__init__(job)
        self.whole = whole
        self.first = first

    def columns(self, space: Any) -> List[Any]:
        """Return this process's columns of each batch of the whole job's actions."""
        bank = actions.of_job(space, self.whole)
        return [batch[self.first : self.first + self.job.numenv] for batch in bank]


def serve(
    memory: str, connection: Any, parent: int, shared: Any, row: int, member: str, *job: Any
) -> None:
    """Run a member until the work is done or the worker has ended."""
    try:
        made = named(member)(*job)
        made.build()
        about = {"facts": made.facts(), "memory": memory, "counted_by": made.counted_by}
        connection.send(("ready", about))
        _work(made, connection, np.frombuffer(shared, dtype=ROW)[row], parent)
        made.close()
    except Exception as error:  # noqa: BLE001 - any error of a library is reported
        text = "failed: {}: {}".format(type(error).__name__, error)
        with suppress(OSError):  # the worker may have ended
            connection.send(("error", (text, traceback.format_exc())))
        raise SystemExit(1) from None


def _work(member: Member, connection: Any, row: Any, parent: int) -> None:
    made, chunk = 0, 1
    clock = time.perf_counter_ns
    while os.getppid() == parent:
        allowed = int(row["allowed"])
        if allowed == NO_MORE:
            return
        if made >= allowed:
            if connection.poll(PAUSE_S):
                trace = member.follow(connection.recv())
                connection.send(("trace", None if trace is None else tuple(trace)))
            continue
        calls = min(chunk, allowed - made)
        start = clock()
        counts = member.run(calls)
        made += calls
        _publish(row, member, counts)
        took = clock() - start
        if 2 * took < CHUNK_NS:
            chunk *= 2
        elif took > 2 * CHUNK_NS and chunk > 1:
            chunk //= 2


def _publish(row: Any, member: Member, counts: Counts) -> None:
    """Write resets and frames before results, so that a reader of results finds the rest."""
    if member.job.mode == "verify":
        frames = member.recount()
        row["frames"] += np.nan if frames is None else frames
    row["resets"] += counts.resets
    row["received"] += counts.steps + counts.resets
