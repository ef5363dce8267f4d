"""One job in, one reply out: ``python -I __main__.py JOB_DIR EVENT_FD``.

Reads ``job.json``, writes events to the descriptor and ``reply.json`` when done. Every exception
becomes a reply; the exit status is 0 whenever a reply was written. Nothing is written to stdout,
because libraries print there.

A module that only one mode needs is imported inside the method with the mode's name
(``Worker.measure``, ``Worker.verify``). ``envbench.process.code_hash`` relies on this: an edit
of such a module does not change the hash of the other modes' code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import signal
import sys
import time
import traceback
from importlib.util import find_spec
from typing import Any, Callable, Dict, Iterator, Tuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from envbench_worker import lifetime, sensors
from envbench_worker.contract import (
    Adapter,
    ImpossibleFigure,
    Job,
    UnknownTaskError,
    named,
)

TRACEBACK_TAIL = 4000


class Worker:
    """Runs a job phase by phase and records the current phase for a failure."""

    def __init__(self, job: Dict[str, Any], folder: str, event_fd: int) -> None:
        self.job = job
        self.folder = folder
        self.event_fd = event_fd
        self.phase = "start"
        self.began: Dict[str, int] = {}
        self.times: Dict[str, int] = {}
        self.adapter: Any = None
        self.meter: Any = None

    def emit(self, event: Dict[str, Any]) -> None:
        os.write(self.event_fd, (json.dumps(event, default=plain) + "\n").encode())

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.emit({"event": "phase", "phase": phase})

    def timed(self, phase: str, work: Callable[[], Any]) -> Any:
        """Do a phase's work, and note when it began and how long it took."""
        self.enter(phase)
        start = self.began[phase + "_ns"] = time.perf_counter_ns()
        done = work()
        self.times[phase + "_ns"] = time.perf_counter_ns() - start
        return done

    def make_adapter(self) -> None:
        seen = Job(**{name: self.job[name] for name in Job._fields})
        made = named(self.job["adapter"])(seen)
        if not isinstance(made, Adapter):
            raise TypeError("{} is not a subclass of Adapter".format(self.job["adapter"]))
        made.probe()  # imports what the task needs besides the library
        self.adapter = made

    def carry_out(self) -> Dict[str, Any]:
        """Run all phases of the job's mode. Return the reply without its header."""
        before, load_before = sensors.before(), sensors.load_average()
        self.timed("import", self.make_adapter)
        if self.job["mode"] == "probe":
            return {}
        adapter = self.adapter
        self.timed("build", adapter.build)
        if self.job["mode"] == "verify":
            return dict(self.verify(adapter), close=adapter.close)
        reply = self.measure()
        adapter = self.adapter
        reply["load"]["load_before"] = load_before
        reply["facts"]["before"] = before
        return dict(reply, close=adapter.close)

    def measure(self) -> Dict[str, Any]:
        """The first step, the warm-up and the windows."""
        from envbench_worker.after_steps import histogram
        from envbench_worker.measure import Meter

        # Each process of a plugin makes the steps of a spot check, to time them.
        timed = self.job["follows_by"] and "short_calls" in self.job["protocol"]["after"]
        spot = self.spot_check() if self.job["spot"] or timed else None
        adapter = self.adapter
        self.meter = meter = Meter(adapter, self.job["protocol"], self.emit)
        meter.spot = spot
        self.enter("first_step")
        self.began["first_step_ns"] = time.perf_counter_ns()
        self.times["first_step_ns"] = meter.first_step()
        orders = turns(self.job["turns"]) if self.job["turns"] else None
        self.enter("warmup")
        if orders is not None:
            next(orders, None)  # the first order starts the warm-up
        steady = meter.warm_up()
        self.enter("measure")
        if orders is not None:
            meter.take_turns(orders)
        else:
            meter.measure()
        load = meter.load()
        memory = None if spot is None else spot.memory_before
        self.times["warmup_ns"] = sum(meter.warmup.ns)
        self.times["measured_ns"] = sum(meter.measured.ns)
        reply = {
            "times": self.times,
            "began_ns": self.began,
            "warmup": vars(meter.warmup),
            "measured": vars(meter.measured),
            "resets": vars(meter.resets),
            "short_calls": vars(meter.short_calls),
            "latency": histogram(meter.latency),
            "returns": meter.returns,
            "results": meter.results,
            "steady": steady,
            "peak_memory_bytes": memory or sensors.tree_peak_memory(os.getpid()),
            "peak_gpu_memory_bytes": adapter.gpu_memory(),
            "load": load,
            "facts": facts_of(adapter),
        }
        if spot is not None:
            spot.now(meter)
            reply["calls_ns"] = meter.calls_ns
        return reply

    def spot_check(self) -> Any:
        """Prepare the spot check of the measured process; it may be made at once. An adapter that
        cannot be followed while it is measured gets new environments."""
        from envbench_worker.spot_check import SpotCheck

        check = SpotCheck(self.job, self.folder, self._is_own())
        try:
            trace = check.begin(self.adapter)
        except Exception:  # noqa: BLE001 - then there is no check
            with contextlib.suppress(Exception):
                self.adapter.close()
            self.make_adapter()
            self.adapter.build()
        else:
            check.save(self.adapter, trace)
        return check

    def _is_own(self) -> bool:
        """Is the adapter envbench's, not a plugin's?"""
        return str(self.job["adapter"]).startswith("envbench_adapters.")

    def verify(self, adapter: Adapter) -> Dict[str, Any]:
        """Step the environments, or predict another's steps. Then count steps in two ways."""
        from envbench_worker import audit, trace_parts, traces

        amount = self.job["verify"]
        self.enter("first_step")
        adapter.compile()
        adapter.prepare()
        given = traces.given(self.folder)
        seen = [audit.seen_resets()]
        trace = shorter = adapter.predict(given) if given is not None else None
        if trace is None:
            trace = shorter = traces.lock_steps(adapter, amount["lock_steps"], amount["several"])
            if trace is not None and self.job["follows_by"] == "seed":
                trace = trace_parts.with_more(adapter, trace, self.emit)
            elif trace is not None and self.job["follows_by"] == "state" and not self._is_own():
                trace = trace_parts.continued(adapter, trace)
        self.enter("measure")
        seen.append(audit.seen_resets())
        counts = audit.count_twice(adapter, amount["audit_calls"], self.emit, own=self._is_own())
        seen.append(audit.seen_resets())
        if trace is not None:
            if self.job["follows_by"] == "state" and given is None:
                trace = trace_parts.with_carried_on(adapter, trace, self.job["midway"], self.emit)
                trace = trace_parts.with_later(adapter, trace, self.emit, amount)
            traces.save(trace, self.folder, shorter)
        seen.append(audit.seen_resets())
        own = trace if given is None else None
        counts.update(audit.resets_twice(counts["resets"], own, seen, self.job["numenv"]))
        return {"audit": counts, "facts": facts_of(adapter)}

    def failure(self, error: BaseException) -> Dict[str, Any]:
        """Convert an exception to an ``envbench.model.Failure``."""
        meter, trace = self.meter, traceback.format_exc()
        dead = self.adapter.dead_child() if self.adapter else None
        if dead:
            found = died(dead)
        else:
            missing = isinstance(error, ImportError) and self.phase == "import"
            impossible = isinstance(error, ImpossibleFigure)
            reason = "import" if missing else "invalid-figure" if impossible else "exception"
            found = {"reason": reason, "message": describe(error)[:2000]}
        made = int(meter.total_steps + meter.adapter.unfinished()) if meter else None
        return dict(found, phase=self.phase, step=made, stderr_tail=trace[-TRACEBACK_TAIL:])

    def reply(self) -> Dict[str, Any]:
        try:
            return dict(self.carry_out(), ok=True)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - becomes the reply
            known = {"known_tasks": error.known} if isinstance(error, UnknownTaskError) else {}
            return {"ok": False, "failure": self.failure(error), **known}


