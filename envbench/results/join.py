"""From stored records to what a report reads: each trial joined with its plan, block and facts.

Pure. A block whose plan is missing is left out with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envbench.model import (
    BlockRecord,
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
from envbench.text import counted


@dataclass(frozen=True, kw_only=True)
class Archive:
    """``records`` for a report; ``lines``: the line of each run and verification, by its id."""

    records: list[Record] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def joined(stored: Iterable[tuple[int, Stored]]) -> Archive:
    """The joined records of one file, from its stored records with their line numbers."""
    stored = list(stored)
    records = [record for _, record in stored]
    plans = {each.plan_id: each for each in records if isinstance(each, Plan)}
    facts = {each.hash: each.facts for each in records if isinstance(each, FactsRecord)}
    archive = Archive()
    orphans: dict[str, int] = {}
    for line, record in stored:
        if isinstance(record, BlockRecord):
            plan = plans.get(record.plan_id)
            if plan is None:
                orphans[record.plan_id] = orphans.get(record.plan_id, 0) + 1
                continue
            for each in _of_block(plan, record, facts):
                archive.records.append(each)
                archive.lines[each.run_id if isinstance(each, Run) else each.verification_id] = line
        elif isinstance(record, Plan):
            if isinstance(record.design, RunDesign):
                archive.records.append(record)
        elif isinstance(record, MachineFact | RuntimeFact | Published):
            archive.records.append(record)
    archive.warnings.extend(
        f"{counted(count, 'block')} of the plan {plan_id} left out: the plan's own line is missing"
        for plan_id, count in orphans.items()
    )
    return archive


def _of_block(
    plan: Plan, block: BlockRecord, facts: dict[str, dict[str, Any]]
) -> Iterator[Run | Verification]:
    if isinstance(plan.design, RunDesign):
        for trial in block.trials:
            yield run_of(plan, block, trial, facts)
    elif isinstance(plan.design, VerifyDesign) and block.trials and not block.interrupted:
        yield verification_of(plan, block, facts)


def run_of(
    plan: Plan, block: BlockRecord, trial: TrialRecord, facts: dict[str, dict[str, Any]]
) -> Run:
    """One trial of a ``run`` plan."""
    beside = {"before": trial.before, "environment": trial.environment}
    return Run(
        run_id=trial.trial_id,
        plan_id=plan.plan_id,
        round=block.round,
        started_utc=block.started_utc,
        fingerprint=plan.fingerprint,
        quick=isinstance(plan.design, RunDesign) and plan.design.quick,
        facts={**facts.get(trial.facts, {}), **{k: v for k, v in beside.items() if v}},
        **_result(trial),
    )


def verification_of(
    plan: Plan, block: BlockRecord, facts: dict[str, dict[str, Any]]
) -> Verification:
    """The verification of a ``verify`` block's last trial. The others are its reference."""
    trial = block.trials[-1]
    work = facts.get(trial.facts, {}).get("work")
    return Verification(
        verification_id=trial.trial_id,
        started_utc=block.started_utc,
        fingerprint=plan.fingerprint,
        worker=plan.code.get(f"{arm_key(trial.arm, trial.cell)}/measure", ""),
        work=work if isinstance(work, dict) else {},
        **_result(trial),
    )


def _result(trial: TrialRecord) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in TrialResult.__struct_fields__}


class Location(NamedTuple):
    """The file and line (from 1) of a record."""

    record: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """``epyc-vm/2026-11-20T12-41-47Z.jsonl:7``, as an editor opens it."""
        return f"{self.file}:{self.line}"


def lines_by_file(locations: Iterable[Location]) -> dict[str, list[int]]:
    """The lines of each file, in order."""
    files: dict[str, list[int]] = {}
    for location in locations:
        files.setdefault(location.file, []).append(location.line)
    return {file: sorted(lines) for file, lines in files.items()}
