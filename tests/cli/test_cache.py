"""``envbench cache``: list the isolated runtimes, and remove them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from filelock import FileLock

from envbench import backends
from envbench.cli import envbench
from envbench.runtimes.interpreters import MARKER, find


@pytest.fixture
def runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the runtime of brax, an older one, and one that was never finished."""
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    used = Path(find(backends.get("brax"), {}, "mujoco").python).parents[1]
    for folder, backend in ((used, "brax"), (used.parent / "brax-0ld", "brax")):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").write_bytes(b"x" * 2_000_000)
        marker = {"backend": backend, "requirements": ["brax==0.14.*", "jax==0.10.*"]}
        (folder / MARKER).write_text(json.dumps(marker))
    (used.parent / "genesis-123").mkdir()
    return used.parent


def call(*words: str, given: str = "") -> Result:
    return CliRunner().invoke(envbench, ["cache", *words], input=given)


def test_it_lists_each_runtime_with_its_size_and_state(runtimes: Path) -> None:
    done = call("--json")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["runtimes"]
    assert sorted((row["backend"], row["state"]) for row in rows) == [
        ("brax", "in use"), ("brax", "not in use"), ("genesis", "incomplete"),
    ]  # fmt: skip
    assert {round(row["disk_mb"]) for row in rows} == {0, 2}
    text = call().stdout
    assert "brax==0.14.*" in text
    assert f"3 runtimes (4 MB) in {runtimes}" in text


def test_copies_and_checkouts_of_check_are_listed_and_removed(runtimes: Path) -> None:
    for name in ("copies", "refs"):
        folder = runtimes.parent / name / "abc"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 1_000_000)
    rows = [
        row for row in json.loads(call("--json").stdout)["runtimes"] if row["backend"] == "check"
    ]
    assert [row["state"] for row in rows] == ["not in use"] * 2
    assert "Removed 2 runtimes (2 MB)" in call("clean", "check", "--yes").stderr
    assert not (runtimes.parent / "copies" / "abc").exists()
    again = call("clean", "check", "--yes")
    assert (again.exit_code, again.stderr) == (0, "There is nothing to remove.\n")


def test_clean_removes_what_no_backend_uses(runtimes: Path) -> None:
    done = call("clean", "--yes")
    assert done.exit_code == 0, done.stderr
    assert "Removed 2 runtimes (2 MB)." in done.stderr
    (left,) = [each for each in runtimes.iterdir() if each.is_dir()]
    assert left.name != "brax-0ld"


def test_clean_removes_the_runtimes_of_a_backend_or_all(runtimes: Path) -> None:
    assert "Removed 2 runtimes" in call("clean", "brax", "--yes").stderr
    assert "Removed 1 runtime " in call("clean", "--all", "--yes").stderr
    assert "nothing to remove" in call("clean", "--all", "--yes").stderr
    assert "There are no runtimes in" in call().stderr


def test_a_runtime_that_another_process_makes_stays(runtimes: Path) -> None:
    with FileLock(runtimes / "genesis-123.lock"):
        done = call("clean", "--yes")
    assert "genesis stays" in done.stderr
    assert (runtimes / "genesis-123").is_dir()


@pytest.mark.parametrize("words", [("clean", "brax"), ("clean", "--all", "brax"), ("clean", "brx")])
def test_wrong_usage_removes_nothing(runtimes: Path, words: tuple[str, ...]) -> None:
    before = sorted(runtimes.iterdir())
    assert call(*words).exit_code == 2
    assert sorted(runtimes.iterdir()) == before
