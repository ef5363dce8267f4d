"""Cells measured beside the reference kernel: stored as a baseline, or compared with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbench.cli import tell
from envbench.errors import StorageError, UsageError

if TYPE_CHECKING:
    from envbench.check_plan import Sizes
    from envbench.checking import CellVerdict
    from envbench.model import Cell, Gauge, Record
    from envbench.regression import Rule
    from envbench.stored_baseline import Stored

IN_ONE_RUN = "--baseline, --baseline-python, --baseline-ref"


class Gauging:
    """One call, from options to records."""

    def __init__(self, given: dict[str, Any]) -> None:
        from envbench.machine import choose, fingerprint, valid_name

        self.given = given
        self.fingerprint = fingerprint()
        named = given["machine"]
        self.profile = choose(None if named is None else valid_name(named), self.fingerprint)

    def save(self, path: Path) -> None:
        from envbench import lock
        from envbench.check_plan import DEFAULT_PAIRS
        from envbench.cli.checked_cells import checked_cells

        if path.exists():
            raise UsageError(f"{path} exists already: a baseline is not written over.")
        cells = checked_cells(self.given, self.profile, self.fingerprint.usable_cpus)
        self._touch(path)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            self._measure(cells, path, self.given["pairs"] or DEFAULT_PAIRS)
        tell(
            f"Saved in {path}: `envbench check --against {path}` compares with it on this machine."
        )

    def compare(
        self, old: list[Stored], new: Path, rule: Rule, planned: Sizes
    ) -> list[CellVerdict]:
        """The verdicts of the stored cells, measured again into ``new``."""
        from envbench.checking import CellVerdict
        from envbench.stored_baseline import compared

        made = self._measure([each.cell for each in old], new, planned.pairs)
        found = [
            (then, compared([each for each in made if each.cell == then.cell], then, rule))
            for then in old
        ]
        return [
            CellVerdict(cell=then.cell, verdict=stage.verdict, stages=[{"steps": stage}])
            for then, stage in found
        ]

    def _measure(self, cells: list[Cell], path: Path, pairs: int) -> list[Gauge]:
        """Every cell by turns with the kernel, in rounds."""
        from envbench import arms, check_plan, store
        from envbench.arms import Source
        from envbench.backends import get
        from envbench.checking import cores_of
        from envbench.gauging import gauge
        from envbench.model import MachineFact, digest

        machine = MachineFact(hash=digest(self.fingerprint), fingerprint=self.fingerprint)
        store.append(path, machine)
        made: list[Gauge] = []
        sides = {
            name: arms.make("candidate", Source(), get(name), tell)
            for name in {cell.backend for cell in cells}
        }
        for number in range(pairs):
            for cell in cells:
                made.append(
                    gauge(
                        cell,
                        sides[cell.backend],
                        number,
                        seed=self.given["seed"],
                        blocks=check_plan.BLOCKS,
                        slice_s=check_plan.SLICE_S,
                        fingerprint=machine.hash,
                        cpus=cores_of(cell, number),
                        path=path,
                    )
                )
                tell(f"[{len(made)}/{pairs * len(cells)}] {cell.key}")
        return made

    def read(self, path: Path) -> list[Stored]:
        """The cells of a file of this very machine that were meant; ``UsageError`` without any."""
        from envbench import store
        from envbench.cli.checked_cells import not_too_many
        from envbench.stored_baseline import stored

        if not path.is_file():
            raise UsageError(f"--against: there is no file {path}.")
        reading = store.read(path)
        for warning in reading.warnings:
            tell(f"Warning: {warning}")
        records = [record for _, record in reading.records]
        found = [each for each in stored(records) if self._is_meant(each.cell)]
        if not found:
            raise UsageError(
                f"{path} has no such cell with five processes or more.",
                hint="Make one: envbench baseline save --output FILE. Or compare the two sides in "
                f"one run, which is worth more: {IN_ONE_RUN}.",
            )
        not_too_many([each.cell for each in found])
        self._same_machine(path, found, records)
        if not all(each.beside_kernel for each in found):
            tell(_no_kernel(path))
        return found

    def _is_meant(self, cell: Cell) -> bool:
        given = self.given
        return (
            given["family"] in (None, cell.env)
            and given["task"] in (None, cell.task)
            and cell.backend in (given["backend_names"] or [cell.backend])
            and cell.numenv in (given["numenv"] or [cell.numenv])
        )

    def _same_machine(self, path: Path, found: list[Stored], records: list[Record]) -> None:
        from envbench.model import MachineFact, digest

        other = {each.fingerprint for each in found} - {digest(self.fingerprint)}
        if other:
            facts = [each for each in records if isinstance(each, MachineFact)]
            was = next((each.fingerprint.cpu for each in facts if each.hash in other), "unknown")
            raise UsageError(
                f"{path} was measured on another machine or system ({was}): rates of two machines "
                "say nothing about a change.",
                hint=f"Compare the two sides here, in one run: {IN_ONE_RUN}.",
            )

    def _touch(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}.") from error


def _no_kernel(path: Path) -> str:
    from envbench.stored_baseline import DRIFT

    return (
        f"Note: {path} has rates without a reference kernel beside them, and a shared machine "
        f"drifts by 5 to 10 % between two times: a slowdown of {100 * DRIFT:.0f} % is granted "
        "before anything counts. `envbench baseline save` stores what is worth more."
    )
