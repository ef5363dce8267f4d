"""The counters of energy: a powercap folder and an NVML of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envbench.model import Load


def zone(powercap: Path, folder: str, name: str, microjoules: int, largest: int = 10**9) -> Path:
    made = powercap / folder
    made.mkdir(parents=True)
    (made / "name").write_text(f"{name}\n")
    (made / "max_energy_range_uj").write_text(f"{largest}\n")
    (made / "energy_uj").write_text(f"{microjoules}\n")
    return made / "energy_uj"


def test_packages_and_their_memory_count_and_nothing_twice(worker: Any, tmp_path: Path) -> None:
    counted = [
        zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000),
        zone(tmp_path, "intel-rapl:0:1", "dram", 1_000_000),
        zone(tmp_path, "intel-rapl:1", "package-1", 0),
    ]
    others = [
        zone(tmp_path, "intel-rapl:0:0", "core", 0),
        zone(tmp_path, "intel-rapl:2", "psys", 0),
        zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0),
    ]
    energy = worker.energy.Energy(tmp_path)
    assert energy.read() == {"cpu_energy_j": 0.0}
    for path in (*counted, *others):
        path.write_text(str(int(path.read_text()) + 2_500_000))
    assert energy.read() == {"cpu_energy_j": 7.5}


def test_a_counter_that_begins_again_loses_nothing(worker: Any, tmp_path: Path) -> None:
    path = zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, largest=9_999_999)
    energy = worker.energy.Energy(tmp_path)
    path.write_text("1000000")
    assert energy.read() == {"cpu_energy_j": 2.0}
    path.write_text("9000000")
    assert energy.read() == {"cpu_energy_j": 10.0}


def test_a_counter_that_may_not_be_read_is_left_out(worker: Any, tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0).unlink()
    zone(tmp_path, "intel-rapl:1", "package-1", 0).write_text("")
    assert worker.energy.Energy(tmp_path).read() == {}
    assert worker.energy.Energy(tmp_path / "none").read() == {}


# ---------------------------------------------------------------- GPUs


class FakeNvml:
    """NVML with a counter in millijoules per GPU; None: it has no counter (code 3)."""

    def __init__(self, *millijoules: int | None) -> None:
        self.millijoules = millijoules

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.millijoules)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = index + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        known = self.millijoules[handle.value - 1]
        energy._obj.value = known or 0
        return 3 if known is None else 0


@pytest.mark.parametrize(
    ("millijoules", "joules"), [((1500, 500), 2.0), ((1500, None), None), ((), None)]
)
def test_the_energy_of_all_gpus_is_added_if_all_have_a_counter(
    worker: Any, millijoules: tuple[int | None, ...], joules: float | None
) -> None:
    assert worker.energy.Gpus(FakeNvml(*millijoules)).joules() == joules


def test_a_machine_without_nvidias_library_has_no_energy_of_gpus(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker.energy, "NVML", "libno-such-library.so.1")
    assert worker.energy.Energy(tmp_path, gpu=True).read() == {}


# ---------------------------------------------------------------- the load of a trial


@pytest.fixture
def counter(worker: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A counter of the machine, in joules: an attribute to set."""

    class Counter:
        joules = 0.0

        def read(self) -> dict[str, float]:
            return {"cpu_energy_j": self.joules}

    made = Counter()
    monkeypatch.setattr(worker.sensors, "Energy", lambda: made)
    return made


def test_only_the_energy_of_slices_of_steps_counts_if_workers_alternate(
    worker: Any, counter: Any
) -> None:
    sensors = worker.sensors.Sensors()
    sensors.per_slice = True
    sensors.begin()
    for _ in range(3):
        counter.joules += 100.0  # another worker steps
        sensors.window()
        counter.joules += 5.0
        sensors.window(True)
    counter.joules += 100.0
    assert Load(**sensors.load()).cpu_energy_j == 15.0


def test_windows_back_to_back_read_energy_only_before_and_after_all(
    worker: Any, counter: Any
) -> None:
    sensors = worker.sensors.Sensors()
    sensors.begin()
    counter.joules += 20.0
    sensors.window(True)
    assert "cpu_energy_j" not in sensors.window(True)
    assert Load(**sensors.load(0.5)).cpu_energy_j == 10.0


def test_a_system_without_counters_records_none(
    worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker.energy, "POWERCAP", tmp_path)
    monkeypatch.setattr(worker.sensors, "Energy", lambda: worker.energy.Energy(tmp_path))
    sensors = worker.sensors.Sensors()
    sensors.begin()
    load = Load(**sensors.load())
    assert (load.cpu_energy_j, load.gpu_energy_j) == (None, None)
