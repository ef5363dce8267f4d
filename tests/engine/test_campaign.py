"""The whole pipeline from command line to disk, by an executor with a virtual clock."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import numpy as np
import pytest
from made_records import new_results_file
from virtual_executor import (
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

from envbench import backends
from envbench.backends import lookup
from envbench.engine import executor
from envbench.engine.availability import Arm
from envbench.engine.campaign import new_id
from envbench.engine.executor import CHANGED, LocalExecutor
from envbench.engine.git import git_state
from envbench.engine.request import make_cell
from envbench.errors import Interrupted, StorageError
from envbench.model import (
    Block,
    BlockRecord,
    Programme,
    Protocol,
    RuntimeFact,
    Trial,
    TrialRecord,
    Windows,
    arm_key,
    run_design,
)
from envbench.process.reply import Reply
from envbench.process.worker_code import code_hash
from envbench.results import store


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> VirtualExecutor:
    known = {name: fake(name) for name in SPEED}
    monkeypatch.setattr(lookup, "_load", lambda: (known, []))
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    return VirtualExecutor()


WORDS = ("--env", "gym", "--task", "My-v0", "--numenv", "2,4", "--machine", "laptop")


def call(workers: VirtualExecutor, *words: str) -> click.testing.Result:
    return invoke(workers, "run", *WORDS, *words, "--json")


def order(workers: VirtualExecutor) -> list[tuple[str, int]]:
    return [(trial.cell.backend, trial.cell.numenv) for trial in workers.trials]


# ---------------------------------------------------------------- rounds


def test_each_round_measures_every_cell_once_in_an_order_of_its_own(
    workers: VirtualExecutor,
) -> None:
    assert call(workers, "--repeats", "6").exit_code == 0
    made = order(workers)
    rounds = [made[i : i + 4] for i in range(0, 24, 4)]
    cells = {(name, n) for name in SPEED for n in (2, 4)}
    assert all(set(each) == cells for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert [run.round for run in runs()] == [i // 4 for i in range(24)]


def test_the_same_seed_gives_the_same_order_and_another_seed_another(
    workers: VirtualExecutor,
) -> None:
    for seed in ("1", "1", "2"):
        call(workers, "--repeats", "5", "--seed", seed)
    made = order(workers)
    assert made[:20] == made[20:40] != made[40:]


def test_a_machine_that_slows_down_over_minutes_favours_no_backend(
    workers: VirtualExecutor,
) -> None:
    workers.speed = lambda name: SPEED[name] * (1 - workers.now / 200)
    document = json.loads(call(workers, "--repeats", "10").stdout)
    fps = {(cell["backend"], cell["numenv"]): cell["fps"] for cell in document["cells"]}
    assert workers.now > 100  # it was twice as fast in the beginning as in the end
    for numenv in (2, 4):
        assert fps["fake-fast", numenv] / fps["fake-slow", numenv] == pytest.approx(4, rel=0.03)


# ---------------------------------------------------------------- what comes out


def test_the_figures_are_frames_over_time_of_the_measured_windows(workers: VirtualExecutor) -> None:
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


def test_under_five_runs_there_is_no_interval(workers: VirtualExecutor) -> None:
    for cell in json.loads(call(workers, "--repeats", "4").stdout)["cells"]:
        assert (cell["interval"], cell["flags"]) == (None, ["few-runs", "other-hardware"])


def test_what_runs_share_is_written_once_before_them_and_each_run_at_its_end(
    workers: VirtualExecutor,
) -> None:
    seen: list[list[str]] = []
    workers.before_block = lambda: seen.append([type(record).__name__ for record in records()])
    call(workers, "--repeats", "1")
    head = ["MachineFact", "RuntimeFact", "Plan"]
    assert seen == [head + ["BlockRecord"] * n for n in range(4)]
    machine, runtime, plan, *measured, ended = records()
    assert (ended.plan_id, ended.how) == (plan.plan_id, "concluded")
    assert {(block.plan_id, block.trials[0].runtime) for block in measured} == {
        (plan.plan_id, runtime.hash)
    }
    assert (plan.experiment, plan.fingerprint) == ("run", machine.hash)
    arms = [f"{name}/gym/step" for name in SPEED]
    assert plan.runtimes == dict.fromkeys(arms, runtime.hash)
    assert plan.code == {
        f"{name}/gym/step/measure": code_hash(f"{name}:Fake", "measure") for name in SPEED
    }
    assert len({block.block_id for block in measured}) == 4
    assert len({block.trials[0].trial_id for block in measured}) == 4


# ---------------------------------------------------------------- failures


def test_a_failure_ends_its_cell_and_no_other(workers: VirtualExecutor) -> None:
    workers.trouble[3] = BROKEN
    result = call(workers, "--repeats", "5")
    assert result.exit_code == 1
    cells = json.loads(result.stdout)["cells"]
    (broken,) = (cell for cell in cells if cell["failure"])
    assert (broken["fps"], broken["failure"]["signal"]) == (None, "SIGSEGV")
    assert all(cell["fps"] for cell in cells if cell is not broken)
    assert len(workers.blocks) == 3 * 5 + 1
    assert sum(run.failure is not None for run in runs()) == 1


def test_a_figure_that_cannot_be_is_a_failed_cell(workers: VirtualExecutor) -> None:
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
    workers.trouble[7] = Interrupted(130)
    stopped = call(workers, "--repeats", "3")
    assert stopped.exit_code == 130
    assert len(json.loads(stopped.stdout)["cells"]) == 4
    assert [run.failure and run.failure.reason for run in runs()] == [None] * 6 + ["interrupted"]
    done = call(workers, "--repeats", "3")
    assert done.exit_code == 0
    assert "Resuming" in done.stderr
    assert len(workers.blocks) == 7 + 6
    assert len(files()) == 1
    assert workers.blocks[7] == workers.blocks[6]
    document = json.loads(done.stdout)
    assert [len(cell["runs"]) for cell in document["cells"]] == [3] * 4
    assert document["plan"] == json.loads(stopped.stdout)["plan"]


def test_of_a_file_that_holds_two_plans_only_the_newer_is_resumed(workers: VirtualExecutor) -> None:
    assert call(workers, "--repeats", "2").exit_code == 0
    (first,) = files()
    workers.trouble[len(workers.blocks) + 3] = Interrupted(130)
    assert call(workers, "--repeats", "2").exit_code == 130
    newer = files()[-1]
    newer.write_bytes(first.read_bytes() + newer.read_bytes() * 2)  # joined by hand, one twice
    first.unlink()
    document = json.loads(call(workers, "--repeats", "2").stdout)
    mine = {run.run_id for run in runs() if run.plan_id == document["plan"]}
    told = [run for cell in document["cells"] for run in cell["runs"]]
    assert len(told) == len(set(told)) == 8
    assert set(told) <= mine


def test_a_strangers_plan_of_absurd_size_holds_no_one_up(workers: VirtualExecutor) -> None:
    assert call(workers, "--repeats", "1").exit_code == 0
    (path,) = files()
    (plan,) = plans()
    design = run_design(plan)
    many = msgspec.structs.replace(design, repeats=dict.fromkeys(design.repeats, 10**9))
    absurd = msgspec.structs.replace(plan, design=many)
    path.write_bytes(msgspec.json.encode(absurd) + b"\n")
    assert call(workers, "--repeats", "1").exit_code == 0
    (warning,) = store.read(path).warnings
    assert "more than 1,000,000" in warning


def test_a_resumed_plan_counts_by_the_total_and_warns_of_a_torn_line(
    workers: VirtualExecutor,
) -> None:
    workers.trouble[4] = Interrupted(143)
    assert call(workers, "--repeats", "1").exit_code == 143
    (path,) = files()
    with path.open("ab") as file:
        file.write(b'{"torn')
    said = call(workers, "--repeats", "1").stderr.splitlines()
    assert any(line.startswith("1 of 4 runs to go") for line in said), said
    torn = [line for line in said if path.name in line and not line.startswith("Resuming")]
    assert torn
    assert all(line.startswith("Warning: ") for line in torn[:1]), said


def test_a_plan_may_be_stopped_again_and_again(workers: VirtualExecutor) -> None:
    workers.trouble |= {n: Interrupted(143) for n in (1, 2, 5)}
    assert [call(workers, "--repeats", "2").exit_code for _ in range(4)] == [143, 143, 143, 0]
    whole = [(run.round, run.cell.key) for run in runs() if run.failure is None]
    assert len(whole) == len(set(whole)) == 8
    assert len(files()) == 1


def test_a_failed_cell_is_not_tried_again_by_a_resume(workers: VirtualExecutor) -> None:
    workers.trouble |= {1: BROKEN, 4: Interrupted(130)}
    assert call(workers, "--repeats", "2").exit_code == 130
    assert call(workers, "--repeats", "2").exit_code == 1
    made = order(workers)
    assert made.count(made[0]) == 1


def test_a_run_that_a_power_cut_tore_is_measured_again_and_reported(
    workers: VirtualExecutor,
) -> None:
    call(workers, "--repeats", "2")
    (path,) = files()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1])[:-100])
    done = call(workers, "--repeats", "2")
    assert done.exit_code == 0
    assert f"{path}:{len(lines) - 1}: line skipped" in done.stderr
    assert len(workers.blocks) == 9
    assert len(runs()) == 8


def test_a_complete_plan_is_measured_afresh(workers: VirtualExecutor) -> None:
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
def test_an_unfinished_plan_that_differs_is_left_alone_and_says_why(
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


def test_the_unfinished_plan_of_another_question_is_resumed_when_asked_again(
    workers: VirtualExecutor,
) -> None:
    workers.trouble[2] = Interrupted(130)
    call(workers, "--repeats", "2")
    call(workers, "--repeats", "1")
    done = call(workers, "--repeats", "2")
    assert "Resuming" in done.stderr
    assert len(files()) == 2


def test_what_cannot_be_written_ends_the_plan_and_keeps_what_was(
    workers: VirtualExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.Journal.append

    def full(journal: store.Journal, record: Any) -> None:
        if isinstance(record, BlockRecord) and len(workers.blocks) == 3:
            raise StorageError("no space to write")
        append(journal, record)

    monkeypatch.setattr(store.Journal, "append", full)
    result = call(workers, "--repeats", "1")
    assert result.exit_code == 1
    assert "no space to write" in result.stderr
    assert len(runs()) == 2


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
def test_a_results_file_that_is_changed_while_measuring_ends_the_plan_at_once(
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
    assert len(runs()) == (1 if change is replace else 0)


# ---------------------------------------------------------------- identity


def test_ids_sort_by_time_and_are_never_the_same_twice() -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert new_id(now) < new_id(now + timedelta(seconds=1))
    assert len({new_id(now) for _ in range(50)}) == 50


def test_the_git_state_is_of_this_checkout() -> None:
    commit, dirty = git_state()
    assert commit is None or len(commit) == 40
    assert (commit is None) == (dirty is None)


def test_a_trial_whose_record_is_too_long_for_a_line_fails_and_the_other_stays(
    workers: VirtualExecutor,
) -> None:
    """Without that, the block could not be recorded, and would be made again for ever."""
    long = {"x": "y" * store.MAX_LINE_BYTES}
    done = workers._done
    workers._done = lambda *a: msgspec.structs.replace(done(*a), before=long)  # type: ignore[method-assign]
    result = call(workers, "--repeats", "1")
    assert result.exit_code == 1
    failures = [cell["failure"] for cell in json.loads(result.stdout)["cells"]]
    assert all("too long for a results file" in each["message"] for each in failures)
    assert len(runs()) == len(failures) == 4


def two_trials(replies: dict[int, Reply], turns: list[int], **given: Any) -> list[TrialRecord]:
    """What the executor records where two workers answered that."""
    loop = backends.get("for-loop")
    cell = make_cell("laptop", "gym", "CartPole-v1", loop, 2, {})
    trial = Trial(cell=cell, **given)
    block = Block(trials=[trial, trial], programme=Programme(turns=turns), reference=0)
    arm = Arm(backend=loop, python=sys.executable)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(executor, "_replies", lambda *_: (replies, turns))
        return LocalExecutor().run(block, {arm_key("", cell): arm}, lambda _: None).trials


def test_a_worker_that_recorded_other_slices_than_were_ordered_has_failed() -> None:
    column = [1, 1, 1]
    slices = Windows(start_ns=column, ns=column, calls=column, steps=column, resets=column)
    replies = {side: Reply(ok=True, measured=slices) for side in (0, 1)}
    first, second = two_trials(replies, turns=[0, 1, 1, 0, 0])
    assert first.failure is None
    assert second.failure is not None
    assert "recorded 3 slices, and 2 were ordered" in second.failure.message


def test_a_backend_whose_reference_failed_in_its_block_is_not_verified() -> None:
    trace = io.BytesIO()
    arrays = {name: np.zeros((4, 2)) for name in ("observations", "rewards", "ended")}
    np.savez(trace, **arrays)
    own = Reply(ok=True, trace=trace.getvalue())
    for reference in (Reply(ok=False, failure=BROKEN), Reply(ok=True)):
        _, trial = two_trials({0: reference, 1: own}, turns=[], mode="verify")
        assert trial.agreement is None
        assert trial.failure is not None
        assert "not compared: its reference for-loop failed" in trial.failure.message
    _, trial = two_trials({0: own, 1: own}, turns=[], mode="verify")
    assert (trial.failure, trial.agreement is None) == (None, False)


def test_packages_that_change_while_a_plan_runs_fail_the_trial_rather_than_mix() -> None:
    """A real worker, whose packages are not those that the arm was found with."""
    loop = backends.get("for-loop")
    cell = make_cell("laptop", "gym", "CartPole-v1", loop, 1, {})
    old = RuntimeFact(hash="old", python="3", implementation="CPython", packages={"fake": "1.0"})
    protocol = Protocol(window_s=0.01, warmup_min_s=0.0, warmup_max_s=0.02, measured_s=0.02)
    block = Block(trials=[Trial(cell=cell, protocol=protocol)])
    found = LocalExecutor().probe(Arm(backend=loop, python=sys.executable), block)
    assert isinstance(found, Arm)
    assert found.runtime is not None
    for runtime, failure in ((found.runtime, None), (old, CHANGED)):
        arms = {arm_key("", cell): msgspec.structs.replace(found, runtime=runtime)}
        (trial,) = LocalExecutor().run(block, arms, lambda _: None).trials
        assert trial.failure == failure
        assert trial.runtime == found.runtime.hash
    assert (CHANGED.reason, "packages" in CHANGED.message) == ("setup", True)


def test_the_newest_of_two_plans_of_one_second_is_the_one_that_came_second(tmp_path: Path) -> None:
    for start in ("2026-01-01T00-00-01Z", *["2026-01-01T00-00-00Z"] * 2):
        new_results_file(tmp_path, "laptop", start)
    assert [path.stem for path in store.files(tmp_path)] == [
        "2026-01-01T00-00-00Z", "2026-01-01T00-00-00Z-2", "2026-01-01T00-00-01Z",
    ]  # fmt: skip
