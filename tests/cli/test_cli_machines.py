"""``envbench machines``, ``detect`` and ``init``, as they are typed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from helpers.command_line import ROOT
from helpers.record_factories import make_cell, make_fact, make_plan, new_results_file, write

from envbench import cli
from envbench.cli.machines import machines
from envbench.errors import EnvbenchError
from envbench.machine import (
    Match,
    catalogue,
    fingerprint,
    profile,
    profile_for_host,
    write_profile,
)
from envbench.machine.known_profiles import default_ladder
from envbench.model import digest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_profile_fits() -> None:
    """Hide the shipped profiles of the machine that runs the tests, if there are any."""
    while fitting := catalogue().matching(fingerprint()):
        write_profile(msgspec.structs.replace(fitting, match=Match()), Path("machines"))


def call(*arguments: str) -> Result:
    result = CliRunner().invoke(machines, arguments)
    if isinstance(result.exception, EnvbenchError):
        raise result.exception
    return result


def document(*arguments: str) -> Any:
    result = call(*arguments)
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.mark.usefixtures("no_profile_fits")
def test_the_list_shows_each_profile_on_a_line_with_its_ladder() -> None:
    result = call()
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if " laptop " in line]
    assert "Laptop" in line
    assert "12 core Intel(R) Core(TM) i7-8750H CPU @ 2.20GHz" in line
    assert "1,2,3,4,6,8,10,12" in line
    assert line.endswith("envbench")
    assert "envbench machines init NAME" in result.stderr


@pytest.mark.usefixtures("no_profile_fits")
def test_the_json_list_has_every_field_of_a_profile() -> None:
    listed = document("--json")
    assert listed["this_machine"] is None
    assert listed["warnings"] == []
    names = [entry["name"] for entry in listed["machines"]]
    assert names == sorted(path.stem for path in (ROOT / "machines").glob("*.toml"))
    laptop = listed["machines"][names.index("laptop")]
    tables = laptop.pop("tables")
    assert tables["atari"]["numenv"] == [1, 2, 3, 4, 6, 8, 10, 12]
    assert laptop == {
        "name": "laptop",
        "title": "Laptop",
        "hardware": "12 core Intel(R) Core(TM) i7-8750H CPU @ 2.20GHz",
        "match": {
            "cpu": "Intel(R) Core(TM) i7-8750H CPU @ 2.20GHz",
            "cores": 12,
            "usable": None,
            "gpu": None,
            "host": None,
        },
        "fits": False,
        "source": "shipped",
        "path": str(ROOT / "machines" / "laptop.toml"),
    }


def test_a_broken_profile_is_a_warning_and_the_others_are_listed() -> None:
    Path("machines").mkdir()
    Path("machines/bad.toml").write_text('title = "\\u001b[31m"\n')
    result = call()
    assert result.exit_code == 0
    assert " laptop " in result.stdout
    assert "bad.toml" in result.stderr
    assert "\x1b" not in result.output
    assert "bad.toml" in call("detect").stderr
    plan = CliRunner().invoke(
        cli.envbench, ["run", "--env", "gym", "--task", "CartPole-v1", "--plan"]
    )
    assert "bad.toml" in plan.stderr


@pytest.mark.usefixtures("no_profile_fits")
def test_detect_prints_the_fingerprint_and_the_name_that_runs_are_kept_under() -> None:
    host = profile_for_host(fingerprint())
    result = call("detect")
    assert fingerprint().cpu in result.stdout
    assert f"results go to the profile {host.name}" in result.stdout
    found = document("detect", "--json")
    assert found["fingerprint"]["cpu"] == fingerprint().cpu
    assert found["profile"] is None
    assert found["run_as"] == host.name
    assert document("--json", "detect") == found


def test_init_writes_a_profile_that_fits_this_machine() -> None:
    result = call("init", "mine", "--title", "My machine")
    assert result.stdout == f"{Path('machines') / 'mine.toml'}\n"
    assert "Next: envbench run" in result.stderr
    made = profile("mine")
    assert made.title == "My machine"
    assert made.fits(fingerprint())
    assert made.atari is not None
    assert made.atari.numenv == default_ladder(fingerprint().usable_cpus)
    assert document("detect", "--json")["profile"] == "mine"
    assert document("--json")["this_machine"] == "mine"
    assert "*   mine" in call().stdout


def test_init_like_another_takes_its_ladders_and_rows() -> None:
    call("init", "mine", "--like", "tpu-vm")
    made, other = profile("mine"), profile("tpu-vm")
    assert (made.atari, made.mujoco) == (other.atari, other.mujoco)
    assert made.title == profile_for_host(fingerprint()).title
    assert made.match != other.match


def test_init_does_not_write_over_a_profile_unless_forced() -> None:
    call("init", "mine")
    with pytest.raises(EnvbenchError, match="exists already") as caught:
        call("init", "mine", "--title", "Other")
    assert caught.value.exit_code == 2
    call("init", "mine", "--title", "Other", "--force")
    assert profile("mine").title == "Other"


def test_init_makes_the_new_profile_the_default_of_this_computer() -> None:
    for number, name in enumerate(("b", "a", "c"), 1):
        made = Path(call("init", name, "--title", name).stdout.strip())
        os.utime(made, (number, number))
        assert document("detect", "--json")["run_as"] == name
    assert profile("a").match.host == fingerprint().host


def of_another_host(machine: str) -> None:
    """A run of a computer of this hardware, which an older version has recorded."""
    here = fingerprint().hardware
    plan = make_plan([make_cell(machine=machine)], fingerprint=digest(here))
    write(new_results_file(Path("results"), machine, "2025"), [make_fact(here), plan])


def test_init_refuses_a_name_with_results_of_another_host() -> None:
    of_another_host("mine")
    with pytest.raises(EnvbenchError, match="of another computer") as caught:
        call("init", "mine")
    assert caught.value.exit_code == 2
    assert not Path("machines").exists()


def test_detect_says_which_profile_is_used_where_the_fitting_one_is_of_another_host() -> None:
    call("init", "mine")
    of_another_host("mine")
    name = f"mine-{fingerprint().host[:4]}"
    assert f"fits; results go to the profile {name}" in call("detect").stdout
    found = document("detect", "--json")
    assert (found["profile"], found["run_as"]) == ("mine", name)


@pytest.mark.parametrize("name", ["../../x", "CON", "a\0", "x" * 5000, "/tmp/x"])
def test_init_writes_nothing_outside_its_folder(name: str) -> None:
    with pytest.raises(EnvbenchError, match="cannot name a machine profile") as caught:
        call("init", name)
    assert caught.value.exit_code == 2
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("title", ["<script>", "a--b", "a|b", "a\nb", "\x1b[31m", "", "x" * 81])
def test_init_refuses_a_title_that_cannot_head_a_table(title: str) -> None:
    result = CliRunner().invoke(machines, ["init", "mine", "--title", title])
    assert result.exit_code == 2 or getattr(result.exception, "exit_code", None) == 2
    assert "title" in f"{result.stderr} {result.exception}"
    assert not Path("machines/mine.toml").exists()


def test_init_refuses_the_title_of_another_profile() -> None:
    with pytest.raises(EnvbenchError, match="'laptop'") as caught:
        call("init", "mine", "--title", "Laptop")
    assert "--title" in caught.value.hint


def test_init_like_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(EnvbenchError, match="'laptop'"):
        call("init", "mine", "--like", "labtop")
    assert list(Path().iterdir()) == []


def test_profile_names_complete_in_the_shell() -> None:
    shell = ShellComplete(machines, {}, "machines", "_COMPLETE")
    found = shell.get_completions(["init", "mine", "--like"], "la")
    assert [item.value for item in found] == ["laptop"]


def test_init_refuses_the_name_of_a_shipped_profile(tmp_path: Path) -> None:
    with pytest.raises(EnvbenchError, match="ships with envbench"):
        call("init", "laptop", "--title", "My laptop")
    assert not (tmp_path / "machines").exists()


def test_completing_after_a_mistyped_command_says_nothing() -> None:
    shell = ShellComplete(cli.envbench, {}, "envbench", "_ENVBENCH_COMPLETE")
    found = shell.get_completions(["rnu", "--backend"], "")  # it raises nothing
    assert {item.value for item in found} <= {*cli.COMMANDS}
