"""Execute a block on this machine: its trials become worker processes, their replies records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from envbench import runtimes
from envbench.decisions import responses
from envbench.decisions.agreement import compared
from envbench.decisions.trace_file import Trace, read_trace
from envbench.engine import lock_step
from envbench.engine.availability import Arm, Arms, answer_of, runtime_fact
from envbench.engine.campaign import Executed
from envbench.engine.new_plan import new_id
from envbench.engine.worker_job import launch, shared_fields
from envbench.model import (
    Agreement,
    Block,
    FactsRecord,
    Failure,
    Shared,
    Trial,
    TrialRecord,
    arm_key,
    digest,
)
from envbench.process.alternate import Launch, alternate
from envbench.process.one_job import execute
from envbench.process.reply import OnEvent, Reply

Launches = Mapping[int, Launch]  # of the trials that can start, by their place in the block
TRACE = "trace"
CHANGED = Failure(
    reason="setup",
    message="the packages of its runtime, or a plugin's code, changed while the plan ran",
    hint="Do not install packages or edit a plugin while envbench measures. Run the command again.",
)


class LocalExecutor:
    """Fresh processes on this machine, one per trial."""

    def probe(self, arm: Arm) -> Arm:
        trial = Trial(cell=arm.cell, arm=arm.name, mode="probe")
        return answer_of(arm, execute(**asdict(launch(trial, arm))))

    def run(self, block: Block, arms: Arms, on_event: OnEvent) -> Executed:
        chosen = [arms[arm_key(trial.arm, trial.cell)] for trial in block.trials]
        launches = {
            side: launch(block.trials[side], arm)
            for side, arm in enumerate(chosen)
            if arm.failure is None
        }
        replies, turns = _replies(block, launches, on_event)
        for side, arm in enumerate(chosen):
            if arm.failure is not None:
                replies[side] = Reply(ok=False, failure=arm.failure)
            elif failure := _mismatch(arm, replies[side], turns.count(side)):
                replies[side] = replace(replies[side], ok=False, failure=failure)
        recording = _Recording(block, chosen, replies, Executed(turns=turns))
        for side, trial in enumerate(block.trials):
            if not replies[side].ok:
                continue
            if trial.spot:
                recording.spots[side] = lock_step.spot_check(trial, replies[side], arms)
            elif replies[side].trace is None:
                continue
            elif launches[side].job.observed and block.reference not in (None, side):
                recording.responds[side] = lock_step.responds(trial, replies[side], chosen[side])
        return recording.made()


def _replies(
    block: Block, launches: Launches, on_event: OnEvent
) -> tuple[dict[int, Reply], list[int]]:
    """The replies of the trials that can start, by index; and the trial of each slice of steps."""
    alone = len(block.trials) == 1 and not block.programme.alternates
    if alone or not launches or block.reference is not None:
        return _one_by_one(block, launches, on_event), []
    sides = list(launches)
    place = {side: index for index, side in enumerate(sides)}
    programme = replace(
        block.programme,
        turns=[place[side] for side in block.programme.turns if side in place],
        reset_turns=[place[side] for side in block.programme.reset_turns if side in place],
        mixed=[block.programme.mixed[side] for side in sides if block.programme.mixed],
        lead_in_s=[block.programme.lead_in_s[side] for side in sides if block.programme.lead_in_s],
    )
    replies, turns = alternate(list(launches.values()), programme, on_event)
    return dict(zip(sides, replies, strict=True)), [sides[turn] for turn in turns]


def _one_by_one(block: Block, launches: Launches, on_event: OnEvent) -> dict[int, Reply]:
    """Run the trials one after another. The reference runs last: it predicts the other's trace.
    Whole episodes are compared as distributions, so there the reference steps on its own."""
    replies: dict[int, Reply] = {}
    for side in sorted(launches, key=lambda side: side == block.reference):
        trace = next((each.trace for each in replies.values()), None)
        episodes = launches[side].job.observed is not None
        files = {} if trace is None or episodes else {lock_step.GIVEN: trace}
        replies[side] = execute(**asdict(launches[side]), on_event=on_event, files=files)
    return replies


def _mismatch(arm: Arm, reply: Reply, ordered: int) -> Failure | None:
    """Why a reply cannot count: another runtime, or not the ``ordered`` slices (0: any number)."""
    if reply.python and arm.runtime and runtime_fact(reply).hash != arm.runtime.hash:
        return CHANGED
    made = len(reply.measured.ns)
    if reply.ok and ordered and made != ordered:
        message = f"its worker recorded {made} slices, and {ordered} were ordered"
        return Failure(reason="invalid-figure", phase="measure", message=message)
    return None


@dataclass
class _Recording:
    """Turns replies into records. ``executed`` collects them and what they share."""

    block: Block
    arms: list[Arm]
    replies: Mapping[int, Reply]
    executed: Executed
    traces: dict[int, Trace] = field(default_factory=dict)
    spots: dict[int, Agreement | None] = field(default_factory=dict)
    responds: dict[int, bool | None] = field(default_factory=dict)

    def made(self) -> Executed:
        for side, trial in enumerate(self.block.trials):  # a reference comes first
            self.executed.trials.append(self._trial(side, trial))
        return self.executed

    def _trial(self, side: int, trial: Trial) -> TrialRecord:
        reply, arm = self.replies[side], self.arms[side]
        facts = {name: value for name, value in reply.facts.items() if name != "before"}
        own = {
            "runtime": self._share(runtime_fact(reply)) if reply.python else "",
            "before": reply.facts.get("before") or {},
            "facts": self._share(FactsRecord(hash=digest(facts), facts=facts)) if facts else "",
            "environment": runtimes.environment(arm.backend),
        }
        values = {**shared_fields(trial, TrialRecord), **shared_fields(reply, TrialRecord), **own}
        record = TrialRecord(trial_id=new_id(datetime.now(UTC)), **values)
        if trial.mode == "verify":
            return self._compared(side, trial, record, reply)
        return replace(record, agreement=self.spots.get(side))

    def _share(self, fact: Shared) -> str:
        self.executed.shared.append(fact)
        return fact.hash

    def _compared(self, side: int, trial: Trial, record: TrialRecord, reply: Reply) -> TrialRecord:
        """The record with its trace stored and compared with the reference's."""
        if reply.trace is None or reply.failure is not None:
            return record
        reference = None if self.block.reference == side else self.block.reference
        if reference is not None and reference not in self.traces:
            name, why = self.block.trials[reference].cell.backend, self.replies[reference].failure
            cause = why.message if why else "it recorded nothing"
            message = f"not compared: its reference {name} failed: {cause}"
            failure = Failure(reason="setup", message=message, hint=why.hint if why else "")
            return replace(record, failure=failure)
        family = self.arms[side].target.family
        agreement, standard = None, family.standard(trial.cell.kind, trial.cell.task)
        try:
            self.traces[side] = trace = read_trace(reply.trace)
            if reference is not None and standard is not None:
                its = self.traces[reference], self.replies[reference]
                agreement = lock_step.agreement_of(trial, standard, (trace, reply), its)
                if family.follows_by == "seed" and not compared(standard, agreement)[0]:
                    agreement = replace(agreement, repeats=self._repeats(reference, reply.trace))
            judged = family.own_tasks or (agreement and standard and not standard.episodes)
            amount = trial.verify.together
            again = self.responds.get(side)
            responds = None if judged else responses.responds(trace, amount, again)
        except lock_step.UNUSABLE as error:
            unusable = Failure(reason="invalid-figure", phase="measure", message=str(error))
            return replace(record, failure=unusable)
        name = f"{hashlib.sha256(reply.trace).hexdigest()}.npz"
        self.executed.by_products[name] = reply.trace
        return replace(
            record,
            by_products={TRACE: name},
            agreement=agreement,
            responds=responds,
        )

    def _repeats(self, reference: int, given: bytes) -> bool:
        trial, arm = self.block.trials[reference], self.arms[reference]
        return lock_step.repeats(trial, arm, given, self.traces[reference])
