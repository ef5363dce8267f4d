"""One job in, one reply out: ``python -I __main__.py JOB_DIR EVENT_FD``.

Reads ``job.json``, writes events to the descriptor and ``reply.json`` when done. Every exception
becomes a reply; the exit status is 0 whenever a reply was written. Nothing is said on stdout,
because libraries print there.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import traceback
from importlib import import_module
from typing import Any, Dict

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from envbench_worker import sensors
from envbench_worker.contract import Adapter, Job, UnknownTaskError
from envbench_worker.measure import Meter

TRACEBACK_TAIL = 4000


class Worker:
    """Carries a job through its phases and knows where it is when something fails."""

    def __init__(self, job: Dict[str, Any], event_fd: int) -> None:
        self.job = job
        self.event_fd = event_fd
        self.phase = "start"
        self.meter: Any = None

    def emit(self, event: Dict[str, Any]) -> None:
        os.write(self.event_fd, (json.dumps(event) + "\n").encode())

    def enter(self, phase: str) -> int:
        self.phase = phase
        self.emit({"event": "phase", "phase": phase})
        return time.perf_counter_ns()

    def adapter(self) -> Adapter:
        module, _, attribute = self.job["adapter"].partition(":")
        seen = Job(**{name: self.job[name] for name in Job._fields})
        made = getattr(import_module(module), attribute)(seen)
        if not isinstance(made, Adapter):
            raise TypeError("{} is no subclass of Adapter".format(self.job["adapter"]))
        return made

    def measure(self) -> Dict[str, Any]:
        """The whole run; returns the reply without its header."""
        before, load_before = sensors.before(), sensors.load_average()
        start = self.enter("import")
        adapter = self.adapter()
        adapter.probe()  # it imports what the task needs besides the library
        times = {"import_ns": time.perf_counter_ns() - start}
        if self.job["mode"] == "probe":
            return {}
        start = self.enter("build")
        adapter.build()
        times["build_ns"] = time.perf_counter_ns() - start
        self.meter = meter = Meter(adapter, self.job["protocol"], self.emit)
        self.enter("first_step")
        times["first_step_ns"] = meter.first_step()
        self.enter("warmup")
        steady = meter.warm_up()
        self.enter("measure")
        meter.measure()
        load = dict(meter.sensors.load(), load_before=load_before)
        times["warmup_ns"] = sum(meter.warmup.ns)
        times["measured_ns"] = sum(meter.measured.ns)
        return {
            "times": times,
            "warmup": meter.warmup.as_dict(),
            "measured": meter.measured.as_dict(),
            "steady": steady,
            "peak_memory_bytes": sensors.tree_peak_memory(os.getpid()),
            "peak_gpu_memory_bytes": None,
            "load": load,
            "facts": dict(adapter.facts(), before=before),
            "close": adapter.close,
        }

    def failure(self, error: BaseException) -> Dict[str, Any]:
        """An ``envbench.model.Failure`` for anything that was raised."""
        missing = isinstance(error, ImportError) and self.phase == "import"
        tail = traceback.format_exc()[-TRACEBACK_TAIL:]
        return {
            "reason": "import" if missing else "exception",
            "message": "{}: {}".format(type(error).__name__, error)[:2000],
            "phase": self.phase,
            "step": self._steps_made(),
            "stderr_tail": tail,
        }

    def _steps_made(self) -> Any:
        if self.meter is None:
            return None
        return self.meter.total_steps + self.meter.adapter.unfinished()

    def reply(self) -> Dict[str, Any]:
        try:
            return dict(self.measure(), ok=True)
        except UnknownTaskError as error:
            return {"ok": False, "failure": self.failure(error), "known_tasks": error.known}
        except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer
            return {"ok": False, "failure": self.failure(error)}


def runtime() -> Dict[str, Any]:
    """This interpreter and every package in it."""
    from importlib.metadata import distributions

    packages = {}
    for found in distributions():
        name = found.metadata["Name"]
        if name:
            packages[name] = found.version
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": dict(sorted(packages.items())),
    }


def write_reply(folder: str, reply: Dict[str, Any]) -> None:
    partial = os.path.join(folder, "reply.json.partial")
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(reply, file)
    os.replace(partial, os.path.join(folder, "reply.json"))


def main(folder: str, event_fd: int) -> None:
    """Carry out the job in ``folder``: a reply is written before anything is closed, because what
    was measured counts even where closing fails."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    if job["family"] != "gym":  # libraries leave logs where they stand; a user's own task may read
        os.chdir(folder)
    worker = Worker(job, event_fd)
    header = runtime()
    reply = worker.reply()
    close = reply.pop("close", None)
    write_reply(folder, dict(header, **reply))
    if close is not None:
        worker.enter("close")
        close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
