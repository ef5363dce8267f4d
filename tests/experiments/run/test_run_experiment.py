"""``run`` as an experiment: steps per run, seeds, identity, order, and the remaining runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.record_factories import make_refusal, new_results_file, write
from helpers.run_plans import RUN, cell, plan
from helpers.virtual_executor import VirtualExecutor, invoke, plans
from hypothesis import given
from hypothesis import strategies as st

from envbench import backends
from envbench.engine import resume
from envbench.engine.target import kernel_target, make_cell
from envbench.experiments.run.dealing import Dealt
from envbench.experiments.run.rounds import calls_of_round
from envbench.model import (
    Block,
    BlockRecord,
    Cell,
    Failure,
    Plan,
    RunDesign,
    TrialRecord,
)
from envbench.results.joining import run_of


def record(
    of: Plan, round_: int, cells: Sequence[Cell], reason: str | None = None, **given: Any
) -> BlockRecord:
    """A block whose last trial failed, if there is a ``reason``."""
    failure = Failure(reason=reason, message="…") if reason else None  # type: ignore[arg-type]
    trials = [
        TrialRecord(trial_id="t", cell=each, seed=0, failure=failure if each == cells[-1] else None)
        for each in cells
    ]
    values = {
        "block_id": f"b{round_} {[each.key for each in cells]} {reason}",
        "plan_id": of.plan_id,
        "round": round_,
        "started_utc": "2026-01-02T03:04:05Z",
        "trials": trials,
    }
    return BlockRecord(**{**values, **given})


def every_block(of: Plan) -> list[Block]:
    """All blocks of a plan, in order, if each one succeeds."""
    done: list[BlockRecord] = []
    made: list[Block] = []
    while (block := RUN.next(of, done)) is not None:
        made.append(block)
        done.append(record(of, block.round, own(block)))
    return made


def own(block: Block) -> list[Cell]:
    """The cells of a block, without the reference kernel."""
    return [trial.cell for trial in block.trials if not trial.arm]


# ---------------------------------------------------------------- shares of a cell


@given(total=st.integers(1, 10**12), repeats=st.integers(1, 1000))
def test_the_steps_of_a_cell_are_divided_evenly_among_its_rounds(total: int, repeats: int) -> None:
    shares = [calls_of_round(total, repeats, round_) for round_ in range(repeats)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@given(total=st.integers(1, 50), repeats=st.integers(1, 50))
def test_every_run_has_at_least_one_step(total: int, repeats: int) -> None:
    made = every_block(plan(total_steps=total, repeats=repeats))
    calls = [block.trials[0].protocol.calls for block in made]
    assert all(calls)
    assert sum(c or 0 for c in calls) == total


def test_the_duration_of_a_cell_is_divided_among_its_runs() -> None:
    design = plan().design_as(RunDesign)
    assert design.protocol["for-loop"].measured_s * design.repeats["for-loop"] == 30
    assert plan(duration_s=6, repeats=3).design_as(RunDesign).protocol["for-loop"].measured_s == 2


def test_a_quick_plan_is_one_run_with_one_second_of_warm_up_and_two_of_windows() -> None:
    quick = plan(quick=True).design_as(RunDesign)
    protocol = quick.protocol["for-loop"]
    assert quick.repeats == {"for-loop": 1}
    assert (protocol.warmup_min_s, protocol.warmup_max_s, protocol.measured_s) == (1, 1, 2)


def test_other_quantities_take_a_second_per_run_and_a_third_of_it_in_a_quick_plan() -> None:
    def after(**given: Any) -> dict[str, float]:
        return {**plan(**given).design_as(RunDesign).protocol["for-loop"].after}

    assert after() == {"latency": 0.6, "returns": 0.2, "reset": 0.2}
    assert after(quick=True) == {"latency": 0.3, "reset": 0.1}


def test_a_number_of_steps_leaves_no_room_for_the_steps_of_other_quantities() -> None:
    for quick in (False, True):
        design = plan(total_steps=100, quick=quick).design_as(RunDesign)
        assert design.protocol["for-loop"].after == {}


# ---------------------------------------------------------------- blocks and seeds


def test_cells_of_a_round_have_the_same_seed_and_rounds_have_different_seeds() -> None:
    made = plan([cell(), cell("envpool-async"), cell(numenv=4)], seed=3)
    seeds = {round_: set[int]() for round_ in range(5)}
    for block in every_block(made):
        seeds[block.round].add(block.trials[0].seed)
    assert all(len(of_round) == 1 for of_round in seeds.values())
    found = sorted(seed for of_round in seeds.values() for seed in of_round)
    # Environment i has the seed + i: even thousands of environments of two rounds share no seed.
    assert min(b - a for a, b in pairwise(found)) > 1_000_000


def test_a_single_cell_alternates_with_the_reference_kernel() -> None:
    made = plan([cell("envpool-async", 8, overcommit="2.5")], repeats=2, seed=1)
    for number, block in enumerate(every_block(made)):
        kernel, trial = block.trials
        assert (block.round, block.stage, block.reference) == (number, 1, None)
        assert (trial.cell, trial.arm, trial.mode) == (made.cells[0], "", "measure")
        assert trial.protocol == made.design_as(RunDesign).protocol["envpool-async"]
        assert (kernel.arm, kernel.cell.backend) == ("kernel", "pooled-kernel")
        assert block.programme.mixed == [0.1, 0.1]


def test_a_single_cell_with_a_number_of_steps_has_no_kernel_beside_it() -> None:
    (block,) = every_block(plan(total_steps=10, repeats=1))
    assert [trial.arm for trial in block.trials] == [""]
    assert block.programme.mixed == [0.1]


def test_the_cells_of_a_round_are_dealt_at_random_into_blocks_of_equal_size() -> None:
    cells = [cell(numenv=n) for n in range(1, 12)]
    made = plan(cells, repeats=4, seed=2)
    blocks = every_block(made)
    for number in range(4):
        groups = [own(block) for block in blocks if block.round == number]
        assert sorted(map(len, groups)) == [3, 4, 4]
        assert sorted(each.numenv for group in groups for each in group) == list(range(1, 12))
    together = [{frozenset(each.numenv for each in own(b)) for b in blocks if b.round == n}
                for n in range(4)]  # fmt: skip
    assert len({frozenset(each) for each in together}) == 4
    assert [block.round for block in blocks] == sorted(block.round for block in blocks)


def test_the_order_depends_on_the_seed_alone() -> None:
    cells = [cell(numenv=n) for n in range(1, 12)]
    first, again, other = (plan(cells, repeats=2, seed=seed) for seed in (2, 2, 3))
    assert RUN.remaining(first, []) == RUN.remaining(again, []) != RUN.remaining(other, [])


def test_backends_that_make_large_batches_have_long_slices() -> None:
    made = plan([cell(), cell("sample-factory", 4)], repeats=1)
    (block,) = every_block(made)
    backends_of = [trial.cell.backend for trial in block.trials]
    slices = dict(zip(backends_of, block.programme.mixed, strict=True))
    assert (slices["for-loop"], slices["sample-factory"]) == (0.1, 1.0)
    leads = dict(zip(backends_of, block.programme.lead_in_s, strict=True))
    # Sample Factory's processes work ahead: their next slice gets that.
    assert leads == {
        "for-loop": 0.01,
        "sample-factory": 0.0,
        "reference-kernel": 0.01,
        "pooled-kernel": 0.01,
    }


def test_a_program_on_a_gpu_has_a_block_of_its_own() -> None:
    brax = make_cell("laptop", "mujoco", "Ant-v3", backends.get("brax"), 64, {})
    for gpus, sizes in (((), {2}), (("H100",), {1})):
        blocks = every_block(plan([cell(), brax], gpus=gpus, repeats=1))
        assert {len(own(block)) for block in blocks} == sizes
    alone = next(block for block in blocks if own(block) == [brax])
    assert not alone.programme.alternates
    assert [trial.arm for trial in alone.trials] == [""]


def test_a_run_says_whether_its_cell_alternated_with_another_cell_or_a_kernel() -> None:
    cells = [cell(numenv=n) for n in range(1, 4)]
    made = plan(cells)

    def without_others(*together: Cell, of: Plan = made, kernel: bool = True) -> list[bool]:
        block = record(of, 0, together)
        beside = TrialRecord(trial_id="k", cell=kernel_target().cell, arm="kernel", seed=0)
        every = msgspec.structs.replace(block, trials=[*([beside] * kernel), *block.trials])
        return [run_of(of, every, each, {}).without_others for each in block.trials]

    assert without_others(*cells) == [False] * 3
    assert without_others(*cells, kernel=False) == [False] * 3
    assert without_others(cells[0]) == [False]  # the kernel relates it to the others
    assert without_others(cells[0], kernel=False) == [True]  # as on a GPU
    assert without_others(cells[0], kernel=False, of=plan(cells[:1])) == [True]
    design = msgspec.structs.replace(made.design_as(RunDesign), block_size=1)
    older = msgspec.structs.replace(made, design=design)
    assert without_others(cells[0], kernel=False, of=older) == [False]


def test_the_processes_of_a_block_fit_into_the_free_memory() -> None:
    cells = [cell(numenv=n) for n in range(1, 6)]
    made = plan(cells, repeats=2, free_gib=5)  # 3.5 GiB to use, and over 0.5 GiB for each at first
    sizes = [len(each.cells) for each in RUN.remaining(made, []) if each.round == 0]
    assert sizes == [5]
    peak = int(1.2 * 2**30)
    done = [record(made, 0, cells)]
    learnt = [msgspec.structs.replace(e, peak_memory_bytes=peak) for e in done[0].trials]
    done = [msgspec.structs.replace(done[0], trials=learnt)]
    assert sorted(len(each.cells) for each in RUN.remaining(made, done)) == [1, 2, 2]


# ---------------------------------------------------------------- identity

QUESTION = {
    "--env": "atari",
    "--backend": "for-loop",
    "--numenv": "2",
    "--machine": "laptop",
    "--repeats": "2",
    "--duration": "4",
}


def asked(other: dict[str, str]) -> list[str]:
    """The command line of ``run``. A flag has an empty value."""
    options = {**QUESTION, **other}
    if "--quick" in other:
        del options["--repeats"]
    if "--quick" in other or "--total-step" in other:
        del options["--duration"]
    return ["run", *(word for pair in options.items() for word in pair if word)]


def spec_of(folder: Path, **other: str) -> str:
    words = asked({f"--{name.replace('_', '-')}": value for name, value in other.items()})
    invoke(VirtualExecutor(), *words, "--results", folder)
    (made,) = plans(folder)
    return made.spec


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_same_options_give_the_same_spec_on_any_cores(
    quiet: Path,
) -> None:
    first = spec_of(quiet / "one")
    one_cpu = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    if one_cpu is not None:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {one_cpu})
    try:
        assert spec_of(quiet / "two") == first
    finally:
        if one_cpu is not None:
            os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    "other",
    [
        {"duration": "5"},
        {"repeats": "3"},
        {"quick": ""},
        {"seed": "1"},
        {"numenv": "3"},
        {"task": "Breakout-v5"},
        {"set": "actions=constant"},
        {"backend": "for-loop,subprocess"},
        {"machine": "dgx-a100"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_options_give_another_spec(quiet: Path, other: dict[str, str]) -> None:
    assert spec_of(quiet / "other", **other) != spec_of(quiet / "one")


def test_steps_instead_of_a_duration_give_another_spec(quiet: Path) -> None:
    specs = {spec_of(quiet / f"t{n}", total_step=str(n)) for n in (100, 101)}
    assert len({spec_of(quiet / "one"), *specs}) == 3


def test_a_spec_does_not_depend_on_the_process_that_computes_it(quiet: Path) -> None:
    code = (
        "import sys, test_run_experiment as t; from pathlib import Path;"
        "print(t.spec_of(Path(sys.argv[1]), backend='envpool-async', numenv='8'))"
    )
    specs = set()
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", code, str(quiet / seed)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        specs.add(done.stdout)
    assert specs == {spec_of(quiet / "here", backend="envpool-async", numenv="8") + "\n"}


# ---------------------------------------------------------------- what remains

WHOLE = plan([cell(numenv=n) for n in range(1, 8)], repeats=4)
ORDER = RUN.remaining(WHOLE, [])


def left(of: Plan, done: Sequence[BlockRecord]) -> list[Dealt]:
    found = RUN.remaining(of, done)
    assert RUN.left(of, done) == len(found)
    return found


def read_back(folder: Path, of: Plan, blocks: Sequence[BlockRecord]) -> list[BlockRecord]:
    """The blocks that count, after a file was written and read."""
    path = folder / "plan.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in (of, *blocks)))
    (found,), warnings = resume.read(path)
    assert warnings == []
    return found.done


@given(
    done=st.sets(st.integers(0, len(ORDER) - 1)), stopped=st.sets(st.integers(0, len(ORDER) - 1))
)
def test_the_runs_that_remain_are_those_without_a_finished_record(
    tmp_path_factory: pytest.TempPathFactory, done: set[int], stopped: set[int]
) -> None:
    blocks = [record(WHOLE, *ORDER[i][:2]) for i in done]
    blocks += [record(WHOLE, *ORDER[i][:2], "interrupted") for i in stopped]
    counted = read_back(tmp_path_factory.getbasetemp(), WHOLE, blocks)
    assert left(WHOLE, counted) == [ORDER[i] for i in range(len(ORDER)) if i not in done]


def test_a_failed_cell_is_left_out_of_later_rounds_and_the_others_are_not() -> None:
    number, cells, _ = ORDER[0]
    failed = left(WHOLE, [record(WHOLE, number, cells, "signal")])
    rest = [each for dealt in failed for each in dealt.cells]
    assert Counter(each.numenv for each in rest) == {
        **{each.numenv: 4 for each in WHOLE.cells if each not in cells},
        **{each.numenv: 3 for each in cells[:-1]},
    }


def test_runs_of_another_plan_do_not_count(tmp_path: Path) -> None:
    others = [record(WHOLE, *each[:2], plan_id="p0") for each in ORDER]
    assert len(left(WHOLE, read_back(tmp_path, WHOLE, others))) == len(ORDER)


def test_cells_that_differ_only_in_a_setting_are_different() -> None:
    made = plan([cell("envpool-async", 8), cell("envpool-async", 8, threads="1")], repeats=1)
    ((_, cells, _),) = left(made, [])
    assert sorted(cells, key=made.cells.index) == made.cells


def test_a_block_read_from_a_file_counts_as_done(tmp_path: Path) -> None:
    blocks = read_back(tmp_path, WHOLE, [record(WHOLE, *each[:2]) for each in ORDER[:3]])
    assert left(WHOLE, blocks) == ORDER[3:]
    assert not any(each.interrupted for each in blocks)


def test_run_shows_no_figure_of_a_row_that_verify_refused(quiet: Path) -> None:
    words = asked({})
    (before,) = json.loads(invoke(VirtualExecutor(), *words, "--json").stdout)["cells"]
    (measured,) = plans()
    (own,) = measured.cells
    assert before["fps"] > 0
    write(
        new_results_file(quiet / "results", own.machine, "2026-01-02T03:04:05Z"),
        [msgspec.structs.replace(make_refusal(own), fingerprint=measured.fingerprint)],
    )
    done = invoke(VirtualExecutor(), *words, "--json")
    (after,) = json.loads(done.stdout)["cells"]
    assert (done.exit_code, after["fps"], after["interval"]) == (1, None, None)
    shown = invoke(VirtualExecutor(), *words)
    assert "refused this row's figures" in shown.stderr
    assert "failed: invalid-figure" in shown.stdout
    assert "done, but `envbench verify` refused the figures of its row" in shown.stderr
    assert not re.search(r"\d FPS", shown.stderr)  # in the progress lines, too