def facts_of(adapter: Adapter) -> Dict[str, Any]:
    found = adapter.facts()
    if not isinstance(found, dict):
        text = "`facts` has to return a dict, such as self.common_facts(…), not {!r}"
        raise TypeError(text.format(found))
    return dict(found)


def turns(pipe: str) -> Iterator[Tuple[str, int]]:
    """Yield the controller's orders, one per slice: a word and a number (``Meter.take_turns``).

    The controller may stop this process between two orders. An empty line is the last.
    """
    with open(pipe, "rb", buffering=0) as orders:
        while True:
            words = orders.readline().split()
            if not words:
                return
            yield words[0].decode(), int(words[1])


def describe(error: BaseException) -> str:
    """Describe an exception. A library's exception may fail to print itself."""
    try:
        if isinstance(error, SyntaxError):  # its own text leaves out the folder
            where = "{}, line {}".format(error.filename, error.lineno)
            return "{}: {} ({})".format(type(error).__name__, error.msg, where)
        return "{}: {}".format(type(error).__name__, error)
    except Exception:  # noqa: BLE001 - only the description depends on it
        return type(error).__name__


def died(code: int) -> Dict[str, Any]:
    """The failure of an adapter whose child process ended with this exit code, or -signal."""
    if code > 0:
        message = "a process of the environments ended with exit code {}".format(code)
        return {"reason": "exit", "message": message, "exit_code": code}
    named_signals = {each.value: each.name for each in signal.Signals}
    name = named_signals.get(-code, "signal {}".format(-code))
    message = "a process of the environments died of {}".format(name)
    return {"reason": "signal", "message": message, "signal": name}


