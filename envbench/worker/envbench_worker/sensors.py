"""The cores that may be used, and the system's own counters: steal, throttling, pressure, suspend,
CPU time, memory.

A reader returns ``None`` (or leaves its key out) if this system has no such counter. Linux has all
of them; other systems have hardly any.

The controller has its own reader of control groups (``envbench.machine.host``). The worker cannot
use it: the worker runs alone in another Python, with the standard library only.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from envbench_worker.energy import Energy

PROC = Path("/proc")


def _read(path: Any) -> str:
    try:
        with open(str(path), "rb", buffering=0) as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def usable_cores() -> List[int]:
    """Return the logical CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def refuse_cores(first: int, count: int) -> None:
    """``ValueError`` if ``count`` threads, bound to cores from ``first`` on, would use a core that
    this process may not use. Below 0, threads are not bound."""
    every = os.cpu_count() or 1
    wanted = (
        {(first + index) % every for index in range(min(count, every))} if first >= 0 else set()
    )
    if outside := sorted(wanted - set(usable_cores())):
        raise ValueError("affinity {}: this process may not use core {}".format(first, outside[0]))


def machine_cpu(cores: Sequence[int] = ()) -> Optional[Dict[str, float]]:
    """CPU seconds since boot of some cores, or of the whole machine: busy, steal and all."""
    names = [b"cpu%d" % core for core in cores] or [b"cpu"]
    try:
        with open("/proc/stat", "rb", buffering=0) as file:
            lines = file.read(512 + 128 * max(cores, default=0)).split(b"\n")
    except OSError:
        return None
    rows = [words[1:9] for words in map(bytes.split, lines) if words and words[0] in names]
    if len(rows) < len(names) or min(map(len, rows)) < 8:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    sums = [sum(map(int, column)) / tick for column in zip(*rows)]
    user, nice, system, idle, iowait, irq, softirq, steal = sums
    busy = user + nice + system + irq + softirq
    return {"busy": busy, "steal": steal, "all": busy + idle + iowait + steal}


def throttling() -> Optional[Dict[str, float]]:
    """Periods in which a quota stopped this process or a group above it, and the seconds lost."""
    if not _stat_paths:
        _stat_paths.extend(p for p in group_files("cpu", "cpu.stat", "cpu.stat") if _read(p))
    found = None
    for path in _stat_paths:
        pairs = dict(line.split() for line in _read(path).splitlines() if line.count(" ") == 1)
        if "nr_throttled" in pairs:
            found = found or {"periods": 0, "seconds": 0.0}
            found["periods"] += int(pairs["nr_throttled"])
            found["seconds"] += int(pairs.get("throttled_usec", 0)) / 1e6
            found["seconds"] += int(pairs.get("throttled_time", 0)) / 1e9
    return found


_stat_paths: List[str] = []  # found once, because they are read at every window


