"""``run``: every cell in rounds of random blocks, whose cells alternate; figures with intervals.

A round deals the cells at random into blocks. A block starts a fresh process for each of its cells.
They alternate in short slices, so that all of them see the same noise. After the slices of steps
they alternate in slices of other quantities (``AFTER``). A cell that fails is not tried again in
later rounds: it would fail again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from envbench.backends import Backend
from envbench.engine.availability import KERNEL_ARM, Arm, Say, kernel_arm
from envbench.engine.experiment import Done, Experiment, Facts, Missing, Site
from envbench.engine.pairs import seed_of_round
from envbench.engine.request import CellRequest, Chosen, Target, choose, kernel_target
from envbench.model import (
    Behaviour,
    Block,
    BlockRecord,
    Cell,
    Other,
    Plan,
    Programme,
    Protocol,
    Run,
    RunDesign,
    Trial,
)
from envbench.results.memory_lines import with_memory_lines
from envbench.results.reading import run_of
from envbench.stats.summary import QUICK_S, Summary, summarise

AFTER: dict[Other, float] = {"latency": 0.6, "returns": 0.2, "reset": 0.2}  # seconds per trial
QUICK_AFTER: dict[Other, float] = {"latency": 0.3}
QUICK = Protocol(warmup_min_s=1.0, warmup_max_s=1.0, measured_s=QUICK_S)
DEFAULT_DURATION_S = 30.0
MOST_WINDOWS = 10_000  # per trial, so that its record stays well under the store's limit
START_S = 4.0  # the expected time of the start, build and warm-up of a trial
BLOCK_SIZE = 5
SLICE_S, LONG_SLICE_S = 0.1, 0.5  # long: of a backend that makes large batches
LEAD_IN_S = 0.03
KERNEL_SHARE = 1 / 3  # of the seconds of the cell beside it
MEMORY_SHARE = 0.7  # of the free memory, for the processes of a block


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
        """Return the protocol of each trial; ``calls`` is still the cell's whole budget.

        With a number of steps nothing else is measured, because that would be further steps.
        """
        after = {} if self.total_steps else QUICK_AFTER if self.quick else AFTER
        if self.quick:
            return msgspec.structs.replace(QUICK, calls=self.total_steps, after=after)
        seconds = self.duration_s / self.repeats_of(backend)
        window_s = max(Protocol().window_s, seconds / MOST_WINDOWS)
        return Protocol(window_s=window_s, measured_s=seconds, calls=self.total_steps, after=after)


@dataclass(frozen=True, kw_only=True)
class RunExperiment(Experiment[list[Summary]]):
    """Measures the cells in rounds of random blocks."""

    cells: CellRequest = CellRequest()
    measure: Measure = Measure()

    name: ClassVar[str] = "run"
    unit: ClassVar[str] = "block"
    in_tables: ClassVar[bool] = True
    shows_figures: ClassVar[bool] = True

    @property
    def named(self) -> bool:
        return not self.cells.takes_all

    @property
    def missing(self) -> Missing:
        """A named backend that cannot run is a failure; any other is left out."""
        return "record" if self.named else "leave out"

    def block_seconds(self, plan: Plan) -> float:
        design = plan.design_as(RunDesign)
        every = design.protocol.values()
        steps = sum(0.0 if each.calls else each.measured_s for each in every) / len(every)
        others = sum(sum(each.after.values()) for each in every) / len(every)
        cells = min(len(plan.cells), design.block_size) + (len(plan.cells) == 1) * KERNEL_SHARE
        return cells * (START_S + (1 + LEAD_IN_S / SLICE_S) * steps + others)

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

    def design(self, targets: Sequence[Target], site: Site) -> RunDesign:
        used = {each.backend.name: each.backend for each in targets}
        gpu = bool(site.fingerprint.gpus)
        protocols = {name: self.measure.protocol_of(backend) for name, backend in used.items()}
        return RunDesign(
            repeats={name: self.measure.repeats_of(backend) for name, backend in used.items()},
            protocol=protocols,
            slice_s={
                name: slice_seconds(used[name].behaviour, protocol, gpu=gpu)
                for name, protocol in protocols.items()
            },
            block_size=BLOCK_SIZE,
            quick=self.measure.quick,
        )

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> list[Arm]:
        kernel = kernel_target(site.profile.name)
        return [kernel_arm(KERNEL_ARM, kernel), *super().arms(targets, site, say)]

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        return f"round {block.round + 1}/{max(plan.design_as(RunDesign).repeats.values())}"

    def remaining(self, plan: Plan, done: Done) -> list[tuple[int, list[Cell]]]:
        """Return the round and the cells of each block that is not measured yet. A round leaves
        out the cells that failed in an earlier one."""
        made = {(each.round, frozenset(cell.key for cell in cells_of(each))) for each in done}
        failed = {
            trial.cell.key: each.round for each in done for trial in each.trials if trial.failure
        }
        repeats = plan.design_as(RunDesign).repeats
        blocks: list[tuple[int, list[Cell]]] = []
        for number in range(max(repeats[cell.backend] for cell in plan.cells)):
            cells = [
                cell
                for cell in plan.cells
                if number < repeats[cell.backend] and failed.get(cell.key, number) >= number
            ]
            earlier = [each for each in done if each.round < number]
            blocks += [(number, each) for each in dealt(plan, cells, number, earlier)]
        return [
            (number, cells)
            for number, cells in blocks
            if (number, frozenset(cell.key for cell in cells)) not in made
        ]

    def block(self, plan: Plan, todo: tuple[int, list[Cell]]) -> Block:
        """All cells of a round have the same seed, so they get the same actions. A cell that would
        be alone for some seconds alternates with the reference kernel."""
        number, cells = todo
        design, seed = plan.design_as(RunDesign), seed_of_round(plan.seed, number)
        trials = [Trial(cell=c, seed=seed, protocol=_protocol(design, c, number)) for c in cells]
        slices = [design.slice_s.get(cell.backend, 0.0) for cell in cells]
        if not all(slices):
            return Block(round=number, trials=trials)
        protocol = trials[0].protocol
        if len(trials) == 1 and protocol.calls is None:
            kernel = kernel_target(cells[0].machine).cell
            short = msgspec.structs.replace(QUICK, measured_s=protocol.measured_s * KERNEL_SHARE)
            trials.insert(0, Trial(cell=kernel, arm=KERNEL_ARM, seed=seed, protocol=short))
            slices.insert(0, SLICE_S)
        programme = Programme(mixed=slices, seed=seed, lead_in_s=LEAD_IN_S)
        return Block(round=number, trials=trials, programme=programme)

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> list[Summary]:
        """Return a summary of each cell that has a run, in the plan's order."""
        alone = len(plan.cells) == 1
        by_cell: dict[str, list[Run]] = {cell.key: [] for cell in plan.cells}
        for run in runs(done, plan, facts):
            by_cell.get(run.cell.key, []).append(run)
        every = by_cell.values()
        made = [summarise(own, cpus=plan.logical_cpus, alone=alone) for own in every if own]
        return with_memory_lines([(plan, each) for each in made])


