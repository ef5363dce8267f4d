"""``run``: every cell in rounds of random blocks, whose cells alternate; figures with intervals.

A round deals the cells at random into blocks. A block starts a fresh process for each of its cells.
They alternate in short slices, so that all of them see the same noise. After the slices of steps
they alternate in slices of other quantities (``AFTER``). A cell that fails is not tried again in
later rounds: it would fail again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import msgspec

from envbench.backends import Backend, is_built_in
from envbench.backends.builtin import KERNELS
from envbench.decisions.session import Session, session
from envbench.engine.availability import KERNEL_ARM, Arm, Say, kernel_arm
from envbench.engine.experiment import (
    Done,
    Experiment,
    Facts,
    Missing,
    Site,
    seed_of_round,
)
from envbench.engine.request import CellRequest, Chosen, choose
from envbench.engine.target import MOST_TRACED, Target, kernel_target, reference_of
from envbench.experiments.run.dealing import Dealt, deal
from envbench.experiments.run.expected import KERNEL_SHARE, Expected
from envbench.model import (
    Behaviour,
    Block,
    BlockRecord,
    Cell,
    Failure,
    Other,
    Plan,
    Programme,
    Protocol,
    Run,
    RunDesign,
    Trial,
)
from envbench.results.joining import run_of
from envbench.results.memory_lines import with_memory_lines
from envbench.stats.summary import QUICK_S, Summary, summarise, with_costs

AFTER: dict[Other, float] = {"latency": 0.6, "returns": 0.2, "reset": 0.2}  # seconds per trial
SHORT_CALLS_S = 0.2  # of a plugin
QUICK_AFTER: dict[Other, float] = {"latency": 0.3, "reset": 0.1}
QUICK = Protocol(warmup_min_s=1.0, warmup_max_s=1.0, measured_s=QUICK_S)
DEFAULT_DURATION_S = 30.0
MOST_WINDOWS = 10_000  # per trial, so that its record stays well under the store's limit
BLOCK_SIZE = 5
FEWEST_SLICES = 6  # per trial; a short trial has shorter slices
SPOT_STEPS = 60  # vector steps of a spot check, at most
MOST_SPOT = 1_000  # steps of all environments that it traces


class Slices(NamedTuple):
    """Seconds of a slice, and of the untimed steps before it. docs/studies.md says why."""

    seconds: float = 0.1
    lead_in_s: float = 0.01


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
        if self.quick:
            after = {} if self.total_steps else QUICK_AFTER
            return msgspec.structs.replace(QUICK, calls=self.total_steps, after=after)
        after = {} if self.total_steps else AFTER
        compiled = backend.behaviour.steps_in == "device" or backend.accelerator
        if after and not compiled and not is_built_in(backend.name):
            after = {**after, "short_calls": SHORT_CALLS_S}
        seconds = self.duration_s / self.repeats_of(backend)
        window_s = max(Protocol().window_s, seconds / MOST_WINDOWS)
        return Protocol(window_s=window_s, measured_s=seconds, calls=self.total_steps, after=after)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A summary of each cell that has a run, in the plan's order, and how the cells compare."""

    summaries: list[Summary]
    session: Session


