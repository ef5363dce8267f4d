"""Runs a real worker that fails in some way, and checks that it leaves no process behind.

As a script it is a controller in its own process, which a test can kill or limit in memory:
``python run_faulty_worker.py WORKER SETTINGS_JSON [CGROUP]`` prints the reply as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import msgspec

from envbench.errors import Interrupted
from envbench.model import Job, Protocol
from envbench.process.one_job import execute
from envbench.process.reply import OnEvent, Reply
from envbench.process.supervisor import Limits

WORKERS = Path(__file__).parents[1] / "fixtures" / "faulty_workers"
MARK = "ENVBENCH_TEST_MARK"
PATIENT = Limits(warmup_s=20, measure_s=5, grace_s=0.3)


def job(**settings: Any) -> Job:
    return Job(
        run_id="r1",
        adapter="none:None",
        family="gym",
        task="Faulty-v0",
        numenv=2,
        env_instances=2,
        frame_skip=1,
        settings=settings,
        seed=1,
        protocol=Protocol(window_s=0.0),
    )


def run(
    worker: str,
    *,
    limits: Limits = PATIENT,
    on_event: OnEvent = lambda _: None,
    python: str = sys.executable,
    **settings: Any,
) -> Reply:
    """Execute the worker, and check that no process with the mark of this run is left."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark}
    try:
        return execute(
            job(**settings),
            python=python,
            environment=environment,
            limits=limits,
            on_event=on_event,
            worker=WORKERS / f"{worker}.py",
        )
    finally:
        assert marked(mark) == []


def marked(mark: str) -> list[tuple[int, str]]:
    """Every living process with the mark in its environment: children inherit it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()  # empty for a zombie
            if mark.encode() in environment and int(folder.name) != os.getpid():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append((int(folder.name), command))
        except OSError:
            continue
    return found


def main() -> None:
    worker, settings, *cgroup = sys.argv[1:]
    for folder in cgroup:
        Path(folder, "cgroup.procs").write_text(str(os.getpid()))

    def interrupt(number: int, _: object) -> None:
        raise Interrupted(128 + number)

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        reply = execute(
            job(**json.loads(settings)),
            python=sys.executable,
            environment=dict(os.environ),
            limits=PATIENT,
            worker=WORKERS / f"{worker}.py",
        )
    except Interrupted as interrupted:
        sys.exit(interrupted.exit_code)
    sys.stdout.buffer.write(msgspec.json.encode(reply))


if __name__ == "__main__":
    main()