def runs(done: Sequence[BlockRecord], plan: Plan, facts: Facts) -> list[Run]:
    """Return the runs of these blocks."""
    return [
        run_of(plan, block, trial, facts)
        for block in done
        for trial in block.trials
        if not trial.arm
    ]


def cells_of(block: BlockRecord) -> list[Cell]:
    """The cells of a block, without the reference kernel."""
    return [trial.cell for trial in block.trials if not trial.arm]


def slice_seconds(behaviour: Behaviour, protocol: Protocol, *, gpu: bool) -> float:
    """Seconds per slice of a backend; 0.0: it cannot alternate, because it keeps a GPU busy."""
    if gpu and behaviour.steps_in == "device":
        return 0.0
    slice_s = LONG_SLICE_S if behaviour.large_batches else SLICE_S
    return max(slice_s, protocol.measured_s / MOST_WINDOWS)


def dealt(plan: Plan, cells: Sequence[Cell], number: int, earlier: Done) -> list[list[Cell]]:
    """Deal the cells of a round at random into blocks, about equally many to each.

    The processes of a block have to fit into the free memory together. ``earlier`` rounds show how
    much a cell needs; until then it is estimated.
    """
    design = plan.design_as(RunDesign)
    chance = random.Random(f"{plan.seed} {number}")
    order = chance.sample(cells, len(cells))
    blocks = [[cell] for cell in order if not design.slice_s.get(cell.backend, 0.0)]
    mixed = [cell for cell in order if design.slice_s.get(cell.backend, 0.0)]
    known = [(e.cell.key, e.peak_memory_bytes or 0) for block in earlier for e in block.trials]
    needs = {cell.key: _estimated(plan, cell) for cell in cells}
    needs |= {key: size for key, size in sorted(known) if size}
    room = plan.free_memory * MEMORY_SHARE
    groups: list[list[Cell]] = [[] for _ in range(math.ceil(len(mixed) / design.block_size))]
    for cell in mixed:
        fitting = [
            each
            for each in groups
            if not each
            or (
                len(each) < design.block_size
                and sum(needs[one.key] for one in [*each, cell]) <= room
            )
        ]
        if not fitting:
            groups.append([])
        min(fitting or groups[-1:], key=len).append(cell)
    blocks += [each for each in groups if each]
    chance.shuffle(blocks)
    return blocks


def _estimated(plan: Plan, cell: Cell) -> float:
    """Bytes that a cell's processes may need, before one was measured."""
    behaviour = plan.behaviour.get(cell.backend, Behaviour())
    per_env = {"processes": 0.2, "device": 0.002}.get(behaviour.steps_in, 0.02)
    return (0.5 + per_env * cell.env_instances) * 2**30


def _protocol(design: RunDesign, cell: Cell, number: int) -> Protocol:
    """The protocol of one trial: its share of the cell's vector steps, if these are given."""
    protocol = design.protocol[cell.backend]
    if protocol.calls is None:
        return protocol
    share = calls_of_round(protocol.calls, design.repeats[cell.backend], number)
    return msgspec.structs.replace(protocol, calls=share)


def calls_of_round(total: int, repeats: int, round_: int) -> int:
    """Return this round's share of a cell's vector steps; all shares add up to the total."""
    return total // repeats + (round_ < total % repeats)
