"""What makes this machine noisy, and what to do about it: its settings, and its load for 3 s.

Linux reports everything; other systems only what psutil knows. Nothing is changed: the advice is
for a person. psutil has the CPU times, but not governors, boost, SMT or pressure, so these are
read from ``/sys`` and ``/proc``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envbench.machine.host import quota_cpus, text_of, throttled_periods

LOOK_S = 3.0
BUSY, STOLEN, WAITING = 5.0, 1.0, 5.0  # above these percentages of the time, a sign is noisy
SYS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, kw_only=True)
class Sign:
    """One source of noise. ``advice`` is empty where there is nothing to do."""

    name: str
    found: str
    state: Literal["good", "noisy", "unknown"]
    advice: str = ""


def signs() -> list[Sign]:
    """Look for every source of noise that can be seen without stepping, in three seconds."""
    return [governor(), turbo(), smt(), quota(), *load()]


def governor(system: Path = SYS) -> Sign:
    """Read the frequency governor. One that follows the load makes the first slices slow."""
    found = sorted({text_of(path) for path in system.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    if not found:
        return _unknown("governor", "not reported (on a virtual machine, the host sets it)")
    advice = "sudo cpupower frequency-set -g performance" if found != ["performance"] else ""
    return _known("governor", ", ".join(found), advice)


def turbo(system: Path = SYS) -> Sign:
    """Report boost clocks. They fall as the chip warms, so a run gets slower towards its end."""
    intel, others = text_of(system / "intel_pstate/no_turbo"), text_of(system / "cpufreq/boost")
    if intel == "" and others == "":
        return _unknown("turbo")
    if intel == "1" or others == "0":
        return _known("turbo", "off")
    knob, value = ("intel_pstate/no_turbo", 1) if intel else ("cpufreq/boost", 0)
    advice = f"echo {value} | sudo tee {system / knob}  (figures get lower, and steadier)"
    return _known("turbo", "on", advice)


def smt(system: Path = SYS, cpuinfo: Path = Path("/proc/cpuinfo")) -> Sign:
    """Report SMT: two threads of one core slow each other. A virtual machine cannot see its host's
    setting."""
    found = text_of(system / "smt/active")
    if found == "0" and " hypervisor" in text_of(cpuinfo):
        return _unknown("SMT", "off here; the host of this virtual machine may have it on")
    if found not in ("0", "1"):
        return _unknown("SMT")
    advice = f"echo off | sudo tee {system / 'smt/control'}, or use one thread per core (taskset)"
    return _known("SMT", "on", advice) if found == "1" else _known("SMT", "off")


def quota() -> Sign:
    """Read a container's CPU quota, which stops every process for the rest of each period."""
    cpus = quota_cpus()
    if cpus is None:
        return _known("CPU quota", "none")
    advice = "give the container whole CPUs of its own (cpuset) instead of a quota"
    return _known("CPU quota", f"{cpus:g} CPUs", advice)


def load(seconds: float = LOOK_S) -> list[Sign]:
    """Measure what else runs: the busy, stolen and waiting time while this process sleeps."""
    import psutil

    waited, throttled = _pressure_s(), throttled_periods()
    cpu = psutil.cpu_times_percent(seconds)
    waiting, throttling = _pressure_s(), throttled_periods()
    stolen = getattr(cpu, "steal", None)
    busy = 100 - cpu.idle - getattr(cpu, "iowait", 0.0) - (stolen or 0.0)
    waits = None if waited is None or waiting is None else 100 * (waiting - waited) / seconds
    return [
        _share("other load", busy, BUSY, "end other programs, or try later"),
        _share("steal", stolen, STOLEN, "other virtual machines take this share: use a dedicated "
               "host, or measure at another hour"),
        _throttling(throttled, throttling),
        _share("pressure", waits, WAITING, "tasks wait for a CPU: more are ready to run than there "
               "are CPUs"),
    ]  # fmt: skip


def _throttling(before: int | None, after: int | None) -> Sign:
    if before is None or after is None:
        return _unknown("throttling")
    count = after - before
    advice = "the CPU quota is used up: raise it, or end other programs under it" if count else ""
    return _known("throttling", f"in {count} quota periods within {LOOK_S:.0f} s", advice)


def _share(name: str, percent: float | None, limit: float, advice: str) -> Sign:
    if percent is None:
        return _unknown(name)
    found = f"{max(0.0, percent):.1f} % of {LOOK_S:.0f} s"
    return _known(name, found, advice if percent > limit else "")


def _known(name: str, found: str, advice: str = "") -> Sign:
    return Sign(name=name, found=found, state="noisy" if advice else "good", advice=advice)


def _unknown(name: str, found: str = "not reported") -> Sign:
    return Sign(name=name, found=found, state="unknown")


def _pressure_s() -> float | None:
    """For how long, since the start of the system, some task has waited for a CPU."""
    for line in text_of(Path("/proc/pressure/cpu")).splitlines():
        if line.startswith("some"):
            return int(line.rpartition("total=")[2]) / 1e6
    return None
