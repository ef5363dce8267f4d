"""``envbench check`` for real: two interpreters whose packages differ, stepping in turn."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result
from paced import TASK, interpreter, start_short
from place import Place, wait_until

from envbench import store
from envbench.backends import get
from envbench.check import arms, stopping
from envbench.check.arms import Source
from envbench.check.git_tree import WORKING_TREE, checked_out, untracked
from envbench.check.local_copies import kept_copy
from envbench.check.pairing import Arm, _Table, step_in_turn
from envbench.check.starting import Start, start_in_turn, stood_still
from envbench.check.stopping import Tree
from envbench.cli import envbench
from envbench.errors import UsageError
from envbench.model import Check, Pair, Times
from envbench.plan import make_cell, order
from envbench.runner import WORKER

slow = pytest.mark.slow


def check(*words: object) -> Result:
    return CliRunner().invoke(envbench, ["check", *TASK, *map(str, words)])


def records(folder: Path, kind: Any) -> list[Any]:
    read = [store.read(path) for path in store.files(folder / "results")]
    return [record for reading in read for _, record in reading.records if isinstance(record, kind)]


# ---------------------------------------------------------------- turns


@slow
def test_two_workers_make_equal_slices_by_turns_and_nothing_is_left(baseline: str) -> None:
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    sides = tuple(
        arms.with_settings(Arm(name=name, python=baseline, environment={}), get("for-loop"), {})
        for name in ("baseline", "candidate")
    )
    began = time.monotonic()
    replies = step_in_turn((job, job), (sides[0], sides[1]), [0, 1, 1, 0, 1, 0, 0, 1], 0.1)
    assert time.monotonic() - began < 30
    for reply in replies:
        assert reply.ok, reply.failure
        assert len(reply.measured.ns) == 4
        assert sum(reply.resets.resets) > 0
        assert reply.resets.resets == [2 * calls for calls in reply.resets.calls]
    ours, theirs = replies
    assert ours.measured.calls == theirs.measured.calls
    assert len(set(ours.measured.calls)) == 1
    # Each stood still while the other stepped: its slices lie apart by the other's.
    starts, lengths = ours.measured.start_ns, ours.measured.ns
    gaps = [b - a - ns for a, b, ns in zip(starts, starts[1:], lengths, strict=False)]
    assert max(gaps) > 1.5 * theirs.measured.ns[0]  # 1, 1 lies between the first two


@pytest.mark.parametrize(
    ("ns_a_call", "calls", "slices"),
    [(1e3, 10_000, 200), (4e6, 2, 200), (20e6, 1, 100), (24e6, 1, 80), (1e9, 1, 20)],
)
def test_calls_that_are_longer_than_a_slice_make_fewer(
    ns_a_call: float, calls: int, slices: int
) -> None:
    table = _Table([0, 1, 1, 0] * 50, 10e6, alike=True)
    table.sit_down(0, ns_a_call)
    table.sit_down(1, 1.0)  # the baseline says it for both
    assert (table.calls, len(table.steps)) == ([calls, calls], slices)


def test_resets_fill_slices_too_and_long_ones_make_fewer() -> None:
    def resets(ns: int) -> tuple[int, int]:
        table = _Table([0, 1, 1, 0] * 50, 10e6, alike=True)
        table.next = len(table.steps)
        table.done({"ns": ns, "calls": 1, "resets": 1})
        return table.resets, len(table.reset_slices)

    assert [resets(ns) for ns in (10, 10**6, 2 * 10**7, 10**9)] == [
        (10_000, 40), (10, 40), (1, 20), (1, 8)
    ]  # fmt: skip


@slow
def test_a_worker_that_takes_no_turns_is_no_arm(tmp_path: Path, baseline: str) -> None:
    old = tmp_path / "envbench_worker"
    shutil.copytree(WORKER.parent, old)
    main = old / "__main__.py"
    text = main.read_text()
    takes_turns = 'turns(self.job["turns"]) if self.job["turns"] else None'
    assert takes_turns in text
    main.write_text(text.replace(takes_turns, "None"))
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    made = (
        Arm(name="baseline", python=baseline, environment={}, worker=main),
        Arm(name="candidate", python=baseline, environment={}),
    )
    ours, theirs = (arms.with_settings(arm, get("for-loop"), {}) for arm in made)
    before, now = step_in_turn((job, job), (ours, theirs), [0, 1, 1, 0], 0.1)
    assert before.failure is not None
    assert "slices that nobody asked for" in before.failure.message
    assert now.failure is None


def states(processes: list[psutil.Process]) -> set[str]:
    return {each.status() for each in processes}


SPAWNS = "import subprocess, sys\nfor line in sys.stdin: subprocess.Popen(['sleep', '60'])"


@pytest.mark.parametrize("listed", [True, False], ids=["proc", "no proc"])
def test_whose_turn_it_is_not_stands_still_with_all_that_it_has_by_then(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(stopping, "_of_thread", lambda *_: Path("/nowhere").read_bytes())
    with subprocess.Popen([sys.executable, "-c", SPAWNS], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        worker = Tree(process.pid)
        tree = psutil.Process(process.pid)
        try:
            for count in (1, 2):
                process.stdin.write(b"\n")
                process.stdin.flush()
                wait_until(lambda count=count: len(tree.children()) == count, "it has a child more")
                family = [tree, *tree.children()]
                wait_until(lambda: all(each.name() == "sleep" for each in tree.children()), "exec")
                worker.stop()
                wait_until(
                    lambda family=family: states(family) == {psutil.STATUS_STOPPED},
                    "all are stopped",
                )
                worker.go_on()
                wait_until(
                    lambda family=family: psutil.STATUS_STOPPED not in states(family), "all go on"
                )
        finally:
            for each in [*tree.children(), tree]:
                each.kill()


@pytest.fixture
def spinning() -> Iterator[list[psutil.Process]]:
    """Two processes that are always busy."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield [psutil.Process(each.pid) for each in made]
    for each in made:
        each.kill()
        each.wait()


