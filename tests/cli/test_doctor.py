"""``envbench doctor``: signs read where the system keeps them, and a real look at the noise."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.command_line import Place, ended
from helpers.pair_factories import CELLS, make_pair, make_trial, pairs_plan
from helpers.short_measurements import start_short_pairs

from envbench.engine.resume import Recorded, paused_too_long
from envbench.experiments.noise import NoiseExperiment
from envbench.machine import disturbance
from envbench.model import BlockRecord
from envbench.results import store


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
def test_a_noisy_setting_of_the_system_has_advice(
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


@pytest.mark.parametrize(
    ("shares", "busy", "steal"),
    [
        ({"idle": 85.0, "iowait": 10.0, "steal": 4.5}, ("0.5", "good"), ("4.5", "noisy")),
        ({"idle": 60.0, "iowait": 10.0, "steal": 0.0}, ("30.0", "noisy"), ("0.0", "good")),
        ({"idle": 60.0}, ("40.0", "noisy"), None),  # not on every system
    ],
)
def test_the_load_is_measured_while_envbench_sleeps(
    monkeypatch: pytest.MonkeyPatch,
    shares: dict[str, float],
    busy: tuple[str, str],
    steal: tuple[str, str] | None,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(
        "psutil.cpu_times_percent",
        lambda seconds: slept.append(seconds) or SimpleNamespace(**shares),
    )
    found = {sign.name: (sign.found, sign.state) for sign in disturbance.load()}
    assert slept == [disturbance.LOOK_S]
    assert list(found) == ["other load", "steal", "throttling", "pressure"]
    of = f"% of {disturbance.LOOK_S:.0f} s"
    assert found["other load"] == (f"{busy[0]} {of}", busy[1])
    known = (f"{steal[0]} {of}", steal[1]) if steal else ("not reported", "unknown")
    assert found["steal"] == known


def test_doctor_help_says_where_the_records_are(place: Place) -> None:
    said = " ".join(place.run("doctor", "--help").out.split())
    assert "$ENVBENCH_CACHE/doctor" in said
    assert "`envbench plans --results ~/.cache/envbench/doctor` lists them" in said


def test_doctor_names_the_variable_that_moves_its_records(place: Place) -> None:
    done = place.run("doctor", env=place.environment(ENVBENCH_CACHE="/dev/null/x"))
    assert done.code == 1
    assert "cannot write results to /dev/null/x/doctor" in done.err
    assert "Set ENVBENCH_CACHE to a folder that you can write to" in done.err
    assert "--results" not in done.err


def records(cache: Path) -> list[BlockRecord]:
    read = [store.read(path) for path in store.files(cache / "doctor")]
    every = [record for reading in read for _, record in reading.records]
    return [each for each in every if isinstance(each, BlockRecord) and not each.interrupted]


def blocks_of(cache: Path) -> list[int]:
    return [each.round for each in records(cache)]


@pytest.mark.slow
def test_doctor_resumes_within_ten_minutes_and_says_what_a_check_can_find_here(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("ENVBENCH_CACHE", str(cache))
    stopped = start_short_pairs(place, "doctor", "--json")
    assert stopped.stderr is not None
    for line in stopped.stderr:
        if "[2/6]" in line:
            break
    stopped.send_signal(signal.SIGINT)
    said = stopped.communicate(timeout=60)[1]
    assert stopped.returncode == 130
    assert "The same command resumes from here within 10 minutes" in said
    before = blocks_of(cache)
    assert before[:2] == [0, 1]
    resumed = ended(start_short_pairs(place, "doctor", "--json"))
    assert resumed.code == 0, resumed.err
    assert "Resuming" in resumed.err
    assert blocks_of(cache) == [*range(6)]
    document = resumed.document
    assert [sign["name"] for sign in document["signs"]] == [
        "governor", "turbo", "SMT", "CPU quota", "other load", "steal", "throttling",
        "pressure",
    ]  # fmt: skip
    assert document["pairs"] == 6
    assert 0 < document["spread"] < 1
    low, high = document["spread_interval"]
    assert low < document["spread"] < high
    least, most = document["detectable_interval"]
    assert 0.01 < least < document["detectable"] < most < 1
    assert place.processes() == []
    assert not place.results.exists()


def test_doctor_begins_anew_after_ten_minutes() -> None:
    plan = pairs_plan(CELLS[:1], pairs=6, experiment="noise")
    done = [make_pair(make_trial("a"), make_trial("b"), started_utc=stamp(seconds_ago=700))]
    old = Recorded(path=Path("x"), plan=plan, done=done)
    assert NoiseExperiment().longest_pause_s == 600
    assert paused_too_long(old, 600.0) == ["the time: it was paused for over 10 minutes"]
    assert paused_too_long(old, 3600.0) == []
    assert paused_too_long(old, None) == []


def stamp(seconds_ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat()


def test_a_virtual_machine_has_no_advice_about_the_threads_of_its_host(tmp_path: Path) -> None:
    (tmp_path / "smt").mkdir()
    (tmp_path / "smt" / "active").write_text("0\n")
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu hypervisor lahf_lm\n")
    assert disturbance.smt(tmp_path, tmp_path / "cpuinfo").state == "unknown"
