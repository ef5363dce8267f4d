"""``envbench doctor``: signs read where the system keeps them, and a real look at the noise."""

from __future__ import annotations

from pathlib import Path

import pytest
from place import Place

from envbench.machine import disturbance


def system(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("files", "states"),
    [
        ({}, ["unknown", "unknown", "unknown"]),
        (
            {"cpu0/cpufreq/scaling_governor": "performance", "intel_pstate/no_turbo": "1",
             "smt/active": "0"},
            ["good", "good", "good"],
        ),
        (
            {"cpu0/cpufreq/scaling_governor": "performance",
             "cpu1/cpufreq/scaling_governor": "powersave", "intel_pstate/no_turbo": "0",
             "smt/active": "1"},
            ["noisy", "noisy", "noisy"],
        ),
        ({"cpufreq/boost": "1"}, ["unknown", "noisy", "unknown"]),
        ({"cpufreq/boost": "0"}, ["unknown", "good", "unknown"]),
    ],
)  # fmt: skip
def test_settings_are_read_and_what_is_noisy_has_advice(
    tmp_path: Path, files: dict[str, str], states: list[str]
) -> None:
    folder = system(tmp_path, files)
    found = [
        disturbance.governor(folder),
        disturbance.turbo(folder),
        disturbance.smt(folder, folder / "cpuinfo"),
    ]
    assert [sign.state for sign in found] == states
    assert all(bool(sign.advice) == (sign.state == "noisy") for sign in found)


def test_the_load_is_looked_at_while_we_sleep() -> None:
    found = {sign.name: sign for sign in disturbance.load(0.2)}
    assert set(found) == {"other load", "steal", "throttling", "pressure"}
    assert all(
        "%" in sign.found or "periods" in sign.found or sign.state == "unknown"
        for sign in found.values()
    )


@pytest.mark.slow
def test_it_says_what_a_check_can_see_here(place: Place) -> None:
    done = place.run("doctor", "--json")
    assert done.code == 0, done.err
    assert [sign["name"] for sign in done.document["signs"]] == [
        "governor", "turbo", "SMT", "CPU quota", "other load", "steal", "throttling",
        "pressure",
    ]  # fmt: skip
    assert done.document["pairs"] == 6
    assert 0 < done.document["spread"] < 1
    low, high = done.document["spread_interval"]
    assert low < done.document["spread"] < high
    least, most = done.document["detectable_interval"]
    assert 0.01 < least < done.document["detectable"] < most < 1
    assert place.processes() == []


def test_a_virtual_machine_is_not_told_of_its_hosts_threads(tmp_path: Path) -> None:
    (tmp_path / "smt").mkdir()
    (tmp_path / "smt" / "active").write_text("0\n")
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu hypervisor lahf_lm\n")
    assert disturbance.smt(tmp_path, tmp_path / "cpuinfo").state == "unknown"
