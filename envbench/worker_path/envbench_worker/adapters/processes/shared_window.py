"""Processes that run freely on cores of their own, all counted over one shared window.

``FreeRunning`` is an adapter that splits its environments among processes. Each process runs a
``Member`` for its part, in chunks of a few milliseconds, and publishes its number of results in
shared memory after each chunk. The processes exchange nothing else while windows are open. They
start at one barrier (``allowed``, the number of calls that a process may make) and do not stop
between windows. A window of n calls ends when all processes together have received another n x
numenv results; any further results belong to the next window. So windows are back to back, and
nothing is lost or counted twice. In mode verify each process makes exactly n calls and waits.

A member's autoreset is next-step: a result is either a transition or a reset. POSIX only.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from envbench_worker.adapters.processes.member import NO_MORE, ROW, TOLD, WITHOUT_END, mapped_table
from envbench_worker.adapters.processes.numa_nodes import Node, shown
from envbench_worker.contract import Adapter, Counts, Job, Trace

PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
PATIENCE_S = 10.0  # for a process to end by itself
PACKAGE = str(Path(__file__).resolve().parents[3])

# A process binds itself before it imports what starts threads or allocates memory.
_ENTRY = """
import json, sys
order = json.loads(sys.argv[1])
sys.path.insert(0, order["package"])
from envbench_worker.adapters.processes import numa_nodes
memory = numa_nodes.bind(order["cores"], order["memory"])
from envbench_worker.adapters.processes import member
sys.exit(member.serve(order, memory))
"""


class Share(NamedTuple):
    """The part of one process: its node, and how much of the job it has."""

    node: Node
    numenv: int
    env_instances: int
    settings: Dict[str, Any]


class ProcessDied(Exception):
    """A process ended too early. Its own traceback, if it sent one, is the cause."""


class FreeRunning(Adapter):
    """An adapter whose environments step in free-running processes."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.processes: List[_Process] = []

    @abstractmethod
    def shares(self) -> List[Share]:
        """The parts of all processes. Their numenv and env_instances add up to the job's."""

    @abstractmethod
    def member(self) -> str:
        """The ``Member`` that each process runs, as ``module:attribute``."""

    def build(self) -> None:
        shares = self.shares()
        self.selector = selectors.DefaultSelector()
        with tempfile.TemporaryFile(dir=_in_memory()) as file:  # nameless, so it leaves no file
            file.truncate(len(shares) * ROW.itemsize)
            self.table = mapped_table(file.fileno())
            try:
                self._start(shares, file.fileno())
                self.described = [process.answer() for process in self.processes]
            except BaseException:
                self._end(patience_s=0.0)
                raise
        self.credited = 0  # results of earlier windows
        self.credited_resets = 0
        self.frames = self.latest_frames = 0.0
        self.freely = self.job.mode != "verify"
        self.began = time.perf_counter()
        self.table["allowed"] = WITHOUT_END if self.freely else 0

    def _start(self, shares: List[Share], file: int) -> None:
        first = instances = 0
        for row, share in enumerate(shares):
            job = self.job._replace(
                numenv=share.numenv,
                env_instances=share.env_instances,
                seed=self.job.seed + instances,  # as in one pool: a seed per environment
                settings=share.settings,
            )
            order = {
                "member": self.member(),
                "job": job._asdict(),
                "whole": self.job._asdict(),
                "first": first,
                "row": row,
            }
            process = _Process(share.node, file, order)
            self.processes.append(process)
            self.selector.register(process.connection, selectors.EVENT_READ, process)
            first, instances = first + share.numenv, instances + share.env_instances

    def run(self, calls: int) -> Counts:
        results = calls * self.job.numenv
        if not self.freely:
            self.table["allowed"] += calls
        self._wait_for(self.credited + results)
        self.credited += results
        # A very short window may have more resets than results: the next one gets the rest.
        resets = min(int(self.table["resets"].sum()) - self.credited_resets, results)
        self.credited_resets += resets
        frames = float(self.table["frames"].sum())
        self.latest_frames, self.frames = frames - self.frames, frames
        return Counts(results - resets, resets)

    def _wait_for(self, target: int) -> None:
        """Sleep until all processes together have ``target`` results, or one ends or fails."""
        pause = 0.0
        while True:
            for key, _ in self.selector.select(pause):
                raise key.data.death()
            received = int(self.table["received"].sum())
            if received >= target:
                return
            # Sleep for half of the estimated rest: about ten wake-ups per window.
            elapsed = time.perf_counter() - self.began
            left = elapsed * (target - received) / received if received else 0.0
            pause = min(max(PAUSE_S, left / 2), LONGEST_PAUSE_S)

    def unfinished(self) -> int:
        beyond = int(self.table["received"].sum()) - self.credited
        return max(0, beyond - (int(self.table["resets"].sum()) - self.credited_resets))

    def dead_child(self) -> Optional[int]:
        codes = (process.popen.poll() for process in self.processes)
        return next((code for code in codes if code and code != TOLD), None)

    def follow(self, calls: int) -> Optional[Trace]:
        for process in self.processes:
            process.connection.send(calls)
        traces = [process.answer() for process in self.processes]
        if any(trace is None for trace in traces):
            return None
        return Trace(*(np.concatenate(parts, axis=1) for parts in zip(*traces)))

    def recount(self) -> Optional[float]:
        return None if np.isnan(self.latest_frames) else self.latest_frames

    def process_facts(self) -> List[Dict[str, Any]]:
        """The cores, memory and environments of each process."""
        return [
            {
                "cores": shown(process.node.cores),
                "memory": described["memory"],
                "numenv": process.order["job"]["numenv"],
                "env_instances": process.order["job"]["env_instances"],
            }
            for process, described in zip(self.processes, self.described)
        ]

    def close(self) -> None:
        self._end(PATIENCE_S)

    def _end(self, patience_s: float) -> None:
        self.table["allowed"] = NO_MORE
        until = time.monotonic() + patience_s
        for process in self.processes:
            process.end(max(0.0, until - time.monotonic()))
        self.selector.close()


