"""``envbench check`` for real: two interpreters whose packages differ step alternately."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result
from helpers.command_line import Place, wait_until
from helpers.paced_env import TASK, interpreter
from helpers.short_measurements import start_short_pairs
from helpers.virtual_executor import VirtualExecutor, fake, invoke

from envbench.backends import Backend
from envbench.cli import envbench
from envbench.decisions.slowdown import effect, usual_effect
from envbench.experiments.check.verdicts import slices_of
from envbench.experiments.pairs import trial_of
from envbench.model import BlockRecord, Plan
from envbench.results import store

slow = pytest.mark.slow


def check(*words: object) -> Result:
    return CliRunner().invoke(envbench, ["check", *TASK, *map(str, words)])


def records(folder: Path, kind: Any) -> list[Any]:
    read = [store.read(path) for path in store.files(folder / "results")]
    return [record for reading in read for _, record in reading.records if isinstance(record, kind)]


@slow
def test_equal_arms_are_never_a_regression(here: Path, baseline: str) -> None:
    done = check("--baseline-python", baseline, "--candidate-python", baseline, "--pairs", 5,
                 "--tolerance", 0.2, "--json")  # fmt: skip
    # Other tests use the same cores, so the machine may be too noisy to pass. Then the verdict is
    # INCONCLUSIVE.
    assert done.exit_code in (0, 4), done.output
    assert "both sides are the same code" in done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    assert cell["verdict"] in ("PASS", "INCONCLUSIVE")
    assert set(cell["stages"][0]) == {
        "steps", "all steps", "start-up", "first step", "reset", "memory"
    }  # fmt: skip
    found: list[BlockRecord] = records(here, BlockRecord)
    assert [pair.round for pair in found] == [0, 1, 2, 3, 4]
    # Candidate over baseline, from every recorded pair.
    for name, of in (("steps", usual_effect), ("all steps", effect)):
        mean = fmean(of(*slices_of(pair)) or 0.0 for pair in found)
        assert cell["stages"][0][name]["ratio"] == pytest.approx(math.exp(mean))
    for pair in found:
        ours, theirs = trial_of(pair, "baseline"), trial_of(pair, "candidate")
        assert ours.cpus == theirs.cpus
        assert len(ours.cpus) == 1  # one thread: both on one core
        assert ours.seed == theirs.seed
        assert ours.measured.calls == theirs.measured.calls
        assert sum(ours.resets.resets) > 0
        assert ours.results == theirs.results
        assert len(ours.results) == len(ours.measured.ns) + 1  # and a part after the slices
    slices = sum(len(trial_of(pair, "baseline").measured.ns) for pair in found)
    assert (cell["compared"], cell["different"]) == (slices, 0)
    assert (cell["parts"], cell["parts_different"]) == (5, 0)
    assert len({pair.trials[0].seed for pair in found}) == 5
    (made,) = records(here, Plan)
    ours, theirs = made.arms
    assert (ours.source, ours.place) == (theirs.source, theirs.place)
    codes = [
        {key.partition("/")[2]: code for key, code in made.code.items() if key.startswith(arm.name)}
        for arm in made.arms
    ]
    assert codes[0] == codes[1]


@slow
def test_a_slowdown_is_found_in_both_stages(here: Path, baseline: str) -> None:
    # A large slowdown, because other tests use the same cores.
    slower = interpreter(here / "slower", step=250.0, reset=400.0, start=0.5)
    summary = here / "summary.md"
    done = check("--baseline-python", baseline, "--candidate-python", slower, "--pairs", 5,
                 "--json", "--summary", summary)  # fmt: skip
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    (cell,) = document["cells"]
    assert document["verdict"] == cell["verdict"] == "REGRESSION"
    assert {"steps", "reset", "start-up"} <= set(cell["slower"])
    assert len(cell["stages"]) == 2
    assert "REGRESSION" in summary.read_text()
    assert {pair.stage for pair in records(here, BlockRecord)} == {1, 2}


@slow
def test_a_candidate_whose_episodes_are_shorter_does_other_work(here: Path, baseline: str) -> None:
    other = interpreter(here / "other", length=250)
    done = check("--baseline-python", baseline, "--candidate-python", other, "--pairs", 5)
    assert "the candidate's observations and ends differ from the baseline's" in done.stdout
    assert "other results at the end of" in done.stdout


@slow
def test_an_arm_that_fails_is_named_and_breaks_the_check(here: Path, baseline: str) -> None:
    dies = interpreter(here / "dies", dies_at=600)
    done = check("--baseline-python", baseline, "--candidate-python", dies, "--pairs", 5)
    assert done.exit_code == 1, done.output
    assert "BROKEN" in done.stdout
    assert re.search(r"the candidate failed in '\w+': RuntimeError: the robot fell", done.stderr)
    assert "the baseline failed" not in done.stderr
    assert len(records(here, BlockRecord)) < 5


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
    assert len(records(here, BlockRecord)) == 1
    neither = check("--baseline-python", bare_python, "--candidate-python", bare_python)
    assert neither.exit_code in (2, 3), neither.output
    assert len(records(here, Plan)) == 1


@slow
def test_an_interrupt_ends_both_workers(place: Place, baseline: str) -> None:
    started = start(place, "--baseline-python", baseline, "--candidate-python", baseline,
                    "--pairs", 5)  # fmt: skip
    until(started, "[1/5]")
    wait_until(lambda: stopped(place.processes()), "both workers of the second pair are up")
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert re.search(r"Stopped: [1-4] of 5 process pairs in ", err)
    assert not out
    assert place.processes() == []


def start(place: Place, *words: object) -> subprocess.Popen[str]:
    return start_short_pairs(place, "check", *TASK, *words)


def until(process: subprocess.Popen[str], mark: str) -> str:
    """The first line with the mark."""
    assert process.stderr is not None
    for line in process.stderr:
        if mark in line:
            return line
    pytest.fail(f"{mark} was never said")


@slow
def test_a_killed_check_leaves_nothing_and_is_resumed(place: Place, baseline: str) -> None:
    words = ("--baseline-python", baseline, "--candidate-python", baseline, "--pairs", 5)
    killed = start(place, *words)
    until(killed, "[2/5]")
    wait_until(lambda: stopped(place.processes()), "one of the pair is stopped")
    killed.kill()  # SIGKILL: no one is there to resume the stopped one
    killed.communicate()
    wait_until(lambda: not place.processes(), "both workers are ended", timeout_s=10)
    assert len(pairs_of(place)) == 2

    again = start(place, *words)
    out, err = again.communicate(timeout=120)
    assert "Resuming" in err
    assert "[2/5]" not in err
    assert "[3/5]" in err
    assert "[5/5]" in err
    assert "PASS" in out or "INCONCLUSIVE" in out
    (path,) = place.files()
    assert sorted(pair.round for pair in pairs_of(place)) == [0, 1, 2, 3, 4]

    afresh = start(place, *words)
    until(afresh, "[1/5]")  # a finished check is measured afresh
    afresh.send_signal(signal.SIGINT)
    err = afresh.communicate(timeout=30)[1]
    assert afresh.returncode == 130
    assert re.search(r"Stopped: [1-5] of 5 process pairs in .* The same command resumes", err)

    module = Path(baseline).parents[2] / "packages" / "paced_envs" / "__init__.py"
    module.touch()
    edited = start(place, *words)
    assert "paced_envs/__init__.py" in until(edited, "cannot resume")
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


def pairs_of(place: Place) -> list[BlockRecord]:
    return [
        record
        for record in place.records()
        if isinstance(record, BlockRecord) and not record.interrupted
    ]


# ---------------------------------------------------------------- what is refused, what is planned


def test_plan_says_what_the_check_would_find(here: Path) -> None:
    words = ["--env", "atari", "--backend", "for-loop,subprocess", "--numenv", "2"]
    done = CliRunner().invoke(envbench, ["check", "--plan", *words, "--baseline", "envpool==1.2.4"])
    assert done.exit_code == 0, done.output
    assert "baseline:  envpool==1.2.4" in done.stdout
    assert "candidate: the backend's own interpreter" in done.stdout
    assert not Path("results").exists()
    found = CliRunner().invoke(envbench, ["check", "--plan", "--json", *words])
    cells = json.loads(found.stdout)["cells"]
    assert cells[0]["detectable"] < 0.05 < cells[1]["detectable"]


def test_plan_says_what_is_left_out_as_the_check_does(here: Path) -> None:
    (here / "machines").mkdir()
    (here / "machines" / "broken.toml").write_text("title = 3\n")
    words = ["--env", "atari", "--backend", "for-loop,envpool-sync", "--numenv", "2"]
    done = CliRunner().invoke(envbench, ["check", "--plan", *words, "--set", "threads=1"])
    assert done.exit_code == 0, done.output
    assert "Warning: machines/broken.toml" in done.stderr
    without = "Note: these have no setting threads and are measured without it: for-loop."
    assert without in done.stderr


def test_results_are_no_untracked_files_of_the_project(here: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in ("init --quiet", "commit --quiet --allow-empty -m empty"):
        subprocess.run([*git, *words.split()], check=True)
    (here / "mine").mkdir()
    (here / "mine" / "README.md").touch()
    (here / "notes.txt").touch()
    for results in ("mine", here / "mine"):
        named = ["--baseline-ref", "HEAD", "--results", str(results)]
        done = CliRunner().invoke(envbench, ["check", "--plan", *named])
        assert done.exit_code == 0, done.output
        assert "untracked files are not included: notes.txt. Add" in done.stderr


def test_without_named_cells_a_check_compares_three_of_each_usual_family(here: Path) -> None:
    done = CliRunner().invoke(envbench, ["check", "--plan", "--json", "--machine", "epyc-vm"])
    assert done.exit_code == 0, done.output
    three = [("for-loop", 1), ("envpool-sync", 4), ("envpool-async", 4)]
    cells = json.loads(done.stdout)["cells"]
    assert [(each["env"], each["backend"], each["numenv"]) for each in cells] == [
        (family, *cell) for family in ("atari", "mujoco") for cell in three
    ]


def test_the_cells_of_the_profile_are_the_default(here: Path) -> None:
    (here / "machines").mkdir()
    text = (
        'title = "Mine"\ncheck = ["mujoco/envpool-sync/4"]\n[mujoco]\nnumenv=[1]\nrows=["for-loop"]'
    )
    (here / "machines" / "mine.toml").write_text(text)
    done = CliRunner().invoke(envbench, ["check", "--plan", "--json", "--machine", "mine"])
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["env"], cell["backend"], cell["numenv"]) == ("mujoco", "envpool-sync", 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--baseline-python", "python3", "--baseline", "envpool==1"], "installs nothing into"),
        (["--tolerance", "0.01", "--margin", "0.02"], "greater than --margin"),
        (["--numenv", "1,2,3,4,5,6,7,8,9,10,11,12,13"], "at most 12 cells"),
        (["--budget", "10"], "take about"),
        (["--pairs", "3"], "--pairs has to be a whole number from 5 to 1,000, not '3'."),
        (["--backend", "for-lop"], "Did you mean 'for-loop'?"),
        (["--baseline-python", "/no/python"], "--baseline-python: '/no/python' is not an interp"),
        (["--baseline-python", "/bin/true"], "--baseline-python: /bin/true is not a Python"),
        (["--candidate-ref", "no-such-branch"], "--candidate-ref no-such-branch: there is no such"),
        (["--baseline", ""], "--baseline is empty"),
        (["--candidate", "two words"], "--candidate: 'two words' is not a requirement"),
        (["--candidate", "./no.whl"], "neither a requirement nor a file"),
        (["--margin", "nan"], "--margin has to be a number from 0.0005 to 0.5, not 'nan'."),
        (["--tolerance", "nan"], "--tolerance has to be a number from 0.0005 to 0.5, not 'nan'."),
        (
            ["--cost-tolerance", "nan"],
            "--cost-tolerance has to be a number from 0.01 to 10, not 'nan'.",
        ),
        (
            ["--false-alarm", "nan"],
            "--false-alarm has to be a number from 0.000001 to 0.1, not 'nan'.",
        ),
        (["--precise", "--budget", "300"], "cannot be combined"),
        (["--pairs", "5", "--precise"], "cannot be combined"),
        (["--summary", "/nowhere/summary.md"], "/nowhere/summary.md cannot be written"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(here: Path, words: list[str], said: str) -> None:
    options = {"--env": "atari", "--backend": "for-loop", "--numenv": "1"}
    named = [each for key, value in options.items() if key not in words for each in (key, value)]
    done = CliRunner().invoke(envbench, ["check", *named, *words])
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert not records(here, Plan)
    planned = CliRunner().invoke(envbench, ["check", "--plan", *named, *words])
    assert planned.exit_code == 2  # nor is it planned


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none/summary.md", "Its folder has to exist already."),
        ("folder", "It is a folder."),
        ("file", "It is read-only."),
        ("folder/summary.md", "Its folder is read-only."),
    ],
)
def test_a_summary_that_cannot_be_written_is_wrong_usage_or_from_github_a_warning(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    (here / "folder").mkdir()
    (here / "file").touch()
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)  # root may write anything
    words = ["check", "--plan", "--env", "atari", "--backend", "for-loop", "--numenv", "1"]
    done = CliRunner().invoke(envbench, [*words, "--summary", name])
    assert done.exit_code == 2, done.output
    assert f"--summary: {name} cannot be written.\n{why}\n" in done.stderr
    done = CliRunner().invoke(envbench, words, env={"GITHUB_STEP_SUMMARY": name})
    assert done.exit_code == 0, done.output
    assert f"Warning: GITHUB_STEP_SUMMARY: {name} cannot be written. {why}" in done.stderr


def test_a_summary_that_is_a_pipe_without_a_reader_is_a_warning(
    here: Path, register: Callable[[dict[str, Backend]], None]
) -> None:
    register({"fake-fast": fake("fake-fast")})
    os.mkfifo(here / "pipe")
    task = ("--env", "gym", "--task", "My-v0", "--machine", "laptop", "--numenv", "2")
    done = invoke(VirtualExecutor(), "check", *task, "--pairs", "5", "--summary", "pipe")
    assert done.exit_code == 0, done.stderr
    assert "Warning: pipe cannot be written: No such device or address." in done.stderr


def test_results_that_cannot_be_written_are_refused_before_an_arm_is_made(here: Path) -> None:
    (here / "results").write_text("in the way")
    words = ["check", "--env", "atari", "--backend", "for-loop", "--numenv", "1"]
    done = CliRunner().invoke(envbench, [*words, "--baseline", "there-is-no-such-package==1"])
    assert done.exit_code == 2
    assert "results is not a folder" in done.stderr
    assert "no-such-package" not in done.stderr  # it was not looked for
