"""Cells measured beside the reference kernel: stored as a baseline, or compared with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbench.cli import tell
from envbench.errors import StorageError, UsageError

if TYPE_CHECKING:
    from envbench.checking import CellVerdict
    from envbench.model import Cell, Fingerprint, Gauge
    from envbench.regression import Rule


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
        from envbench.cli.checked_cells import checked_cells

        if path.exists():
            raise UsageError(f"{path} exists already: a baseline is not written over.")
        cells = checked_cells(self.given, self.profile, self.fingerprint.usable_cpus)
        self._touch(path)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            self._measure(cells, path)
        tell(
            f"Saved in {path}: `envbench check --against {path}` compares with it on this machine."
        )

    def compare(self, old: Path, new: Path, rule: Rule) -> list[CellVerdict]:
        """The verdicts of the baseline's cells, measured again into ``new``."""
        from envbench.checking import CellVerdict
        from envbench.gauging import compared, same_cells

        then = same_cells(self.read(old))
        now = same_cells(self._measure([each[0].cell for each in then.values()], new))
        return [
            CellVerdict(cell=now[key][0].cell, verdict=found.verdict, stages=[{"steps": found}])
            for key, found in ((key, compared(now[key], then[key], rule)) for key in then)
        ]

    def _measure(self, cells: list[Cell], path: Path) -> list[Gauge]:
        """Every cell by turns with the kernel, in rounds."""
        from envbench import arms, check_plan, store
        from envbench.arms import Source
        from envbench.backends import get
        from envbench.checking import cores_of
        from envbench.gauging import gauge
        from envbench.model import MachineFact, digest

        machine = MachineFact(hash=digest(self.fingerprint), fingerprint=self.fingerprint)
        store.append(path, machine)
        made, pairs = [], self.given["pairs"] or check_plan.DEFAULT_PAIRS
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

    def read(self, path: Path) -> list[Gauge]:
        """A stored baseline of this very machine; ``UsageError`` where it is none."""
        from envbench import store
        from envbench.model import Gauge, MachineFact

        if not path.is_file():
            raise UsageError(f"--against: there is no file {path}.")
        reading = store.read(path)
        for warning in reading.warnings:
            tell(f"Warning: {warning}")
        records = [record for _, record in reading.records]
        gauges = [record for record in records if isinstance(record, Gauge)]
        if not gauges:
            raise UsageError(
                f"{path} holds no baseline: nothing in it was measured beside the kernel.",
                hint="Make one: envbench baseline save --output FILE. Or compare the two sides in "
                "one run, which is worth more: --baseline, --baseline-python, --baseline-ref.",
            )
        machines = [record for record in records if isinstance(record, MachineFact)]
        self._same_machine(path, [each.fingerprint for each in machines])
        return gauges

    def _same_machine(self, path: Path, found: list[Fingerprint]) -> None:
        other = [each for each in found if each != self.fingerprint]
        if other or not found:
            was = other[0].cpu if other else "unknown"
            raise UsageError(
                f"{path} was measured on another machine or system ({was}): rates of two machines "
                "say nothing about a change.",
                hint="Compare the two sides here, in one run: --baseline, --baseline-ref.",
            )

    def _touch(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}.") from error
