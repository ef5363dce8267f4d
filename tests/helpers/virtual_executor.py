"""An executor with a virtual clock: the pipeline from command line to disk without a process.

It replaces the executor of this machine (``envbench.engine.local_executor``). The command line gets
it as click's ``obj``. Its trials compute their figures from a virtual clock, so that rounds,
resuming, failures and figures are exact.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import pytest

from envbench.backends import Backend
from envbench.cli import envbench
from envbench.engine.availability import Arm, Arms
from envbench.engine.campaign import Executed
from envbench.engine.new_plan import new_id
from envbench.model import (
    Agreement,
    Apart,
    Audit,
    Block,
    BlockRecord,
    Failure,
    Plan,
    Run,
    RuntimeFact,
    Times,
    Trial,
    TrialRecord,
    Windows,
    arm_key,
    digest,
)
from envbench.process.reply import OnEvent
from envbench.results import store
from envbench.results.joining import joined

SPEED = {"fake-slow": 1000, "fake-fast": 4000}  # transitions per second of the virtual clock
BROKEN = Failure(reason="signal", message="the worker died of SIGSEGV", signal="SIGSEGV")


def fake(name: str, **given: Any) -> Backend:
    """A backend without a worker. Its adapter is that of a plugin, so that the hash of its code
    covers the files that plugins share."""
    values = {"families": ["gym"], "adapter": f"{name}:Fake", "library": "envbench", **given}
    return Backend(name=name, label=name.title(), **values)


class VirtualExecutor:
    """``trouble[n]`` is raised by the n-th block, or is the failure of its last trial.
    ``broken_arms`` are the failures of all trials of an arm. ``dead_probes`` says how many of the
    first probes of each backend die of a signal."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds of the virtual clock
        self.blocks: list[Block] = []
        self.probes: Counter[str] = Counter()
        self.trouble: dict[int, BaseException | Failure] = {}
        self.speed: Callable[[str], float] = lambda name: SPEED.get(name, 1000)
        self.before_block: Callable[[], None] = lambda: None
        self.packages = {"fake": "1.0"}
        self.dead_probes: dict[str, int] = {}
        self.dead_of = BROKEN
        self.broken_arms: dict[str, Failure] = {}
        self.facts_before: dict[str, Any] = {}  # what every trial records of the machine
        self.searches = False  # for edits of code on the import path, which takes long

    @property
    def trials(self) -> list[Trial]:
        """The last trial of each block; earlier ones are references."""
        return [block.trials[-1] for block in self.blocks]

    @property
    def own_trials(self) -> list[Trial]:
        """The trials of all blocks, without those of an arm, such as the reference kernel."""
        return [trial for block in self.blocks for trial in block.trials if not trial.arm]

    # ------------------------------------------------------------ what an executor does

    def probe(self, arm: Arm) -> Arm:
        name = arm.backend.name
        self.probes[name] += 1
        if self.probes[name] <= self.dead_probes.get(name, 0):
            return msgspec.structs.replace(arm, failure=self.dead_of)
        return msgspec.structs.replace(arm, runtime=self._runtime())

    def run(self, block: Block, arms: Arms, on_event: OnEvent) -> Executed:
        self.before_block()
        self.blocks.append(block)
        trouble = self.trouble.get(len(self.blocks))
        if isinstance(trouble, BaseException):
            raise trouble
        by_products: dict[str, bytes] = {}
        records = []
        for trial in block.trials:
            arm = arms[arm_key(trial.arm, trial.cell)]
            failure = arm.failure or self.broken_arms.get(trial.arm)
            if trial is block.trials[-1]:
                failure = failure or trouble
            record = self._blank(trial, failure)
            if failure is None:
                record = self._done(block, trial, record, by_products)
            records.append(record)
        shared = [self._runtime()] if any(each.runtime for each in records) else []
        return Executed(trials=records, shared=[*shared], by_products=by_products)

    # ------------------------------------------------------------ the record of a trial

    def _runtime(self) -> RuntimeFact:
        facts = ("3.11.0", "CPython", self.packages)
        return RuntimeFact(
            hash=digest(facts), python=facts[0], implementation=facts[1], packages=facts[2]
        )

    def _blank(self, trial: Trial, failure: Failure | None) -> TrialRecord:
        never_up = failure is not None and failure.reason == "setup"
        return TrialRecord(
            trial_id=new_id(datetime.now(UTC)),
            cell=trial.cell,
            arm=trial.arm,
            seed=trial.seed,
            runtime="" if never_up else self._runtime().hash,
            failure=failure,
        )

    def _done(
        self, block: Block, trial: Trial, record: TrialRecord, by_products: dict[str, bytes]
    ) -> TrialRecord:
        if trial.mode == "verify":
            return self._verified(block, trial, record, by_products)
        warmup, measured = self._windows(trial, 4), self._windows(trial, 8)
        times = Times(
            import_ns=1,
            build_ns=2,
            first_step_ns=3,
            warmup_ns=sum(warmup.ns),
            measured_ns=sum(measured.ns),
        )
        return msgspec.structs.replace(
            record,
            times=times,
            warmup=warmup,
            measured=measured,
            steady=True,
            before=self.facts_before,
            # As if a spot check had found the reference's steps: otherwise no plugin is ranked.
            agreement=None if trial.arm else _equal_steps(trial, "for-loop", 60),
        )

    def _windows(self, trial: Trial, count: int) -> Windows:
        width, start, numenv = trial.protocol.window_s, self.now, trial.cell.numenv
        steps, starts = [], []
        for _ in range(count):
            starts.append(round((self.now - start) * 1e9))
            steps.append(round(width * self.speed(trial.cell.backend)))
            self.now += width
        calls = [math.ceil(each / numenv) + 1 for each in steps]
        resets = [c * numenv - s for c, s in zip(calls, steps, strict=True)]
        ns = [round(width * 1e9)] * count
        return Windows(start_ns=starts, ns=ns, calls=calls, steps=steps, resets=resets)

    def _verified(
        self, block: Block, trial: Trial, record: TrialRecord, by_products: dict[str, bytes]
    ) -> TrialRecord:
        """Equal work. The trace of a backend is its name."""
        trace = trial.cell.backend.encode()
        name = f"{hashlib.sha256(trace).hexdigest()}.npz"
        by_products[name] = trace
        calls = trial.verify.audit_calls
        steps = calls * trial.cell.numenv
        followed = block.reference is not None and trial is not block.trials[block.reference]
        reference = block.trials[0].cell.backend
        agreement = _equal_steps(trial, reference, trial.verify.lock_steps)
        return msgspec.structs.replace(
            record,
            audit=Audit(
                calls=calls,
                steps=steps,
                resets=0,
                frames=float(steps * trial.cell.frame_skip),
                counted_by="the emulator",
            ),
            agreement=agreement if followed else None,
            responds=True,
            by_products={"trace": name},
        )


