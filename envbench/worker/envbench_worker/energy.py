"""Energy counters of the system: of processors and their memory (RAPL), and of GPUs (NVML).

They count everything that the machine does, also idling and other programs. A counter that does not
exist or may not be read is left out. Linux lets only root read RAPL unless an administrator changes
that.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Dict, List, Optional

POWERCAP = Path("/sys/class/powercap")
NVML = "libnvidia-ml.so.1"


class Energy:
    """Joules since it was made. ``gpu``: whether to read GPUs, too."""

    def __init__(self, powercap: Path = POWERCAP, gpu: bool = False) -> None:
        self.zones = [zone for zone in map(Zone, sorted(powercap.glob("*"))) if zone.counts]
        self.gpus = Gpus.found() if gpu else None

    def read(self) -> Dict[str, float]:
        """Read all counters: ``cpu_energy_j`` and ``gpu_energy_j``, as far as there are any."""
        found: Dict[str, float] = {}
        if self.zones:
            found["cpu_energy_j"] = sum(zone.joules() for zone in self.zones)
        joules = self.gpus.joules() if self.gpus else None
        if joules is not None:
            found["gpu_energy_j"] = joules
        return found


class Zone:
    """A zone of powercap: a folder with ``name``, ``energy_uj`` and ``max_energy_range_uj``.

    Only packages and their memory (dram) count: a zone ``core`` is a part of its package, and
    ``psys`` contains all. ``intel-rapl-mmio`` repeats the packages.
    Source: https://docs.kernel.org/power/powercap/powercap.html
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.total = 0
        self.last = self._number("energy_uj")
        self.range = self._number("max_energy_range_uj")
        name = _text(folder / "name")
        is_part = name.startswith("package") or name == "dram"
        self.counts = is_part and self.last is not None and "mmio" not in folder.name

    def joules(self) -> float:
        """Since it was made. The counter begins again at 0 after its largest value."""
        now, before = self._number("energy_uj"), self.last
        if now is not None and before is not None:
            self.total += now - before + ((self.range or 0) + 1 if now < before else 0)
            self.last = now
        return self.total / 1e6

    def _number(self, name: str) -> Optional[int]:
        text = _text(self.folder / name)
        return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        with open(str(path), "rb", buffering=0) as file:
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


class Gpus:
    """The GPUs of NVIDIA's library that have an energy counter (since Volta).

    Source: https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        self.handles: List[Any] = []
        count = ctypes.c_uint()
        if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            for index in range(count.value):
                handle = ctypes.c_void_p()
                if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                    self.handles.append(handle)

    @classmethod
    def found(cls) -> Optional[Gpus]:
        """The machine's GPUs; None without the library or a counter."""
        try:
            gpus = cls(ctypes.CDLL(NVML))
            return None if gpus.joules() is None else gpus
        except (OSError, AttributeError):  # of an old driver, too
            return None

    def joules(self) -> Optional[float]:
        """Of all GPUs, since the driver was loaded; None if one of them has no counter."""
        total = 0
        for handle in self.handles:
            millijoules = ctypes.c_ulonglong()
            reads = self.library.nvmlDeviceGetTotalEnergyConsumption
            if reads(handle, ctypes.byref(millijoules)) != 0:
                return None
            total += millijoules.value
        return total / 1000 if self.handles else None