@dataclass(frozen=True, kw_only=True)
class RunExperiment(Experiment[Figures]):
    """Measures the cells in rounds of random blocks."""

    cells: CellRequest = CellRequest()
    measure: Measure = Measure()

    name: ClassVar[str] = "run"
    in_tables: ClassVar[bool] = True
    shows_figures: ClassVar[bool] = True

    @property
    def named(self) -> bool:
        return not self.cells.takes_all

    @property
    def missing(self) -> Missing:
        """A named backend that cannot run is a failure; any other is left out."""
        return "record" if self.named else "leave out"

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
        kernels = {k.name: k for k in (KERNELS[e.backend.behaviour.steps_in] for e in targets)}
        made = [kernel_target(site.profile.name, each) for _, each in sorted(kernels.items())]
        return [*(kernel_arm(KERNEL_ARM, k) for k in made), *super().arms(targets, site, say)]

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        return f"round {block.round + 1}/{max(plan.design_as(RunDesign).repeats.values())}"

    def remaining(self, plan: Plan, done: Done) -> list[Dealt]:
        """Return each block that is not measured yet. A round leaves out the cells that failed in
        an earlier one."""
        made = {(each.round, frozenset(cell.key for cell in cells_of(each))) for each in done}
        failed = {cell.key: each.round for each in done for cell in cells_of(each, failed=True)}
        repeats = plan.design_as(RunDesign).repeats
        blocks: list[Dealt] = []
        for number in range(max(repeats[cell.backend] for cell in plan.cells)):
            cells = [
                cell
                for cell in plan.cells
                if number < repeats[cell.backend] and failed.get(cell.key, number) >= number
            ]
            blocks += deal(plan, cells, number, [each for each in done if each.round < number])
        return [
            each
            for each in blocks
            if (each.round, frozenset(cell.key for cell in each.cells)) not in made
        ]

    def block(self, plan: Plan, todo: Dealt) -> Block:
        """All cells of a round have the same seed, so they get the same actions."""
        number, cells, kernels = todo
        design, seed = plan.design_as(RunDesign), seed_of_round(plan.seed, number)
        trials = [
            Trial(
                cell=c,
                seed=seed,
                protocol=_protocol(design, c, number),
                spot=spot_steps(plan, c) if number == spot_round(plan, c) else 0,
            )
            for c in cells
        ]
        slices = [design.slice_s.get(cell.backend, 0.0) for cell in cells]
        if not all(slices):
            return Block(round=number, trials=trials)
        seconds = min(each.protocol.measured_s for each in trials) * KERNEL_SHARE
        short = msgspec.structs.replace(QUICK, measured_s=seconds)
        beside = [Trial(cell=k, arm=KERNEL_ARM, seed=seed, protocol=short) for k in kernels]
        trials = [*beside, *trials]
        slices = [slice_seconds(Behaviour(), short, gpu=False)] * len(beside) + slices
        leads = [slices_of(plan.behaviour.get(e.cell.backend, Behaviour())) for e in trials]
        programme = Programme(
            mixed=slices,
            seed=seed,
            lead_in_s=[each.lead_in_s for each in leads],
            start="at once" if design.quick else "alternately",  # a quick look times no start
        )
        return Block(round=number, trials=trials, programme=programme)

    def failures(self, block: BlockRecord) -> list[Failure]:
        """The failures of cells. A failed kernel does not affect the cells that alternated with
        it."""
        return [each.failure for each in block.trials if each.failure and not each.arm]

    def seconds_left(self, plan: Plan, done: Done, before: Done = ()) -> float:
        expected = Expected(plan, done, before)
        left = self.remaining(plan, done)
        return sum(expected.seconds(each) for e in left for each in (*e.cells, *e.kernels))

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> Figures:
        alone, cpus = len(plan.cells) == 1, len(plan.cores) or plan.logical_cpus
        by_cell: dict[str, list[Run]] = {cell.key: [] for cell in plan.cells}
        for run in runs(done, plan, facts):
            by_cell.get(run.cell.key, []).append(run)
        every = by_cell.values()
        made = [with_costs(summarise(own, cpus=cpus, alone=alone), own) for own in every if own]
        return Figures(
            summaries=with_memory_lines([(plan, each) for each in made]),
            session=session(runs(done, plan, facts), plan.behaviour),
        )


def runs(done: Sequence[BlockRecord], plan: Plan, facts: Facts) -> list[Run]:
    """Return the runs of these blocks, the reference kernel's included."""
    return [run_of(plan, block, trial, facts) for block in done for trial in block.trials]


def cells_of(block: BlockRecord, *, failed: bool = False) -> list[Cell]:
    """The cells of a block, without the reference kernels. ``failed``: only those that failed."""
    own = [trial for trial in block.trials if not trial.arm]
    return [trial.cell for trial in own if trial.failure or not failed]


def slice_seconds(behaviour: Behaviour, protocol: Protocol, *, gpu: bool) -> float:
    """Seconds per slice of a backend; 0.0: it cannot alternate, because it keeps a GPU busy."""
    if gpu and behaviour.steps_in == "device":
        return 0.0
    slice_s = slices_of(behaviour).seconds
    if protocol.calls is None:
        slice_s = min(slice_s, protocol.measured_s / FEWEST_SLICES)
    return max(slice_s, protocol.measured_s / MOST_WINDOWS)


def spot_round(plan: Plan, cell: Cell) -> int | None:
    """The round in which the reference follows some of the cell's steps, drawn for each cell. None:
    never. For envbench's own backends not the first one, so that its cold start is plain."""
    design = plan.design_as(RunDesign)
    if design.quick or design.protocol[cell.backend].calls is not None:
        return None
    repeats = design.repeats[cell.backend]
    chance = random.Random(f"{plan.seed} {plan.plan_id} {cell.key}")
    first = int(is_built_in(cell.backend))
    return chance.randrange(first, repeats) if repeats > 1 else None


def spot_steps(plan: Plan, cell: Cell) -> int:
    """Vector steps of a cell's spot check; 0: it cannot have one.

    Programs for a device compile with their first steps, and processes that make batches on their
    own do not wait for actions.
    """
    behaviour = plan.behaviour.get(cell.backend, Behaviour())
    alone = behaviour.steps_in == "device" or (
        behaviour.steps_in == "processes" and behaviour.large_batches
    )
    if alone or reference_of(cell) is None:
        return 0
    return min(SPOT_STEPS, MOST_SPOT // min(cell.env_instances, MOST_TRACED))


def slices_of(behaviour: Behaviour) -> Slices:
    """The slices of a backend.

    Several processes need longer to be as fast as before they were stopped. Those that make batches
    on their own need no lead-in: what they make beyond a slice belongs to their next one. Untimed
    steps would use that up.
    """
    processes = behaviour.steps_in == "processes"
    if behaviour.large_batches:
        return Slices(1.0, 0.0) if processes else Slices(1.0)
    return Slices(0.2, 0.02) if processes else Slices()


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
