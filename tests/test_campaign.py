"""The whole pipeline from command line to disk, with a fake backend and a virtual clock.

Only the process that would measure is replaced (``runner.execute``): its answers are computed
from a clock of their own, so that rounds, resume, failures and figures are exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import pytest

from envbench import backends, store
from envbench.backends import Backend
from envbench.campaign import git_state, new_id, worker_hash
from envbench.cli import envbench
from envbench.errors import Interrupted, StorageError
from envbench.model import Failure, Job, Plan, Run, Times, Windows
from envbench.process import execute as runner
from envbench.process.execute import Reply

SPEED = {"fake-slow": 1000, "fake-fast": 4000}  # transitions a second, of the virtual clock


def fake(name: str) -> Backend:
    return Backend(
        name=name,
        label=name.title(),
        families=["gym"],
        adapter=f"{name}:Fake",
        library="envbench",
    )


class Workers:
    """Answers jobs as workers would. ``trouble[n]`` is what the n-th run comes to instead."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds of the virtual clock
        self.jobs: list[Job] = []
        self.trouble: dict[int, BaseException | Failure] = {}
        self.speed: Callable[[str], float] = lambda name: SPEED[name]
        self.before_run: Callable[[], None] = lambda: None
        self.packages = {"fake": "1.0"}

    def execute(self, job: Job, **_: Any) -> Reply:
        header = {"python": "3.11.0", "implementation": "CPython", "packages": self.packages}
        if job.mode == "probe":
            return Reply(ok=True, **header)
        self.before_run()
        self.jobs.append(job)
        trouble = self.trouble.get(len(self.jobs))
        if isinstance(trouble, BaseException):
            raise trouble
        if trouble:
            return Reply(ok=False, failure=trouble, **header)
        warmup, measured = self._windows(job, 4), self._windows(job, 8)
        spent = sum(measured.ns)
        times = Times(
            import_ns=1, build_ns=2, first_step_ns=3, warmup_ns=sum(warmup.ns), measured_ns=spent
        )
        return Reply(
            ok=True, times=times, warmup=warmup, measured=measured, steady=True, facts={}, **header
        )

    def _windows(self, job: Job, count: int) -> Windows:
        width, start = job.protocol.window_s, self.now
        steps, starts = [], []
        for _ in range(count):
            starts.append(round((self.now - start) * 1e9))
            steps.append(round(width * self.speed(self.name_of(job))))
            self.now += width
        calls = [math.ceil(each / job.numenv) + 1 for each in steps]
        resets = [c * job.numenv - s for c, s in zip(calls, steps, strict=True)]
        ns = [round(width * 1e9)] * count
        return Windows(start_ns=starts, ns=ns, calls=calls, steps=steps, resets=resets)

    def name_of(self, job: Job) -> str:
        return job.adapter.partition(":")[0]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workers:
    made = Workers()
    known = {name: fake(name) for name in SPEED}
    monkeypatch.setattr(backends, "_load", lambda: (known, []))
    monkeypatch.setattr(runner, "execute", made.execute)
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    return made


WORDS = ("--env", "gym", "--task", "My-v0", "--numenv", "2,4", "--machine", "laptop")


