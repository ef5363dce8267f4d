"""What this machine is: its CPU, the CPUs that may be used, memory, GPUs and system.

Nothing in a fingerprint changes from minute to minute, for results are compared by it: no load,
no clock rate, no free memory. Linux is read in full; macOS and Windows as far as they tell.
"""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from envbench.model import Fingerprint
from envbench.text import one_line

_PROBE_S = 10.0  # nvidia-smi takes seconds where the driver's persistence mode is off
_TEXT = 120


def fingerprint() -> Fingerprint:
    """Look at this machine (a few milliseconds; longer where there is an ``nvidia-smi``)."""
    import psutil

    logical = psutil.cpu_count(logical=True) or os.cpu_count() or 1
    return Fingerprint(
        cpu=_cpu(),
        logical_cpus=logical,
        physical_cores=psutil.cpu_count(logical=False),
        usable_cpus=_usable(logical),
        memory_gib=nominal_gib(psutil.virtual_memory().total),
        gpus=gpus(),
        system=platform.system(),
        kernel=_clean(platform.release()),
        architecture=platform.machine(),
    )


def nominal_gib(total_bytes: int) -> int:
    """The memory that was bought: the kernel keeps a few per cent, a little more each release.

    Rounded to a sixteenth to an eighth of its size (251.5 -> 256, 15.6 -> 16), so that a new
    kernel does not make another machine of it.
    """
    gib = total_bytes / 2**30
    step = 1 << max(0, int(gib).bit_length() - 4)
    return max(1, round(gib / step) * step)


# ---------------------------------------------------------------- CPUs


def _cpu() -> str:
    if sys.platform == "linux":
        name = cpuinfo_name(_text(Path("/proc/cpuinfo")))
    elif sys.platform == "darwin":
        name = next(iter(_lines(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])), "")
    else:
        name = _registry_name() if sys.platform == "win32" else ""
    return _clean(name or platform.processor() or platform.machine() or "unknown")


def cpuinfo_name(cpuinfo: str) -> str:
    """The CPU's name in the text of ``/proc/cpuinfo``; on ARM its maker's numbers."""
    pairs: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs.setdefault(key.strip(), value.strip())
    for key in ("model name", "cpu model", "Hardware", "cpu"):
        if pairs.get(key):
            return pairs[key]
    maker, part = pairs.get("CPU implementer"), pairs.get("CPU part")
    return f"ARM {maker} {part}" if maker and part else ""


def _registry_name() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
    except OSError:
        return ""


def _usable(logical: int) -> int:
    mask = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    quota = quota_cpus()
    # A part of a CPU counts as one, as for the JVM and Go.
    return max(1, min(mask, logical if quota is None else math.ceil(quota)))


def quota_cpus(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """The CPUs that control groups (v1 or v2) grant: the least of the group and its parents."""
    groups = _cpu_groups(membership, mount)
    return min((q for group in groups if (q := _quota(group)) is not None), default=None)


def throttled_periods(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """In how many periods since its start a quota stopped this group or a parent; None untold."""
    counts = []
    for group in _cpu_groups(membership, mount):
        words = _text(group / "cpu.stat").split()
        facts = dict(zip(words[::2], words[1::2], strict=False))
        if facts.get("nr_throttled", "").isdecimal():
            counts.append(int(facts["nr_throttled"]))
    return sum(counts) if counts else None


def _cpu_groups(membership: Path, mount: Path) -> list[Path]:
    """The control groups (v1 or v2) of this process that have a say on CPUs, parents first."""
    found: list[Path] = []
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            roots = [mount, mount / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [mount / "cpu", mount / controllers]
        else:
            continue
        for root in roots:
            found += _ancestry(root, path)
    return found


def numa_nodes(folder: Path = Path("/sys/devices/system/node")) -> int:
    """How many NUMA nodes the system has; 1 where it does not tell."""
    return max(1, sum(re.fullmatch(r"node\d+", path.name) is not None for path in _listed(folder)))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _ancestry(root: Path, path: str) -> list[Path]:
    # A container may see its group's path as the host does ("/docker/…") or from below ("/..").
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _quota(group: Path) -> float | None:
    v2 = _text(group / "cpu.max").split()
    v1 = [*_text(group / "cpu.cfs_quota_us").split(), *_text(group / "cpu.cfs_period_us").split()]
    for pair in (v2, v1):
        if len(pair) == 2 and all(number.isdecimal() and int(number) > 0 for number in pair):
            return int(pair[0]) / int(pair[1])
    return None  # "max", "-1", or no such control


# ---------------------------------------------------------------- GPUs


def gpus() -> list[str]:
    """The names of NVIDIA's GPUs, in its own order; none where ``nvidia-smi`` does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    lines = _lines([tool, "--query-gpu=name", "--format=csv,noheader"])
    return [_clean(line) for line in lines if line.strip()][:64]


def _lines(command: list[str], timeout_s: float = _PROBE_S) -> list[str]:
    """What a probe prints; nothing if it fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _clean(text: str) -> str:
    """One bounded printable line: firmware writes odd things into these names."""
    return one_line(text, _TEXT) or "unknown"
