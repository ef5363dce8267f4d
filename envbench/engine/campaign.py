"""The only loop: ask the experiment for the next block, execute it, record it, repeat.

``next`` depends on the plan and the records alone, so resuming is replaying: a campaign that is
given the records of an earlier call continues where that one stopped. Each block is one line of
the results file, flushed when the block ends, also if it failed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Generic, Protocol

import msgspec
from msgspec.structs import replace

from envbench.engine.availability import TRIES, Arm, Arms, Build
from envbench.engine.experiment import Done, Experiment, Facts, Findings
from envbench.engine.new_plan import identity, new_id
from envbench.engine.resume import differences
from envbench.errors import CodeChanged, Interrupted
from envbench.model import (
    Block,
    BlockRecord,
    FactsRecord,
    Failure,
    Plan,
    Shared,
    Trial,
    TrialRecord,
)
from envbench.process.reply import Event, OnEvent
from envbench.results.store import MAX_LINE_BYTES, Journal


class Executed(msgspec.Struct, kw_only=True):
    """The outcome of a block: its trials, in order, and what they refer to by hash.

    ``turns`` has the trial of each slice of steps, in the order in which they were made.
    ``by_products`` are the contents of large files, by the hash that names them.
    """

    trials: list[TrialRecord] = []
    turns: list[int] = []
    shared: list[Shared] = []
    by_products: dict[str, bytes] = {}


class Executor(Protocol):
    """Executes blocks: on this machine, or, in a test, by a virtual clock.

    A worker's failure is a failed trial, not an exception. ``Interrupted`` passes through.
    """

    def probe(self, arm: Arm) -> Arm:
        """Return the arm with its runtime, or with the reason why its cell cannot run here."""

    def run(self, block: Block, arms: Arms, on_event: OnEvent) -> Executed: ...


class Listener(Protocol):
    """Shows a person messages and the progress of a campaign: a bar, or lines in a log.

    ``doing`` shows what goes on before the first block. ``agrees``: may these runtimes be built?
    """

    def say(self, text: str, /) -> None: ...
    def doing(self, text: str, /) -> None: ...
    def agrees(self, builds: Sequence[Build], /) -> bool: ...
    def began(self, experiment: Experiment[Any], plan: Plan, done: Done, before: Done) -> None: ...
    def block_began(self, block: Block) -> None: ...
    def trying_again(self, block: Block, of: Trial, failure: Failure, /) -> None: ...
    def event(self, event: Event) -> None: ...
    def block_ended(self, record: BlockRecord, left: int) -> None: ...
    def close(self) -> None: ...


@dataclass
class Campaign(Generic[Findings]):
    """Carries out a plan in its file, or resumes one. Afterwards it is the plan's outcome.

    ``done`` and ``shared`` (by hash) start with what an earlier call has recorded of this plan.
    ``before``: blocks of earlier plans, which show how long cells take.
    ``other_hardware``: this machine is not that of the profile. ``unavailable``: a backend cannot
    run here. ``stopped``: a person or the system ended it early.
    """

    journal: Journal
    plan: Plan
    experiment: Experiment[Findings]
    arms: Arms
    executor: Executor
    listener: Listener
    done: list[BlockRecord] = field(default_factory=list)
    before: list[BlockRecord] = field(default_factory=list)
    shared: dict[str, Shared] = field(default_factory=dict)
    other_hardware: bool = False
    unavailable: bool = False
    stopped: Interrupted | None = None

    def carry_out(self) -> None:
        """Execute the remaining blocks. If a block is interrupted, or the code has changed, it is
        recorded before ``Interrupted`` or ``CodeChanged`` is raised."""
        self.listener.began(self.experiment, self.plan, [*self.done], self.before)
        try:
            while (block := self.experiment.next(self.plan, self.done)) is not None:
                self._execute(block)
        finally:
            self.listener.close()

    @cached_property
    def findings(self) -> Findings:
        """What the records say. It is kept, so read it only after the last block."""
        return self.experiment.conclude(self.plan, self.done, self.facts)

    def concluded(self) -> None:
        """Record that the outcome was shown or saved. The same command now begins a new plan."""
        self.journal.end(self.plan.plan_id, "concluded")

    @property
    def left(self) -> int:
        return self.experiment.left(self.plan, self.done)

    @property
    def facts(self) -> Facts:
        shared = self.shared.values()
        return {each.hash: each.facts for each in shared if isinstance(each, FactsRecord)}

    def _execute(self, block: Block) -> None:
        """Execute a block. Repeat it if a trial was killed from outside, which says nothing about
        the backend. If that happens every time, the block has failed."""
        self.listener.block_began(block)
        for tries_left in reversed(range(TRIES)):
            record = self._attempt(block)
            failures = self.experiment.failures(record)
            killed = next((each for each in failures if each.killed), None)
            if killed is None or not tries_left:
                break
            stopped = replace(killed, reason="interrupted")  # so none of its trials counts
            trials = [replace(each, failure=stopped) for each in record.trials]
            self.journal.append(replace(record, trials=trials))
            of = [each.failure is killed for each in record.trials].index(True)
            self.listener.trying_again(block, block.trials[of], killed)
        self.journal.append(record)
        self.done.append(record)
        self.listener.block_ended(record, self.left)

    def _attempt(self, block: Block) -> BlockRecord:
        """Execute it once, and store what its record refers to."""
        now, began = datetime.now(UTC), time.monotonic()
        try:
            executed = self.executor.run(block, self.arms, self.listener.event)
            self._compare_code()
        except (Interrupted, CodeChanged) as error:
            stopped = Failure(reason="interrupted", message=str(error))
            executed = Executed(
                trials=[_failed(each, new_id(now), stopped) for each in block.trials]
            )
            self.journal.append(self._record(block, executed, now, began))
            raise
        for name, content in executed.by_products.items():
            self.journal.keep(name, content)
        for each in executed.shared:
            if each.hash not in self.shared:
                self.journal.append(each)
                self.shared[each.hash] = each
        return self._record(block, executed, now, began)

    def _compare_code(self) -> None:
        """Raise ``CodeChanged`` if the block may have run other code than the plan names."""
        now = replace(self.plan, **identity(self.experiment, self.arms))
        if changed := differences(self.plan, now, self.arms):
            raise CodeChanged(
                f"the code changed while the plan ran: {'; '.join(changed)}.",
                hint="Do not edit code while envbench measures it. The last block does not count, "
                "and the same command begins a new plan.",
            )

    def _record(self, block: Block, executed: Executed, now: datetime, began: float) -> BlockRecord:
        record = BlockRecord(
            block_id=new_id(now),
            plan_id=self.plan.plan_id,
            stage=block.stage,
            round=block.round,
            started_utc=now.isoformat(timespec="milliseconds"),
            seconds=round(time.monotonic() - began, 3),
            turns=executed.turns,
            trials=executed.trials,
        )
        size = len(msgspec.json.encode(record))
        if size < MAX_LINE_BYTES:
            return record
        failure = Failure(
            reason="invalid-figure",
            phase="measure",
            message=f"its record of {size:,} bytes is too long for a results file",
            hint="Measure for a shorter time.",
        )
        return replace(record, trials=[_failed(e, e.trial_id, failure) for e in record.trials])


def _failed(trial: Trial | TrialRecord, trial_id: str, failure: Failure) -> TrialRecord:
    """The record of a trial, with its failure and no measurements."""
    return TrialRecord(
        trial_id=trial_id, cell=trial.cell, arm=trial.arm, seed=trial.seed, failure=failure
    )
