"""The contract of every backend, as a test class to inherit.

A plugin is a package with an entry point of the group ``envbench.backends`` (static data: a
``Backend``) and an adapter class that only the worker imports (a subclass of
``envbench_worker.contract.Adapter``). Its author tests it with pytest in ten lines, in an
environment that has envbench, the plugin (``pip install -e .``) and pytest::

    from envbench.testing import BackendContract
    from my_package.envbench_data import BACKEND

    class TestMyBackend(BackendContract):
        backend = BACKEND
        family = "gym"
        task = "CartPole-v1"
        sees_resets = True  # its episodes end within half a second

The tests of a class share two real worker processes: one refuses an unknown task and measures, one
verifies. They run in the interpreter in which ``envbench run`` would run them. The plugin has to be
installed there, because the worker sees neither the current folder nor PYTHONPATH. The built-in
backends pass the same contract (``tests/worker/envbench_adapters/test_contract_of_built_ins.py``).

This module imports without pytest.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from envbench import backends, families, runtimes
from envbench.backends import Backend
from envbench.decisions import responses
from envbench.decisions.equal_work import counts_agree
from envbench.decisions.trace_file import read_trace
from envbench.engine.experiment import seed_of_round
from envbench.engine.target import Target, make_cell
from envbench.engine.worker_job import make_job
from envbench.model import Cell, Family, Other, Protocol, Trial, Verify
from envbench.process.one_job import WORKER, execute
from envbench.process.reply import Reply

AFTER: dict[Other, float] = {"latency": 0.02, "returns": 0.02, "reset": 0.01}
SHORT = Protocol(window_s=0.05, warmup_min_s=0.2, warmup_max_s=0.2, measured_s=0.3, after=AFTER)
SEED = seed_of_round(0, 1)  # as large as a plan's; verify uses seed 0
PROBING = WORKER.with_name("probe_unknown_task.py")  # first probes an unknown task
Texts = Mapping[str, str]
FACTS = ("observation_shape", "observation_dtype", "action_source", "autoreset", "env_instances")
_MARK = "ENVBENCH_CONTRACT"  # in the environment of every process that a run starts


class BackendContract:
    """Subclass it and set ``backend``, ``family`` and ``task``; pytest runs the tests.

    ``settings`` are as ``--set`` gives them; ``overrides`` as ``--python`` does (backend name ->
    interpreter). ``sees_resets``: episodes of random actions end within half a second.
    ``single_steps``: whether single vector steps are timed; None: that is not tested.
    ``second_count``: False if nothing but the adapter can count the steps, so its row gets no ✓.
    """

    backend: ClassVar[Backend]
    family: ClassVar[Family]
    task: ClassVar[str]
    numenv: ClassVar[int] = 2
    settings: ClassVar[Mapping[str, str]] = {}
    overrides: ClassVar[Mapping[str, str]] = {}
    sees_resets: ClassVar[bool] = False
    single_steps: ClassVar[bool | None] = None
    second_count: ClassVar[bool] = True

    measurements: ClassVar[dict[type, tuple[Reply, list[int]]]] = {}  # of each contract class

    # -------------------------------------------------------- what a subclass may change

    def verification(self) -> Reply:
        """Verify in a worker. The contract checks the environments' own count of steps, and the
        trace, in its reply."""
        own = partial(verified, self.backend, self.family, self.task, numenv=self.numenv)
        return own(settings=self.settings, overrides=self.overrides, lock_steps=60)

    # -------------------------------------------------------- what a backend has to do

    def test_is_data_that_the_registry_accepts(self) -> None:
        assert backends.trouble(self.backend) == ""
        backends.check_family(self.backend, self.family)
        warnings = "; ".join(backends.plugin_warnings())
        missing = "no entry point `envbench.backends` of an installed package names it"
        assert self.backend.name in backends.registry(), warnings or missing

    def test_finds_its_task_and_refuses_an_unknown_one_with_the_known_names(self) -> None:
        reply = self.measured()  # a worker probes before it builds, so it found its task
        refused = reply.facts["unknown_task"]
        assert not refused["ok"], "probe accepted an unknown task"
        known = refused.get("known_tasks")
        assert known, f"raise UnknownTaskError(task, known) from probe: {refused['failure']}"
        named = f"`probe` names {refused['task']!r} among the known tasks, and refuses it"
        assert refused["task"] not in known, named

    def test_counts_transitions_and_not_calls(self) -> None:
        reply = self.measured()
        windows = reply.measured
        assert sum(windows.steps) > 0, "`run` returned Counts without a step"
        # With next-step autoreset, a step that only resets is not a transition.
        in_calls = reply.facts["autoreset"] == "next-step"
        for calls, steps, resets in zip(windows.calls, windows.steps, windows.resets, strict=True):
            assert calls > 0, "a window had no vector step: does `run` end at once?"
            assert min(steps, resets) >= 0, "`run` returned a negative count"
            assert steps + (resets if in_calls else 0) <= calls * self.numenv, (
                f"{calls} calls of {self.numenv} environments cannot make {steps} steps and "
                f"{resets} resets: count what the library returned, and count reset-only results "
                "as resets (or say in `facts` that a step that ends an episode also resets)"
            )

    def test_measures_for_as_long_as_the_protocol_says(self) -> None:
        reply = self.measured()
        measured_s = sum(reply.measured.ns) / 1e9
        short = (
            f"it measured {measured_s:.2f} s, not {SHORT.measured_s} s: `run` made too few steps"
        )
        assert measured_s >= SHORT.measured_s, short
        resets = sum(reply.warmup.resets) + sum(reply.measured.resets)
        assert resets > 0 or not self.sees_resets, "`run` counted no reset: read the ends"
        assert reply.times is not None, (
            "the reply has no times: is `build` of the contract's class?"
        )
        assert reply.times.first_step_ns > 0, "the first step took no time: `run(1)` has to step"

    def test_times_single_steps_only_where_a_consumer_gets_them(self) -> None:
        latency = self.measured().latency
        timed = latency is None or (latency.whole and sum(latency.counts) > 0)
        assert timed, "no single step was timed: does `run` take its actions from `self.batches`?"
        assert self.single_steps in (None, latency is not None), "set `single_steps` of the adapter"

    def test_says_what_ran(self) -> None:
        facts = self.measured().facts
        missing = [name for name in FACTS if name not in facts]
        assert not missing, f"`facts` has to report {', '.join(missing)}"
        asked, exist = self.cell.env_instances, facts["env_instances"]
        assert exist == asked, f"`facts` reports {exist} environments; `build` has to make {asked}"
        assert facts["action_source"], "`facts` has to say where the actions come from"

    def test_makes_the_steps_that_it_claims(self) -> None:
        reply = self.verification()
        assert reply.audit is not None, "the worker replied without an audit"
        assert reply.audit.frames is not None, "write `recount`: the environments' own count"
        assert reply.audit.counted_by or not self.second_count, (
            "envbench saw no counter of its own in the worker's process. Set `counted_by`, and "
            "wrap the environments in `Counted`. If they step in other processes, use "
            "`CountedElsewhere`; if their results have a counter, `Watched`. (docs/backends.md has "
            "all three.) "
            "If nothing can count the steps, set `second_count = False` in this class: the row "
            "then gets no ✓"
        )
        claimed = reply.audit.steps * self.cell.frame_skip
        assert counts_agree(reply.audit, self.cell.frame_skip), (
            f"`run` claims {claimed:g} frames, `recount` says {reply.audit.frames:g}: one of them "
            "counts resets as steps, or misses some"
        )
        results = reply.audit.steps + reply.audit.resets
        assert results >= reply.audit.calls * self.numenv, (
            "a call returned fewer results than numenv: `run(calls)` has to make `calls` vector "
            "steps of all numenv environments"
        )
        family = families.get(self.family)
        if reply.trace is not None and not family.own_tasks and not self.cell.variant:
            trace = read_trace(reply.trace)
            together = _together(self.backend, len(trace.rewards))
            assert responses.responds(trace, together) is not False, (
                "other actions gave the same observations: does `follow` pass the actions on?"
            )

    def test_leaves_no_process_behind(self) -> None:
        self.measured()
        left = self.measurements[type(self)][1]
        assert not left, f"processes {left} are still alive: end them in `close`"

    def test_closes_without_an_error_after_its_reply(self) -> None:
        ended = self.measured().facts.get("ended_after_reply")
        assert ended is None, f"close: {ended}"

    # -------------------------------------------------------- how it is run

    @property
    def cell(self) -> Cell:
        return make_cell(
            "contract", self.family, self.task, self.backend, self.numenv, self.settings
        )

    def measured(self) -> Reply:
        """Return the successful reply of a short measurement, made once per class.

        Its fact ``unknown_task`` is what the same worker replied to a probe of an unknown task.
        """
        known = type(self) in self.measurements
        if not known:
            import psutil

            mark = uuid.uuid4().hex
            trial = Trial(cell=self.cell, mode="measure", seed=SEED, protocol=SHORT)
            reply = _executed(trial, self.backend, self.overrides, {_MARK: mark}, PROBING)
            # The living processes that it started, even if their parent has ended.
            living = psutil.process_iter(["environ", "status"])
            marked = [each for each in living if (each.info["environ"] or {}).get(_MARK) == mark]
            left = [each.pid for each in marked if each.info["status"] != psutil.STATUS_ZOMBIE]
            self.measurements[type(self)] = reply, left
        reply, _ = self.measurements[type(self)]
        if not reply.ok:
            import pytest

            if known:  # one failure is enough
                pytest.skip("the measurement failed: the first failure of this class says why")
            pytest.fail(_why(reply), pytrace=False)
        return reply


def verified(
    backend: Backend,
    family: Family,
    task: str,
    *,
    numenv: int = 2,
    settings: Texts | None = None,
    lock_steps: int = 20,
    calls: int = 100,
    seed: int = 0,
    together: int | None = None,
    overrides: Texts | None = None,
    environment: Texts | None = None,
) -> Reply:
    """Return the reply of a worker in mode verify; assert that it did not fail.

    It has the audit of ``calls`` vector steps and the trace of ``lock_steps``, an ``.npz``. In the
    first ``together`` lock-steps all actions are equal: by default five, at most half, for a
    backend with an engine of its own.
    """
    if together is None:
        together = _together(backend, lock_steps)
    cell = make_cell("contract", family, task, backend, numenv, settings or {})
    amount = Verify(lock_steps=lock_steps, audit_calls=calls, together=together)
    trial = Trial(cell=cell, mode="verify", seed=seed, verify=amount)
    reply = _executed(trial, backend, overrides or {}, environment or {})
    assert reply.ok, _why(reply)
    return reply


def _together(backend: Backend, steps: int) -> int:
    """How many of these lock-steps have equal actions."""
    return min(responses.TOGETHER, steps // 2) if backend.own_engine else 0


def _why(reply: Reply) -> str:
    """What failed in the worker, what to do, and the end of its stderr."""
    failure = reply.failure
    if failure is None:
        return "the worker failed without a reason"
    where = f"the worker failed{' in ' * bool(failure.phase)}{failure.phase}: {failure.message}"
    return "\n".join(each for each in (where, failure.hint, failure.stderr_tail) if each)


def interpreter(backend: Backend, overrides: Texts | None = None, family: str = "") -> str:
    """Return the interpreter for that family. Build the runtime if it does not exist yet."""
    if overrides and backend.name in overrides:
        return runtimes.interpreter(overrides[backend.name], "--python")
    return runtimes.make(backend, lambda line: None, family).python


def _executed(
    trial: Trial, backend: Backend, overrides: Texts, more: Texts, worker: Path = WORKER
) -> Reply:
    target = Target(cell=trial.cell, backend=backend, family=families.get(trial.cell.env))
    job = make_job(trial, target, f"contract-{uuid.uuid4().hex[:8]}")
    python = interpreter(backend, overrides, trial.cell.env)
    environment = {**os.environ, **runtimes.environment(backend), **more}
    return execute(job, python=python, environment=environment, worker=worker)
