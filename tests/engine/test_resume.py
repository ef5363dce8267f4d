"""Unfinished plans of earlier calls: which are resumed, and what is said about the others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click.testing
import msgspec
import pytest
from helpers.command_line import ROOT
from helpers.record_factories import make_cell
from helpers.virtual_environments import make_interpreter, site_packages
from helpers.virtual_executor import (
    BROKEN,
    SPEED,
    VirtualExecutor,
    blocks,
    fake,
    files,
    invoke,
    plans,
)

from envbench import backends
from envbench.backends import Backend
from envbench.backends.builtin import KERNELS
from envbench.engine.availability import KERNEL_ARM, TRIES, Arm, kernel_arm
from envbench.engine.experiment import Done
from envbench.engine.new_plan import OWN_SOURCE, code_files, identity
from envbench.engine.resume import find, recorded
from envbench.engine.target import kernel_target, target_of
from envbench.errors import Interrupted
from envbench.experiments.run.rounds import RunExperiment
from envbench.model import Block, Cell, Failure, Plan
from envbench.results import store

KILLED = Failure(reason="signal", message="the worker died of SIGKILL", signal="SIGKILL")
WORDS = ("--env", "gym", "--task", "My-v0", "--machine", "laptop")
# Six cells in three rounds, so six blocks of three cells.
RUN = ("run", *WORDS, "--numenv", "2,4,6", "--repeats", "3")
ONE = ("run", *WORDS, "--backend", "fake-fast", "--numenv", "2", "--repeats", "3")  # a single cell
VERIFY = ("verify", "--env", "mujoco", "--machine", "laptop", "--backend", "all")


@pytest.fixture
def machine(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    register: Callable[[dict[str, Backend]], None],
) -> VirtualExecutor:
    known = {name: fake(name) for name in SPEED}
    known |= {name: in_mujoco(backends.get(name)) for name in ("for-loop", "subprocess", "brax")}
    register(known)
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    return VirtualExecutor()


def in_mujoco(backend: Backend) -> Backend:
    """The backend as if it were installed here. No worker of it starts."""
    return msgspec.structs.replace(
        backend, families=["mujoco"], library="envbench", requirements=[], gpu_requirements=[]
    )


def again(stopped: VirtualExecutor) -> VirtualExecutor:
    """The executor of a later call with the same packages."""
    later = VirtualExecutor()
    later.packages = stopped.packages
    return later


def stop_at(number: int) -> VirtualExecutor:
    executor = VirtualExecutor()
    executor.trouble[number] = Interrupted(130)
    return executor


def key(block: Block) -> tuple[Any, ...]:
    return (block.stage, block.round, tuple(each.cell.key for each in block.trials))


def measured() -> list[tuple[Any, ...]]:
    """The completed blocks of every plan on disk."""
    return [
        (block.plan_id, block.stage, block.round, block.trials[-1].cell.key)
        for block in blocks()
        if not block.interrupted
    ]


# ---------------------------------------------------------------- every stopping point


@pytest.mark.parametrize("stop", range(1, 7))
def test_a_run_stopped_anywhere_resumes_and_measures_nothing_twice(
    machine: VirtualExecutor, stop: int
) -> None:
    first, second = stop_at(stop), VirtualExecutor()
    assert invoke(first, *RUN).exit_code == 130
    assert "Resuming" in invoke(second, *RUN).stderr
    whole = VirtualExecutor()
    invoke(whole, *RUN, "--results", "whole")
    assert first.blocks[:-1] + second.blocks == whole.blocks
    assert len(set(measured())) == len(measured()) == 6
    assert len(files()) == 1


@pytest.mark.parametrize("stop", range(1, 4))
def test_a_verification_stopped_anywhere_resumes_and_verifies_nothing_twice(
    machine: VirtualExecutor, stop: int
) -> None:
    first, second = stop_at(stop), VirtualExecutor()
    stopped = invoke(first, *VERIFY)
    assert stopped.exit_code == 130
    assert f"Stopped: {stop - 1} of 3 backends in " in stopped.stderr
    assert "The same command resumes" in stopped.stderr
    done = invoke(second, *VERIFY, "--json")
    assert "Resuming" in done.stderr
    rows = [row["backend"] for row in json.loads(done.stdout)["verifications"]]
    assert rows == ["for-loop", "subprocess", "brax"]
    assert [key(block) for block in second.blocks] == [
        key(block) for block in (*first.blocks[-1:], *second.blocks[1:])
    ]
    assert len(first.blocks[:-1] + second.blocks) == 3
    assert len(set(measured())) == len(measured()) == 3
    assert len(files()) == 1


@pytest.mark.parametrize(("other", "count"), [(VirtualExecutor(), 2), (stop_at(2), 1)])
def test_what_another_call_measures_before_the_file_is_locked_is_not_measured_again(
    machine: VirtualExecutor, monkeypatch: pytest.MonkeyPatch, other: VirtualExecutor, count: int
) -> None:
    invoke(stop_at(3), *RUN)
    lock_file = store.Journal.open
    waits = iter([True])

    def wait_for_the_other_call(path: Path) -> store.Journal:
        if next(waits, False):
            with monkeypatch.context() as patch:
                patch.setenv("ENVBENCH_LOCK_FILE", "other")
                assert invoke(other, *RUN).exit_code == (0 if count == 2 else 130)
        return lock_file(path)

    monkeypatch.setattr(store.Journal, "open", wait_for_the_other_call)
    assert invoke(machine, *RUN).exit_code == 0
    assert len(plans()) == count  # if the other call has shown the outcome, the plan is finished
    assert len(set(measured())) == len(measured()) == 6 * count


def cells(executor: VirtualExecutor) -> list[list[Cell]]:
    return [[trial.cell for trial in block.trials] for block in executor.blocks]


def kill_before_the_outcome() -> None:
    """Files as if the last call had been killed after its last block."""
    for path in files():
        *others, ended = path.read_bytes().splitlines(keepends=True)
        assert b'"type":"ended"' in ended
        path.write_bytes(b"".join(others))


@pytest.mark.parametrize("words", [RUN, VERIFY])
def test_the_next_call_shows_a_complete_measurement_that_was_never_shown(
    machine: VirtualExecutor, words: tuple[str, ...]
) -> None:
    first = invoke(machine, *words, "--json")
    kill_before_the_outcome()
    later = VirtualExecutor()
    second = invoke(later, *words, "--json")
    assert (second.stdout, second.exit_code) == (first.stdout, first.exit_code)
    assert "everything is measured" in second.stderr
    assert later.blocks == []
    invoke(later, *words)  # the previous call has shown it
    assert cells(later) == cells(machine)
    assert len(plans()) == 2


def test_a_complete_measurement_that_was_never_shown_is_repeated_after_a_change(
    machine: VirtualExecutor,
) -> None:
    invoke(machine, *RUN)
    kill_before_the_outcome()
    machine.packages = {"fake": "2.0"}
    assert "cannot resume" not in invoke(machine, *RUN).stderr
    assert len(plans()) == 2


def test_an_outcome_that_could_not_be_saved_can_be_saved_by_the_next_call(
    machine: VirtualExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    words = ("baseline", "save", "--machine", "laptop", "--env", "mujoco", "--backend", "for-loop",
             "--numenv", "2", "--pairs", "5")  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        refused = invoke(machine, *words, "--output", "kept.jsonl")
    assert refused.exit_code == 1
    assert "The measurement is complete" in refused.stderr
    measured_before = len(machine.blocks)
    assert measured_before == 5
    done = invoke(machine, *words, "--output", "another.jsonl")
    assert done.exit_code == 0, done.stderr
    assert len(machine.blocks) == measured_before
    assert Path("another.jsonl").exists()


@pytest.mark.parametrize("stop", [None, 4])
def test_only_a_complete_baseline_is_resumed_after_more_than_an_hour(
    machine: VirtualExecutor, monkeypatch: pytest.MonkeyPatch, stop: int | None
) -> None:
    words = ("baseline", "save", "--machine", "laptop", "--env", "mujoco", "--backend", "for-loop",
             "--numenv", "2", "--pairs", "5", "--output", "kept.jsonl")  # fmt: skip
    if stop:
        invoke(stop_at(stop), *words)
    else:
        invoke(machine, *words)
        kill_before_the_outcome()
    later, now = VirtualExecutor(), time.time()
    monkeypatch.setattr("envbench.engine.resume.time", SimpleNamespace(time=lambda: now + 3700))
    done = invoke(later, *words)
    assert done.exit_code == 0, done.stderr
    assert ("cannot resume; changed: the time" in done.stderr) == bool(stop)
    assert (len(later.blocks), len(plans())) == ((5, 2) if stop else (0, 1))


def test_a_plan_that_ended_with_a_failure_is_finished(machine: VirtualExecutor) -> None:
    machine.trouble[2] = BROKEN
    words = ("baseline", "save", "--machine", "laptop", "--env", "mujoco", "--backend", "for-loop",
             "--numenv", "2", "--pairs", "5", "--output", "kept.jsonl")  # fmt: skip
    refused = invoke(machine, *words)
    assert refused.exit_code == 1
    assert "SIGSEGV" in refused.stderr
    (listed,) = json.loads(invoke(machine, "plans", "--json").stdout)["plans"]
    assert (listed["state"], listed["done"], listed["left"]) == ("finished", 2, 0)
    assert invoke(machine, *words).exit_code == 0  # a new plan
    assert len(machine.blocks) == 7


def test_repeating_a_complete_verification_begins_a_new_plan(machine: VirtualExecutor) -> None:
    for _ in range(2):
        invoke(machine, *VERIFY)
    assert len(machine.blocks) == 6
    assert len(plans()) == 2


def test_changing_the_length_of_a_verification_begins_a_new_plan(machine: VirtualExecutor) -> None:
    invoke(stop_at(2), *VERIFY)
    done = invoke(VirtualExecutor(), *VERIFY, "--total-step", "50")
    assert "cannot resume; changed: the design" in done.stderr
    assert len(plans()) == 2


def test_an_interrupted_block_is_measured_again_and_keeps_its_record(
    machine: VirtualExecutor,
) -> None:
    first, second = stop_at(2), VirtualExecutor()
    invoke(first, *RUN)
    invoke(second, *RUN)
    assert second.blocks[0] == first.blocks[1]
    assert [block.interrupted for block in blocks()] == [False, True, *[False] * 5]


# ---------------------------------------------------------------- a probe that dies


@pytest.mark.parametrize("times", range(1, TRIES))
def test_a_probe_that_dies_of_a_signal_is_repeated(machine: VirtualExecutor, times: int) -> None:
    invoke(stop_at(3), *RUN)
    machine.dead_probes = {"fake-fast": times}
    done = invoke(machine, *RUN)
    assert done.exit_code == 0
    assert "Resuming" in done.stderr
    assert machine.probes == {"fake-fast": times + 1, "fake-slow": 1}
    assert len(plans()) == 1
    assert len(measured()) == 6


def test_a_backend_whose_probe_always_dies_cannot_run_here(
    machine: VirtualExecutor,
) -> None:
    machine.dead_probes = {"fake-fast": 99}
    done = invoke(machine, *RUN)
    assert machine.probes["fake-fast"] == TRIES == 3
    assert (done.exit_code, BROKEN.message in done.stderr) == (0, True)  # not named: the others run
    named = invoke(machine, *RUN, "--backend", "fake-fast,fake-slow")
    assert named.exit_code == 3
    assert "failed: signal" in named.stdout


def test_a_probe_that_is_always_killed_ends_the_command_but_not_the_plan(
    machine: VirtualExecutor,
) -> None:
    words = (*RUN, "--backend", "fake-slow,fake-fast")
    invoke(stop_at(3), *words)
    haunted = VirtualExecutor()
    haunted.dead_probes, haunted.dead_of = {"fake-fast": 99}, KILLED
    ended = invoke(haunted, *words)
    assert (ended.exit_code, haunted.blocks) == (1, [])
    assert "was killed 3 times: the worker died of SIGKILL" in ended.stderr
    assert "Resuming" in invoke(VirtualExecutor(), *words).stderr
    assert len(plans()) == 1


def test_undoing_an_edit_lets_the_earlier_plan_resume(machine: VirtualExecutor) -> None:
    def call(packages: str, executor: VirtualExecutor) -> str:
        executor.packages = {"fake": packages}
        return invoke(executor, *RUN).stderr

    call("1.0", stop_at(4))
    call("2.0", stop_at(2))
    assert "cannot resume; changed: the packages" in call("3.0", stop_at(1))
    assert "Resuming" in call("1.0", VirtualExecutor())
    assert len(plans()) == 3
    assert sum(not each.interrupted for each in blocks()) == 6 + 1


def test_the_rest_of_a_plan_is_computed_only_where_the_answer_depends_on_it(
    machine: VirtualExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (0, 1, 2, 3):
        invoke(stop_at(2), *RUN, "--seed", seed)
    seen: list[int] = []
    left = RunExperiment.left

    def noted(self: RunExperiment, plan: Plan, done: Done) -> int:
        seen.append(plan.seed)
        return left(self, plan, done)

    monkeypatch.setattr(RunExperiment, "left", noted)
    every, wanted = recorded(Path("results")), plans()[0]
    found = find(every, msgspec.structs.replace(wanted, spec="new", seed=9), RunExperiment())
    assert found is not None
    assert (found[0].plan.seed, found[1]) == (3, ["--seed"])  # the newest one
    assert seen == [3]
    found = find(recorded(Path("results")), wanted, RunExperiment())
    assert found is not None
    assert (found[0].plan.seed, found[1]) == (0, [])
    assert seen == [3, 3, 0]


def test_a_newer_plan_that_cannot_resume_is_named_even_after_a_finished_plan(
    machine: VirtualExecutor,
) -> None:
    invoke(machine, *RUN)
    invoke(stop_at(3), *RUN)
    changed = VirtualExecutor()
    changed.packages = {"fake": "2.0"}
    assert "cannot resume; changed: the packages" in invoke(changed, *RUN).stderr


def test_an_outcome_that_could_not_be_printed_is_shown_by_the_next_call(
    machine: VirtualExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            "envbench.cli.conduct.sys",
            SimpleNamespace(
                stdout=SimpleNamespace(name=os.devnull), stderr=sys.stderr, exit=sys.exit
            ),
        )
        closed = invoke(machine, *RUN)
    assert (closed.exit_code, "stdout is closed" in closed.stderr) == (1, True)
    (listed,) = json.loads(invoke(machine, "plans", "--unfinished", "--json").stdout)["plans"]
    assert (listed["state"], listed["left"]) == ("measured", 0)
    shown = invoke(VirtualExecutor(), *RUN)
    assert (shown.exit_code, "Fake-Fast" in shown.stdout) == (0, True)
    (listed,) = json.loads(invoke(machine, "plans", "--json").stdout)["plans"]
    assert listed["state"] == "finished"


def test_an_older_plan_is_resumed_if_the_newer_one_has_only_failures(
    machine: VirtualExecutor,
) -> None:
    words = (*RUN, "--backend", "fake-fast")
    assert invoke(stop_at(3), *words).exit_code == 130
    machine.dead_probes = {"fake-fast": 99}
    broken = invoke(machine, *words)
    assert broken.exit_code == 3
    assert "which backends can run here" in broken.stderr
    old, new = plans()
    healthy = VirtualExecutor()
    done = invoke(healthy, *words)
    assert done.exit_code == 0, done.stderr
    assert "Resuming" in done.stderr
    assert [plan.plan_id for plan in plans()] == [old.plan_id, new.plan_id]
    assert len(healthy.blocks) == 1
    own = [each for each in measured() if each[0] == old.plan_id]
    assert len(own) == len(set(own)) == 3


def test_an_older_plan_is_resumed_if_the_newer_one_has_no_block(
    machine: VirtualExecutor,
) -> None:
    invoke(stop_at(3), *RUN)
    changed = stop_at(1)
    changed.packages = {"fake": "2.0"}
    assert "cannot resume; changed: the packages" in invoke(changed, *RUN).stderr
    done = invoke(machine, *RUN)
    assert "Resuming" in done.stderr
    assert len(machine.blocks) == 4
    assert len(plans()) == 2


# ---------------------------------------------------------------- a worker that is killed


@pytest.mark.parametrize("words", [RUN, VERIFY], ids=["run", "verify"])
def test_a_block_is_repeated_if_its_worker_is_killed(
    machine: VirtualExecutor, words: tuple[str, ...]
) -> None:
    machine.trouble = {2: KILLED, 3: KILLED}
    done = invoke(machine, *words)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("the worker died of SIGKILL. Trying again") == 2
    assert machine.blocks[1] == machine.blocks[2] == machine.blocks[3]
    whole = 6 if words is RUN else 3
    assert [each.interrupted for each in blocks()] == [False, True, True, *[False] * (whole - 1)]
    assert len(set(measured())) == len(measured()) == whole
    assert "0 of" not in invoke(machine, "plans").stdout


def test_a_block_whose_worker_is_killed_every_time_has_failed(machine: VirtualExecutor) -> None:
    machine.trouble = dict.fromkeys(range(1, 100), KILLED)
    done = invoke(machine, *ONE)
    assert done.exit_code == 1
    assert len(machine.blocks) == 3
    assert [each.interrupted for each in blocks()] == [True, True, False]
    assert "failed: signal" in done.stdout


def test_a_worker_that_crashes_by_itself_is_not_retried(machine: VirtualExecutor) -> None:
    machine.trouble = {1: BROKEN}
    assert invoke(machine, *ONE).exit_code == 1
    assert len(machine.blocks) == 1


# ---------------------------------------------------------------- when a newer plan replaces an
# older one


def test_an_older_plan_is_not_resumed_after_a_complete_plan_with_a_figure(
    machine: VirtualExecutor,
) -> None:
    """The question is answered: the older plan need not be finished."""
    words = (*RUN, "--backend", "fake-fast")
    invoke(stop_at(2), *words)
    assert invoke(VirtualExecutor(), *words, "--fresh").exit_code == 0
    done = invoke(VirtualExecutor(), *words)
    assert "Resuming" not in done.stderr
    assert len(plans()) == 3


# ---------------------------------------------------------------- what must not be resumed


def test_an_abandoned_plan_is_not_resumed_and_keeps_its_blocks(machine: VirtualExecutor) -> None:
    invoke(stop_at(3), *RUN)
    (plan,) = plans()
    assert invoke(machine, "plans", "abandon", plan.plan_id).exit_code == 0
    done = invoke(machine, *RUN)
    assert done.exit_code == 0
    assert "Resuming" not in done.stderr
    assert len(machine.blocks) == 6
    assert len([each for each in measured() if each[0] == plan.plan_id]) == 2


def test_the_plan_of_another_machine_profile_is_not_resumed(machine: VirtualExecutor) -> None:
    invoke(stop_at(3), *RUN)
    done = invoke(machine, *[w if w != "laptop" else "dgx-a100" for w in RUN])
    assert "Resuming" not in done.stderr
    assert len(machine.blocks) == 6


@pytest.mark.parametrize(
    "line",
    [
        {"trials": []},
        {"trials": [{"trial_id": "t", "cell": None, "seed": 0}] * 2},
    ],
    ids=["no trial", "a pair"],
)
def test_a_foreign_block_with_a_wrong_shape_stops_no_command(
    machine: VirtualExecutor, line: dict[str, Any]
) -> None:
    invoke(stop_at(2), *VERIFY)
    (path,) = files()
    (plan,) = plans()
    cell = msgspec.to_builtins(plan.cells[0])
    trials = [{**each, "cell": cell} for each in line["trials"]]
    whole = {
        "type": "block", "schema": 2, "block_id": "b", "plan_id": plan.plan_id,
        "started_utc": "2026-01-02T03:04:05Z", "trials": trials,
    }  # fmt: skip
    with path.open("ab") as file:
        file.write(msgspec.json.encode(whole) + b"\n")
    later = VirtualExecutor()
    assert invoke(later, *VERIFY).exit_code == 0
    assert len(later.blocks) == 2  # the foreign block is none of the plan's three
    (row,) = json.loads(invoke(machine, "plans", "--json").stdout)["plans"]
    assert (row["plan"], row["state"], row["left"]) == (plan.plan_id, "finished", 0)


@pytest.mark.parametrize("experiment", ["run", "verify", "check", "baseline", "noise"])
def test_a_plan_with_the_design_of_another_experiment_is_skipped(
    machine: VirtualExecutor, experiment: str
) -> None:
    invoke(stop_at(2), *RUN)
    invoke(stop_at(2), *VERIFY)
    for path in files():
        plan = next(r for _, r in store.read(path).records if getattr(r, "plan_id", ""))
        wrong = msgspec.structs.replace(plan, experiment=experiment)
        path.write_bytes(msgspec.json.encode(wrong) + b"\n")
    for words, count in ((RUN, 6), (VERIFY, 3), (("plans",), 0)):
        again = VirtualExecutor()
        assert invoke(again, *words).exit_code == 0
        assert len(again.blocks) == count  # everything is measured


# ---------------------------------------------------------------- edited adapters

CALL = """
import sys
from test_resume import called
sys.exit(called(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
"""


def called(stop: int, edit: str, words: list[str]) -> int:
    """A call in its own process, stopped at that block. Its backends need no library. ``edit``: a
    file that is edited when the second block begins."""
    executor = stop_at(stop)

    def before_block() -> None:
        if edit and len(executor.blocks) == 1:
            add_line(Path(edit))

    executor.before_block = before_block
    known = {name: in_mujoco(backends.get(name)) for name in ("for-loop", "brax")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backends.BACKENDS, "loaded", (known, []))
        done: click.testing.Result = invoke(executor, *words)
    sys.stderr.write(done.stderr)
    return done.exit_code


def add_line(path: Path) -> None:
    path.write_text(path.read_text() + "\n# another release\n")


class Tree:
    """A copy of envbench for tests that edit its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("envbench", "machines"):
            shutil.copytree(ROOT / name, folder / "tree" / name)
        shutil.copy(ROOT / "pyproject.toml", folder / "tree")

    def edit(self, file: str) -> None:
        add_line(self.folder / "tree" / "envbench" / "worker" / file)

    def call(self, *words: str, stop: int = 99, edit: str = "") -> subprocess.CompletedProcess[str]:
        path = [
            str(self.folder / "tree"),
            str(Path(__file__).parent),
            str(Path(__file__).parents[1]),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "ENVBENCH_LOCK_FILE": str(self.folder / "lock"),
        }
        return subprocess.run(
            [sys.executable, "-c", CALL, str(stop), edit, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize("command", ["run", "verify"])
def test_an_edited_adapter_restarts_only_the_plans_that_contain_its_backend(
    tree: Tree, command: str
) -> None:
    more = ("--numenv", "2", "--repeats", "2") if command == "run" else ("--total-step", "50")
    # A verification of brax contains the reference, which is for-loop.
    with_brax = ("brax", "for-loop,brax") if command == "run" else ("brax",)
    words = {
        name: (command, "--env", "mujoco", "--machine", "laptop", *more, "--backend", name)
        for name in ("for-loop", *with_brax)
    }
    for each in words.values():
        assert tree.call(*each, stop=1 if command == "verify" else 2).returncode == 130
    tree.edit("envbench_adapters/brax_env.py")
    alone = tree.call(*words["for-loop"])
    assert alone.returncode == 0, alone.stderr
    assert "Resuming" in alone.stderr
    for name in with_brax:
        done = tree.call(*words[name])
        assert done.returncode == 0, done.stderr
        assert "cannot resume; changed: envbench's code for brax/mujoco/step" in done.stderr
        assert "for-loop/mujoco" not in done.stderr
        assert "Beginning a new plan" in done.stderr


def test_editing_a_shared_file_restarts_a_run_and_editing_a_file_of_verify_does_not(
    tree: Tree,
) -> None:
    run = ("run", "--env", "mujoco", "--machine", "laptop", "--backend", "for-loop",
           "--numenv", "2", "--repeats", "3")  # fmt: skip
    assert tree.call(*run, stop=2).returncode == 130
    tree.edit("envbench_worker/audit.py")  # only a verification loads it
    resumed = tree.call(*run, stop=1)
    assert (resumed.returncode, "Resuming" in resumed.stderr) == (130, True)
    tree.edit("envbench_worker/measure.py")
    anew = tree.call(*run)
    assert "changed: envbench's code for for-loop/mujoco/step" in anew.stderr


# ---------------------------------------------------------------- odd files


def test_a_plan_in_two_files_counts_once(machine: VirtualExecutor) -> None:
    """A copy that was made before the plan ended is not another unfinished plan."""
    invoke(stop_at(3), *RUN)
    (path,) = files()
    copy = path.with_name("a-copy.jsonl")
    shutil.copy(path, copy)
    second = VirtualExecutor()
    invoke(second, *RUN)
    assert len(second.blocks) == 4
    assert path.stat().st_size > copy.stat().st_size  # it continues in the original file
    third = VirtualExecutor()
    assert "Resuming" not in invoke(third, *RUN).stderr
    assert len(third.blocks) == 6


def test_an_unfinished_plan_whose_file_is_a_link_is_refused_until_fresh_is_given(
    machine: VirtualExecutor,
) -> None:
    invoke(stop_at(3), *RUN)
    (path,) = files()
    path.rename("elsewhere.jsonl")
    path.symlink_to(Path("elsewhere.jsonl").absolute())
    before = path.read_bytes()
    refused = invoke(machine, *RUN)
    assert (refused.exit_code, machine.blocks) == (2, [])
    assert f"{path} is a link that leads to {Path('elsewhere.jsonl').absolute()}" in refused.stderr
    assert "--fresh" in refused.stderr
    assert path.read_bytes() == before
    assert invoke(machine, *RUN, "--fresh").exit_code == 0
    assert path.read_bytes() == before


def test_a_finished_plan_that_lost_a_line_is_not_resumed(machine: VirtualExecutor) -> None:
    invoke(machine, *RUN)
    (path,) = files()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2] + lines[-1:]))
    assert "Resuming" not in invoke(machine, *RUN).stderr
    assert len(plans()) == 2


@pytest.mark.parametrize(
    ("columns", "pairs"),
    [({"ns": [0] * 8}, 5), ({"ns": [5]}, 5), ({"steps": [0] * 8}, 0)],  # a check compares calls
)
def test_impossible_figures_in_a_file_stop_no_command_and_give_no_verdict(
    machine: VirtualExecutor, columns: dict[str, Any], pairs: int
) -> None:
    words = ("check", *WORDS, "--backend", "fake-fast", "--numenv", "2", "--pairs", "5")
    invoke(machine, *words)
    (path,) = files()
    lines = path.read_text().splitlines()
    odd = [json.loads(line) for line in lines if '"type":"ended"' not in line]
    for each in odd:
        for trial in each.get("trials", []):
            trial["measured"].update(columns)
    compact = (",", ":")
    path.write_text("".join(json.dumps(each, separators=compact) + "\n" for each in odd))
    for again, count in ((words, pairs), ((*words, "--seed", "1"), 5), (("plans",), 0)):
        known = len(machine.blocks)
        result = invoke(machine, *again)
        assert (result.exit_code, len(machine.blocks) - known) == (0, count), result.stderr


# ---------------------------------------------------------------- edits of the measured code


def code_of(python: Path) -> dict[str, str]:
    """What a plan of the user's own task records of the code that its backend may import."""
    cell = make_cell("for-loop", 2, env="gym", task="My-v0")
    arm = Arm(target=target_of(cell), python=str(python))
    found: dict[str, str] = identity(RunExperiment(), {arm.key: arm})["imports"]
    return found


def test_other_packages_do_not_matter_to_a_run_of_a_built_in_family() -> None:
    """Its reference kernel is of the family of the users' own tasks."""
    target = target_of(make_cell("for-loop", 2))
    kernel = kernel_target("here", KERNELS["one-thread"])
    own = Arm(target=target, python=sys.executable)
    arms = {each.key: each for each in (own, kernel_arm(KERNEL_ARM, kernel))}
    assert identity(RunExperiment(), arms)["imports"] == {}


def folder_of(code: Path, text: str = "old = 1") -> Path:
    """A folder with a module, whose time is the same for all texts."""
    code.mkdir(parents=True)
    (code / "mymod.py").write_text(text)
    os.utime(code / "mymod.py", (1e9, 1e9))
    return code


def switch(link: Path, target: Path) -> None:
    link.unlink()
    link.symlink_to(target)


def exchange(old: Path, new: Path) -> None:
    old.rename(old.with_name("gone"))
    new.rename(old)


@pytest.mark.parametrize(
    "edit",
    [
        lambda here, site: (here / "src" / "mymod.py").write_text("new = 1"),
        lambda here, site: (here / "src" / "mymod.py").unlink(),
        lambda here, site: (here / "src" / "more.py").touch(),
        lambda here, site: exchange(here / "src", here / "other"),
        lambda here, site: (site / "beside.py").write_text("new = 1"),
        lambda here, site: (site / "lent.pth").unlink(),
        lambda here, site: switch(here / "path", here / "other"),
        lambda here, site: switch(site / "linked", here / "other"),
        lambda here, site: switch(site / "one.py", here / "other" / "mymod.py"),
        lambda here, site: (here / "package" / "mymod.py").write_text("new = 1"),
    ],
    ids=["edited", "deleted", "added", "moved", "installed", "no .pth", "link on the path switched",
         "link to a package switched", "link to a module switched", "linked package edited"],
)  # fmt: skip
def test_every_change_of_importable_code_is_noticed(
    tmp_path: Path, edit: Callable[[Path, Path], None]
) -> None:
    for name in ("src", "first", "package", "other"):
        folder_of(tmp_path / name)
    (tmp_path / "path").symlink_to(tmp_path / "first")
    python = make_interpreter(tmp_path / "venv", paths=[tmp_path / "src", tmp_path / "path"])
    site = site_packages(python)
    (site / "linked").symlink_to(tmp_path / "package")
    (site / "one.py").symlink_to(tmp_path / "first" / "mymod.py")
    before = code_of(python)
    assert [*before] == ["for-loop/gym/step"]
    assert before == code_of(python)
    edit(tmp_path, site)
    assert before != code_of(python)


def test_only_files_of_code_are_searched_for_edits_and_links_may_form_a_loop(
    tmp_path: Path,
) -> None:
    src = folder_of(tmp_path / "src")
    python = make_interpreter(tmp_path / "venv", paths=[src])
    before = code_of(python)
    for harmless in ("results.jsonl", "__pycache__/x.py", ".venv/y.py"):
        (src / harmless).parent.mkdir(exist_ok=True)
        (src / harmless).touch()
    (src / "itself").symlink_to(src)
    (src / ".#mymod.py").symlink_to("an editor's lock, which names no file")
    assert before == code_of(python)


def test_other_packages_beside_an_installed_envbench_are_searched_for_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    for package in ("envbench", "users_own"):
        folder_of(site / package)
    monkeypatch.setattr("envbench.engine.new_plan.OWN_SOURCE", site / "envbench")
    monkeypatch.setattr("envbench.runtimes.ask", lambda *_: str(site))
    assert [path for path, _ in code_files("python")] == [str(site / "users_own" / "mymod.py")]


def test_another_interpreter_with_equal_packages_begins_a_new_plan(
    machine: VirtualExecutor, tmp_path: Path
) -> None:
    old, new = (tmp_path / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir()
        for name in ("python", "python3"):
            (folder / name).symlink_to(sys.executable)
    words = (*RUN, "--backend", "fake-fast", "--python")
    assert invoke(stop_at(2), *words, f"fake-fast={old}/python").exit_code == 130
    assert "Resuming" in invoke(stop_at(2), *words, f"fake-fast={old}/python3").stderr
    done = invoke(machine, *words, f"fake-fast={new}/python")
    assert "changed: the interpreter or source of fake-fast/gym/step. Beginning" in done.stderr
    assert len(machine.blocks) == 3


def test_an_edit_while_a_plan_runs_ends_it_and_the_last_block_does_not_count(
    machine: VirtualExecutor, tmp_path: Path
) -> None:
    module = folder_of(tmp_path / "src") / "mymod.py"
    python = make_interpreter(tmp_path / "venv", paths=[module.parent])
    words = (*RUN, "--backend", "fake-fast", "--python", f"fake-fast={python}")

    def edit() -> None:
        if len(machine.blocks) == 1:  # the second block begins
            os.utime(module, (4e9, 4e9))

    machine.searches, machine.before_block = True, edit
    ended = invoke(machine, *words)
    assert (ended.exit_code, len(machine.blocks)) == (1, 2)
    what = f"the code that fake-fast/gym/step may import (the newest file is {module})"
    assert f"the code changed while the plan ran: {what}." in ended.stderr
    assert "the same command begins a new plan" in ended.stderr
    assert [block.interrupted for block in blocks()] == [False, True]
    later = VirtualExecutor()
    later.searches = True
    done = invoke(later, *words)
    assert f"cannot resume; changed: {what}. Beginning a new plan" in done.stderr
    assert (done.exit_code, len(later.blocks)) == (0, 3)


@pytest.mark.parametrize(
    ("file", "counts"),
    [("for_loop.py", False), ("brax_env.py", True)],
    ids=["its own adapter", "another adapter"],
)
def test_an_edit_of_an_adapter_ends_the_plans_that_contain_its_backend(
    tree: Tree, file: str, counts: bool
) -> None:
    words = ("run", "--env", "mujoco", "--machine", "laptop", "--backend", "for-loop",
             "--numenv", "2", "--repeats", "3")  # fmt: skip
    (path,) = (tree.folder / "tree" / "envbench" / "worker").rglob(file)
    done = tree.call(*words, edit=str(path))
    assert (done.returncode == 0) is counts, done.stderr
    changed = "the code changed while the plan ran: envbench's code for for-loop/mujoco/step."
    assert (changed not in done.stderr) is counts
    made = [not each.interrupted for each in blocks(tree.folder / "results")]
    assert made == ([True] * 3 if counts else [True, False])


def test_nothing_in_a_checkout_of_envbench_is_measured_code() -> None:
    assert Path(ROOT) == OWN_SOURCE