def _equal_steps(trial: Trial, reference: str, steps: int) -> Agreement:
    exact = [Apart(median=0.0, p90=0.0, largest=0.0)] * trial.cell.numenv
    return Agreement(reference=reference, steps=steps, observations=exact, rewards=exact)


# ---------------------------------------------------------------- calls, and what they left


def invoke(executor: VirtualExecutor, *words: object) -> click.testing.Result:
    """Call the command line with that executor. Any exception fails the test."""
    runner = click.testing.CliRunner()
    with pytest.MonkeyPatch.context() as patched:
        if not executor.searches:
            patched.setattr("envbench.engine.new_plan.code_files", lambda _: iter(()))
        result = runner.invoke(envbench, [*map(str, words)], obj=executor)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


RESULTS = Path("results")


def files(results: Path = RESULTS) -> list[Path]:
    return store.files(results)


def records(results: Path = RESULTS) -> list[Any]:
    return [record for path in files(results) for _, record in store.read(path).records]


def plans(results: Path = RESULTS) -> list[Plan]:
    return [record for record in records(results) if isinstance(record, Plan)]


def blocks(results: Path = RESULTS) -> list[BlockRecord]:
    return [record for record in records(results) if isinstance(record, BlockRecord)]


def runs(*, kernels: bool = False) -> list[Run]:
    """The runs of cells; with ``kernels``, those of the reference kernels, too."""
    every = [joined(store.read(path).records).records for path in files()]
    found = [record for records in every for record in records if isinstance(record, Run)]
    return [run for run in found if kernels or not run.arm]
