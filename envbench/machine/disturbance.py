"""What makes this machine noisy, and what to do about each: settings, and a few seconds' look.

Linux tells all of it; elsewhere only what ``psutil`` knows. Nothing is changed: a person does that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envbench.machine.probe import quota_cpus, throttled_periods

LOOK_S = 3.0
BUSY, STOLEN, WAITING = 0.05, 0.01, 0.05  # shares of the machine's time that are worth a word
SYS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, kw_only=True)
class Sign:
    """One thing that was looked at. ``advice`` is empty where there is nothing to do."""

    name: str
    found: str
    state: Literal["good", "noisy", "unknown"]
    advice: str = ""


def signs(system: Path = SYS) -> list[Sign]:
    """Everything that can be known without measuring, and a look at the load of three seconds."""
    return [governor(system), turbo(system), smt(system), quota(), *load()]


def governor(system: Path = SYS) -> Sign:
    """The clock's policy: one that follows the load makes the first windows slow."""
    found = sorted({_text(path) for path in system.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    if not found:
        return Sign(name="governor", found="not told (a virtual machine's host has it)",
                    state="unknown")  # fmt: skip
    if found == ["performance"]:
        return Sign(name="governor", found="performance", state="good")
    return Sign(
        name="governor",
        found=", ".join(found),
        state="noisy",
        advice="sudo cpupower frequency-set -g performance",
    )


def turbo(system: Path = SYS) -> Sign:
    """Boost clocks fall as the chip warms: the second half of a run is slower than the first."""
    intel, others = _text(system / "intel_pstate/no_turbo"), _text(system / "cpufreq/boost")
    if intel == "" and others == "":
        return Sign(name="turbo", found="not told", state="unknown")
    if intel == "1" or others == "0":
        return Sign(name="turbo", found="off", state="good")
    knob = "intel_pstate/no_turbo" if intel else "cpufreq/boost"
    value = "1" if intel else "0"
    return Sign(
        name="turbo",
        found="on",
        state="noisy",
        advice=f"echo {value} | sudo tee {system / knob}  (figures are lower, and steadier)",
    )


def smt(system: Path = SYS, cpuinfo: Path = Path("/proc/cpuinfo")) -> Sign:
    """Two threads of one core take from each other. A virtual machine is not told of its host's."""
    found = _text(system / "smt/active")
    if found not in ("0", "1"):
        return Sign(name="SMT", found="not told", state="unknown")
    if found == "0" and " hypervisor" in _text(cpuinfo):
        return Sign(name="SMT", found="off here; of its host a virtual machine is not told",
                    state="unknown")  # fmt: skip
    if found == "0":
        return Sign(name="SMT", found="off", state="good")
    return Sign(
        name="SMT",
        found="on",
        state="noisy",
        advice=f"echo off | sudo tee {system / 'smt/control'}, or use one thread a core (taskset)",
    )


def quota() -> Sign:
    """A container's CPU quota stops everything for the rest of each period."""
    cpus = quota_cpus()
    if cpus is None:
        return Sign(name="CPU quota", found="none", state="good")
    return Sign(
        name="CPU quota",
        found=f"{cpus:g} CPUs",
        state="noisy",
        advice="give the container whole CPUs of its own (cpuset) in the place of a quota",
    )


def load(seconds: float = LOOK_S) -> list[Sign]:
    """Who else is here: the machine's busy, stolen and awaited time while we sleep."""
    import psutil

    before, waited, held = psutil.cpu_times(), _pressure_s(), throttled_periods()
    time.sleep(seconds)
    after, waiting, holding = psutil.cpu_times(), _pressure_s(), throttled_periods()
    grown = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    every = sum(share for name, share in grown.items() if not name.startswith("guest")) or 1.0
    stolen = grown.get("steal", 0.0) / every
    idle = (grown["idle"] + grown.get("iowait", 0.0)) / every
    found = [
        _share("other load", 1 - idle - stolen, BUSY, "end what else runs, or come back later"),
        _share("steal", stolen, STOLEN, "other virtual machines take this share: ask for a "
               "dedicated host, or measure at another hour")
        if "steal" in grown
        else Sign(name="steal", found="not told", state="unknown"),
        _throttling(held, holding),
    ]  # fmt: skip
    if waited is None or waiting is None:
        return [*found, Sign(name="pressure", found="not told", state="unknown")]
    share = (waiting - waited) / seconds
    advice = "tasks wait for a CPU: there are more of them than CPUs"
    return [*found, _share("pressure", share, WAITING, advice)]


def _throttling(before: int | None, after: int | None) -> Sign:
    if before is None or after is None:
        return Sign(name="throttling", found="not told", state="unknown")
    count = after - before
    return Sign(
        name="throttling",
        found=f"in {count} periods of {LOOK_S:.0f} s",
        state="noisy" if count else "good",
        advice="the CPU quota is used up: raise it, or end what else runs in it" if count else "",
    )


def _share(name: str, share: float, limit: float, advice: str) -> Sign:
    share = max(0.0, share)
    noisy = share > limit
    return Sign(
        name=name,
        found=f"{100 * share:.1f} % of {LOOK_S:.0f} s",
        state="noisy" if noisy else "good",
        advice=advice if noisy else "",
    )


def _pressure_s() -> float | None:
    for line in _text(Path("/proc/pressure/cpu")).splitlines():
        if line.startswith("some"):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
