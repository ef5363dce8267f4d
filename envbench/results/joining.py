"""Pure: join the records of a results file for a report.

Each trial is joined with its plan, block and facts. A block whose plan is missing is left out, with
a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from envbench.model import (
    BlockRecord,
    EndedRecord,
    FactsRecord,
    MachineFact,
    Plan,
    Published,
    Record,
    Run,
    RunDesign,
    RuntimeFact,
    Stored,
    TrialRecord,
    TrialResult,
    Verification,
    VerifyDesign,
    arm_key,
)
from envbench.text import counted, one_line

Facts = dict[str, dict[str, Any]]  # what adapters reported about their trials, by hash


@dataclass(frozen=True, kw_only=True)
class Archive:
    """``records`` for a report; ``lines``: the line of each run and verification, by its id."""

    records: list[Record] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def joined(stored: Iterable[tuple[int, Stored]]) -> Archive:
    """The joined records of one file, from its stored records with their line numbers."""
    stored = list(stored)
    plans = {each.plan_id: each for _, each in stored if isinstance(each, Plan)}
    facts = {each.hash: each.facts for _, each in stored if isinstance(each, FactsRecord)}
    archive, orphans = Archive(), Counter[str]()
    for line, record in stored:
        match record:
            case BlockRecord() if record.plan_id in plans:
                found = _of_block(plans[record.plan_id], record, facts)
                archive.records.extend(found.values())
                archive.lines.update(dict.fromkeys(found, line))
            case BlockRecord():
                orphans[record.plan_id] += 1
            case EndedRecord() | MachineFact() | RuntimeFact() | Published():
                archive.records.append(record)
            case Plan(design=RunDesign()):
                archive.records.append(record)
    archive.warnings.extend(
        f"{counted(count, 'block')} of the plan {one_line(plan_id)} left out: the plan's own line "
        "is missing"
        for plan_id, count in orphans.items()
    )
    return archive


def _of_block(plan: Plan, block: BlockRecord, facts: Facts) -> dict[str, Run | Verification]:
    """The runs or the verification of a block, by the id of their trial."""
    if isinstance(plan.design, RunDesign):
        return {trial.trial_id: run_of(plan, block, trial, facts) for trial in block.trials}
    if isinstance(plan.design, VerifyDesign) and not block.interrupted:
        return {block.trials[-1].trial_id: verification_of(plan, block, facts)}
    return {}


def run_of(plan: Plan, block: BlockRecord, trial: TrialRecord, facts: Facts) -> Run:
    """One trial of a ``run`` plan."""
    beside = {"before": trial.before, "environment": trial.environment}
    design, alone = plan.design, len(block.trials) == 1
    blocks = isinstance(design, RunDesign) and design.block_size > 1  # older plans have none
    return Run(
        run_id=trial.trial_id,
        plan_id=plan.plan_id,
        round=block.round,
        started_utc=block.started_utc,
        fingerprint=plan.fingerprint,
        block=block.block_id,
        arm=trial.arm,
        quick=isinstance(design, RunDesign) and design.quick,
        alternated=blocks and not alone,
        without_others=blocks and alone,
        facts={**facts.get(trial.facts, {}), **{k: v for k, v in beside.items() if v}},
        **_result(trial),
    )


def verification_of(plan: Plan, block: BlockRecord, facts: Facts) -> Verification:
    """The verification of a ``verify`` block's last trial. The others are its reference."""
    trial = block.trials[-1]
    work = facts.get(trial.facts, {}).get("work")
    return Verification(
        verification_id=trial.trial_id,
        started_utc=block.started_utc,
        fingerprint=plan.fingerprint,
        worker=plan.code.get(f"{arm_key(trial.arm, trial.cell)}/measure", ""),
        verifier=f"{plan.envbench_version} "
        + plan.code.get(f"{arm_key(trial.arm, trial.cell)}/verify", ""),
        work=work if isinstance(work, dict) else {},
        **_result(trial),
    )


def _result(trial: TrialRecord) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in TrialResult.__struct_fields__}
