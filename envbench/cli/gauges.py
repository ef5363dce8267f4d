"""Cells measured beside the reference kernel: stored as a baseline, or compared with one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbench.cli import tell
from envbench.errors import Interrupted, StorageError, UsageError

if TYPE_CHECKING:
    from envbench.check.checking import CellVerdict
    from envbench.check.procedure import Sizes
    from envbench.check.regression import Rule
    from envbench.check.stored_baseline import Stored
    from envbench.model import Cell, Failure, Gauge, Record

PARTIAL = ".partial"
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
        """Measured into a file beside it, which has its name when it is whole."""
        from envbench import lock, store
        from envbench.check.procedure import DEFAULT_PAIRS
        from envbench.cli.checked_cells import checked_cells

        if path.exists():
            raise UsageError(f"{path} exists already: a baseline is not written over.")
        cells = checked_cells(self.given, self.profile, self.fingerprint.usable_cpus)
        partial = _partial(path)
        self._check_place(partial)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            store.discard_empty(partial)
            rounds = self._rounds(cells, self.given["pairs"] or DEFAULT_PAIRS)
            known = self._known(partial, rounds)
            if not known:
                partial.unlink(missing_ok=True)
            try:
                self._measure(rounds, partial, known)
            except Interrupted:
                tell(f"Stopped: {partial} is kept. The same command goes on from here.")
                raise
            if path.exists():  # another made it meanwhile
                raise UsageError(f"{path} exists already: what was measured is in {partial}.")
            partial.rename(path)
        tell(
            f"Saved in {path}: `envbench check --against {path}` compares with it on this machine."
        )

    def compare(
        self, old: list[Stored], results: Path, rule: Rule, planned: Sizes
    ) -> tuple[list[CellVerdict], Path]:
        """The verdicts of the stored cells, measured again, and where that is kept."""
        from envbench.check.checking import CellVerdict
        from envbench.check.stored_baseline import compared

        rounds = self._rounds([each.cell for each in old], planned.pairs)
        path, known = self._place(results, rounds)
        partial = _partial(path)
        failed: dict[str, Failure] = {}
        try:
            made = self._measure(rounds, partial, known, failed)
        except Interrupted:
            tell(f"Stopped: what was made is in {partial}. The same command goes on from here.")
            raise
        partial.replace(path)
        verdicts = []
        for then in old:
            if (failure := failed.get(then.cell.key)) is not None:
                broken = CellVerdict(
                    cell=then.cell, verdict="BROKEN", failures={"candidate": failure}
                )
                verdicts.append(broken)
                continue
            stage = compared([each for each in made if each.cell == then.cell], then, rule)
            verdicts.append(
                CellVerdict(cell=then.cell, verdict=stage.verdict, stages=[{"steps": stage}])
            )
        return verdicts, path

    def _rounds(self, cells: list[Cell], pairs: int) -> list[tuple[int, Cell]]:
        """What is to be measured, in order; asked before, whether it can be."""
        from envbench.backends import get
        from envbench.check import arms
        from envbench.check.arms import Source
        from envbench.cli.check_arms import refusal
        from envbench.preflight import Cannot, check

        here = arms.keep("candidate", Source())
        self.sides = {
            name: arms.make(here, get(name), tell)
            for name in dict.fromkeys(cell.backend for cell in cells)
        }
        for cell in {(cell.env, cell.task, cell.backend): cell for cell in cells}.values():
            found = check(cell, {}, setup=False, say=tell)
            if isinstance(found, Cannot):
                raise refusal(cell, found, "here")
        return [(number, cell) for number in range(pairs) for cell in cells]

    def _known(self, path: Path, rounds: list[tuple[int, Cell]]) -> list[Gauge]:
        """What was measured before a stop."""
        from envbench.check.gauging import unfinished
        from envbench.model import digest

        if not path.exists():
            return []
        found = unfinished(
            path,
            [cell for _, cell in rounds],
            seed=self.given["seed"],
            fingerprint=digest(self.fingerprint),
            pythons=sorted({arm.python for arm in self.sides.values()}),
        )
        if found:
            tell(f"Going on with {path}")
        return found

    def _place(self, results: Path, rounds: list[tuple[int, Cell]]) -> tuple[Path, list[Gauge]]:
        """The results file to make, and what there is of it: where one was left in its midst. What
        cannot be gone on with is kept as it is."""
        from envbench import campaign, store

        for left in sorted((results / self.profile.name).glob(f"*.jsonl{PARTIAL}")):
            path = left.with_name(left.name.removesuffix(PARTIAL))
            if known := self._known(left, rounds):
                return path, known
            left.replace(path)
        now = datetime.now(UTC).strftime(campaign.STAMP)
        return store.new_file(results, self.profile.name, now), []

    def _measure(
        self,
        rounds: list[tuple[int, Cell]],
        path: Path,
        known: list[Gauge],
        failed: dict[str, Failure] | None = None,
    ) -> list[Gauge]:
        """Every cell by turns with the kernel, in rounds. A cell that fails ends it, or is noted
        in ``failed`` where that is given."""
        from envbench import store
        from envbench.check.checking import cores_of
        from envbench.check.gauging import CellFailed, gauge
        from envbench.model import MachineFact, digest

        machine = MachineFact(hash=digest(self.fingerprint), fingerprint=self.fingerprint)
        if not known:
            store.append(path, machine)
        made = list(known)
        for done, (number, cell) in enumerate(rounds[len(known) :], start=len(known) + 1):
            if failed is not None and cell.key in failed:
                continue
            try:
                found = gauge(
                    cell,
                    self.sides[cell.backend],
                    number,
                    seed=self.given["seed"],
                    fingerprint=machine.hash,
                    cpus=cores_of(cell, number),
                    path=path,
                )
            except CellFailed as error:
                if failed is None:
                    raise
                failed[cell.key] = error.failure
                tell(f"[{done}/{len(rounds)}] {error}")
                continue
            made.append(found)
            tell(f"[{done}/{len(rounds)}] {cell.key}")
        return made

    def read(self, path: Path) -> list[Stored]:
        """The cells of a file of this very machine that were meant; ``UsageError`` without any."""
        from envbench import store
        from envbench.check.stored_baseline import stored
        from envbench.cli.checked_cells import not_too_many

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

    def _check_place(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab"):
                pass
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}.") from error


def _partial(path: Path) -> Path:
    """What it is called until it is whole."""
    return path.with_name(path.name + PARTIAL)


def _no_kernel(path: Path) -> str:
    from envbench.check.stored_baseline import DRIFT

    return (
        f"Note: {path} has rates without a reference kernel beside them, and a shared machine "
        f"drifts by 5 to 10 % between two times: a slowdown of {100 * DRIFT:.0f} % is granted "
        "before anything counts. `envbench baseline save` stores what is worth more."
    )