def runtime(adapter: str) -> Dict[str, Any]:
    """The version of this interpreter and of every installed package.

    A plugin can be edited without a new version. So its source has a hash among the packages.
    """
    from importlib.metadata import distributions

    named = {each.metadata["Name"]: each.version for each in distributions()}
    package = adapter.partition(":")[0].partition(".")[0]
    if package != "envbench_adapters":
        named["{} (source)".format(package)] = source_hash(package)
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": {name: named[name] for name in sorted(filter(None, named))},
    }


def source_hash(package: str) -> str:
    """Hash the Python files of a package, or of a module; "unknown" if it is not found."""
    spec = None
    with contextlib.suppress(ImportError, ValueError):
        spec = find_spec(package)
    if spec is None:
        return "unknown"
    tops = list(spec.submodule_search_locations or [])
    paths = [os.path.join(*each) for top in tops for each in python_files(top)]
    found = hashlib.sha256()
    for path in paths or [spec.origin or ""]:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            found.update(os.path.basename(path).encode() + b"\0" + file.read())
    return found.hexdigest()[:12]


def python_files(top: str) -> Iterator[Tuple[str, str]]:
    """Yield the folder and name of each Python file below ``top``, sorted."""
    for folder, folders, files in os.walk(top):
        folders.sort()
        yield from ((folder, name) for name in sorted(files) if name.endswith(".py"))


def plain(value: Any) -> Any:
    """Convert a NumPy number to one that JSON can hold."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError("{} cannot be written as JSON".format(type(value).__name__))


def main(folder: str, event_fd: int) -> None:
    """Run the job in ``folder``. The reply comes first: a failing ``close`` loses no data."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    os.remove(file.name)  # the adapter gets no hint of a spot check
    # Libraries write logs to the current folder. A user's own task may read files there.
    if not job["own_task"]:
        os.chdir(folder)
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])
    lifetime.end_children_with_parent()
    worker = Worker(job, folder, event_fd)
    header = runtime(job["adapter"])
    reply = worker.reply()
    close = reply.pop("close", None)
    partial = os.path.join(folder, "reply.json.partial")
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(dict(header, **reply), file, default=plain)
    os.replace(partial, os.path.join(folder, "reply.json"))
    if close is not None:
        worker.enter("close")
        close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
