"""How the cells of a round, and the reference kernels, are dealt into blocks."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import msgspec
import pytest
from helpers.run_plans import RUN, cell, plan
from hypothesis import given
from hypothesis import strategies as st

from envbench import backends
from envbench.engine.target import make_cell
from envbench.experiments.run.dealing import Dealt, deal
from envbench.experiments.run.rounds import BLOCK_SIZE
from envbench.model import Behaviour, Block, BlockRecord, Cell, Plan, TrialRecord

ONE_THREAD, POOLED = "reference-kernel", "pooled-kernel"


def dealt(of: Plan, number: int = 0, *earlier: BlockRecord) -> list[Dealt]:
    return deal(of, of.cells, number, earlier)


def kernels(of: Plan, number: int = 0) -> list[list[str]]:
    """The names of the kernels in each block that has one."""
    return [[k.backend for k in each.kernels] for each in dealt(of, number) if each.kernels]


def trials(of: Plan, number: int = 0) -> list[list[str]]:
    """The arms of the trials of each block."""
    blocks: list[Block] = [RUN.block(of, each) for each in dealt(of, number)]
    return [[trial.arm for trial in block.trials] for block in blocks]


def peaks(of: Plan, *gib: float) -> BlockRecord:
    """An earlier round, in which the cells needed that much memory."""
    known = [
        TrialRecord(trial_id="t", cell=each, seed=0, peak_memory_bytes=int(size * 2**30))
        for each, size in zip(of.cells, gib, strict=True)
    ]
    return BlockRecord(block_id="b", plan_id="p1", started_utc="2026-01-02", trials=known)


def mixture(one_thread: int, pools: int) -> list[Cell]:
    loops = [cell(numenv=number + 1) for number in range(one_thread)]
    return [*loops, *(cell("envpool-sync", number + 1) for number in range(pools))]


# ---------------------------------------------------------------- cells


@given(count=st.integers(2, 30), seed=st.integers(0, 99))
def test_no_cell_is_alone_if_memory_allows_several(count: int, seed: int) -> None:
    sizes = [len(each.cells) for each in dealt(plan(mixture(count, 0), seed=seed))]
    assert min(sizes) >= 2
    assert max(sizes) <= BLOCK_SIZE
    assert sum(sizes) == count


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("gib", [(6, 6, 2, 2, 2), (5, 5, 5, 5, 1, 1), (9, 1, 1, 1)])
def test_a_cell_that_needs_much_memory_gets_a_partner_from_a_larger_block(
    gib: tuple[float, ...], seed: int
) -> None:
    made = plan(mixture(len(gib), 0), free_gib=15, seed=seed)  # 10.5 GiB to use
    earlier = peaks(made, *gib)
    needs = {each.key: size for each, size in zip(made.cells, gib, strict=True)}
    groups = [[needs[each.key] for each in block.cells] for block in dealt(made, 1, earlier)]
    assert all(sum(group) <= 10.5 for group in groups)
    assert min(map(len, groups)) >= 2
    assert Counter(size for group in groups for size in group) == Counter(gib)


@given(gib=st.lists(st.floats(0.1, 12), min_size=2, max_size=14), seed=st.integers(0, 9))
def test_a_cell_is_alone_only_if_no_other_block_can_spare_one(gib: list[float], seed: int) -> None:
    made = plan(mixture(len(gib), 0), free_gib=15, seed=seed)
    needs = {each.key: size for each, size in zip(made.cells, gib, strict=True)}
    groups = [[needs[c.key] for c in each.cells] for each in dealt(made, 1, peaks(made, *gib))]
    assert sum(map(len, groups)) == len(gib)
    for group in groups:
        others = [size for each in groups for size in each if each is not group and len(each) != 2]
        assert len(group) > 1 or all(group[0] + size > 10.49 for size in others)


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize(("loops", "pools"), [(1, 1), (2, 2), (3, 3), (5, 5), (20, 36)])
def test_each_round_measures_the_kernels_of_its_classes_once(loops: int, pools: int) -> None:
    made = plan(mixture(loops, pools), repeats=8, seed=1)
    for number in range(8):
        assert sorted(chain(*kernels(made, number))) == [POOLED, ONE_THREAD]
        sizes = [len(each.cells) + len(each.kernels) for each in dealt(made, number)]
        assert max(sizes) <= BLOCK_SIZE + 1


def test_cells_that_memory_keeps_alone_alternate_with_the_kernels_of_all_classes() -> None:
    """Otherwise nothing would relate those of one class to those of another."""
    made = plan(mixture(2, 2), free_gib=0.1)
    found = dealt(made)
    assert [len(each.cells) for each in found] == [1] * 4
    assert [sorted(k.backend for k in each.kernels) for each in found] == [[POOLED, ONE_THREAD]] * 4
    loops = plan(mixture(2, 0), free_gib=0.1)
    assert kernels(loops) == [[ONE_THREAD]] * 2


def test_the_kernel_is_in_a_block_chosen_at_random() -> None:
    made = plan(mixture(20, 0), repeats=8)
    beside = {cell.key for n in range(8) for b in dealt(made, n) if b.kernels for cell in b.cells}
    assert len(beside) > 10


def test_kernels_of_two_classes_take_turns_beside_a_full_block() -> None:
    made = plan(mixture(3, 2), repeats=4)
    assert [len(dealt(made, number)) for number in range(4)] == [1] * 4
    found = [kernels(made, number) for number in range(4)]
    assert found == [[[POOLED]], [[ONE_THREAD]], [[POOLED]], [[ONE_THREAD]]]


def test_a_kernel_steps_for_a_third_of_the_time_of_its_cells() -> None:
    made = plan(mixture(2, 0), duration_s=45)
    (block,) = [RUN.block(made, each) for each in dealt(made)]
    kernel, *own = block.trials
    assert (kernel.protocol.measured_s, kernel.protocol.warmup_max_s) == (3, 1)
    assert {trial.protocol.measured_s for trial in own} == {9}
    assert len(block.programme.mixed) == 3


@pytest.mark.parametrize("measure", [{"quick": True}, {"total_steps": 100}])
def test_quick_plans_and_those_of_a_number_of_steps_have_no_kernel_beside_several_cells(
    measure: dict[str, Any],
) -> None:
    assert kernels(plan(mixture(6, 6), **measure)) == []


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("for-loop", ONE_THREAD),
        ("envpool-sync", POOLED),
        ("envpool-async", POOLED),
        ("subprocess", POOLED),
        ("sample-factory", POOLED),
    ],
)
def test_the_kernel_beside_a_single_cell_steps_like_its_backend(backend: str, kernel: str) -> None:
    made = plan([cell(backend, 4)])
    assert kernels(made) == [[kernel]]
    (block,) = [RUN.block(made, each) for each in dealt(made)]
    assert {key: arm for arm, key in ((t.arm, t.cell.backend) for t in block.trials)} == {
        kernel: "kernel",
        backend: "",
    }


def test_a_program_on_a_gpu_has_no_kernel_and_the_cell_that_it_leaves_alone_has_one() -> None:
    brax = make_cell("laptop", "mujoco", "Ant-v3", backends.get("brax"), 64, {})
    made = plan([cell(), brax], gpus=("H100",))
    assert {each.cells[0].backend: len(each.kernels) for each in dealt(made)} == {
        "for-loop": 1,
        "brax": 0,
    }


def test_cells_that_are_alone_for_lack_of_memory_have_a_kernel_each() -> None:
    made = plan(mixture(3, 0), free_gib=1)
    assert trials(made) == [["kernel", ""]] * 3


def test_an_unknown_behaviour_is_that_of_a_pool() -> None:
    made = msgspec.structs.replace(plan(mixture(2, 0)), behaviour={})
    assert Behaviour().steps_in == "pool"
    assert kernels(made) == [[POOLED]]
