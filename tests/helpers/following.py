"""The reference follows a real backend, as in ``envbench verify``."""

from __future__ import annotations

from typing import Any

import msgspec

from envbench import backends, families, runtimes, testing
from envbench.decisions import traces
from envbench.decisions.trace_file import read_trace
from envbench.engine.lock_step import GIVEN, same_engine
from envbench.engine.target import make_cell, target_of
from envbench.engine.worker_job import make_job
from envbench.model import Agreement, Trial, Verify
from envbench.process.one_job import execute
from helpers.session_cache import once


@once
def followed(
    family: str, name: str, lock_steps: int = 0, task: str = "", numenv: int = 2, **settings: Any
) -> Agreement:
    """How far the backend's steps are from the reference's; by default as many as verify makes."""
    own = families.get(family)
    task = task or own.default_task
    standard = own.standards[make_cell("here", family, task, backends.get(name), numenv, {}).kind]
    replies = []
    for backend, given in ((backends.get(name), settings), (backends.get(standard.reference), {})):
        cell = make_cell("here", family, task, backend, numenv, given)
        limit = 0 if lock_steps else own.time_limit(cell.kind, task)
        steps = lock_steps or own.lock_steps
        amount = Verify(lock_steps=steps, audit_calls=1, limit=limit, lasting=own.lasting)
        job = make_job(Trial(cell=cell, mode="verify", verify=amount), target_of(cell), "here")
        files = {GIVEN: replies[0].trace} if replies else {}
        python = testing.interpreter(backend, family=family)
        reply = execute(job, python=python, environment=runtimes.environment(backend), files=files)
        assert reply.ok, reply.failure
        replies.append(reply)
    own_trace, predicted = (read_trace(each.trace or b"") for each in replies)
    found = traces.compare(standard, predicted, own_trace)
    return msgspec.structs.replace(found, same_engine=same_engine(*replies))
