"""``check --against``: the cells of a file measured anew, and compared with what it holds.

It is advice: the two measurements are of different times. The verdicts come from
``stored_baseline``; the measuring is the ``baseline`` experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from envbench.engine.pairs import cell_of
from envbench.engine.request import CellRequest, Chosen, target_of
from envbench.engine.session import Outcome
from envbench.errors import UsageError
from envbench.experiments.check.baseline import BaselineExperiment
from envbench.experiments.check.size import Size
from envbench.experiments.check.stages import CANDIDATE, CellVerdict, not_too_many
from envbench.experiments.check.stored_baseline import DRIFT, Stored, compared, stored
from envbench.model import BlockRecord, Cell, Failure, Fingerprint, MachineFact, Rule, digest
from envbench.model import Stored as StoredRecord
from envbench.results import store

IN_ONE_RUN = "--baseline, --baseline-python, --baseline-ref"


def read(
    path: Path, wanted: CellRequest, found: Fingerprint, say: Callable[[str], None]
) -> list[Stored]:
    """The cells of a file of this very machine that were asked for; ``UsageError`` without any."""
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
            f"run, which is worth more: {IN_ONE_RUN}.",
        )
    _refuse_other_machine(path, cells, records, found)
    if not all(each.beside_kernel for each in cells):
        say(
            f"Note: {path} has rates without a reference kernel beside them, and a shared machine "
            f"drifts between two times: a slowdown of {100 * DRIFT:.0f} % is granted before "
            "anything counts. `envbench baseline save` stores what is worth more."
        )
    return cells


def anew(cells: Sequence[Stored], rule: Rule, size: Size) -> BaselineExperiment:
    """To measure them anew, beside the kernel."""
    chosen = not_too_many(Chosen(targets=[target_of(each.cell) for each in cells]))
    pairs = size.of(chosen.targets, rule).pairs
    return BaselineExperiment(targets=chosen.targets, pairs=pairs)


def verdicts(
    outcome: Outcome[dict[str, Failure]], then: Sequence[Stored], rule: Rule
) -> list[CellVerdict]:
    """One per stored cell."""
    return [_verdict(outcome.done, outcome.findings, each, rule) for each in then]


def _verdict(
    done: Sequence[BlockRecord], failed: dict[str, Failure], then: Stored, rule: Rule
) -> CellVerdict:
    failure = failed.get(then.cell.key)
    if failure is not None:
        return CellVerdict(cell=then.cell, verdict="BROKEN", failures={CANDIDATE: failure})
    stage = compared([each for each in done if cell_of(each) == then.cell], then, rule)
    return CellVerdict(cell=then.cell, verdict=stage.verdict, stages=[{"steps": stage}])


def _is_wanted(cell: Cell, wanted: CellRequest) -> bool:
    return (
        wanted.family in (None, cell.env)
        and wanted.task in (None, cell.task)
        and cell.backend in (wanted.backends or [cell.backend])
        and cell.numenv in (wanted.numenv or [cell.numenv])
    )


def _refuse_other_machine(
    path: Path, cells: Sequence[Stored], records: Sequence[StoredRecord], found: Fingerprint
) -> None:
    other = {each.fingerprint for each in cells} - {digest(found)}
    if other:
        facts = [each for each in records if isinstance(each, MachineFact)]
        was = next((each.fingerprint.cpu for each in facts if each.hash in other), "unknown")
        raise UsageError(
            f"{path} was measured on another machine or system ({was}): rates of two machines "
            "say nothing about a change.",
            hint=f"Compare both sides here, in one run: {IN_ONE_RUN}.",
        )
