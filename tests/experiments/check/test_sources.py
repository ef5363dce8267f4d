"""What an arm is made of: requirements, wheels, folders, a git tree at a ref."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock
from helpers.virtual_executor import VirtualExecutor, invoke

from envbench.backends import get
from envbench.engine.target import make_cell, target_of
from envbench.errors import UsageError
from envbench.experiments.check import sources
from envbench.experiments.check.sources import (
    WORKING_TREE,
    Source,
    checked_out,
    kept_copy,
    untracked,
)

slow = pytest.mark.slow


def test_requirements_replace_those_of_the_same_name() -> None:
    made = sources.without(get("for-loop"), "atari", "step", ["ale_py==0.11"])
    assert not [each for each in made.requirements if each.startswith("ale-py==")]
    assert [each for each in made.requirements if each.startswith("gymnasium==")]
    theirs = get("sample-factory")
    rest = sources.without(theirs, "atari", "step", ["/wheels/sample_factory-3.0-py3-none-any.whl"])
    assert len(rest.requirements) == len(theirs.requirements_of("atari", "step")) - 1


@pytest.mark.parametrize(
    ("backend", "family", "names"),
    [
        ("for-loop", "gym", {"numpy", "gymnasium"}),
        ("for-loop", "atari", {"numpy", "gymnasium", "ale-py", "opencv-python-headless"}),
        ("subprocess", "mujoco", {"numpy", "gymnasium", "mujoco", "imageio"}),
        ("envpool-sync", "atari", {"numpy", "gymnasium", "envpool"}),
        ("ale-vector", "atari", {"numpy", "gymnasium", "ale-py"}),
    ],
)
def test_an_arm_gets_only_what_its_cells_need(backend: str, family: str, names: set[str]) -> None:
    made = sources.without(get(backend), family, "step", ["mine==1"])
    assert {each.partition("==")[0] for each in made.requirements} == names


@pytest.mark.parametrize("backend", ["for-loop", "subprocess"])
def test_a_requirement_that_is_replaced_keeps_the_extras_that_a_family_needs(backend: str) -> None:
    made = sources.without(get(backend), "box2d", "step", ["gymnasium==1.2.3"])
    assert "gymnasium[box2d]" in made.requirements
    kept = sources.without(get(backend), "box2d", "step", ["numpy==1.26"])
    assert any(each.startswith("gymnasium[box2d]") for each in kept.requirements)


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


def test_a_ref_is_the_tree_of_the_project_at_that_commit(repository: Path) -> None:
    trees = [checked_out(ref, "--baseline-ref") for ref in ("main~1", "main", WORKING_TREE)]
    versions = [(tree / "pyproject.toml").read_text().split('"')[3] for tree in trees]
    assert versions == ["1", "2", "3"]
    assert checked_out("main", "--baseline-ref") == trees[1]
    for name in ("no-such-branch", "--upload-pack=x"):
        with pytest.raises(UsageError, match=f"--baseline-ref {name}: there is no such commit"):
            checked_out(name, "--baseline-ref")
    described = subprocess.run(["git", "describe", "--tags"], cwd=trees[1], capture_output=True)
    assert described.stdout == b"v2\n"  # a project may compute its version from this


@pytest.mark.parametrize("folder", ["worker", "worker_path"])  # now, and in older refs
def test_a_ref_of_envbench_brings_its_own_worker(repository: Path, folder: str) -> None:
    assert sources.prepare("baseline", sources.Source(ref="v2")).worker == sources.WORKER
    worker = Path("envbench", folder, "envbench_worker", "__main__.py")
    worker.parent.mkdir(parents=True)
    worker.touch()
    git("add", ".")
    git("commit", "--quiet", "-m", "a worker")
    made = sources.prepare("baseline", sources.Source(ref="main"))
    assert made.worker == checked_out("main", "--baseline-ref") / worker


def test_the_working_tree_is_the_same_until_it_is_edited(repository: Path) -> None:
    first = checked_out(WORKING_TREE, "--candidate-ref")
    time.sleep(1.1)  # git makes another commit of the same tree each second
    assert checked_out(WORKING_TREE, "--candidate-ref") == first
    Path("notes.txt").write_text("git does not know it")
    assert untracked() == ["notes.txt"]
    assert checked_out(WORKING_TREE, "--candidate-ref") == first
    Path("pyproject.toml").write_text('[project]\nname = "mine"\nversion = "4"\n')
    assert checked_out(WORKING_TREE, "--candidate-ref") != first


def test_a_ref_in_a_subfolder_means_the_project_of_that_subfolder(
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
    theirs = msgspec.structs.replace(get("for-loop"), requirements=["one==1", "two==1"])
    assert sources.without(theirs, "gym", "step", [str(tree)]).requirements == ["one==1"]
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
    with pytest.raises(UsageError) as refused:
        checked_out("HEAD~1", "--baseline-ref")
    assert "fetch-depth: 0" in refused.value.hint


def test_a_wheel_or_a_folder_is_identified_by_its_content(
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
    (project / "pyproject.toml").touch()
    (project / "pkg" / "__init__.py").write_text("a = 1")
    first = kept_copy(project)
    (project / "pkg" / "__pycache__" / "x.pyc").touch()
    assert kept_copy(project) == first
    assert not (first / "pkg" / "__pycache__").exists()
    (project / "pkg" / "__init__.py").write_text("a = 2")
    assert (kept_copy(project) / "pkg" / "__init__.py").read_text() == "a = 2"
    wanted = Source(requirements=["envpool==1.2.4", str(wheel), str(project)])
    sources.refuse_impossible("candidate", wanted)  # a whole path is no bad requirement
    copies = [str(kept_copy(path)) for path in (wheel, project)]
    assert sources.prepare("candidate", wanted).added == ["envpool==1.2.4", *copies]


@pytest.mark.parametrize("cache", [".", ".cache"])
def test_the_current_folder_can_be_a_project_and_a_cache_inside_it_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    project = tmp_path / "project"
    (project / "pkg").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    monkeypatch.chdir(project / "pkg")
    monkeypatch.setenv("ENVBENCH_CACHE", str(project / cache))
    (part,) = sources.prepare("candidate", Source(requirements=["."])).added
    (whole,) = sources.prepare("candidate", Source(requirements=[".."])).added
    assert Path(part).parents[1] == Path(whole).parents[1] == project / cache / "copies"
    assert (Path(part).name, Path(whole).name) == ("pkg", "project")
    assert sorted(each.name for each in Path(whole).rglob("*")) == ["pkg", "pyproject.toml"]
    with pytest.raises(UsageError, match=r"--candidate \. has no pyproject\.toml or setup\.py"):
        sources.refuse_impossible("candidate", Source(requirements=["."]))


def test_a_folder_without_a_project_is_refused_before_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "notes").mkdir()
    words = ("--baseline", tmp_path / "notes", "--candidate", "ale-py", "--backend", "for-loop")
    done = invoke(VirtualExecutor(), "check", "--machine", "laptop", *words)
    assert done.exit_code == 2, done.stderr
    named = f"--baseline {tmp_path / 'notes'} has no pyproject.toml or setup.py"
    assert named in done.stderr
    assert "the path of a wheel or of a project" in done.stderr
    assert not (tmp_path / "cache").exists()
    (tmp_path / "notes" / "setup.py").touch()
    sources.refuse_impossible("baseline", Source(requirements=[str(tmp_path / "notes")]))


def test_a_copy_removes_what_killed_processes_left_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "mine-1.0-py3-none-any.whl"
    wheel.write_bytes(b"new")
    copies = kept_copy(wheel).parents[1]
    for name in ("dead-1.0.partial", "living-1.0.partial"):
        (copies / name / "half").mkdir(parents=True)
    with FileLock(copies / "living-1.0.lock"):
        kept_copy(wheel)
    assert [each.name for each in copies.glob("*.partial")] == ["living-1.0.partial"]


@slow
def test_an_arm_installs_its_requirements_over_the_versions_here(repository: Path) -> None:
    text = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["gymnasium<1.3"]\n'
    Path("pyproject.toml").write_text(text + "[tool.setuptools]\npy-modules = ['mine']\n")
    Path("mine.py").write_text("pace = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "a module")
    Path("mine.py").write_text("pace = 2\n")
    said: list[str] = []
    loop = get("for-loop")
    target = target_of(make_cell("m", "gym", "CartPole-v1", loop, 2, {}))
    kept = [
        sources.prepare(name, Source(ref=ref))
        for name, ref in (("baseline", "main"), ("candidate", WORKING_TREE))
    ]
    Path("mine.py").write_text("pace = 3\n")  # an edit while a check runs
    made = [sources.make(each, target, said.append) for each in kept]
    code = (
        "import gymnasium, mine, sys; "
        "print(gymnasium.__version__, mine.pace, *sys.version_info[:3])"
    )
    answers = [
        subprocess.run(
            [arm.python, "-I", "-c", code], capture_output=True, text=True
        ).stdout.split()
        for arm in made
    ]
    here = [str(part) for part in sys.version_info[:3]]
    assert [each[1:] for each in answers] == [["1", *here], ["2", *here]]  # this very Python
    assert {each[0].split(".")[0] + each[0].split(".")[1] for each in answers} <= {"10", "11", "12"}
    Path("mine.py").write_text("pace = 2\n")
    again = sources.prepare("candidate", Source(ref=WORKING_TREE))
    assert sources.make(again, target, said.append).python == made[1].python


def test_a_source_is_shown_as_the_user_wrote_it() -> None:
    assert str(Source()) == "the backend's own interpreter"
    assert str(Source(ref=WORKING_TREE)) == "the working tree"
    assert str(Source(requirements=["a==1", "b"])) == "a==1, b"
