"""One of several free-running processes, and the shared memory in which it reports its counts.

A process runs a ``Member`` in chunks of a few milliseconds, up to the calls that it is allowed.
After each chunk it publishes its number of results so far in its row of a shared table, which
``shared_window`` reads. The processes exchange nothing else while windows are open.
"""

from __future__ import annotations

import mmap
import os
import time
import traceback
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Dict, List

import numpy as np

from envbench_worker import actions, lifetime
from envbench_worker.contract import Adapter, Counts, Job

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
TOLD = 70  # the exit code of a process that reported its error


class Member(Adapter):
    """The adapter of one process: columns ``first`` … ``first + job.numenv - 1`` of the job."""

    def __init__(self, job: Job, whole: Job, first: int) -> None:
        super().__init__(job)
        self.whole = whole
        self.first = first

    def columns(self, space: Any) -> List[Any]:
        """This process's columns of each batch of the whole job's actions."""
        bank = actions.of_job(space, self.whole)
        return [batch[self.first : self.first + self.job.numenv] for batch in bank]


def mapped_table(file: int) -> Any:
    """The rows of all processes, each (allowed, received, resets, frames), in shared memory."""
    return np.frombuffer(mmap.mmap(file, 0), dtype=ROW)


def serve(order: Dict[str, Any], memory: str) -> int:
    """Run a member until the work is done or the worker has ended. Return the exit code."""
    lifetime.end_with_parent()
    connection = Connection(order["connection"])
    table = mapped_table(order["file"])
    try:
        module, _, attribute = order["member"].partition(":")
        whole = Job(**order["whole"])
        member = getattr(import_module(module), attribute)(
            Job(**order["job"]), whole, order["first"]
        )
        member.build()
        connection.send(("ready", {"facts": member.facts(), "memory": memory}))
        _work(member, connection, table[order["row"]], order["parent"])
        member.close()
        return 0
    except Exception as error:  # noqa: BLE001 - any error of a library is reported
        text = "{}: {}".format(type(error).__name__, error)
        with suppress(OSError):  # the worker may have ended
            connection.send(("error", (text, traceback.format_exc())))
        return TOLD


def _work(member: Member, connection: Connection, row: Any, parent: int) -> None:
    made, chunk = 0, 1
    clock = time.perf_counter_ns
    while os.getppid() == parent:
        allowed = int(row["allowed"])
        if allowed == NO_MORE:
            return
        if made >= allowed:
            if connection.poll(PAUSE_S):
                connection.send(("trace", _followed(member, connection.recv())))
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


def _followed(member: Member, calls: int) -> Any:
    trace = member.follow(calls)
    return None if trace is None else tuple(trace)


def _publish(row: Any, member: Member, counts: Counts) -> None:
    """Write resets and frames before results, so that a reader of results finds the rest."""
    if member.job.mode == "verify":
        frames = member.recount()
        row["frames"] += np.nan if frames is None else frames
    row["resets"] += counts.resets
    row["received"] += counts.steps + counts.resets
