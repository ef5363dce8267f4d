"""``check --against``: measure the cells of a file anew, and compare with the stored rates.

The result is advice: the two measurements are of different times. The verdicts come from
``stored_baseline``; the measuring is the ``baseline`` experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from envbench.engine.request import CellRequest, Chosen, target_of
from envbench.engine.session import Outcome
from envbench.errors import UsageError
from envbench.experiments.check.baseline import BaselineExperiment
from envbench.experiments.check.size import Size
from envbench.experiments.check.stages import CANDIDATE, CellVerdict, not_too_many, pairs_of
from envbench.experiments.check.stored_baseline import DRIFT, Stored, compared, stored
from envbench.model import Cell, Failure, Fingerprint, MachineFact, Rule, digest
from envbench.model import Stored as StoredRecord
from envbench.results import store

IN_ONE_RUN = "--baseline, --baseline-python, --baseline-ref"


def read(
    path: Path, wanted: CellRequest, here: Fingerprint, say: Callable[[str], None]
) -> list[Stored]:
    """The wanted cells of a file of this same machine; ``UsageError`` if there are none."""
    if not path.is_file():
        raise UsageError(f"--against: there is no file {path}.")
    reading = store.read(path)
    for warning in reading.warnings:
        say(f"Warning: {warning}")
    records = [record for _, record in reading.records]
    cells = [each for each in stored(records) if _is_wanted(each.cell, wanted)]
    if not cells:
        raise UsageError(
            f"{path} has no such cell with five processes or more.",
            hint="Make one: envbench baseline save --output FILE. Or compare both sides in one "
            f"run, which is more precise: {IN_ONE_RUN}.",
        )
    _refuse_other_machine(path, cells, records, here)
    if not all(each.beside_kernel for each in cells):
        say(
            f"Note: {path} has rates that were measured without a reference kernel, and a shared "
            f"machine drifts. So slowdowns of up to {100 * DRIFT:.0f} % are ignored. "
            "`envbench baseline save` stores rates relative to the kernel, which are more precise."
        )
    return cells


def anew(cells: Sequence[Stored], rule: Rule, size: Size) -> BaselineExperiment:
    """The experiment that measures them anew, beside the kernel."""
    chosen = not_too_many(Chosen(targets=[target_of(each.cell) for each in cells]))
    pairs = size.of(chosen.targets, rule).pairs
    return BaselineExperiment(targets=chosen.targets, pairs=pairs)


def verdicts(
    outcome: Outcome[dict[str, Failure]], then: Sequence[Stored], rule: Rule
) -> list[CellVerdict]:
    """One per stored cell."""
    return [_verdict(outcome, each, rule) for each in then]


def _verdict(outcome: Outcome[dict[str, Failure]], then: Stored, rule: Rule) -> CellVerdict:
    failure = outcome.findings.get(then.cell.key)
    if failure is not None:
        return CellVerdict(cell=then.cell, verdict="BROKEN", failures={CANDIDATE: failure})
    stage = compared(pairs_of(outcome.done, then.cell), then, rule)
    return CellVerdict(cell=then.cell, verdict=stage.verdict, stages=[{"steps": stage}])


def _is_wanted(cell: Cell, wanted: CellRequest) -> bool:
    return (
        wanted.family in (None, cell.env)
        and wanted.task in (None, cell.task)
        and cell.backend in (wanted.backends or [cell.backend])
        and cell.numenv in (wanted.numenv or [cell.numenv])
    )


def _refuse_other_machine(
    path: Path, cells: Sequence[Stored], records: Sequence[StoredRecord], here: Fingerprint
) -> None:
    other = {each.fingerprint for each in cells} - {digest(here)}
    if other:
        facts = [each for each in records if isinstance(each, MachineFact)]
        cpu = next((each.fingerprint.cpu for each in facts if each.hash in other), "unknown")
        raise UsageError(
            f"{path} was measured on another machine or system ({cpu}): rates of two machines "
            "say nothing about a change.",
            hint=f"Compare both sides here, in one run: {IN_ONE_RUN}.",
        )