def group_files(controller: str, v2: str, v1: str) -> List[str]:
    """Paths of a control file in this process's control groups. ``v2`` and ``v1`` are its names.

    The group's own folder comes first, then those above it up to the root. A quota of any of them
    applies, and a container often sees only the root.
    """
    found: List[str] = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            base, name = "/sys/fs/cgroup", v2
        elif controller in controllers.split(","):
            base, name = "/sys/fs/cgroup/" + controller, v1
        else:
            continue
        parts = [part for part in group.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            found.append("/".join([base] + parts[:depth] + [name]))
    return found


def pressure() -> Optional[float]:
    """Seconds in which some task waited for a CPU (PSI), since boot."""
    for line in _read("/proc/pressure/cpu").splitlines():
        if line.startswith("some"):
            return int(line.rsplit("total=", 1)[1]) / 1e6
    return None


def suspended_ns() -> int:
    """Boot time minus monotonic time. It grows only while the machine sleeps."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def process_tree(pid: int) -> List[int]:
    """Return this process and all its living descendants."""
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        for task in (PROC / str(current) / "task").glob("*"):
            queue.extend(int(child) for child in _read(task / "children").split())
    return found


def tree_usage(pid: int) -> Dict[str, float]:
    """CPU seconds and context switches of a process tree; empty where unknown."""
    cpu, switches, seen = 0.0, {"voluntary": 0, "nonvoluntary": 0}, False
    for member in process_tree(pid):
        stat = _read(PROC / str(member) / "stat").rpartition(")")[2].split()
        if len(stat) > 14:
            seen = True
            cpu += sum(int(stat[i]) for i in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")
        for task in (PROC / str(member) / "task").glob("*"):
            for line in _read(task / "status").splitlines():
                kind, found, count = line.partition("_ctxt_switches:")
                if found:
                    switches[kind] += int(count)
    return {"cpu_s": cpu, **switches} if seen else {}


def tree_peak_memory(pid: int) -> Optional[int]:
    """Sum of the peak resident bytes (VmHWM) of a tree's processes. Each counts shared pages."""
    total = 0
    for member in process_tree(pid):
        for line in _read(PROC / str(member) / "status").splitlines():
            if line.startswith("VmHWM"):
                total += int(line.split()[1]) * 1024
    return total or None


class Sensors:
    """Reads the outside signals of a window, and the load of a series of windows.

    Where this process may not use all cores, those of the others do not count. ``per_slice``:
    energy is read before and after each slice, because other workers step in between. Otherwise
    windows are back to back, and it is read only before and after all of them.
    """

    def __init__(self) -> None:
        cores = usable_cores()
        self._cores = cores if len(cores) < (os.cpu_count() or 1) else []
        self.energy = Energy()
        self.per_slice = False
        self._window = _outside(self._cores)
        self._begun: Dict[str, float] = {}
        self._measured: Dict[str, float] = {}  # the growth over all measured windows

    def window(self, measured: bool = False) -> Dict[str, float]:
        """Read what changed since the last call: suspended_ns, throttled_periods, steal_share, …"""
        before, self._window = self._window, _outside(self._cores)
        if self.per_slice:
            self._window.update(self.energy.read())
        grown = _grown(before, self._window)
        if measured:
            self._measured = {k: self._measured.get(k, 0) + grown[k] for k in grown}
        if "all" in grown:
            grown["steal_share"] = grown["steal"] / grown["all"] if grown["all"] > 0 else 0.0
        return grown

    def begin(self) -> None:
        """Begin the interval that ``load`` reports on."""
        self._begun, self._measured = self._everything(), {}

    def leave_out(self, work: Callable[[], None]) -> None:
        """Do some work that ``load`` does not report on."""
        before = self._everything()
        work()
        for name, grown in _grown(before, self._everything()).items():
            if name in self._begun:
                self._begun[name] += grown

    def load(self, share: float = 1.0) -> Dict[str, Any]:
        """Return the ``envbench.model.Load`` of the measured windows since ``begin``.

        ``share``: how much of the worker's own work since then was measured. The rest are lead-ins,
        which do the same work. While other workers step, this one is stopped and uses nothing.
        """
        own = _grown(self._begun, self._everything())
        own = {name: type(each)(each * share) for name, each in own.items()}
        grown = {name: max(each, 0) for name, each in {**own, **self._measured}.items()}
        cpu, busy = grown.get("cpu_s"), grown.get("busy")
        return {
            "cpu_s": cpu,
            "other_cpu_s": None if cpu is None or busy is None else max(busy - cpu, 0.0),
            "steal_s": grown.get("steal"),
            "throttled_s": grown.get("throttled_seconds"),
            "throttled_periods": grown.get("throttled_periods"),
            "pressure_s": grown.get("pressure_s"),
            "switches_voluntary": grown.get("voluntary"),
            "switches_involuntary": grown.get("nonvoluntary"),
            "cpu_energy_j": grown.get("cpu_energy_j"),
            "gpu_energy_j": grown.get("gpu_energy_j"),
        }

    def _everything(self) -> Dict[str, float]:
        found = {**_outside(self._cores), **tree_usage(os.getpid())}
        waited = None if self.per_slice else pressure()  # other workers wait, too
        found.update(self.energy.read())
        return found if waited is None else {**found, "pressure_s": waited}


def _outside(cores: Sequence[int]) -> Dict[str, float]:
    """The counters that can make a window invalid, as far as this system has them."""
    found = {"suspended_ns": suspended_ns(), **(machine_cpu(cores) or {})}
    for name, value in (throttling() or {}).items():
        found["throttled_" + name] = value
    return found


def _grown(before: Dict[str, float], now: Dict[str, float]) -> Dict[str, float]:
    return {name: value - before[name] for name, value in now.items() if name in before}


def before() -> Dict[str, Any]:
    """Describe the machine just before a run, to help explain its figure later."""
    known = {
        "cpu_pressure": _read("/proc/pressure/cpu").split("\n")[0] or None,
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None,
        "steal_s_since_boot": (machine_cpu() or {}).get("steal"),
        "cpu_quota": _limits(group_files("cpu", "cpu.max", "cpu.cfs_quota_us")),
        "memory_limit": _limits(group_files("memory", "memory.max", "memory.limit_in_bytes")),
    }
    return {key: value for key, value in known.items() if value is not None}


def _limits(paths: List[str]) -> Optional[List[str]]:
    """The contents of these files, in order; None if all are missing or empty."""
    texts = [_read(path).strip() for path in paths]
    return [text for text in texts if text] or None


def load_average() -> Optional[float]:
    """Return the average over 1 minute; None if the system has none."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
