"""The whole pipeline from command line to disk, with an executor that has a virtual clock."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import numpy as np
import pytest
from helpers.command_line import ROOT
from helpers.record_factories import new_results_file
from helpers.virtual_executor import (
    BROKEN,
    SPEED,
    VirtualExecutor,
    fake,
    files,
    invoke,
    plans,
    records,
    runs,
)

from envbench import backends, families, model
from envbench.engine import local_executor
from envbench.engine.availability import Arm
from envbench.engine.git import git_state
from envbench.engine.local_executor import CHANGED, LocalExecutor
from envbench.engine.new_plan import new_id
from envbench.engine.target import make_cell, target_of
from envbench.errors import Interrupted, StorageError
from envbench.machine import host
from envbench.model import (
    Block,
    BlockRecord,
    Programme,
    Protocol,
    RunDesign,
    RuntimeFact,
    Trial,
    TrialRecord,
    Windows,
    arm_key,
    digest,
)
from envbench.process.code_hash import code_hash
from envbench.process.reply import Reply
from envbench.results import store
from envbench.runtimes import environment


@pytest.fixture
def workers(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    register: Callable[[dict[str, backends.Backend]], None],
) -> VirtualExecutor:
    register({name: fake(name) for name in SPEED})
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    return VirtualExecutor()


# Six cells: a round has two blocks of three.
WORDS = ("--env", "gym", "--task", "My-v0", "--numenv", "2,4,6", "--machine", "laptop")


def call(workers: VirtualExecutor, *words: str) -> click.testing.Result:
    return invoke(workers, "run", *WORDS, *words, "--json")


def order(workers: VirtualExecutor) -> list[tuple[str, int]]:
    return [(trial.cell.backend, trial.cell.numenv) for trial in workers.own_trials]


# ---------------------------------------------------------------- rounds


def test_each_round_measures_every_cell_once_in_a_different_order(
    workers: VirtualExecutor,
) -> None:
    assert call(workers, "--repeats", "6").exit_code == 0
    made = order(workers)
    rounds = [made[i : i + 6] for i in range(0, 36, 6)]
    cells = {(name, n) for name in SPEED for n in (2, 4, 6)}
    assert all(set(each) == cells for each in rounds)
    assert len({frozenset(each[:3]) for each in rounds}) > 1  # dealt into other blocks
    assert [len([t for t in block.trials if not t.arm]) for block in workers.blocks] == [3] * 12
    assert [len(block.trials) for block in workers.blocks].count(4) == 6  # a kernel per round
    assert [run.round for run in runs()] == [i // 6 for i in range(36)]


def test_the_order_of_cells_depends_on_the_seed(
    workers: VirtualExecutor,
) -> None:
    for seed in ("1", "1", "2"):
        call(workers, "--repeats", "5", "--seed", seed)
    made = order(workers)
    assert made[:30] == made[30:60] != made[60:]


def test_a_machine_that_slows_down_over_minutes_favours_no_backend(
    workers: VirtualExecutor,
) -> None:
    workers.speed = lambda name: SPEED.get(name, 1000) * (1 - workers.now / 240)
    document = json.loads(call(workers, "--repeats", "10").stdout)
    fps = {(cell["backend"], cell["numenv"]): cell["fps"] for cell in document["cells"]}
    assert workers.now > 100  # twice as fast at the beginning as at the end
    for numenv in (2, 4, 6):
        assert fps["fake-fast", numenv] / fps["fake-slow", numenv] == pytest.approx(4, rel=0.03)


# ---------------------------------------------------------------- what comes out


def test_fps_is_the_frames_of_the_measured_windows_over_their_time(
    workers: VirtualExecutor,
) -> None:
    document = json.loads(call(workers, "--frame-skip", "3").stdout)
    assert document["schema"] == 1
    (plan,) = plans()
    assert document["plan"] == plan.plan_id
    for cell in document["cells"]:
        speed = SPEED[cell["backend"]]
        assert cell["steps_per_second"] == pytest.approx(speed)
        assert cell["fps"] == pytest.approx(3 * speed)
        assert cell["interval"] == pytest.approx([3 * speed] * 2)
        assert (len(cell["runs"]), cell["flags"], cell["failure"]) == (5, ["other-hardware"], None)
        assert (cell["machine"], cell["task"], cell["frame_skip"]) == ("laptop", "My-v0", 3)


def test_each_quick_figure_is_marked_as_it_is_measured(workers: VirtualExecutor) -> None:
    done = invoke(workers, "run", *WORDS, "--quick")
    lines = [line for line in done.stderr.splitlines() if " FPS" in line]
    assert len(lines) == 6
    assert all(" FPS (quick)" in line for line in lines)
    assert done.stdout.count("quick") == 6
    assert "FPS (quick)" not in call(workers, "--repeats", "1").stderr


@pytest.mark.skipif(len(host.usable_cores()) < 2, reason="needs two cores and CPU masks")
def test_a_measurement_can_be_kept_to_some_cores(workers: VirtualExecutor) -> None:
    last = max(os.sched_getaffinity(0))
    assert call(workers, "--quick", "--cpus", f"{last}").exit_code == 0
    assert [each.cores for each in records() if isinstance(each, model.Plan)] == [[last]]


def test_fewer_than_five_runs_give_no_interval(workers: VirtualExecutor) -> None:
    for cell in json.loads(call(workers, "--repeats", "4").stdout)["cells"]:
        assert (cell["interval"], cell["flags"]) == (None, ["few-runs", "other-hardware"])


def test_shared_facts_are_written_once_before_the_runs_and_each_run_at_its_end(
    workers: VirtualExecutor,
) -> None:
    seen: list[list[str]] = []
    workers.before_block = lambda: seen.append([type(record).__name__ for record in records()])
    call(workers, "--repeats", "2")
    head = ["MachineFact", "RuntimeFact", "Plan"]
    assert seen == [head + ["BlockRecord"] * n for n in range(4)]
    machine, runtime, plan, *measured, ended = records()
    assert (ended.plan_id, ended.how) == (plan.plan_id, "concluded")
    assert {(block.plan_id, each.runtime) for block in measured for each in block.trials} == {
        (plan.plan_id, runtime.hash)
    }
    assert (plan.experiment, plan.fingerprint) == ("run", machine.hash)
    arms = [f"{name}/gym/step" for name in SPEED]
    assert plan.runtimes == dict.fromkeys(arms, runtime.hash)
    worker = families.get("gym").worker
    of_kernel = {"kernel/pooled-kernel/gym/step/measure"}
    assert {key: value for key, value in plan.code.items() if key not in of_kernel} == {
        f"{name}/gym/step/measure": digest(
            [code_hash(f"{name}:Fake", "measure", family=worker), environment(fake(name))]
        )
        for name in SPEED
    }
    assert len({block.block_id for block in measured}) == 4
    assert plan.behaviour["pooled-kernel"].steps_in == "pool"
    trials = [each for block in measured for each in block.trials]
    assert len({each.trial_id for each in trials}) == len(trials) == 12 + 2  # a kernel per round


def test_other_variables_for_the_worker_begin_a_new_plan(
    workers: VirtualExecutor, register: Callable[[dict[str, backends.Backend]], None]
) -> None:
    workers.trouble[2] = Interrupted(130)
    assert call(workers, "--repeats", "2").exit_code == 130
    register({name: fake(name, environment={"PYTHONHASHSEED": "7"}) for name in SPEED})
    done = call(workers, "--repeats", "2")
    assert "changed: envbench's code for fake-fast/gym/step" in done.stderr
    assert len({run.plan_id for run in runs()}) == 2


# ---------------------------------------------------------------- failures


def test_a_failure_ends_only_its_own_cell(workers: VirtualExecutor) -> None:
    workers.trouble[3] = BROKEN
    result = call(workers, "--repeats", "5")
    assert result.exit_code == 1
    cells = json.loads(result.stdout)["cells"]
    (broken,) = (cell for cell in cells if cell["failure"])
    assert (broken["fps"], broken["failure"]["signal"]) == (None, "SIGSEGV")
    assert all(cell["fps"] for cell in cells if cell is not broken)
    assert [len(cell["runs"]) for cell in cells if cell is not broken] == [5] * 5
    failed = workers.blocks[2]
    last = failed.trials[-1].cell
    assert (last.backend, last.numenv) == (broken["backend"], broken["numenv"])
    assert [run.failure is not None for run in runs()][6:9] == [False, False, True]
    later = [trial.cell for block in workers.blocks[4:] for trial in block.trials]
    assert last not in later
    assert all(later.count(trial.cell) == 3 for trial in failed.trials[:-1])


def test_an_impossible_figure_is_a_failed_cell(workers: VirtualExecutor) -> None:
    workers.speed = lambda name: 0 if name == "fake-slow" else 4000
    result = call(workers, "--repeats", "1")
    assert result.exit_code == 1
    reasons = {
        cell["backend"]: cell["failure"] and cell["failure"]["reason"]
        for cell in json.loads(result.stdout)["cells"]
    }
    assert reasons == {"fake-slow": "invalid-figure", "fake-fast": None}


# ---------------------------------------------------------------- stopped and resumed


def test_an_interrupted_plan_shows_what_is_done_and_resumes_in_its_file(
    workers: VirtualExecutor,
) -> None:
    workers.trouble[4] = Interrupted(130)
    stopped = call(workers, "--repeats", "3")
    assert stopped.exit_code == 130
    assert "Stopped: 3 of 6 blocks in " in stopped.stderr
    assert len(json.loads(stopped.stdout)["cells"]) == 6
    reasons = [run.failure and run.failure.reason for run in runs()]
    assert reasons == [None] * 9 + ["interrupted"] * 3
    done = call(workers, "--repeats", "3")
    assert done.exit_code == 0
    assert "Resuming" in done.stderr
    assert len(workers.blocks) == 4 + 3
    assert len(files()) == 1
    assert workers.blocks[4] == workers.blocks[3]
    document = json.loads(done.stdout)
    assert [len(cell["runs"]) for cell in document["cells"]] == [3] * 6
    assert document["plan"] == json.loads(stopped.stdout)["plan"]


def test_only_the_newer_of_two_plans_in_one_file_is_resumed(workers: VirtualExecutor) -> None:
    assert call(workers, "--repeats", "2").exit_code == 0
    (first,) = files()
    workers.trouble[len(workers.blocks) + 3] = Interrupted(130)
    assert call(workers, "--repeats", "2").exit_code == 130
    newer = files()[-1]
    newer.write_bytes(first.read_bytes() + newer.read_bytes() * 2)  # joined by hand
    first.unlink()
    document = json.loads(call(workers, "--repeats", "2").stdout)
    mine = {run.run_id for run in runs() if run.plan_id == document["plan"]}
    shown = [run for cell in document["cells"] for run in cell["runs"]]
    assert len(shown) == len(set(shown)) == 12
    assert set(shown) <= mine


def test_a_foreign_plan_of_absurd_size_is_skipped_with_a_warning(workers: VirtualExecutor) -> None:
    assert call(workers, "--repeats", "1").exit_code == 0
    (path,) = files()
    (plan,) = plans()
    design = plan.design_as(RunDesign)
    many = msgspec.structs.replace(design, repeats=dict.fromkeys(design.repeats, 10**9))
    absurd = msgspec.structs.replace(plan, design=many)
    path.write_bytes(msgspec.json.encode(absurd) + b"\n")
    assert call(workers, "--repeats", "1").exit_code == 0
    assert len(workers.blocks) == 2 * 2  # each call measures all cells
    (warning,) = store.read(path).warnings
    assert "over 1,000,000" in warning


def test_a_foreign_plan_with_more_repeats_than_the_option_takes_delays_no_command(
    workers: VirtualExecutor,
) -> None:
    """Each of these lines would take seconds: its schedule has 800,000 runs."""
    assert call(workers, "--repeats", "1").exit_code == 0
    (path,) = files()
    (plan,) = plans()
    design = plan.design_as(RunDesign)
    every = [1001, *[200_000] * 11]
    for number, repeats in enumerate(every):
        many = msgspec.structs.replace(design, repeats=dict.fromkeys(design.repeats, repeats))
        foreign = msgspec.structs.replace(plan, plan_id=f"foreign{number}", design=many, spec="x")
        with path.open("ab") as file:
            file.write(msgspec.json.encode(foreign) + b"\n")
    began = time.monotonic()
    assert call(workers, "--repeats", "1").exit_code == 0
    assert invoke(workers, "plans").exit_code == 0
    assert time.monotonic() - began < 2
    warnings = store.read(path).warnings
    assert len(warnings) == len(every)
    assert "over 1,000 per cell" in warnings[0]


def test_a_resumed_plan_counts_its_remaining_blocks_and_warns_about_a_torn_line(
    workers: VirtualExecutor,
) -> None:
    workers.trouble[4] = Interrupted(143)
    assert call(workers, "--repeats", "2").exit_code == 143
    (path,) = files()
    with path.open("ab") as file:
        file.write(b'{"torn')
    said = call(workers, "--repeats", "2").stderr.splitlines()
    assert any(line.startswith("1 of 4 blocks to do") for line in said), said
    torn = [line for line in said if path.name in line and not line.startswith("Resuming")]
    assert torn
    assert all(line.startswith("Warning: ") for line in torn[:1]), said


def test_a_plan_can_be_stopped_and_resumed_many_times(workers: VirtualExecutor) -> None:
    workers.trouble |= {n: Interrupted(143) for n in (1, 2, 5)}
    assert [call(workers, "--repeats", "2").exit_code for _ in range(4)] == [143, 143, 143, 0]
    whole = [(run.round, run.cell.key) for run in runs() if run.failure is None]
    assert len(whole) == len(set(whole)) == 12
    assert len(files()) == 1


def test_resuming_does_not_retry_a_failed_cell(workers: VirtualExecutor) -> None:
    workers.trouble |= {1: BROKEN, 4: Interrupted(130)}
    assert call(workers, "--repeats", "3").exit_code == 130
    assert call(workers, "--repeats", "3").exit_code == 1
    assert order(workers).count(order(workers)[2]) == 1


def test_a_run_whose_record_was_cut_off_is_measured_again_and_reported(
    workers: VirtualExecutor,
) -> None:
    call(workers, "--repeats", "2")
    (path,) = files()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1])[:-100])
    done = call(workers, "--repeats", "2")
    assert done.exit_code == 0
    assert f"{path}:{len(lines) - 1}: line skipped" in done.stderr
    assert len(workers.blocks) == 5
    assert len(runs()) == 12


def test_repeating_a_finished_command_measures_a_new_plan(workers: VirtualExecutor) -> None:
    first, second = (json.loads(call(workers, "--repeats", "1").stdout) for _ in range(2))
    assert first["plan"] != second["plan"]
    assert len(files()) == 2


@pytest.mark.parametrize(
    ("words", "packages", "says"),
    [
        (("--repeats", "3"), "1.0", "the number of processes per cell"),
        (("--repeats", "2", "--seed", "1"), "1.0", "--seed"),
        (("--repeats", "2"), "2.0", "the packages or Python of fake-fast"),
    ],
)
def test_a_changed_command_begins_a_new_plan_and_says_what_changed(
    workers: VirtualExecutor, words: tuple[str, ...], packages: str, says: str
) -> None:
    workers.trouble[2] = Interrupted(130)
    call(workers, "--repeats", "2")
    (old,) = files()
    before = old.read_bytes()
    workers.packages = {"fake": packages}
    done = call(workers, *words)
    assert done.exit_code == 0
    assert says in done.stderr
    assert "Beginning a new plan" in done.stderr
    assert old.read_bytes() == before
    assert len(files()) == 2


def test_an_unfinished_plan_is_resumed_after_another_command_ran(
    workers: VirtualExecutor,
) -> None:
    workers.trouble[2] = Interrupted(130)
    call(workers, "--repeats", "2")
    call(workers, "--repeats", "1")
    done = call(workers, "--repeats", "2")
    assert "Resuming" in done.stderr
    assert len(files()) == 2


def test_a_full_disk_ends_the_plan_and_keeps_the_earlier_runs(
    workers: VirtualExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.Journal.append

    def full(journal: store.Journal, record: Any) -> None:
        if isinstance(record, BlockRecord) and len(workers.blocks) == 3:
            raise StorageError("no space to write")
        append(journal, record)

    monkeypatch.setattr(store.Journal, "append", full)
    result = call(workers, "--repeats", "2")
    assert result.exit_code == 1
    assert "no space to write" in result.stderr
    assert len(runs()) == 2 * 3


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    copy = path.read_bytes()
    path.unlink()
    path.write_bytes(copy)


def move(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))


def shorten(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (delete, "deleted"),
        (replace, "replaced by another file"),
        (move, "moved away"),
        (shorten, "shortened"),
    ],
)
def test_changing_the_results_file_during_a_plan_ends_the_plan_at_once(
    workers: VirtualExecutor, change: Callable[[Path], None], says: str
) -> None:
    def interfere() -> None:
        if len(workers.blocks) == 1:
            change(files()[0])

    workers.before_block = interfere
    result = call(workers, "--repeats", "2")
    assert result.exit_code == 1
    assert f"was {says} while envbench was writing to it" in result.stderr
    assert "Recorded in" not in result.stderr
    assert len(workers.blocks) == 2
    assert len(runs()) == (3 if change is replace else 0)


# ---------------------------------------------------------------- identity


def test_ids_sort_by_time_and_are_unique() -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert new_id(now) < new_id(now + timedelta(seconds=1))
    assert len({new_id(now) for _ in range(50)}) == 50


def test_the_git_state_is_the_commit_of_the_checkout_and_whether_it_was_edited() -> None:
    if not (ROOT / ".git").exists():
        assert git_state() == (None, None)
        return
    commit, dirty = git_state()
    git = ["git", "-C", str(ROOT)]
    assert subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip() == commit
    edited = subprocess.run([*git, "diff", "--quiet", "HEAD"]).returncode == 1
    assert dirty is edited


def test_a_trial_with_a_record_too_long_for_a_line_fails(
    workers: VirtualExecutor,
) -> None:
    """Otherwise the block could never be recorded, and would be measured for ever."""
    workers.facts_before = {"x": "y" * store.MAX_LINE_BYTES}
    result = call(workers, "--repeats", "1")
    assert result.exit_code == 1
    failures = [cell["failure"] for cell in json.loads(result.stdout)["cells"]]
    assert all("too long for a results file" in each["message"] for each in failures)
    assert len(runs()) == len(failures) == 6


def two_trials(replies: list[Reply], turns: list[int], **given: Any) -> list[TrialRecord]:
    """What the executor records if two workers of a block give these replies."""
    loop = backends.get("for-loop")
    cell = make_cell("laptop", "gym", "CartPole-v1", loop, 2, {})
    trial = Trial(cell=cell, **given)
    reference = None if turns else 0
    block = Block(trials=[trial, trial], programme=Programme(turns=turns), reference=reference)
    arm = Arm(target=target_of(cell), python=sys.executable)
    later = iter(reversed(replies))  # a reference runs last
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_executor, "alternate", lambda *_: (replies, turns))
        patched.setattr(local_executor, "execute", lambda *_, **__: next(later))
        return LocalExecutor().run(block, {arm_key("", cell): arm}, lambda _: None).trials


def test_a_worker_that_recorded_a_wrong_number_of_slices_has_failed() -> None:
    column = [1, 1, 1]
    slices = Windows(start_ns=column, ns=column, calls=column, steps=column, resets=column)
    replies = [Reply(ok=True, measured=slices)] * 2
    first, second = two_trials(replies, turns=[0, 1, 1, 0, 0])
    assert first.failure is None
    assert second.failure is not None
    assert "recorded 3 slices, and 2 were ordered" in second.failure.message


def test_a_backend_is_not_verified_if_its_reference_failed() -> None:
    trace = io.BytesIO()
    arrays = {name: np.zeros((4, 2)) for name in ("observations", "rewards", "ended")}
    np.savez(trace, start=np.zeros((1, 2)), same_step=False, **arrays)
    own = Reply(ok=True, trace=trace.getvalue())
    for reference in (Reply(ok=False, failure=BROKEN), Reply(ok=True)):
        _, trial = two_trials([reference, own], turns=[], mode="verify")
        assert trial.agreement is None
        assert trial.failure is not None
        assert "not compared: its reference for-loop failed" in trial.failure.message
    _, trial = two_trials([own, own], turns=[], mode="verify")
    assert (trial.failure, trial.agreement is None) == (None, False)


def test_a_trial_fails_if_the_packages_changed_after_the_plan_began() -> None:
    """A real worker; the arm was found with other packages."""
    loop = backends.get("for-loop")
    cell = make_cell("laptop", "gym", "CartPole-v1", loop, 1, {})
    old = RuntimeFact(hash="old", python="3", implementation="CPython", packages={"fake": "1.0"})
    protocol = Protocol(window_s=0.01, warmup_min_s=0.0, warmup_max_s=0.02, measured_s=0.02)
    block = Block(trials=[Trial(cell=cell, protocol=protocol)])
    found = LocalExecutor().probe(Arm(target=target_of(cell), python=sys.executable))
    assert isinstance(found, Arm)
    assert found.runtime is not None
    for runtime, failure in ((found.runtime, None), (old, CHANGED)):
        arms = {arm_key("", cell): msgspec.structs.replace(found, runtime=runtime)}
        (trial,) = LocalExecutor().run(block, arms, lambda _: None).trials
        assert trial.failure == failure
        assert trial.runtime == found.runtime.hash
    assert (CHANGED.reason, "packages" in CHANGED.message) == ("setup", True)


def test_files_that_begin_in_the_same_second_sort_in_the_order_of_creation(tmp_path: Path) -> None:
    for start in ("2026-01-01T00-00-01Z", *["2026-01-01T00-00-00Z"] * 2):
        new_results_file(tmp_path, "laptop", start)
    assert [path.stem for path in store.files(tmp_path)] == [
        "2026-01-01T00-00-00Z", "2026-01-01T00-00-00Z-2", "2026-01-01T00-00-01Z",
    ]  # fmt: skip