class _Process:
    """A process that runs a member, and the connection to it."""

    def __init__(self, node: Node, file: int, order: Dict[str, Any]) -> None:
        self.node, self.order = node, order
        self.connection, theirs = Pipe()
        where = {
            "package": PACKAGE,
            "cores": node.cores,
            "memory": node.memory,
            "connection": theirs.fileno(),
            "file": file,
            "parent": os.getpid(),
        }
        self.popen = subprocess.Popen(
            [sys.executable, "-I", "-c", _ENTRY, json.dumps({**order, **where})],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), file),
        )
        theirs.close()

    def answer(self) -> Any:
        """Its next message; ``ProcessDied`` if it failed or ended."""
        try:
            said, value = self.connection.recv()
        except (EOFError, ConnectionError):
            raise self._silent_death() from None
        if said == "error":
            raise self._told_death(*value)
        return value

    def death(self) -> ProcessDied:
        """Why it sent a message or ended when it should be running."""
        try:
            value = self.answer()
        except ProcessDied as died:
            return died
        return ProcessDied("the process on cores {} said {!r}".format(self._cores(), value))

    def _told_death(self, text: str, trace: str) -> ProcessDied:
        died = ProcessDied("the process on cores {}: {}".format(self._cores(), text))
        died.__cause__ = Exception("in that process:\n" + trace)
        return died

    def _silent_death(self) -> ProcessDied:
        code = self._ended(PATIENCE_S)
        how = "of signal {}".format(-code) if code < 0 else "with exit code {}".format(code)
        return ProcessDied("the process on cores {} ended {}".format(self._cores(), how))

    def _cores(self) -> str:
        return shown(self.node.cores)

    def end(self, patience_s: float) -> None:
        self._ended(patience_s)
        self.connection.close()

    def _ended(self, patience_s: float) -> int:
        """Wait for its exit code. Kill it if that takes too long."""
        try:
            return self.popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()


def _in_memory() -> Optional[str]:
    """A folder whose files are in memory; None if the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
