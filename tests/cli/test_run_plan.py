"""``envbench run --plan``: what would be measured, how long it takes, what must be built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.skip_or_fail import not_here
from helpers.virtual_executor import VirtualExecutor, invoke

from envbench.cli import envbench
from envbench.errors import Interrupted
from envbench.machine.host import gpus, usable_cores


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def plan(*words: object) -> Result:
    return CliRunner().invoke(envbench, ["run", "--plan", *map(str, words)])


CELLS = ("--env", "mujoco", "--backend", "for-loop,brax", "--numenv", "2,4")


def test_it_lists_cells_times_and_builds_and_writes_nothing(place: Path) -> None:
    if gpus():
        not_here("a machine without a GPU")
    done = plan(*CELLS)
    assert done.exit_code == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("mujoco ")]
    assert [row[2] for row in rows] == ["For-loop", "Brax"]
    assert "4 cells; " in done.stdout
    assert "To be built: brax (800 MB), about 800 MB in " in done.stdout
    assert list(place.iterdir()) == []


def test_json_has_the_seconds_of_each_cell(place: Path) -> None:
    document = json.loads(plan(*CELLS, "--json").stdout)
    assert [cell["key"] for cell in document["cells"]] == [
        f"mujoco/Ant-v3/{name}/{numenv}" for name in ("for-loop", "brax") for numenv in (2, 4)
    ]
    assert all(cell["seconds"] > 30 for cell in document["cells"])
    assert document["seconds"] >= sum(cell["seconds"] for cell in document["cells"])
    (build,) = document["builds"]
    assert (build["backend"], build["disk_mb"]) == ("brax", 800)
    assert document["lacking"] == []


def test_the_time_of_far_more_environments_than_were_measured_is_a_lower_bound(
    place: Path,
) -> None:
    words = ("--env", "mujoco", "--backend", "for-loop", "--numenv")
    assert "about " in plan(*words, 1000).stdout
    many = plan(*words, 100_000).stdout
    assert "1 cell; 5 blocks to do" in many
    assert "at least " in many
    assert "No earlier result shows how long this many environments or vector steps take." in many


@pytest.mark.parametrize("option", ["--no-setup", "--quick"])
def test_what_is_not_built_is_named_and_left_out(place: Path, option: str) -> None:
    done = plan(*CELLS, option)
    assert done.exit_code == 3, done.stderr  # as the command without --plan
    assert "2 cells; " in done.stdout
    assert "brax is left out (mujoco): its runtime (brax" in done.stdout
    assert "To fix it: envbench setup brax" in done.stdout


def test_not_enough_space_and_unknown_sizes_are_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from envbench.cli import progress
    from envbench.engine.availability import Build

    monkeypatch.setattr(progress.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    known = Build(backend="genesis", requirements=[], disk_mb=3800)
    unknown = Build(backend="other", requirements=[], disk_mb=0)
    text = progress.builds_text([known, unknown])
    assert "genesis (3.8 GB) and other (size unknown), at least 3.8 GB" in text
    assert "(1.0 GB free). That is not enough space." in text
    assert "size unknown" in progress.builds_text([unknown])
    assert "at least" not in progress.builds_text([unknown])


def test_if_nothing_can_run_it_says_why_and_exits_with_3(place: Path) -> None:
    done = plan("--env", "mujoco", "--backend", "brax", "--numenv", "2", "--no-setup")
    assert done.exit_code == 3
    assert "no backend can run this here (brax: its runtime" in done.stderr


@pytest.mark.parametrize("backends", ["for-loop", "for-loop,isaac-gym"])
def test_it_finds_the_plan_that_the_command_would_resume(place: Path, backends: str) -> None:
    words = ["--env", "mujoco", "--backend", backends, "--numenv", "2,4"]
    executor = VirtualExecutor()
    executor.searches = True  # as `--plan` does
    executor.trouble[2] = Interrupted(130)
    assert invoke(executor, "run", *words).exit_code == 130
    done = plan(*words)
    assert "The command would resume results/" in done.output
    assert "The command would resume results/" not in plan(*words, "--fresh").output


def test_wrong_usage_is_found_as_in_a_run(place: Path) -> None:
    done = plan("--env", "mujoco", "--backend", "for-lop")
    assert done.exit_code == 2
    assert "for-loop" in done.stderr


@pytest.mark.skipif(len(usable_cores()) < 2, reason="there is one core")
def test_it_counts_only_the_cores_that_were_named(place: Path) -> None:
    core = usable_cores()[0]
    both = plan("--env", "atari", "--backend", "ceiling", "--json")
    one = plan("--env", "atari", "--backend", "ceiling", "--json", "--cpus", core)
    few, many = (json.loads(each.stdout)["cells"][0]["numenv"] for each in (one, both))
    assert (few, many) == (1, len(usable_cores()))
    refused = plan("--env", "atari", "--cpus", 9999)
    assert refused.exit_code == 2
    assert "core 9999 cannot be used here" in refused.stderr
