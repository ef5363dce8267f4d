"""Pairs of trials that alternate in short slices: how they are built, and how many are needed.

``check``, ``baseline`` and ``noise`` are made of such pairs. Everything here is pure. A pair is two
fresh processes; each makes as many slices as the other, in groups of four (ABBA or BAAB by chance),
so that what drifts in one direction cancels out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from envbench.engine.request import seed_of_round
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

DEFAULT_PAIRS = 13
QUADS = 50  # groups of four slices per pair
SLICE_S = 0.01  # short, so that what disturbs the machine for longer disturbs both trials alike
LONGER = 10  # times as long, and as few, are the slices of what steps in large batches
RESET_SLICES = 40  # at most
WINDOW_S = 0.025  # of the warm-up
WARM_UP = (0.2, 2.0)  # seconds, at least and at most
START_S, TYPICAL_WARM_UP_S = 1.0, 0.25  # of one process
CHANGE_S = 0.002  # from one's slice to the other's


def design(pairs: int, warm_up: tuple[float, float] | None = None, **more: object) -> PairsDesign:
    """The usual slices; ``more`` are the design's other fields."""
    least, most = warm_up or WARM_UP
    protocol = Protocol(window_s=WINDOW_S, warmup_min_s=least, warmup_max_s=most)
    return PairsDesign(
        pairs=pairs,
        quads=QUADS,
        slice_s=SLICE_S,
        protocol=protocol,
        **more,  # type: ignore[arg-type]
    )


def design_of(plan: Plan) -> PairsDesign:
    assert isinstance(plan.design, PairsDesign)
    return plan.design


def pair_seconds() -> float:
    """About what a pair takes, with resets."""
    slices = 4 * QUADS + RESET_SLICES
    return 2 * (START_S + TYPICAL_WARM_UP_S) + slices * (SLICE_S + CHANGE_S)


def turns(quads: int, seed: int) -> list[int]:
    """Whose slice it is, 0 or 1, in groups of ABBA or BAAB by chance."""
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
    """The block of two trials, each an arm and a cell. Their behaviour is the second one's.

    ``exchanged``: the second trial is the block's first one, which sets the pace.
    """
    wanted = design_of(plan)
    seed = seed_of_round(plan.seed, number + (stage - 1) * wanted.pairs)
    behaviour = plan.behaviour.get(trials[1][1].backend, Behaviour())
    quads, slice_s = slicing(wanted, behaviour)
    order = turns(quads, seed)
    if exchanged:
        trials, order = (trials[1], trials[0]), [1 - side for side in order]
    equal = trials[0][1] == trials[1][1]
    cpus = cores(plan, behaviour, number)
    return Block(
        stage=stage,
        round=number,
        trials=[
            Trial(cell=cell, arm=arm, seed=seed, protocol=wanted.protocol, cpus=cpus)
            for arm, cell in trials
        ],
        programme=Programme(
            turns=order,
            slice_s=slice_s,
            equal_calls=equal,
            reset_turns=order[:RESET_SLICES] if equal else [],
            start="at once" if equal and starts_at_once(plan, behaviour) else "in turns",
        ),
    )


def slicing(wanted: PairsDesign, behaviour: Behaviour) -> tuple[int, float]:
    """Groups of four slices per pair, and seconds per slice, for that kind of backend."""
    if behaviour.large_batches:
        return max(1, wanted.quads // LONGER), wanted.slice_s * LONGER
    return wanted.quads, wanted.slice_s


def cores(plan: Plan, behaviour: Behaviour, number: int) -> list[int]:
    """The core that both processes of a pair keep to, another one for the next pair. Empty, for
    all cores, where the backend steps in more threads than one."""
    one = behaviour.steps_in == "one-thread" and plan.cores
    return [plan.cores[number % len(plan.cores)]] if one else []


def starts_at_once(plan: Plan, behaviour: Behaviour) -> bool:
    """May both of a pair start at once, each on a core of its own? That is so where starting is
    one thread's work, though stepping is not: two that alternate while they import take longer."""
    alone = behaviour.steps_in != "pool" or behaviour.large_batches
    return not alone and len(plan.cores) > 1 and (plan.quota is None or plan.quota >= 2)


def rounds(
    plan: Plan, cells: Sequence[Cell], done: Sequence[BlockRecord], stage: int = 1
) -> list[tuple[int, Cell]]:
    """The pairs of a stage that are still to be made, in rounds, each in a seeded random order.

    A cell that failed in any stage gets no more pairs.
    """
    chance = random.Random(f"{plan.seed} {stage}")
    order = [
        (number, cell)
        for number in range(design_of(plan).pairs)
        for cell in chance.sample(cells, len(cells))
    ]
    made = {(each.round, cell_of(each).key) for each in done if each.stage == stage}
    failed = {cell_of(each).key for each in done if each.failure}
    return [
        (number, cell)
        for number, cell in order
        if (number, cell.key) not in made and cell.key not in failed
    ]


def cell_of(block: BlockRecord) -> Cell:
    """The cell that a pair is about: the last trial's, the first may be the reference kernel's."""
    return block.trials[-1].cell


def side(block: BlockRecord, arm: str) -> TrialRecord:
    """The trial of that arm."""
    return next(each for each in block.trials if each.arm == arm)