def test_two_start_by_turns_and_wait_for_each_other(spinning: list[psutil.Process]) -> None:
    changed, gone = threading.Condition(), set[int]()
    sides = [Start(side, changed, gone) for side in (0, 1)]

    def comes_to_its_warm_up(side: int) -> None:
        sides[side].began(spinning[side].pid)
        time.sleep(0.4 + 0.4 * side)
        sides[side].arrived()

    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(comes_to_its_warm_up, side) for side in (0, 1)]
        began = time.perf_counter_ns()
        start_in_turn(*sides)
        try:
            wait_until(lambda: states(spinning) == {psutil.STATUS_STOPPED}, "both wait")
            ran = [sum(each.cpu_times()[:2]) for each in spinning]
            sides[0].warm_up()
            wait_until(lambda: spinning[0].status() != psutil.STATUS_STOPPED, "it warms up")
            assert spinning[1].status() == psutil.STATUS_STOPPED
        finally:
            sides[0].warm_up()
            sides[1].warm_up()
        for each in threads:
            each.result(timeout=10)
        wait_until(lambda: psutil.STATUS_STOPPED not in states(spinning), "both go on")
    times = make_times(import_ns=400_000_000)
    found = [stood_still(side.stops, {"import_ns": began}, times)["import_ns"] for side in sides]
    assert all(0.1e9 < each < 0.3e9 for each in found)  # half of the first one's start
    later = stood_still(sides[1].stops, {"import_ns": began + 500_000_000}, times)["import_ns"]
    assert later < 0.4e9  # its other half was alone, until it waited
    assert ran[1] > ran[0]


def make_times(**times: int) -> Times:
    nothing = dict.fromkeys(Times.__struct_fields__, 1)
    return Times(**{**nothing, **times})


def test_only_what_overlaps_a_time_is_taken_from_it() -> None:
    stops = [(0, 10), (20, 30), (95, 120), (300, 400)]
    times = make_times(import_ns=100, build_ns=50, first_step_ns=10)
    began = {"import_ns": 5, "build_ns": 110, "first_step_ns": 200}
    assert stood_still(stops, began, times) == {"import_ns": 25, "build_ns": 10, "first_step_ns": 0}


def test_who_fails_to_start_keeps_nobody_waiting(spinning: list[psutil.Process]) -> None:
    changed, gone = threading.Condition(), set[int]()
    sides = [Start(side, changed, gone) for side in (0, 1)]

    def starts_alone() -> None:
        sides[1].began(spinning[1].pid)
        time.sleep(0.3)
        sides[1].arrived()

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(starts_alone)
        with changed:
            gone.add(0)
        start_in_turn(*sides)
        thread.result(timeout=10)
    assert sum(until - since for since, until in sides[1].stops) < 0.2e9
    wait_until(lambda: states(spinning[1:]) != {psutil.STATUS_STOPPED}, "it goes on")


