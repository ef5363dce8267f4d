"""Execute a block on this machine: its trials become worker processes, their replies records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from envbench import backends, families, runtimes
from envbench.backends.specification import with_role
from envbench.decisions import traces
from envbench.decisions.trace_file import Trace, read_trace
from envbench.engine.availability import (
    TRIES,
    Arm,
    Arms,
    answer_of,
    own_runtime,
    runtime_fact,
)
from envbench.engine.campaign import Executed
from envbench.engine.new_plan import new_id
from envbench.engine.target import Target, reference_of
from envbench.families import Standard
from envbench.model import (
    Agreement,
    Block,
    FactsRecord,
    Failure,
    Job,
    Shared,
    Trial,
    TrialRecord,
    Verify,
    arm_key,
    digest,
)
from envbench.process.alternate import Launch, alternate
from envbench.process.one_job import execute
from envbench.process.reply import OnEvent, Reply

Launches = Mapping[int, Launch]  # of the trials that can start, by their place in the block
GIVEN = "given.npz"  # the trace whose steps a reference has to predict
TRACE = "trace"
LONGEST_SPOT_NS = 5e9  # as in the worker: of a slow backend, a spot check has fewer steps
OBSERVED = 200  # lock-steps that show if observations follow actions, where episodes are compared
CHANGED = Failure(
    reason="setup",
    message="the packages of its runtime changed while the plan ran",
    hint="Do not install or update packages while envbench measures. Run the command again.",
)


class LocalExecutor:
    """Fresh processes on this machine, one per trial."""

    def probe(self, arm: Arm) -> Arm:
        trial = Trial(cell=arm.cell, arm=arm.name, mode="probe")
        return answer_of(arm, execute(**asdict(_launch(trial, arm))))

    def run(self, block: Block, arms: Arms, on_event: OnEvent) -> Executed:
        chosen = [arms[arm_key(trial.arm, trial.cell)] for trial in block.trials]
        launches = {
            side: _launch(block.trials[side], arm)
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
                recording.spots[side] = _spot_check(trial, replies[side], arms)
            elif replies[side].trace is None:
                continue
            elif launches[side].job.observed and block.reference not in (None, side):
                recording.responds[side] = _responds(trial, replies[side], chosen[side])
        return recording.made()


def make_job(trial: Trial, target: Target, run_id: str) -> Job:
    """The order for a trial's worker."""
    family = target.family
    standard = family.standards.get(trial.cell.kind)
    return Job(
        run_id=run_id,
        adapter=target.backend.adapter,
        family=family.name,
        family_code=family.worker,
        own_task=family.own_tasks,
        together=trial.verify.together if trial.mode == "verify" else 0,
        observed=OBSERVED if standard and standard.episodes else None,
        by_state=_by_state(target),
        **_shared(trial, Job),
        **_shared(trial.cell, Job),
    )


def _by_state(target: Target) -> bool:
    """Can the reference be put into the states of this target's environments?"""
    cell, family = target.cell, target.family
    known = cell.kind == "env" and family.follows_by == "state" and not target.backend.own_engine
    return known and not family.uncompared(cell.kind, cell.task)


def _shared(value: Struct, kind: type[Struct]) -> dict[str, Any]:
    """The fields of a value that another kind of value also has."""
    names = set(value.__struct_fields__) & set(kind.__struct_fields__)
    return {name: getattr(value, name) for name in names}


def _launch(trial: Trial, arm: Arm) -> Launch:
    return Launch(
        job=make_job(trial, arm.target, trial.cell.key),
        python=arm.python,
        environment={**os.environ, **runtimes.environment(arm.backend)},
        worker=arm.worker,
    )


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
        files = {} if trace is None or episodes else {GIVEN: trace}
        replies[side] = execute(**asdict(launches[side]), on_event=on_event, files=files)
    return replies


