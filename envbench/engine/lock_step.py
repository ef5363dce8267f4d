"""Compare a trial with its reference, which repeats its steps from the same states.

In ``verify`` both are trials of one block. In ``run``, ``spot_check`` starts the reference for some
steps that a measured trial recorded.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from envbench import backends
from envbench.backends.specification import with_role
from envbench.decisions import responses, traces
from envbench.decisions.agreement import compared
from envbench.decisions.ledger import one_engine
from envbench.decisions.trace_file import Trace, read_trace
from envbench.engine.availability import Arm, Arms, own_runtime
from envbench.engine.target import reference_of
from envbench.engine.worker_job import OBSERVED, launch, reply_of
from envbench.families import Standard
from envbench.model import Agreement, Trial, Verify, arm_key
from envbench.process.reply import Reply

GIVEN = "given.npz"  # the trace whose steps a reference has to predict
LONGEST_SPOT_NS = 5e9  # as in the worker: of a slow backend, a spot check has fewer steps
UNUSABLE = (IndexError, TypeError, ValueError)  # a trace has arrays of another shape or kind


def spot_check(trial: Trial, reply: Reply, arms: Arms) -> Agreement | None:
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
    found = reply_of(launch(follower, replace(arm, target=target)), {GIVEN: reply.trace})
    if found.failure is not None and found.failure.phase in ("", "start", "import"):
        return None
    if found.trace is None or found.failure is not None:
        return lacking  # perhaps because of what the trial showed
    standard = target.family.standard(target.cell.kind, target.cell.task) or Standard()
    try:
        own, predicted = (read_trace(each) for each in (reply.trace, found.trace))
        agreement = agreement_of(trial, standard, (own, reply), (predicted, found))
    except UNUSABLE:
        return lacking
    if target.family.follows_by == "seed" and compared(standard, agreement)[0] is False:
        again = repeats(follower, replace(arm, target=target), reply.trace, predicted)
        agreement = replace(agreement, repeats=again)
    enough = agreement.other_shape is not None or agreement.steps >= _fewest(trial, reply)
    return agreement if enough else lacking


def _fewest(trial: Trial, reply: Reply) -> float:
    """The fewest steps that a valid spot check has. Resets and calls of several steps do not count,
    and a slow backend is asked for fewer steps."""
    calls, times = sum(reply.measured.calls), reply.times
    pace = times.measured_ns / calls if times and calls else 1.0
    return min(trial.spot, LONGEST_SPOT_NS / max(pace, 1.0)) / 4


def agreement_of(
    trial: Trial, standard: Standard, own: tuple[Trace, Reply], reference: tuple[Trace, Reply]
) -> Agreement:
    """How far a trial is from its reference, by the traces and by what both report. An error of
    ``UNUSABLE`` if the traces cannot be compared.

    Observations count as rounded only if the backend reports that type. Zeros count as hollow
    unless the backend says that it does not compute those numbers."""
    (trace, reply), (predicted, its_reply) = own, reference
    work, its_work = _work(reply), _work(its_reply)
    shape, its_shape = list(trace.observations.shape[2:]), its_work.get("observation_shape")
    other_shape = None if its_shape in (None, shape) or trial.cell.kind != "env" else shape
    if other_shape is not None and predicted.by_run:  # the reference could not follow it
        return Agreement(reference=standard.reference, other_shape=shape)
    agreement = traces.compare(standard, predicted, trace)
    same_type = work.get("observation_dtype") == str(trace.observations.dtype)
    promised = work.get(standard.promised_by) is not False
    source = with_role(backends.of_record(trial.cell.backend), "actions")
    usual = source is None or trial.cell.settings.get(source.name, source.default) == source.default
    return replace(
        agreement,
        other_shape=other_shape,
        same_engine=same_engine(reply, its_reply),
        rounded=agreement.rounded and same_type,
        hollow=agreement.hollow and promised,
        actions_apart=agreement.actions_apart if usual else None,
        actions_related=agreement.actions_related if usual else None,
    )


def repeats(trial: Trial, arm: Arm, given: bytes, first: Trace) -> bool:
    """Does a reference that starts from a seed predict the same again, in a new process? Without
    that, a difference says nothing about the other backend."""
    found = reply_of(launch(trial, arm), {GIVEN: given})
    try:
        again = read_trace(found.trace or b"")
    except UNUSABLE:  # or it failed
        return False
    return traces.identical(again, first)


def responds(trial: Trial, reply: Reply, arm: Arm) -> bool | None:
    """Do the environments of a trial follow their actions?

    Its first steps are made again with its seed, in a new process, but every environment gets the
    actions of the first one. The first environment must return the same observations again, and the
    others must not. None: even the first one does not repeat."""
    amount = Verify(lock_steps=OBSERVED, audit_calls=0, together=OBSERVED, several=True)
    found = reply_of(launch(replace(trial, verify=amount), arm), {})
    try:
        own, again = (read_trace(each or b"") for each in (reply.trace, found.trace))
        return responses.repeated(own, again)
    except UNUSABLE:  # or it failed
        return None


def same_engine(*replies: Reply) -> bool:
    """Do all replies report the same engine and version?"""
    return one_engine(_work(each) for each in replies)


def _work(reply: Reply) -> dict[str, Any]:
    """What the adapter reports of a step."""
    work = reply.facts.get("work")
    return work if isinstance(work, dict) else {}
