"""``envbench baseline``: rates that ``check --against`` compares with on another day.

A block of a ``baseline`` plan has a cell and the reference kernel, which step alternately. The
cell's rate relative to the kernel's is compared: the kernel follows changes of the machine's clock,
but hardly those of its caches, memory and other cores.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path
from typing import ClassVar

from envbench.engine.availability import KERNEL_ARM, Arm, Say, kernel_arm
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Done, Facts, Site
from envbench.engine.request import CellRequest, Chosen
from envbench.engine.target import Target, kernel_target
from envbench.errors import StorageError, UsageError
from envbench.experiments import pairs
from envbench.experiments.check.cells import cells_to_check
from envbench.experiments.pairs import PairsExperiment, cell_of
from envbench.model import Block, Cell, Failure, PairsDesign, Plan
from envbench.results import store


@dataclass(frozen=True, kw_only=True)
class BaselineExperiment(PairsExperiment[dict[str, Failure]]):
    """Steps each cell alternately with the reference kernel, in one pair per round."""

    targets: Sequence[Target] = ()  # if empty, what ``cells`` asks for
    cells: CellRequest = CellRequest()
    pairs: int = pairs.DEFAULT_PAIRS
    purpose: str = ""  # to save rates; or to compare them with a file, whose hash it has

    name: ClassVar[str] = "baseline"
    longest_pause_s: ClassVar[float | None] = 3600.0
    watches_code: ClassVar[bool] = True

    def choose(self, site: Site) -> Chosen:
        if self.targets:
            return Chosen(targets=list(self.targets))
        return cells_to_check(self.cells, site)

    def design(self, targets: Sequence[Target], site: Site) -> PairsDesign:
        return pairs.design(self.pairs)

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> list[Arm]:
        kernel = kernel_target(site.profile.name)
        return [kernel_arm(KERNEL_ARM, kernel), *super().arms(targets, site, say)]

    def block(self, plan: Plan, todo: tuple[int, Cell]) -> Block:
        number, cell = todo
        kernel = kernel_target(cell.machine).cell
        return pairs.pair(plan, ((KERNEL_ARM, kernel), ("", cell)), number=number)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> dict[str, Failure]:
        """Return the failures of cells, by key."""
        return {cell_of(block).key: block.failure for block in done if block.failure}


def refuse_existing(path: Path, results: Path) -> None:
    """Before any work: refuse to save to an existing file, or where no file can be made. A copy of
    a plan in ``results`` is accepted: an earlier call saved it and was then killed."""
    if path.exists() and not any(cmp(path, each, shallow=False) for each in store.files(results)):
        raise UsageError(f"{path} exists already: a baseline is never overwritten.")
    place = next(each for each in path.absolute().parents if each.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise StorageError(
            f"cannot write {path}: {place} is not a folder that can be written.",
            hint="Name another file with --output.",
        )


def save(outcome: Campaign[dict[str, Failure]], path: Path) -> None:
    """Copy the plan's records to a file of their own, whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(outcome.journal.path, partial)
        try:
            if not (path.exists() and cmp(partial, path, shallow=False)):
                os.link(partial, path)  # fails if another process has made it since
        finally:
            partial.unlink()
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists already: what was measured is in {outcome.journal.path}.",
            hint="To save it, repeat this with another --output.",
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}.",
            hint="The measurement is complete. To save it, repeat this with another --output.",
        ) from error
