"""``envbench run`` and the disk, and two at once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command_line import (
    BLOCK,
    NORMAL,
    SHORT,
    THREE,
    Done,
    Place,
    ended,
    ended_within,
    loop,
    wait_until,
)
from helpers.skip_or_fail import not_here

from envbench.model import Run
from envbench.results import store
from envbench.results.joining import joined

slow = pytest.mark.slow
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture
def place(place: Place) -> Place:
    """Its runs warm up for 0.2 s: what these tests ask does not depend on the rate."""
    place.short = True
    return place


# ---------------------------------------------------------------- the disk


def mounted(place: Place, options: str, then: str = "") -> list[str]:
    """The command line of a shell with a small file system for the results. Only it sees the
    mount."""
    probe = ["unshare", "-m", "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        not_here("the right to make a mount namespace")
    place.results.mkdir()
    mount = f'mount -t tmpfs -o {options} none "{place.results}"'
    return ["unshare", "-m", "bash", "-c", f'{mount} && "$@"; code=$?; {then} exit $code', "-"]


def fill(path: Path) -> None:
    with path.open("wb", 0) as file:
        while True:
            file.write(bytes(4096))


@slow
@linux
def test_a_full_disk_keeps_what_was_stored_and_ends_with_a_clear_error(
    place: Place, faulty_python: Path
) -> None:
    kept = place.folder / "kept"
    shell = mounted(place, "size=256k", then=f'cp -r "{place.results}" "{kept}";')
    command = place.command("run", *loop(faulty_python), *THREE[:-1], 6)
    with subprocess.Popen(
        [*shell, *command],
        cwd=place.folder,
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        seen = Path(f"/proc/{process.pid}/root{place.results}")  # through its own mounts
        wait_until(
            lambda: any(BLOCK in file.read_text() for file in seen.glob("*/*.jsonl")),
            "a run on disk",
        )
        with pytest.raises(OSError, match="No space"):
            fill(seen / "filler")
        done = ended(process)
    assert done.code == 1
    assert "no space to write" in done.err
    assert "intact" in done.err
    assert "Traceback" not in done.err
    (file,) = kept.glob("*/*.jsonl")
    reading = store.read(file)
    assert reading.warnings == []
    runs = [record for record in joined(reading.records).records if isinstance(record, Run)]
    assert 1 <= len(runs) < 6
    assert all(run.failure is None for run in runs)


@linux
def test_read_only_results_are_refused_before_anything_is_measured(place: Place) -> None:
    words = mounted(place, "ro") + place.command("run", *NORMAL, "--backend", "for-loop", *SHORT)

    def begin() -> Done:
        done = subprocess.run(
            words, cwd=place.folder, env=place.environment(), capture_output=True, text=True
        )
        return Done(done.returncode, done.stdout, done.stderr)

    done = ended_within(10, begin)
    assert done.code == 1
    assert "cannot write results" in done.err
    assert "--results DIR" in done.err


def test_a_profile_folder_that_links_outside_the_results_is_refused(place: Place) -> None:
    outside = place.folder / "outside"
    outside.mkdir()
    place.results.mkdir()
    (place.results / "laptop").symlink_to(outside)
    words = ["run", *NORMAL, "--backend", "for-loop", *SHORT, "--machine", "laptop"]
    done = ended_within(10, lambda: place.run(*words))
    assert done.code == 2
    assert "is a link that leads to" in done.err
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("link", [True, False])
def test_a_verification_refuses_by_products_that_are_no_folder_of_its_own(
    place: Place, link: bool
) -> None:
    outside, folder = place.folder / "outside", place.results / "laptop"
    outside.mkdir()
    folder.mkdir(parents=True)
    if link:
        (folder / store.BY_PRODUCTS).symlink_to(outside)
    else:
        (folder / store.BY_PRODUCTS).touch()
    words = ["verify", "--env", "mujoco", "--backend", "for-loop", "--machine", "laptop"]
    done = ended_within(10, lambda: place.run(*words))
    assert (done.code, "by-products" in done.err) == (2 if link else 1, True), done.err
    assert ("Remove the link" if link else "Make it a folder") in done.err
    assert "Looking at what can run here" not in done.err
    assert list(outside.iterdir()) == place.files() == []


# ---------------------------------------------------------------- the file is changed


@slow
@linux
def test_a_results_file_that_is_deleted_while_measuring_ends_the_plan_at_once(
    place: Place, faulty_python: Path
) -> None:
    process = place.start("run", *loop(faulty_python), *THREE[:-1], 9)
    wait_until(lambda: place.finished(), "a run on disk")
    (path,) = place.files()
    path.unlink()
    done = ended(process)
    assert done.code == 1
    assert f"{path.relative_to(place.folder)} was deleted while envbench was writing" in done.err
    assert "Recorded in" not in done.err
    assert "Traceback" not in done.err
    assert place.files() == []
    assert place.processes() == []


# ---------------------------------------------------------------- two at once


@slow
def test_a_second_envbench_fails_naming_the_holder_or_waits(
    place: Place, faulty_python: Path
) -> None:
    words = [*loop(faulty_python), *SHORT]
    first = place.start("run", *words)
    note = place.lock.with_name(place.lock.name + ".holder")
    wait_until(lambda: note.exists() and note.read_text(), "the lock to be held")
    second = place.run("run", *words)
    assert second.code == 1
    assert f"another envbench is measuring on this machine: process {first.pid}" in second.err
    assert "--task faulty_envs:Normal-v0" in second.err
    assert "--wait" in second.err
    third = place.run("run", *words, "--wait")
    assert (ended(first).code, third.code) == (0, 0)
    assert f"Waiting for another envbench on this machine: process {first.pid}" in third.err
    before, after = sorted(place.runs(), key=lambda run: run.started_utc)
    assert before.plan_id != after.plan_id


@slow
def test_two_writers_to_one_results_folder_lose_no_line(place: Place, faulty_python: Path) -> None:
    both = [
        place.start(
            "run", *loop(faulty_python), *SHORT[2:-1], 2, "--numenv", numenv,
            env=place.environment(ENVBENCH_LOCK_FILE=f"{place.lock}{numenv}"),
        )
        for numenv in (1, 2)
    ]  # fmt: skip
    assert [ended(each).code for each in both] == [0, 0]
    assert len(place.files()) == 2
    rounds = {plan.plan_id: set[int]() for plan in place.plans()}
    for run in place.runs():
        rounds[run.plan_id].add(run.round)
    assert list(rounds.values()) == [{0, 1}, {0, 1}]