@slow
def test_a_longer_start_is_measured_and_the_others_turns_are_not(tmp_path: Path) -> None:
    cell = make_cell("here", "gym", "paced_envs:Paced-v0", get("for-loop"), 2, {})
    job = order(cell, run_id="pair", seed=1)
    made = [
        Arm(name=name, python=interpreter(tmp_path / name, start=start), environment={})
        for name, start in (("baseline", 0.5), ("candidate", 1.0))
    ]
    ours, theirs = (arms.with_settings(arm, get("for-loop"), {}) for arm in made)
    replies = step_in_turn((job, job), (ours, theirs), [0, 1, 1, 0], 0.05)
    for reply, start_s in zip(replies, (0.5, 1.0), strict=True):
        assert reply.times is not None
        still_s = reply.stood_still_ns["import_ns"] / 1e9
        assert still_s > 0.2  # by turns
        took_s = reply.times.import_ns / 1e9 - still_s
        assert start_s < took_s < 4 * start_s + 2  # and Gymnasium's import, on cores of others
        assert len(reply.measured.ns) == 2
        assert min(reply.measured.calls) > 1  # who waits for the other does not warm up meanwhile


# ---------------------------------------------------------------- the command


@slow
def test_equal_arms_are_never_a_regression(here: Path, baseline: str) -> None:
    done = check("--baseline-python", baseline, "--candidate-python", baseline, "--pairs", 5,
                 "--tolerance", 0.2, "--json")  # fmt: skip
    # Beside other tests the machine may be too noisy to pass, and that is said.
    assert done.exit_code in (0, 4), done.output
    assert "both arms are the same" in done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    assert cell["verdict"] in ("PASS", "INCONCLUSIVE")
    assert cell["stages"][0]["steps"]["ratio"] == pytest.approx(1, abs=0.5)
    assert set(cell["stages"][0]) == {
        "steps", "all steps", "start-up", "first step", "reset", "memory"
    }  # fmt: skip
    found: list[Pair] = records(here, Pair)
    assert [pair.number for pair in found] == [0, 1, 2, 3, 4]
    assert {len(pair.cpus) for pair in found} == {1}  # one thread: both on one core
    assert len({pair.seed for pair in found}) == 5
    (made,) = records(here, Check)
    assert made.baseline == made.candidate


@slow
def test_what_got_slower_is_found_twice(here: Path, baseline: str) -> None:
    # By so much, because other tests take the same cores meanwhile.
    slower = interpreter(here / "slower", step=700.0, reset=1500.0, start=2.5)
    summary = here / "summary.md"
    done = check("--baseline-python", baseline, "--candidate-python", slower, "--pairs", 7,
                 "--json", "--summary", summary)  # fmt: skip
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    (cell,) = document["cells"]
    assert document["verdict"] == cell["verdict"] == "REGRESSION"
    assert {"steps", "reset", "start-up"} <= set(cell["slower"])
    assert len(cell["stages"]) == 2
    assert "REGRESSION" in summary.read_text()
    assert {pair.stage for pair in records(here, Pair)} == {1, 2}


@slow
def test_an_arm_that_fails_is_told_and_breaks_the_check(here: Path, baseline: str) -> None:
    dies = interpreter(here / "dies", dies_at=600)
    done = check("--baseline-python", baseline, "--candidate-python", dies, "--pairs", 5)
    assert done.exit_code == 1, done.output
    assert "BROKEN" in done.stdout
    assert re.search(r"the candidate failed in '\w+': RuntimeError: the robot fell", done.stderr)
    assert "the baseline failed" not in done.stderr
    assert len(records(here, Pair)) < 5


@slow
def test_an_arm_that_does_not_even_import_is_broken_too(
    here: Path, baseline: str, bare_python: Path
) -> None:
    done = check("--baseline-python", baseline, "--candidate-python", bare_python, "--pairs", 5,
                 "--json")  # fmt: skip
    assert done.exit_code == 1, done.output
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["verdict"], list(cell["failures"])) == ("BROKEN", ["candidate"])
    assert cell["failures"]["candidate"]["reason"] == "import"
    assert "cannot run paced_envs:Paced-v0 in the candidate" in done.stderr
    assert len(records(here, Pair)) == 1
    neither = check("--baseline-python", bare_python, "--candidate-python", bare_python)
    assert neither.exit_code in (2, 3), neither.output
    assert len(records(here, Check)) == 1


