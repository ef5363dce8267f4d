"""``envbench check`` for real: two interpreters whose packages differ, stepping in turn."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from interpreters import lent_packages, make_interpreter
from place import Place

from envbench import arms, check_plan, store
from envbench.arms import Source
from envbench.backends import get
from envbench.cli import envbench
from envbench.errors import UsageError
from envbench.model import Check, Pair
from envbench.pairing import Arm, step_in_turn
from envbench.plan import make_cell, order

slow = pytest.mark.slow
PACED = """
import time
import gymnasium
import numpy as np
from gymnasium.envs.registration import register
time.sleep({start})
class Paced(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, render_mode=None):
        self.made = self.whole = 0
    def spin(self, us):
        until = time.perf_counter_ns() + int(us * 1000)
        while time.perf_counter_ns() < until:
            pass
        return np.zeros(4, np.float32)
    def reset(self, seed=None, options=None):
        self.made = 0
        return self.spin({reset}), {{}}
    def step(self, action):
        self.made += 1
        self.whole += 1
        if self.whole == {dies_at}:
            raise RuntimeError("the robot fell off the edge")
        return self.spin({step}), 0.0, self.made == 500, False, {{}}
register(id="Paced-v0", entry_point=Paced)
"""
TASK = ("--env", "gym", "--task", "paced_envs:Paced-v0", "--backend", "for-loop", "--numenv", "2")


def interpreter(folder: Path, **changes: float) -> str:
    """One that has ``paced_envs``; ``changes`` are microseconds, seconds of start, a step."""
    paces = {"step": 100.0, "reset": 100.0, "start": 0.0, "dies_at": -1, **changes}
    package = folder / "packages" / "paced_envs"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACED.format(**paces))
    paths = [folder / "packages", *lent_packages()]
    return str(make_interpreter(folder / "venv", paths=paths))


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> str:
    return interpreter(tmp_path_factory.mktemp("baseline"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, a lock of its own, and a procedure whose pairs take three seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.setattr(check_plan, "BLOCKS", 2)
    monkeypatch.setattr(check_plan, "SLICE_S", 0.05)
    monkeypatch.setattr(check_plan, "WARM_UP", (0.2, 0.4))
    return tmp_path


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
    replies = step_in_turn((job, job), (sides[0], sides[1]), [0, 1, 1, 0, 1, 0, 0, 1])
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
    assert set(cell["stages"][0]) == {"steps", "start-up", "first step", "reset", "memory"}
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
        (["--baseline-python", "/no/python"], "is not an interpreter"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(here: Path, words: list[str], told: str) -> None:
    options = {"--env": "atari", "--backend": "for-loop", "--numenv": "1"}
    named = [each for key, value in options.items() if key not in words for each in (key, value)]
    done = CliRunner().invoke(envbench, ["check", *named, *words])
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert not records(here, Check)


# ---------------------------------------------------------------- arms


def test_requirements_take_the_place_of_those_of_their_name() -> None:
    made = arms._with_requirements(get("for-loop"), ["ale_py==0.11"])
    assert "ale_py==0.11" in made.requirements
    assert not [each for each in made.requirements if each.startswith("ale-py==")]
    assert [each for each in made.requirements if each.startswith("gymnasium==")]
    theirs = get("sample-factory")
    over = arms._with_requirements(theirs, ["/wheels/sample_factory-3.0-py3-none-any.whl"])
    assert len(over.requirements) == len(theirs.requirements)


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
    Path("pyproject.toml").write_text('[project]\nname = "mine"\nversion = "3"\n')
    return project


def git(*words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *named, *words], check=True, capture_output=True)


def test_a_ref_is_the_projects_tree_at_that_commit(repository: Path) -> None:
    trees = [arms.checked_out(ref) for ref in ("main~1", "main", arms.WORKING_TREE)]
    versions = [(tree / "pyproject.toml").read_text().split('"')[3] for tree in trees]
    assert versions == ["1", "2", "3"]
    assert arms.checked_out("main") == trees[1]
    with pytest.raises(UsageError, match="git rev-parse --verify"):
        arms.checked_out("no-such-branch")
    with pytest.raises(UsageError, match="git rev-parse --verify"):
        arms.checked_out("--upload-pack=x")


def test_sources_are_told_as_they_were_asked_for() -> None:
    assert str(Source()) == "the current interpreter"
    assert str(Source(ref=arms.WORKING_TREE)) == "the working tree"
    assert str(Source(requirements=["a==1", "b"])) == "a==1, b"


# ---------------------------------------------------------------- against a stored baseline

LOOP = ("--env", "gym", "--task", "CartPole-v1", "--backend", "for-loop", "--numenv", "2")


@slow
def test_a_stored_baseline_gives_advice(here: Path) -> None:
    stored = here / "stored.jsonl"
    saved = CliRunner().invoke(
        envbench, ["baseline", "save", "--output", str(stored), *LOOP, "--pairs", "5"]
    )
    assert saved.exit_code == 0, saved.output
    assert sum('"type":"gauge"' in line for line in stored.read_text().splitlines()) == 5
    done = CliRunner().invoke(
        envbench,
        ["check", "--against", str(stored), "--pairs", "5", "--tolerance", "0.5", "--json"],
    )
    assert done.exit_code in (0, 1), done.output
    document = json.loads(done.stdout)
    assert document["advisory"] is True
    assert document["cells"][0]["stages"][0]["steps"]["ratio"] == pytest.approx(1, abs=0.3)
    assert "Advisory:" in done.stderr
    assert "--baseline-ref" in done.stderr
    again = CliRunner().invoke(envbench, ["baseline", "save", "--output", str(stored), *LOOP])
    assert again.exit_code == 2
    assert "not written over" in again.stderr


def test_a_baseline_has_to_be_of_this_machine_and_beside_the_kernel(here: Path) -> None:
    from made_records import LAPTOP, measured_plan

    from envbench.model import MachineFact, digest

    plain = here / "plain.jsonl"
    for record in [
        MachineFact(hash=digest(LAPTOP), fingerprint=LAPTOP),
        *measured_plan({("for-loop", 1): 50}),
    ]:
        store.append(plain, record)
    done = CliRunner().invoke(envbench, ["check", "--against", str(plain)])
    assert done.exit_code == 2
    assert "nothing in it was measured beside the kernel" in done.stderr
    missing = CliRunner().invoke(envbench, ["check", "--against", "nowhere.jsonl"])
    assert (missing.exit_code, "there is no file" in missing.stderr) == (2, True)
    both = CliRunner().invoke(envbench, ["check", "--against", str(plain), "--baseline", "a==1"])
    assert (both.exit_code, "takes no arms" in both.stderr) == (2, True)
