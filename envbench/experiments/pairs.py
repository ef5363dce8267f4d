"""Pairs of trials that alternate in short slices, in rounds. Pure.

``check``, ``baseline`` and ``noise`` consist of such pairs. A pair is two fresh processes. Both
make equally many slices, in groups of four (ABBA or BAAB by chance): a steady drift cancels out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from envbench.engine.experiment import Done, Experiment, Findings_co, seed_of_round
from envbench.model import (
    Behaviour,
    Block,
    BlockRecord,
    Cell,
    PairsDesign,
    Plan,
    Programme,
    Protocol,
    Trial,
    TrialRecord,
)

Rounds = list[tuple[int, Cell]]  # what is measured, in order: the round, and the cell
DEFAULT_PAIRS = 13
QUADS = 50  # groups of four slices per pair
SLICE_S = 0.01  # short: a longer disturbance of the machine affects both trials equally
LONGER = 10  # large batches: a tenth of the slices, each ten times as long
RESET_SLICES = 40  # at most
WINDOW_S = 0.025  # of the warm-up
WARM_UP = (0.2, 2.0)  # seconds: minimum and maximum
START_S, TYPICAL_WARM_UP_S = 1.0, 0.25  # of one process
CHANGE_S = 0.002  # from a slice of one trial to a slice of the other


def design(
    pairs: int, warm_up: tuple[float, float] | None = None, **other_fields: Any
) -> PairsDesign:
    """Return the design of a plan of pairs, with the usual slices and, by default, ``WARM_UP``."""
    least, most = warm_up or WARM_UP
    protocol = Protocol(window_s=WINDOW_S, warmup_min_s=least, warmup_max_s=most)
    return PairsDesign(pairs=pairs, quads=QUADS, slice_s=SLICE_S, protocol=protocol, **other_fields)


def pair_seconds() -> float:
    """Estimate the seconds that a pair takes, with resets."""
    slices = 4 * QUADS + RESET_SLICES
    return 2 * (START_S + TYPICAL_WARM_UP_S) + slices * (SLICE_S + CHANGE_S)


class PairsExperiment(Experiment[Findings_co]):
    """An experiment whose blocks are pairs. By default, each round has every cell once."""

    unit: ClassVar[str] = "process pair"
    block_seconds: ClassVar[float] = pair_seconds()

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        return f"pair {block.round + 1}/{plan.design_as(PairsDesign).pairs}"

    def remaining(self, plan: Plan, done: Done) -> Sequence[Any]:
        return rounds(plan, plan.cells, done)


def turns(quads: int, seed: int) -> list[int]:
    """Return the trial of each slice, 0 or 1, in groups of ABBA or BAAB by chance."""
    chance = random.Random(seed)
    order = []
    for _ in range(quads):
        first = chance.randrange(2)
        order += [first, 1 - first, 1 - first, first]
    return order


def pair(
    plan: Plan,
    trials: tuple[tuple[str, Cell], tuple[str, Cell]],
    *,
    number: int,
    stage: int = 1,
    exchanged: bool = False,
) -> Block:
    """Return the block of two trials, each an arm and a cell. The second cell's backend decides
    slices and cores. ``exchanged``: the second trial is listed first, so it sets the pace."""
    fixed = plan.design_as(PairsDesign)
    seed = seed_of_round(plan.seed, number + (stage - 1) * fixed.pairs)
    behaviour = plan.behaviour.get(trials[1][1].backend, Behaviour())
    quads, slice_s = slicing(fixed, behaviour)
    order = turns(quads, seed)
    if exchanged:
        trials, order = (trials[1], trials[0]), [1 - turn for turn in order]
    equal = trials[0][1] == trials[1][1]
    protocol = msgspec.structs.replace(fixed.protocol, results=equal)
    cpus, at_once = placement(plan, behaviour, number)
    return Block(
        stage=stage,
        round=number,
        trials=[
            Trial(cell=cell, arm=arm, seed=seed, protocol=protocol, cpus=cpus)
            for arm, cell in trials
        ],
        programme=Programme(
            turns=order,
            slice_s=slice_s,
            equal_calls=equal,
            reset_turns=order[:RESET_SLICES] if equal else [],
            start="at once" if equal and at_once else "alternately",
        ),
    )


def slicing(fixed: PairsDesign, behaviour: Behaviour) -> tuple[int, float]:
    """Groups of four slices per pair, and seconds per slice, for that kind of backend."""
    if behaviour.large_batches:
        return max(1, fixed.quads // LONGER), fixed.slice_s * LONGER
    return fixed.quads, fixed.slice_s


def placement(plan: Plan, behaviour: Behaviour, number: int) -> tuple[list[int], bool]:
    """Return the cores of a pair's processes (empty: all), and whether both may start at once.

    If a backend has one thread, a pair shares one core; the next pair uses another. Two processes
    start at once if there are two cores, one thread does the start-up, and several threads step.
    """
    if behaviour.steps_in == "one-thread" and plan.cores:
        return [plan.cores[number % len(plan.cores)]], False
    alone = behaviour.steps_in != "pool" or behaviour.large_batches
    room = len(plan.cores) > 1 and (plan.quota is None or plan.quota >= 2)
    return [], room and not alone


def rounds(
    plan: Plan, cells: Sequence[Cell], done: Sequence[BlockRecord], stage: int = 1
) -> Rounds:
    """Return the remaining pairs of a stage. Each round has every cell once, in a seeded random
    order. A cell that failed has no more pairs."""
    made = {(each.round, cell_of(each).key) for each in done if each.stage == stage}
    failed = {cell_of(each).key for each in done if each.failure}
    chance = random.Random(f"{plan.seed} {stage}")
    order: Rounds = []
    for number in range(plan.design_as(PairsDesign).pairs):
        entered = [*cells]
        chance.shuffle(entered)
        order += [(number, cell) for cell in entered]
    return [e for e in order if (e[0], e[1].key) not in made and e[1].key not in failed]


def cell_of(block: BlockRecord) -> Cell:
    """Return the cell of a pair's last trial; the first one may be of the reference kernel."""
    return block.trials[-1].cell


def disturbed(*trials: TrialRecord) -> list[bool]:
    """Return which slices the machine disturbed in any of these trials."""
    invalid = {name for each in trials for name in each.measured.invalid}
    return [str(k) in invalid for k in range(len(trials[0].measured.ns))]


def trial_of(block: BlockRecord, arm: str) -> TrialRecord:
    """Return the block's trial of that arm."""
    return next(each for each in block.trials if each.arm == arm)
