"""``run``: every cell in rounds, one fresh process per cell and round; figures with intervals.

A round has every cell once, in a seeded random order. A cell that fails is not tried again: it
would fail again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from envbench.backends import Backend
from envbench.engine.experiment import Done, Experiment, Facts, Missing, Site
from envbench.engine.pairs import not_made, schedule, seed_of_round
from envbench.engine.request import CellRequest, Chosen, Target, choose
from envbench.model import Block, BlockRecord, Cell, Plan, Protocol, Run, RunDesign, Trial
from envbench.results.reading import run_of
from envbench.stats.summary import QUICK_S, Summary, summarise

QUICK = Protocol(warmup_min_s=1.0, warmup_max_s=1.0, measured_s=QUICK_S)
DEFAULT_DURATION_S = 40.0
MOST_WINDOWS = 10_000  # per trial, so that its record stays well under the store's limit
START_S = 5.0  # the expected time of the start, build and warm-up of a trial


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """Says how long and how often to measure a cell. Its trials divide the seconds or the steps."""

    duration_s: float = DEFAULT_DURATION_S
    total_steps: int | None = None
    repeats: int | None = None
    quick: bool = False

    def repeats_of(self, backend: Backend) -> int:
        """Fresh processes per cell: ``repeats``, or the backend's default (1 if quick)."""
        repeats = self.repeats or (1 if self.quick else backend.repeats)
        return min(repeats, self.total_steps) if self.total_steps else repeats

    def protocol_of(self, backend: Backend) -> Protocol:
        """Return the protocol of each trial; ``calls`` is still the cell's whole budget."""
        if self.quick:
            return msgspec.structs.replace(QUICK, calls=self.total_steps)
        seconds = self.duration_s / self.repeats_of(backend)
        window_s = max(Protocol().window_s, seconds / MOST_WINDOWS)
        return Protocol(window_s=window_s, measured_s=seconds, calls=self.total_steps)


@dataclass(frozen=True, kw_only=True)
class RunExperiment(Experiment[list[Summary]]):
    """Measures every cell alone, in rounds."""

    cells: CellRequest = CellRequest()
    measure: Measure = Measure()

    name: ClassVar[str] = "run"
    unit: ClassVar[str] = "run"
    in_tables: ClassVar[bool] = True
    shows_figures: ClassVar[bool] = True

    @property
    def named(self) -> bool:
        return not self.cells.takes_all

    @property
    def missing(self) -> Missing:
        """A named backend that cannot run is a failure; any other is left out."""
        return "record" if self.named else "leave out"

    @property
    def block_seconds(self) -> float:
        measure = self.measure
        seconds = 0.0 if measure.total_steps else measure.duration_s / (measure.repeats or 5)
        return START_S + (QUICK_S if measure.quick else seconds)

    def choose(self, site: Site) -> Chosen:
        chosen = choose(self.cells, site.profile, site.fingerprint.usable_cpus)
        if not site.other_hardware:
            return chosen
        note = (
            f"Note: this machine is not the hardware of the profile {site.profile.name!r} "
            f"({site.profile.hardware}): its figures will have a footnote. "
            "`envbench machines init NAME` makes a profile for this one."
        )
        return Chosen(targets=chosen.targets, notes=[note, *chosen.notes])

    def design(self, targets: Sequence[Target]) -> RunDesign:
        used = {each.backend.name: each.backend for each in targets}
        return RunDesign(
            repeats={name: self.measure.repeats_of(backend) for name, backend in used.items()},
            protocol={name: self.measure.protocol_of(backend) for name, backend in used.items()},
            quick=self.measure.quick,
        )

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        return f"round {block.round + 1}/{max(plan.design_as(RunDesign).repeats.values())}"

    def remaining(self, plan: Plan, done: Done) -> list[tuple[int, Cell]]:
        """Return the rounds that are not measured yet, without cells that have failed."""
        order = schedule(plan.cells, plan.design_as(RunDesign).repeats, plan.seed)
        return not_made(order, done)

    def block(self, plan: Plan, todo: tuple[int, Cell]) -> Block:
        """All cells of a round have the same seed, so they get the same actions."""
        round_, cell = todo
        design = plan.design_as(RunDesign)
        protocol = design.protocol[cell.backend]
        if protocol.calls is not None:
            share = calls_of_round(protocol.calls, design.repeats[cell.backend], round_)
            protocol = msgspec.structs.replace(protocol, calls=share)
        trial = Trial(cell=cell, seed=seed_of_round(plan.seed, round_), protocol=protocol)
        return Block(round=round_, trials=[trial])

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> list[Summary]:
        """Return a summary of each cell that has a run, in the plan's order."""
        alone = len(plan.cells) == 1
        by_cell: dict[str, list[Run]] = {cell.key: [] for cell in plan.cells}
        for run in runs(done, plan, facts):
            by_cell.get(run.cell.key, []).append(run)
        every = by_cell.values()
        return [summarise(own, cpus=plan.logical_cpus, alone=alone) for own in every if own]


def runs(done: Sequence[BlockRecord], plan: Plan, facts: Facts) -> list[Run]:
    """Return the runs of these blocks."""
    return [run_of(plan, block, trial, facts) for block in done for trial in block.trials]


def calls_of_round(total: int, repeats: int, round_: int) -> int:
    """Return this round's share of a cell's vector steps; all shares add up to the total."""
    return total // repeats + (round_ < total % repeats)