def _spot_check(trial: Trial, reply: Reply, arms: Arms) -> Agreement | None:
    """Let the reference follow some steps of a measured trial. None if the reference cannot run; an
    agreement without steps if the trial recorded hardly any."""
    target = reference_of(trial.cell)
    if target is None:
        return None
    lacking = Agreement(reference=target.backend.name)
    if reply.trace is None:
        return lacking
    arm = arms.get(arm_key("", target.cell)) or own_runtime(
        target, {}, setup=False, say=lambda _: None
    )
    if arm.failure is not None:
        return None
    amount = Verify(lock_steps=trial.spot, audit_calls=1)
    follower = Trial(cell=target.cell, mode="verify", seed=trial.seed, verify=amount)
    launch = _launch(follower, replace(arm, target=target))
    found = _repeated(launch, {GIVEN: reply.trace})
    if found.failure is not None and found.failure.phase in ("", "start", "import"):
        return None
    if found.trace is None or found.failure is not None:
        return lacking  # perhaps because of what the trial showed
    standard = target.family.standard(target.cell.kind, target.cell.task)
    try:
        own, predicted = (read_trace(each) for each in (reply.trace, found.trace))
        agreement = traces.compare(standard or Standard(), predicted, own)
    except (IndexError, TypeError, ValueError):  # of another shape or kind
        return lacking
    agreement = _with_reports(trial, agreement, own, reply, found)
    return agreement if agreement.steps >= _fewest(trial, reply) else lacking


def _repeated(launch: Launch, files: Mapping[str, bytes]) -> Reply:
    """The reply of a worker that is started again if something outside kills it."""
    for _ in range(TRIES):
        found = execute(**asdict(launch), files=files)
        if found.failure is None or not found.failure.killed:
            break
    return found


def _fewest(trial: Trial, reply: Reply) -> float:
    """The fewest steps that a valid spot check has. Resets and calls of several steps do not count,
    and a slow backend is asked for fewer steps."""
    calls, times = sum(reply.measured.calls), reply.times
    pace = times.measured_ns / calls if times and calls else 1.0
    return min(trial.spot, LONGEST_SPOT_NS / max(pace, 1.0)) / 4


def _with_reports(
    trial: Trial, agreement: Agreement, own: Trace, reply: Reply, reference: Reply
) -> Agreement:
    """Add what both report to the agreement. Observations count as rounded only if the backend
    reports that type. Zeros count as hollow only if the backend claims to compute those numbers."""
    reported = reply.facts.get("work")
    work = reported if isinstance(reported, dict) else {}
    family = families.of_record(trial.cell.env)
    standard = family.standard(trial.cell.kind, trial.cell.task)
    promised = standard is not None and work.get(standard.promised_by) is True
    source = with_role(backends.of_record(trial.cell.backend), "actions")
    usual = source is None or trial.cell.settings.get(source.name, source.default) == source.default
    return replace(
        agreement,
        same_engine=same_engine(reply, reference),
        rounded=agreement.rounded and work.get("observation_dtype") == str(own.observations.dtype),
        hollow=agreement.hollow and promised,
        actions_apart=agreement.actions_apart if usual else None,
    )


def _responds(trial: Trial, reply: Reply, arm: Arm) -> bool | None:
    """Do the environments of a trial follow their actions?

    Its first steps are made again with its seed, in a new process, but every environment gets the
    actions of the first one. The first environment must return the same observations again, and the
    others must not. None: even the first one does not repeat."""
    amount = Verify(lock_steps=OBSERVED, audit_calls=0, together=OBSERVED, several=True)
    found = _repeated(_launch(replace(trial, verify=amount), arm), {})
    try:
        own, again = (read_trace(each or b"") for each in (reply.trace, found.trace))
        return traces.repeated(own, again)
    except (IndexError, TypeError, ValueError):  # it failed, or its arrays are of another shape
        return None


def same_engine(*replies: Reply) -> bool:
    """Do all report the same engine and version? A reply that reports none claims to use the
    reference's."""
    works = [each.facts.get("work") for each in replies]
    return len({str(e["engine"]) for e in works if isinstance(e, dict) and e.get("engine")}) < 2


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
        values = {**_shared(trial, TrialRecord), **_shared(reply, TrialRecord), **own}
        record = TrialRecord(trial_id=new_id(datetime.now(UTC)), **values)
        if trial.mode == "verify":
            return self._compared(side, trial, record, reply)
        return replace(record, agreement=self.spots.get(side))

    def _share(self, fact: Shared) -> str:
        self.executed.shared.append(fact)
        return fact.hash

    # ------------------------------------------------------------ equal work

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
                found = traces.compare(standard, self.traces[reference], trace)
                agreement = _with_reports(trial, found, trace, reply, self.replies[reference])
            judged = family.own_tasks or (agreement and standard and not standard.episodes)
            amount = trial.verify.together
            responds = None if judged else traces.responds(trace, amount, self.responds.get(side))
        except (IndexError, TypeError, ValueError) as error:
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
