"""``run`` in blocks of several cells, from the command line to the files: what counts and is shown.

A virtual clock replaces the processes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.record_factories import make_refusal, new_results_file, write
from helpers.virtual_executor import (
    BROKEN,
    SPEED,
    VirtualExecutor,
    blocks,
    fake,
    files,
    invoke,
    plans,
    runs,
)

from envbench.backends import Backend
from envbench.engine import resume
from envbench.errors import Interrupted
from envbench.experiments.check.against import stored
from envbench.experiments.run.rounds import BLOCK_SIZE
from envbench.model import Failure

KILLED = Failure(reason="signal", message="the worker died of SIGKILL", signal="SIGKILL")
WORDS = ("--env", "gym", "--task", "My-v0", "--machine", "laptop")
SIX = ("run", *WORDS, "--numenv", "2,4,6")  # cells: a round has two blocks of three
SINGLE = ("run", *WORDS, "--backend", "fake-slow", "--numenv", "2")
KERNEL = "pooled-kernel"  # of a backend with a pool of threads


@pytest.fixture
def machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, register: Callable[[dict[str, Backend]], None]
) -> VirtualExecutor:
    register({name: fake(name) for name in SPEED})
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    return VirtualExecutor()


def cells(*results: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads("".join(results))["cells"]
    return found


# ---------------------------------------------------------------- a trial fails


def test_the_others_of_a_block_count_if_one_of_its_cells_fails(machine: VirtualExecutor) -> None:
    machine.trouble[1] = BROKEN
    done = invoke(machine, *SIX, "--repeats", "3", "--json")
    assert done.exit_code == 1
    *others, last = [trial.cell.key for trial in machine.blocks[0].trials if not trial.arm]
    made = Counter(run.cell.key for run in runs() if run.failure is None)
    assert made == {cell.key: 3 for cell in plans()[0].cells if cell.key != last}
    assert [run.cell.key for run in runs() if run.failure] == [last]
    assert len(others) == 2
    # A later round has five cells, so they fit into one block.
    sizes = [len([t for t in block.trials if not t.arm]) for block in machine.blocks]
    assert sizes == [3, 3, BLOCK_SIZE, BLOCK_SIZE]


def test_a_plan_ends_if_every_cell_of_its_blocks_has_failed(machine: VirtualExecutor) -> None:
    machine.trouble = dict.fromkeys(range(1, 100), BROKEN)
    done = invoke(machine, *SIX, "--repeats", "9", "--json")
    assert done.exit_code == 1
    assert {cell["failure"]["signal"] for cell in cells(done.stdout)} == {"SIGSEGV"}
    failed = [run.cell.key for run in runs() if run.failure]
    assert len(failed) == len(set(failed)) == 6


def test_a_cell_that_is_left_alone_alternates_with_the_reference_kernel(
    machine: VirtualExecutor,
) -> None:
    machine.trouble[1] = BROKEN
    words = ("run", *WORDS, "--numenv", "2", "--repeats", "3", "--json")  # a cell per backend
    shown = cells(invoke(machine, *words).stdout)
    assert [[each.arm for each in block.trials] for block in machine.blocks] == [
        ["kernel", "", ""], ["kernel", ""], ["kernel", ""],
    ]  # fmt: skip
    assert sorted(len(cell["runs"]) for cell in shown) == [1, 3]


def test_nothing_of_a_block_counts_if_one_of_its_workers_was_killed(
    machine: VirtualExecutor,
) -> None:
    machine.trouble[2] = KILLED
    done = invoke(machine, *SIX, "--repeats", "2", "--json")
    assert done.exit_code == 0
    (line,) = (each for each in done.stderr.splitlines() if "Trying again" in each)
    one = machine.blocks[1].trials[-1].cell  # the one that was killed
    name = f"{one.env} {one.task} {one.backend} × {one.numenv}"
    again = "Trying again with the 2 other cells of its block."
    assert line == f"round 1/2  {name}: the worker died of SIGKILL. {again}"
    assert machine.blocks[1] == machine.blocks[2]  # the whole block, in the same order
    assert len(machine.blocks) == 4 + 1
    reasons = [run.failure and run.failure.reason for run in runs()]
    assert reasons == [None] * 3 + ["interrupted"] * 3 + [None] * 9
    assert all(run.measured.ns for run in runs()[3:5])  # what was measured stays in the file
    assert [len(cell["runs"]) for cell in cells(done.stdout)] == [2] * 6


def test_only_the_cell_that_is_killed_every_time_has_failed(machine: VirtualExecutor) -> None:
    machine.trouble = dict.fromkeys((1, 2, 3), KILLED)
    done = invoke(machine, *SIX, "--repeats", "2", "--json")
    assert done.exit_code == 1
    assert machine.blocks[0] == machine.blocks[1] == machine.blocks[2] != machine.blocks[3]
    shown = cells(done.stdout)
    (failed,) = (cell for cell in shown if cell["failure"])
    last = machine.blocks[0].trials[-1].cell
    assert (failed["backend"], failed["numenv"]) == (last.backend, last.numenv)
    assert all(len(cell["runs"]) == 2 for cell in shown if cell is not failed)


# ---------------------------------------------------------------- stopped and resumed


@pytest.mark.parametrize("stop", range(1, 6))
def test_a_plan_with_a_failed_cell_resumes_at_every_block(
    machine: VirtualExecutor, stop: int
) -> None:
    words = (*SIX, "--repeats", "4")
    whole, first, second = VirtualExecutor(), VirtualExecutor(), VirtualExecutor()
    whole.trouble[1] = first.trouble[1] = BROKEN
    first.trouble[stop] = Interrupted(130)
    if stop == 1:
        second.trouble[1] = BROKEN
    assert invoke(whole, *words, "--results", "whole").exit_code == 1
    assert invoke(first, *words).exit_code == 130
    assert "Resuming" in invoke(second, *words).stderr
    assert first.blocks[:-1] + second.blocks == whole.blocks
    identities = [block.identity for block in blocks() if not block.interrupted]
    assert len(identities) == len(set(identities)) == len(whole.blocks)
    assert len(files()) == 1


# ---------------------------------------------------------------- what is shown


def test_each_cell_of_a_block_has_its_own_progress_line(machine: VirtualExecutor) -> None:
    machine.trouble[2] = BROKEN
    said = invoke(machine, *SIX, "--repeats", "1").stderr.splitlines()
    assert any(line.startswith("2 blocks to do: about ") for line in said)
    lines = [line for line in said if line.startswith("[")]
    names = [
        f"gym My-v0 {trial.cell.backend} × {trial.cell.numenv}"
        for block in machine.blocks
        for trial in block.trials
        if not trial.arm
    ]
    figures = [f"{SPEED[trial.cell.backend]:,} FPS" for trial in machine.own_trials]
    figures[-1] = "signal: the worker died of SIGSEGV"
    assert [line.partition("; ")[0] for line in lines] == [
        f"[{1 + number // 3}/2] round 1/1  {name}: {figure}"
        for number, (name, figure) in enumerate(zip(names, figures, strict=True))
    ]
    assert [line.endswith(" left") for line in lines] == [False, False, True, False, False, False]


def test_the_reference_kernel_beside_a_cell_is_never_a_figure(machine: VirtualExecutor) -> None:
    assert invoke(machine, *SINGLE, "--repeats", "5").exit_code == 0
    assert {trial.arm for block in blocks() for trial in block.trials} == {"kernel", ""}
    assert {(run.cell.backend, run.arm) for run in runs(kernels=True)} == {
        ("fake-slow", ""),
        (KERNEL, "kernel"),
    }
    again = invoke(VirtualExecutor(), *SINGLE, "--repeats", "5", "--json")
    shown = [again, invoke(machine, "plans", "--json")]
    shown += [invoke(machine, "export", *more) for more in ((), ("--runs",))]
    shown += [invoke(machine, "report", *more) for more in (("--json",), ("--output", "page.md"))]
    for done in shown:
        assert done.exit_code == 0, done.stderr
        assert KERNEL not in done.stdout + done.stderr
    assert KERNEL not in Path("page.md").read_text()
    assert "Fake-Slow" in Path("page.md").read_text()
    (cell,) = cells(again.stdout)
    assert (cell["fps"], len(cell["runs"]), cell["failure"]) == (1000, 5, None)
    assert (cell["rank"], cell["ties"], cell["adjusted_fps"]) == (1, [], None)
    assert json.loads(again.stdout)["ratios"] == []
    report = json.loads(invoke(machine, "report", "--json").stdout)
    assert ([each["rank"] for each in report["cells"]], report["ratios"]) == ([1], [])


def test_a_kernel_that_fails_beside_a_cell_takes_no_figure_from_it(
    machine: VirtualExecutor,
) -> None:
    machine.broken_arms = {"kernel": BROKEN}
    done = invoke(machine, *SINGLE, "--repeats", "5", "--json")
    assert done.exit_code == 0, done.stderr
    (cell,) = cells(done.stdout)
    assert (cell["fps"], len(cell["runs"]), cell["failure"]) == (1000, 5, None)


@pytest.mark.parametrize("failure", [BROKEN, KILLED])
def test_a_kernel_that_fails_beside_several_cells_takes_nothing_from_them(
    machine: VirtualExecutor, failure: Failure
) -> None:
    machine.broken_arms = {"kernel": failure}
    done = invoke(machine, *SIX, "--repeats", "5", "--json")
    assert done.exit_code == 0, done.stderr
    shown = cells(done.stdout)
    assert [(len(cell["runs"]), cell["failure"]) for cell in shown] == [(5, None)] * 6
    assert len(machine.blocks) == 2 * 5  # no block is repeated
    assert done.stderr.count("a reference kernel failed") == 1
    kernels = [trial for block in blocks() for trial in block.trials if trial.arm]
    assert [trial.failure for trial in kernels] == [failure] * 5
    (listed,) = json.loads(invoke(machine, "plans", "--json").stdout)["plans"]
    assert (listed["state"], listed["failed"]) == ("finished", 0)
    for page in (("report", "--json"), ("export",)):
        assert "SIG" not in invoke(machine, *page).stdout


def test_a_killed_kernel_beside_a_killed_cell_repeats_the_block(machine: VirtualExecutor) -> None:
    machine.broken_arms, machine.trouble = {"kernel": KILLED}, {1: KILLED}
    done = invoke(machine, *SINGLE, "--repeats", "5", "--json")
    assert done.exit_code == 0, done.stderr
    assert len(machine.blocks) == 5 + 1
    (cell,) = cells(done.stdout)
    assert (len(cell["runs"]), cell["failure"]) == (5, None)


def test_the_rates_of_a_run_are_a_baseline_without_the_kernels(machine: VirtualExecutor) -> None:
    """`check --against` reads them from the file."""
    assert invoke(machine, *SINGLE, "--repeats", "5").exit_code == 0
    assert invoke(machine, *SIX, "--repeats", "5").exit_code == 0
    found = [stored(resume.read(path)[0]) for path in files()]
    assert [sorted(each.cell.key for each in one) for one in found] == [
        sorted(cell.key for cell in plan.cells) for plan in plans()
    ]
    assert {len(each.rates) for one in found for each in one} == {5}
    assert not any(each.beside_kernel for one in found for each in one)


# ---------------------------------------------------------------- the cells of a session


def test_the_json_has_the_place_of_each_cell_and_the_ratio_of_each_pair(
    machine: VirtualExecutor,
) -> None:
    done = invoke(machine, *SIX, "--repeats", "5", "--json")
    assert done.exit_code == 0, done.stderr
    found = {cell["key"]: cell for cell in cells(done.stdout)}
    assert len(found) == 6
    for key, cell in found.items():
        assert key.endswith(f"/{cell['backend']}/{cell['numenv']}")
        # The faster backend of each number of environments is first, and nothing ties with it.
        assert (cell["rank"], cell["ties"]) == (1 + (cell["backend"] == "fake-slow"), [])
        assert cell["adjusted_fps"] == pytest.approx(cell["fps"])
        low, high = cell["adjusted_interval"]
        assert low < cell["adjusted_fps"] < high
    ratios = json.loads(done.stdout)["ratios"]
    assert len({frozenset((each["cell"], each["to"])) for each in ratios}) == len(ratios) == 15
    for each in ratios:
        assert set(each) == {"cell", "to", "ratio", "interval"}
        expected = found[each["cell"]]["fps"] / found[each["to"]]["fps"]
        assert each["ratio"] == pytest.approx(expected)
        assert each["interval"][0] < each["ratio"] < each["interval"][1]


def test_a_failed_cell_has_no_rank_and_is_in_no_ratio(machine: VirtualExecutor) -> None:
    machine.trouble[1] = BROKEN
    done = invoke(machine, *SIX, "--repeats", "3", "--json")
    (failed,) = [cell for cell in cells(done.stdout) if cell["failure"]]
    assert (failed["rank"], failed["ties"]) == (None, [])
    assert (failed["adjusted_fps"], failed["adjusted_interval"]) == (None, None)
    document = json.loads(done.stdout)
    assert len(document["ratios"]) == 5 * 4 / 2
    assert failed["key"] not in json.dumps(document["ratios"])
    assert not any(failed["key"] in cell["ties"] for cell in document["cells"])


def test_a_refused_cell_has_no_rank_and_is_in_no_ratio(machine: VirtualExecutor) -> None:
    assert invoke(machine, *SIX, "--repeats", "3").exit_code == 0
    (plan,) = plans()
    cell = next(cell for cell in plan.cells if cell.backend == "fake-fast")
    refusal = msgspec.structs.replace(make_refusal(cell), fingerprint=plan.fingerprint)
    write(new_results_file(Path("results"), "laptop", "2026-01-01T00:00:00Z"), [refusal])
    again = invoke(VirtualExecutor(), *SIX, "--repeats", "3", "--json")
    assert again.exit_code == 1, again.stderr
    assert {each["backend"]: each["rank"] for each in cells(again.stdout)} == {
        "fake-fast": None, "fake-slow": 1,
    }  # fmt: skip
    document = json.loads(again.stdout)
    assert len(document["ratios"]) == 3  # of the three cells that are left
    for shown in (document["ratios"], [each["ties"] for each in document["cells"]]):
        assert "fake-fast" not in json.dumps(shown)
    report = json.loads(invoke(machine, "report", "--json").stdout)
    ranks = [(each["key"], each["rank"], each["ties"]) for each in document["cells"]]
    assert sorted((each["key"], each["rank"], each["ties"]) for each in report["cells"]) == sorted(
        ranks
    )
    assert [{**each, "session": ""} for each in report["ratios"]] == [
        {**each, "session": ""} for each in document["ratios"]
    ]


def test_one_block_gives_ratios_without_intervals_and_ties(machine: VirtualExecutor) -> None:
    done = invoke(machine, *SIX, "--quick", "--json")
    document = json.loads(done.stdout)
    assert {each["interval"] for each in document["ratios"]} == {None}
    assert {each["rank"] for each in document["cells"]} == {1}
    assert {len(each["ties"]) for each in document["cells"]} == {1}
    assert {each["adjusted_interval"] for each in document["cells"]} == {None}


def test_the_table_of_a_run_has_rounded_figures_with_intervals_and_ranks(
    machine: VirtualExecutor,
) -> None:
    done = invoke(machine, *SIX, "--repeats", "5")
    rows = [line.split("  ") for line in done.stdout.splitlines() if line.startswith("gym ")]
    found = [[word.strip() for word in row if word.strip()] for row in rows]
    assert [row[1:6] for row in found if len(row) > 4 and row[2] == "2"] == [
        ["Fake-Slow", "2", "1,000.00 ±0 %", "2", "1,000"],
        ["Fake-Fast", "2", "4,000.0 ±0 %", "1", "4,000"],
    ]