@slow
def test_an_interrupt_ends_both_workers(place: Place, baseline: str) -> None:
    started = place.start("check", *TASK, "--baseline-python", baseline,
                          "--candidate-python", baseline, "--pairs", 5)  # fmt: skip
    assert started.stderr is not None
    for line in started.stderr:
        if "[1/5]" in line:
            break
    time.sleep(1.0)  # in the second pair
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert "no verdict" in err
    assert not out
    assert place.processes() == []


def start(place: Place, *words: object) -> subprocess.Popen[str]:
    return start_short(place, "check", *TASK, *words)


def until(process: subprocess.Popen[str], mark: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if mark in line:
            return
    pytest.fail(f"{mark} was never said")


@slow
def test_a_killed_check_leaves_nothing_and_goes_on(place: Place, baseline: str) -> None:
    words = ("--baseline-python", baseline, "--candidate-python", baseline, "--pairs", 5)
    killed = start(place, *words)
    until(killed, "[2/5]")
    wait_until(lambda: stopped(place.processes()), "one of the pair is stopped")
    killed.kill()  # SIGKILL: nobody is there to wake the one that stands still
    killed.communicate()
    wait_until(lambda: not place.processes(), "both workers are ended", timeout_s=10)
    assert len(pairs_of(place)) == 2

    again = start(place, *words)
    out, err = again.communicate(timeout=120)
    assert "Going on with" in err
    assert "[3/3]" in err
    assert "PASS" in out or "INCONCLUSIVE" in out
    (path,) = place.files()
    assert sorted(pair.number for pair in pairs_of(place)) == [0, 1, 2, 3, 4]

    afresh = start(place, *words)
    until(afresh, "[1/5]")  # a finished check is made anew
    afresh.send_signal(signal.SIGINT)
    err = afresh.communicate(timeout=30)[1]
    assert afresh.returncode == 130
    assert "The same command goes on from here" in err

    module = Path(baseline).parents[2] / "packages" / "paced_envs" / "__init__.py"
    module.touch()
    edited = start(place, *words)
    until(edited, "cannot be gone on with")
    until(edited, "paced_envs/__init__.py")
    until(edited, "[1/5]")
    edited.send_signal(signal.SIGTERM)
    edited.communicate(timeout=30)
    assert edited.returncode == 143
    assert place.processes() == []
    assert len(place.files()) == 3
    assert path in place.files()


def stopped(processes: list[tuple[int, str]]) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid, _ in processes)
    return False


def pairs_of(place: Place) -> list[Pair]:
    return [record for record in place.records() if isinstance(record, Pair)]


# ---------------------------------------------------------------- what is refused, what is planned


def test_a_plan_says_what_it_would_find_before_the_time_is_spent(here: Path) -> None:
    words = ["--env", "atari", "--backend", "for-loop,subprocess", "--numenv", "2"]
    done = CliRunner().invoke(envbench, ["check", "--plan", *words, "--baseline", "envpool==1.2.4"])
    assert done.exit_code == 0, done.output
    assert "baseline:  envpool==1.2.4" in done.stdout
    assert "candidate: the current interpreter" in done.stdout
    assert not Path("results").exists()
    found = CliRunner().invoke(envbench, ["check", "--plan", "--json", *words])
    cells = json.loads(found.stdout)["cells"]
    assert cells[0]["detectable"] < 0.05 < cells[1]["detectable"]


