"""Results of two computers of the same hardware are never mixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click.testing
import msgspec
import pytest
from helpers.pair_factories import pairs_plan
from helpers.record_factories import add_record, make_cell, make_fact, new_results_file, write
from helpers.virtual_executor import SPEED, VirtualExecutor, fake, files, invoke

from envbench.backends import Backend
from envbench.engine.resume import has_other_hosts
from envbench.machine import fingerprint, host
from envbench.machine.profile_file import read_profile
from envbench.model import MachineFact, digest
from envbench.results import store

RUN = ("run", "--env", "gym", "--task", "My-v0", "--numenv", "2", "--repeats", "1")
VERIFY = ("verify", "--env", "gym", "--task", "My-v0", "--numenv", "2")
PROFILE = """
title = "Mine"
[gym]
numenv = [2]
rows = ["fake-slow"]
[match]
cores = CORES
"""


@pytest.fixture(autouse=True)
def model(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    register: Callable[[dict[str, Backend]], None],
) -> None:
    """A profile for every computer with as many CPUs as this one."""
    register({name: fake(name) for name in ("for-loop", *SPEED)})
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    found = fingerprint()
    text = PROFILE.replace("CORES", f"{found.logical_cpus}\nusable = {found.usable_cpus}")
    Path("machines").mkdir()
    Path("machines/mine.toml").write_text(text)


def on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From now on this is another computer of the same hardware."""
    monkeypatch.setattr(host, "host_id", lambda: name)


def call(*words: str) -> click.testing.Result:
    return invoke(VirtualExecutor(), *words)


def machines() -> list[str]:
    return [path.parent.name for path in files()]


def without_hosts(path: Path) -> None:
    """Make it a file that an older version wrote."""
    records = [record for _, record in store.read(path).records]
    path.unlink()
    for each in records:
        if isinstance(each, MachineFact):
            each = msgspec.structs.replace(each, fingerprint=each.fingerprint.hardware)
        add_record(path, each)


def test_a_run_on_a_twin_has_a_name_of_its_own_and_leaves_the_other_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on(monkeypatch, "aaaaaaaaaaaa")
    assert call(*RUN).exit_code == 0
    (theirs,) = files()
    before = theirs.read_bytes()
    on(monkeypatch, "bbbbbbbbbbbb")
    done = call(*RUN)
    assert done.exit_code == 0
    assert (
        "The results in results/mine are of another computer, or of an unknown one, so results of "
        "this computer go to results/mine-bbbb. Its profile is machines/mine-bbbb.toml"
    ) in done.stderr
    assert machines() == ["mine", "mine-bbbb"]
    assert theirs.read_bytes() == before
    assert read_profile(Path("machines/mine-bbbb.toml")).match.host == "bbbbbbbbbbbb"
    again = call(*RUN)
    assert "Its profile is" not in again.stderr
    assert machines() == ["mine", "mine-bbbb", "mine-bbbb"]
    assert call("report").exit_code == 0
    page = Path("results/README.md").read_text()
    assert "<!-- Gym My-v0 - Mine -->" in page
    assert "<!-- Gym My-v0 - Mine, host bbbb -->" in page
    on(monkeypatch, "aaaaaaaaaaaa")
    call(*RUN)
    assert machines().count("mine") == 2


def test_results_of_an_unknown_host_are_those_of_another_one() -> None:
    assert call(*RUN).exit_code == 0
    assert not has_other_hosts(Path("results"), "mine", fingerprint())
    without_hosts(*files())
    assert has_other_hosts(Path("results"), "mine", fingerprint())
    assert call(*RUN).exit_code == 0
    assert machines() == ["mine", f"mine-{fingerprint().host[:4]}"]


def test_a_verification_on_a_twin_does_not_replace_a_badge(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "aaaaaaaaaaaa")
    assert call(*VERIFY).exit_code == 0
    on(monkeypatch, "bbbbbbbbbbbb")
    assert call(*VERIFY).exit_code == 0
    assert machines() == ["mine", "mine-bbbb"]


@pytest.mark.parametrize("command", [RUN, VERIFY])
def test_a_named_folder_of_another_host_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    on(monkeypatch, "aaaaaaaaaaaa")
    call(*RUN)
    on(monkeypatch, "bbbbbbbbbbbb")
    executor = VirtualExecutor()
    done = invoke(executor, *command, "--machine", "mine")
    assert done.exit_code == 2
    assert "the results of 'mine' are of another computer" in done.stderr
    assert (executor.blocks, machines()) == ([], ["mine"])
    assert invoke(executor, *command, "--machine", "mine", "--results", "elsewhere").exit_code == 0


def test_checks_by_other_hosts_do_not_make_a_folder_theirs() -> None:
    call(*RUN)
    other = msgspec.structs.replace(fingerprint(), host="aaaaaaaaaaaa")
    checked = pairs_plan([make_cell(machine="mine")], fingerprint=digest(other))
    write(new_results_file(Path("results"), "mine", "2025"), [make_fact(other), checked])
    assert not has_other_hosts(Path("results"), "mine", fingerprint())