def call(*words: str) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(envbench, ["run", *WORDS, *words, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def records(path: Path | None = None) -> list[Any]:
    files = [path] if path else store.files(Path("results"))
    return [record for each in files for _, record in store.read(each).records]


def runs() -> list[Run]:
    return [record for record in records() if isinstance(record, Run)]


# ---------------------------------------------------------------- rounds


def test_each_round_measures_every_cell_once_in_an_order_of_its_own(workers: Workers) -> None:
    assert call("--repeats", "6").exit_code == 0
    order = [(workers.name_of(job), job.numenv) for job in workers.jobs]
    rounds = [order[i : i + 4] for i in range(0, 24, 4)]
    cells = {(name, n) for name in SPEED for n in (2, 4)}
    assert all(set(each) == cells for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert [run.round for run in runs()] == [i // 4 for i in range(24)]


def test_the_same_seed_gives_the_same_order_and_another_seed_another(workers: Workers) -> None:
    for seed in ("1", "1", "2"):
        call("--repeats", "5", "--seed", seed)
    order = [(workers.name_of(job), job.numenv) for job in workers.jobs]
    assert order[:20] == order[20:40] != order[40:]


def test_a_machine_that_slows_down_over_minutes_favours_no_backend(workers: Workers) -> None:
    workers.speed = lambda name: SPEED[name] * (1 - workers.now / 200)
    document = json.loads(call("--repeats", "10").stdout)
    fps = {(cell["backend"], cell["numenv"]): cell["fps"] for cell in document["cells"]}
    assert workers.now > 100  # it was twice as fast in the beginning as in the end
    for numenv in (2, 4):
        assert fps["fake-fast", numenv] / fps["fake-slow", numenv] == pytest.approx(4, rel=0.03)


# ---------------------------------------------------------------- what comes out


def test_the_figures_are_frames_over_time_of_the_measured_windows(workers: Workers) -> None:
    document = json.loads(call("--frame-skip", "3").stdout)
    assert document["schema"] == 1
    (plan,) = (record for record in records() if isinstance(record, Plan))
    assert document["plan"] == plan.plan_id
    for cell in document["cells"]:
        speed = SPEED[cell["backend"]]
        assert cell["steps_per_second"] == pytest.approx(speed)
        assert cell["fps"] == pytest.approx(3 * speed)
        assert cell["interval"] == pytest.approx([3 * speed] * 2)
        assert (len(cell["runs"]), cell["flags"], cell["failure"]) == (5, ["other-hardware"], None)
        assert (cell["machine"], cell["task"], cell["frame_skip"]) == ("laptop", "My-v0", 3)


def test_under_five_runs_there_is_no_interval(workers: Workers) -> None:
    for cell in json.loads(call("--repeats", "4").stdout)["cells"]:
        assert (cell["interval"], cell["flags"]) == (None, ["few-runs", "other-hardware"])


def test_what_runs_share_is_written_once_before_them_and_each_run_at_its_end(
    workers: Workers,
) -> None:
    seen: list[list[str]] = []
    workers.before_run = lambda: seen.append([type(record).__name__ for record in records()])
    call("--repeats", "1")
    head = ["MachineFact", "RuntimeFact", "Plan"]
    assert seen == [head + ["Run"] * n for n in range(4)]
    machine, runtime, plan, *measured = records()
    assert {(run.plan_id, run.fingerprint, run.runtime) for run in measured} == {
        (plan.plan_id, machine.hash, runtime.hash)
    }
    assert (plan.worker, plan.runtimes) == (worker_hash(), dict.fromkeys(SPEED, runtime.hash))
    assert len({run.run_id for run in measured}) == 4


# ---------------------------------------------------------------- failures

BROKEN = Failure(reason="signal", message="the worker died of SIGSEGV", signal="SIGSEGV")


def test_a_failure_ends_its_cell_and_no_other(workers: Workers) -> None:
    workers.trouble[3] = BROKEN
    result = call("--repeats", "5")
    assert result.exit_code == 1
    cells = json.loads(result.stdout)["cells"]
    (broken,) = (cell for cell in cells if cell["failure"])
    assert (broken["fps"], broken["failure"]["signal"]) == (None, "SIGSEGV")
    assert all(cell["fps"] for cell in cells if cell is not broken)
    assert len(workers.jobs) == 3 * 5 + 1
    assert sum(run.failure is not None for run in runs()) == 1


def test_a_figure_that_cannot_be_is_a_failed_cell(workers: Workers) -> None:
    workers.speed = lambda name: 0 if name == "fake-slow" else 4000
    result = call("--repeats", "1")
    assert result.exit_code == 1
    reasons = {
        cell["backend"]: cell["failure"] and cell["failure"]["reason"]
        for cell in json.loads(result.stdout)["cells"]
    }
    assert reasons == {"fake-slow": "invalid-figure", "fake-fast": None}


# ---------------------------------------------------------------- stopped and gone on with


def test_an_interrupted_plan_shows_what_is_done_and_goes_on_in_its_file(workers: Workers) -> None:
    workers.trouble[7] = Interrupted(130)
    stopped = call("--repeats", "3")
    assert stopped.exit_code == 130
    assert len(json.loads(stopped.stdout)["cells"]) == 4
    assert [run.failure and run.failure.reason for run in runs()] == [None] * 6 + ["interrupted"]
    done = call("--repeats", "3")
    assert done.exit_code == 0
    assert "Going on with" in done.stderr
    assert len(workers.jobs) == 7 + 6
    assert len(store.files(Path("results"))) == 1
    again = workers.jobs[7]
    assert (again.adapter, again.numenv, again.seed) == (
        workers.jobs[6].adapter, workers.jobs[6].numenv, workers.jobs[6].seed,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert [len(cell["runs"]) for cell in document["cells"]] == [3] * 4
    assert document["plan"] == json.loads(stopped.stdout)["plan"]


def test_of_a_file_that_holds_two_plans_only_the_newer_is_gone_on_with(workers: Workers) -> None:
    assert call("--repeats", "2").exit_code == 0
    (first,) = store.files(Path("results"))
    workers.trouble[len(workers.jobs) + 3] = Interrupted(130)
    assert call("--repeats", "2").exit_code == 130
    newer = store.files(Path("results"))[-1]
    newer.write_bytes(first.read_bytes() + newer.read_bytes() * 2)  # joined by hand, one twice
    first.unlink()
    document = json.loads(call("--repeats", "2").stdout)
    mine = {run.run_id for run in runs() if run.plan_id == document["plan"]}
    told = [run for cell in document["cells"] for run in cell["runs"]]
    assert len(told) == len(set(told)) == 8
    assert set(told) <= mine


def test_a_strangers_plan_of_absurd_size_holds_nobody_up(workers: Workers) -> None:
    assert call("--repeats", "1").exit_code == 0
    (path,) = store.files(Path("results"))
    (plan,) = (record for record in records() if isinstance(record, Plan))
    absurd = msgspec.structs.replace(plan, repeats=dict.fromkeys(plan.repeats, 10**9))
    path.write_bytes(msgspec.json.encode(absurd) + b"\n")
    assert call("--repeats", "1").exit_code == 0
    (warning,) = store.read(path).warnings
    assert "more than 1,000,000 runs" in warning


def test_a_plan_may_be_stopped_again_and_again(workers: Workers) -> None:
    workers.trouble |= {n: Interrupted(143) for n in (1, 2, 5)}
    assert [call("--repeats", "2").exit_code for _ in range(4)] == [143, 143, 143, 0]
    whole = [(run.round, run.cell.key) for run in runs() if run.failure is None]
    assert len(whole) == len(set(whole)) == 8
    assert len(store.files(Path("results"))) == 1


def test_a_failed_cell_is_not_tried_again_by_going_on(workers: Workers) -> None:
    workers.trouble |= {1: BROKEN, 4: Interrupted(130)}
    assert call("--repeats", "2").exit_code == 130
    assert call("--repeats", "2").exit_code == 1
    broken = workers.jobs[0]
    assert [(job.adapter, job.numenv) for job in workers.jobs].count(
        (broken.adapter, broken.numenv)
    ) == 1


def test_a_run_that_a_power_cut_tore_is_measured_again_and_told(workers: Workers) -> None:
    call("--repeats", "2")
    (path,) = store.files(Path("results"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines)[:-100])
    done = call("--repeats", "2")
    assert done.exit_code == 0
    assert f"{path}:{len(lines)}: line skipped" in done.stderr
    assert len(workers.jobs) == 9
    assert len(runs()) == 8


def test_a_complete_plan_is_measured_afresh(workers: Workers) -> None:
    first, second = (json.loads(call("--repeats", "1").stdout) for _ in range(2))
    assert first["plan"] != second["plan"]
    assert len(store.files(Path("results"))) == 2


@pytest.mark.parametrize(
    ("words", "packages", "says"),
    [
        (("--repeats", "3"), "1.0", "the number of processes a cell"),
        (("--repeats", "2", "--seed", "1"), "1.0", "--seed"),
        (("--repeats", "2"), "2.0", "the packages or Python of fake-fast"),
    ],
)
def test_an_unfinished_plan_that_differs_is_left_alone_and_told_why(
    workers: Workers, words: tuple[str, ...], packages: str, says: str
) -> None:
    workers.trouble[2] = Interrupted(130)
    call("--repeats", "2")
    (old,) = store.files(Path("results"))
    before = old.read_bytes()
    workers.packages = {"fake": packages}
    done = call(*words)
    assert done.exit_code == 0
    assert says in done.stderr
    assert "Beginning a new plan" in done.stderr
    assert old.read_bytes() == before
    assert len(store.files(Path("results"))) == 2


def test_the_unfinished_plan_of_another_question_is_gone_on_with_when_asked_again(
    workers: Workers,
) -> None:
    workers.trouble[2] = Interrupted(130)
    call("--repeats", "2")
    call("--repeats", "1")
    done = call("--repeats", "2")
    assert "Going on with" in done.stderr
    assert len(store.files(Path("results"))) == 2


def test_what_cannot_be_written_ends_the_plan_and_keeps_what_was(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.append

    def full(path: Path, record: Any) -> None:
        if isinstance(record, Run) and len(workers.jobs) == 3:
            raise StorageError("no space to write")
        append(path, record)

    monkeypatch.setattr(store, "append", full)
    result = call("--repeats", "1")
    assert result.exit_code == 1
    assert "no space to write" in result.stderr
    assert len(runs()) == 2


# ---------------------------------------------------------------- identity


def test_ids_sort_by_time_and_are_never_the_same_twice() -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert new_id(now) < new_id(now + timedelta(seconds=1))
    assert len({new_id(now) for _ in range(50)}) == 50


def test_the_worker_hash_is_of_its_source_and_the_git_state_is_of_this_checkout() -> None:
    assert worker_hash() == worker_hash()
    commit, dirty = git_state()
    assert commit is None or len(commit) == 40
    assert (commit is None) == (dirty is None)


def test_packages_that_change_while_a_plan_runs_fail_the_run_rather_than_mix(
    workers: Workers,
) -> None:
    def upgrade() -> None:
        if len(workers.jobs) == 1:
            workers.packages = {"fake": "2.0"}

    workers.before_run = upgrade
    done = call("--backend", "fake-fast", "--repeats", "3")
    assert done.exit_code == 1
    changed = [run for run in runs() if run.failure is not None]
    assert {run.failure.reason for run in changed if run.failure} == {"setup"}
    assert "packages" in str(changed[0].failure)


def test_the_newest_of_two_plans_of_one_second_is_the_one_that_came_second(tmp_path: Path) -> None:
    for start in ("2026-01-01T00-00-01Z", *["2026-01-01T00-00-00Z"] * 2):
        store.new_file(tmp_path, "laptop", start)
    assert [path.stem for path in store.files(tmp_path)] == [
        "2026-01-01T00-00-00Z", "2026-01-01T00-00-00Z-2", "2026-01-01T00-00-01Z",
    ]  # fmt: skip