def test_without_cells_the_profiles_are_compared(here: Path) -> None:
    (here / "machines").mkdir()
    text = (
        'title = "Mine"\ncheck = ["mujoco/envpool-sync/4"]\n[mujoco]\nnumenv=[1]\nrows=["for-loop"]'
    )
    (here / "machines" / "mine.toml").write_text(text)
    done = CliRunner().invoke(envbench, ["check", "--plan", "--json", "--machine", "mine"])
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["env"], cell["backend"], cell["numenv"]) == ("mujoco", "envpool-sync", 4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--baseline-python", "python3", "--baseline", "envpool==1"], "taken as it is"),
        (["--tolerance", "0.01", "--margin", "0.02"], "greater than --margin"),
        (["--numenv", "1,2,3,4,5,6,7,8,9,10,11,12,13"], "12 cells at most"),
        (["--budget", "10"], "take about"),
        (["--pairs", "3"], "5<=x<=1000"),
        (["--backend", "for-lop"], "Did you mean 'for-loop'?"),
        (["--baseline-python", "/no/python"], "--baseline-python: '/no/python' is not an interp"),
        (["--baseline-python", "/bin/true"], "--baseline-python: /bin/true is not a Python"),
        (["--candidate-ref", "no-such-branch"], "--candidate-ref no-such-branch: there is no such"),
        (["--baseline", ""], "'' is no requirement"),
        (["--candidate", "two words"], "--candidate: 'two words' is no requirement"),
        (["--candidate", "./no.whl"], "neither a requirement nor a file"),
        (["--margin", "nan"], "'nan' is not a number"),
        (["--tolerance", "nan"], "'nan' is not a number"),
        (["--cost-tolerance", "nan"], "'nan' is not a number"),
        (["--false-alarm", "nan"], "'nan' is not a number"),
        (["--precise", "--budget", "300"], "exclude each other"),
        (["--pairs", "5", "--precise"], "exclude each other"),
        (["--summary", "/nowhere/summary.md"], "/nowhere/summary.md cannot be written"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(here: Path, words: list[str], told: str) -> None:
    options = {"--env": "atari", "--backend": "for-loop", "--numenv": "1"}
    named = [each for key, value in options.items() if key not in words for each in (key, value)]
    done = CliRunner().invoke(envbench, ["check", *named, *words])
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert not records(here, Check)
    planned = CliRunner().invoke(envbench, ["check", "--plan", *named, *words])
    assert planned.exit_code == 2  # nor is it planned


def test_results_that_cannot_be_kept_are_told_before_an_arm_is_made(here: Path) -> None:
    (here / "results").write_text("in the way")
    words = ["check", "--env", "atari", "--backend", "for-loop", "--numenv", "1"]
    done = CliRunner().invoke(envbench, [*words, "--baseline", "there-is-no-such-package==1"])
    assert done.exit_code == 1
    assert "cannot write results to results" in done.stderr
    assert "no-such-package" not in done.stderr  # nor was it looked for


# ---------------------------------------------------------------- arms


def test_requirements_take_the_place_of_those_of_their_name() -> None:
    made = arms._without(get("for-loop"), ["ale_py==0.11"])
    assert not [each for each in made.requirements if each.startswith("ale-py==")]
    assert [each for each in made.requirements if each.startswith("gymnasium==")]
    theirs = get("sample-factory")
    rest = arms._without(theirs, ["/wheels/sample_factory-3.0-py3-none-any.whl"])
    assert len(rest.requirements) == len(theirs.requirements) - 1


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git working tree with two commits of a project, and a change that is not committed."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "cache"))
    git("init", "--quiet", "--initial-branch=main")
    for version in ("1", "2"):
        Path("pyproject.toml").write_text(f'[project]\nname = "mine"\nversion = "{version}"\n')
        git("add", "pyproject.toml")
        git("commit", "--quiet", "-m", version)
        git("tag", f"v{version}")
    Path("pyproject.toml").write_text('[project]\nname = "mine"\nversion = "3"\n')
    return project


def git(*words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *named, *words], check=True, capture_output=True)


def test_a_ref_is_the_projects_tree_at_that_commit(repository: Path) -> None:
    trees = [checked_out(ref, "--baseline-ref") for ref in ("main~1", "main", WORKING_TREE)]
    versions = [(tree / "pyproject.toml").read_text().split('"')[3] for tree in trees]
    assert versions == ["1", "2", "3"]
    assert checked_out("main", "--baseline-ref") == trees[1]
    for name in ("no-such-branch", "--upload-pack=x"):
        with pytest.raises(UsageError, match=f"--baseline-ref {name}: there is no such commit"):
            checked_out(name, "--baseline-ref")
    described = subprocess.run(["git", "describe", "--tags"], cwd=trees[1], capture_output=True)
    assert described.stdout == b"v2\n"  # what a version may be made from


def test_the_working_tree_is_the_same_until_it_is_edited(repository: Path) -> None:
    first = checked_out(WORKING_TREE, "--candidate-ref")
    time.sleep(1.1)  # git has another commit for it each second
    assert checked_out(WORKING_TREE, "--candidate-ref") == first
    Path("notes.txt").write_text("git does not know it")
    assert untracked() == ["notes.txt"]
    assert checked_out(WORKING_TREE, "--candidate-ref") == first
    Path("pyproject.toml").write_text('[project]\nname = "mine"\nversion = "4"\n')
    assert checked_out(WORKING_TREE, "--candidate-ref") != first


def test_a_project_below_the_top_is_that_project(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "1"\n')
    Path("empty").mkdir()
    Path("empty", "x").touch()
    git("add", ".")
    git("commit", "--quiet", "-m", "two projects")
    monkeypatch.chdir("two")
    tree = checked_out("main", "--baseline-ref")
    assert 'name = "two"' in (tree / "pyproject.toml").read_text()
    assert arms._name(str(tree)) == "two"
    monkeypatch.chdir("../empty")
    with pytest.raises(UsageError, match="nothing to install"):
        checked_out("main", "--baseline-ref")


def test_submodules_and_shallow_clones_are_checked_out_too(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    library = tmp_path / "library"
    subprocess.run(["git", "clone", "--quiet", str(repository), str(library)], check=True)
    git("submodule", "--quiet", "add", str(library), "deps")
    git("commit", "--quiet", "--all", "-m", "with a library")
    assert (checked_out("main", "--baseline-ref") / "deps" / "pyproject.toml").is_file()
    clone = tmp_path / "shallow"
    words = ["git", "clone", "--quiet", "--depth", "1", repository.as_uri(), str(clone)]
    subprocess.run(words, check=True)
    monkeypatch.chdir(clone)
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "other cache"))
    assert (checked_out("HEAD", "--baseline-ref") / "pyproject.toml").is_file()
    with pytest.raises(UsageError) as told:
        checked_out("HEAD~1", "--baseline-ref")
    assert "fetch-depth: 0" in told.value.hint


def test_a_wheel_or_a_folder_is_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "mine-1.0-py3-none-any.whl"
    wheel.write_bytes(b"old")
    old = kept_copy(wheel)
    assert (old.name, old.read_bytes()) == (wheel.name, b"old")
    assert kept_copy(wheel) == old
    wheel.write_bytes(b"new")
    assert kept_copy(wheel).read_bytes() == b"new"
    assert old.read_bytes() == b"old"
    project = tmp_path / "project"
    (project / "pkg" / "__pycache__").mkdir(parents=True)
    (project / "pkg" / "__init__.py").write_text("a = 1")
    first = kept_copy(project)
    (project / "pkg" / "__pycache__" / "x.pyc").touch()
    assert kept_copy(project) == first
    assert not (first / "pkg" / "__pycache__").exists()
    (project / "pkg" / "__init__.py").write_text("a = 2")
    assert (kept_copy(project) / "pkg" / "__init__.py").read_text() == "a = 2"
    assert arms._kept("envpool==1.2.4") == "envpool==1.2.4"
    for path in (str(wheel), str(project)):  # a whole path is no bad requirement
        arms.look_at("candidate", Source(requirements=[path]))
        assert arms._kept(path) == str(kept_copy(Path(path)))


@slow
def test_an_arm_has_what_was_asked_for_over_the_versions_that_are_here(repository: Path) -> None:
    text = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["gymnasium<1.3"]\n'
    Path("pyproject.toml").write_text(text + "[tool.setuptools]\npy-modules = ['mine']\n")
    Path("mine.py").write_text("pace = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "a module")
    Path("mine.py").write_text("pace = 2\n")
    said: list[str] = []
    kept = [
        arms.keep(name, Source(ref=ref))
        for name, ref in (("baseline", "main"), ("candidate", WORKING_TREE))
    ]
    Path("mine.py").write_text("pace = 3\n")  # an edit while a check runs
    made = [arms.make(each, get("for-loop"), said.append) for each in kept]
    code = (
        "import gymnasium, mine, sys; "
        "print(gymnasium.__version__, mine.pace, *sys.version_info[:3])"
    )
    told = [
        subprocess.run(
            [arm.python, "-I", "-c", code], capture_output=True, text=True
        ).stdout.split()
        for arm in made
    ]
    here = [str(part) for part in sys.version_info[:3]]
    assert [each[1:] for each in told] == [["1", *here], ["2", *here]]  # this very Python
    assert {each[0].split(".")[0] + each[0].split(".")[1] for each in told} <= {"10", "11", "12"}
    Path("mine.py").write_text("pace = 2\n")
    again = arms.keep("candidate", Source(ref=WORKING_TREE))
    assert arms.make(again, get("for-loop"), said.append).python == made[1].python


def test_sources_are_told_as_they_were_asked_for() -> None:
    assert str(Source()) == "the current interpreter"
    assert str(Source(ref=WORKING_TREE)) == "the working tree"
    assert str(Source(requirements=["a==1", "b"])) == "a==1, b"
