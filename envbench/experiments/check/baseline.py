"""``baseline``: measure cells beside the reference kernel, which slows down as the machine does.

The result is the ratio of each cell's rate to the kernel's. ``envbench baseline save`` stores it
for later, ``envbench check --against`` compares with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envbench.engine import pairs
from envbench.engine.availability import kernel_arm
from envbench.engine.experiment import ArmChoice, Done, Experiment, Facts, Say, Site, own_arms
from envbench.engine.pairs import cell_of, design_of
from envbench.engine.request import CellRequest, Chosen, Target, kernel_target
from envbench.engine.session import Outcome
from envbench.errors import StorageError, UsageError
from envbench.experiments.check.stages import cells_to_check
from envbench.model import Block, Cell, Failure, PairsDesign, Plan

LONGEST_PAUSE_S = 3600.0
KERNEL = "kernel"


@dataclass(frozen=True, kw_only=True)
class BaselineExperiment(Experiment[dict[str, Failure]]):
    """A pair per cell and round: the kernel, and the cell. ``stop_at_failure``: the first failed
    cell ends the plan."""

    targets: Sequence[Target] = ()  # if empty, what ``cells`` asks for
    cells: CellRequest = CellRequest()
    pairs: int = pairs.DEFAULT_PAIRS
    stop_at_failure: bool = False

    name: ClassVar[str] = "baseline"
    unit: ClassVar[str] = "pair of processes"
    longest_pause_s: ClassVar[float | None] = LONGEST_PAUSE_S

    def choose(self, site: Site) -> Chosen:
        if self.targets:
            return Chosen(targets=list(self.targets))
        return cells_to_check(self.cells, site.profile, site.fingerprint.usable_cpus)

    def design(self, targets: Sequence[Target]) -> PairsDesign:
        return pairs.design(self.pairs, stop_at_failure=self.stop_at_failure)

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> ArmChoice:
        kernel = (kernel_arm(KERNEL), kernel_target(site.profile.name).cell)
        own = own_arms(targets, site, say)
        return ArmChoice(to_probe=own.to_probe, known=[kernel], watched=True)

    def remaining(self, plan: Plan, done: Done) -> list[tuple[int, Cell]]:
        if design_of(plan).stop_at_failure and any(block.failure for block in done):
            return []
        return pairs.rounds(plan, plan.cells, done)

    def block(self, plan: Plan, todo: tuple[int, Cell]) -> Block:
        number, cell = todo
        kernel = kernel_target(cell.machine).cell
        return pairs.pair(plan, ((KERNEL, kernel), ("", cell)), number=number)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> dict[str, Failure]:
        """The failures of cells, by key."""
        return {cell_of(block).key: block.failure for block in done if block.failure}


def refuse_existing(path: Path) -> None:
    """``UsageError`` before any work, if the file to save exists or cannot be made."""
    if path.exists():
        raise UsageError(f"{path} exists already: a baseline is never overwritten.")
    place = next(each for each in path.absolute().parents if each.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise StorageError(
            f"cannot write {path}: {place} is not a folder that can be written.",
            hint="Name another file with --output.",
        )


def save(outcome: Outcome[dict[str, Failure]], path: Path) -> None:
    """Copy the plan's records to a file of their own, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        shutil.copyfile(outcome.path, partial)
        os.link(partial, path)  # fails if another process has made it since
        partial.unlink()
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists already: what was measured is in {outcome.path}."
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}.",
            hint="All of it is measured: the same command with another --output saves it.",
        ) from error
