"""Deal the cells of a round into blocks, at random. Pure.

The cells of a block step alternately, so they have to fit into the memory together. The reference
kernels are dealt, too: sessions of one computer can be related through them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from envbench.backends.builtin import KERNELS
from envbench.engine.experiment import Done
from envbench.engine.target import kernel_target
from envbench.model import Behaviour, Cell, Plan, RunDesign

MEMORY_SHARE = 0.7  # of the free memory, for the cells of a block; a kernel needs little


class Dealt(NamedTuple):
    """The cells of one block of a round, and the reference kernels that alternate with them."""

    round: int
    cells: list[Cell]
    kernels: list[Cell]


def deal(plan: Plan, cells: Sequence[Cell], number: int, earlier: Done) -> list[Dealt]:
    """Deal the cells of a round into blocks, about equally many to each.

    A backend that cannot alternate has blocks of its own. ``earlier`` rounds show how much memory a
    cell needs; until then it is estimated.
    """
    design = plan.design_as(RunDesign)
    chance = random.Random(f"{plan.seed} {number}")
    order = chance.sample(cells, len(cells))
    alternate = {cell.key for cell in order if design.slice_s.get(cell.backend, 0.0)}
    known = [(e.cell.key, e.peak_memory_bytes or 0) for block in earlier for e in block.trials]
    needs = {cell.key: _estimated(plan, cell) for cell in cells}
    needs |= {key: size for key, size in sorted(known) if size}
    groups = _groups(plan, [cell for cell in order if cell.key in alternate], needs, chance)
    blocks = [Dealt(number, each, []) for each in groups]
    _deal_kernels(plan, blocks, chance)
    blocks += [Dealt(number, [cell], []) for cell in order if cell.key not in alternate]
    chance.shuffle(blocks)
    return blocks


def _groups(
    plan: Plan, cells: Sequence[Cell], needs: dict[str, float], chance: random.Random
) -> list[list[Cell]]:
    """Groups of at most ``block_size`` cells that fit into the memory. Cells that need much of it
    are dealt first, and a cell that would be alone gets one of a larger group."""
    size, room = plan.design_as(RunDesign).block_size, plan.free_memory * MEMORY_SHARE

    def fit(group: Sequence[Cell]) -> bool:
        return len(group) <= size and sum(needs[each.key] for each in group) <= room

    groups: list[list[Cell]] = [[] for _ in range(math.ceil(len(cells) / size))]
    for cell in sorted(cells, key=lambda cell: needs[cell.key] * size <= room):
        fitting = [each for each in groups if not each or fit([*each, cell])]
        if not fitting:
            groups.append([])
        min(fitting or groups[-1:], key=len).append(cell)
    for lone in [each for each in groups if len(each) == 1]:
        moves = [
            (group, cell)
            for group in groups
            if group is not lone and len(group) != 2 and len(lone) == 1
            for cell in group
            if fit([*lone, cell])
        ]
        if moves:
            group, cell = chance.choice(moves)
            group.remove(cell)
            lone.append(cell)
    return [each for each in groups if each]


def _deal_kernels(plan: Plan, blocks: Sequence[Dealt], chance: random.Random) -> None:
    """Add the kernels to these blocks of a round.

    A cell that is alone gets the kernels of all classes in the plan: they relate it to the others.
    In a plan of several cells, the kernel of each class is in one more block, chosen at random. If
    the only block has five cells, it has room for one kernel: the kernels alternate from round to
    round. Quick figures are not compared with those of other sessions, and a number of steps says
    nothing about a kernel's time.
    """
    design = plan.design_as(RunDesign)
    if any(each.calls for each in design.protocol.values()):
        return
    needed = {kernel.key: kernel for b in blocks for kernel in (_kernel(plan, c) for c in b.cells)}
    for block in blocks:
        if len(block.cells) == 1:
            block.kernels.extend(needed[key] for key in sorted(needed))
    if design.quick:
        return
    present = {kernel.key for block in blocks for kernel in block.kernels}
    missing = [kernel for key, kernel in sorted(needed.items()) if key not in present]
    first = blocks[0].round % len(missing) if missing else 0
    for kernel in missing[first:] + missing[:first]:
        free = [each for each in blocks if len(each.cells) + len(each.kernels) <= design.block_size]
        if free:
            chance.choice(free).kernels.append(kernel)


def _kernel(plan: Plan, cell: Cell) -> Cell:
    """The reference kernel of the cell's class."""
    steps_in = plan.behaviour.get(cell.backend, Behaviour()).steps_in
    return kernel_target(cell.machine, KERNELS[steps_in]).cell


def _estimated(plan: Plan, cell: Cell) -> float:
    """Bytes that a cell's processes may need, before one was measured."""
    behaviour = plan.behaviour.get(cell.backend, Behaviour())
    per_env = {"processes": 0.2, "device": 0.002}.get(behaviour.steps_in, 0.02)
    return (0.5 + per_env * cell.env_instances) * 2**30
