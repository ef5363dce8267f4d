"""The fingerprint: what this machine's CPU, memory, GPUs and system are.

Results are compared by it, so nothing in it changes from minute to minute: no load, no clock rate,
no free memory. psutil does not know the CPU's name or the GPUs, so they are read here.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from envbench.machine.cpus import logical_cpus, text_of, usable_cpus
from envbench.model import Fingerprint
from envbench.text import one_line

_PROBE_S = 10.0  # nvidia-smi takes seconds where the driver's persistence mode is off
_LONGEST_NAME = 120


def fingerprint() -> Fingerprint:
    """Look at this machine (a few milliseconds; longer where there is an ``nvidia-smi``)."""
    import psutil

    return Fingerprint(
        cpu=_cpu(),
        logical_cpus=logical_cpus(),
        physical_cores=psutil.cpu_count(logical=False),
        usable_cpus=usable_cpus(),
        memory_gib=nominal_gib(psutil.virtual_memory().total),
        gpus=gpus(),
        system=platform.system(),
        kernel=_clean(platform.release()),
        architecture=platform.machine(),
    )


def nominal_gib(total_bytes: int) -> int:
    """The installed memory. The kernel reserves a few per cent, a little more in each release.

    Rounded to between a sixteenth and an eighth of the size (251.5 -> 256, 15.6 -> 16), so that
    a new kernel does not change the fingerprint.
    """
    gib = total_bytes / 2**30
    step = 1 << max(0, int(gib).bit_length() - 4)
    return max(1, round(gib / step) * step)


def _cpu() -> str:
    name = ""
    if sys.platform == "linux":
        name = cpuinfo_name(text_of(Path("/proc/cpuinfo")))
    elif sys.platform == "darwin":
        name = next(iter(_lines(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])), "")
    return _clean(name or platform.processor() or platform.machine())


def cpuinfo_name(cpuinfo: str) -> str:
    """The CPU's name in the text of ``/proc/cpuinfo``; on ARM the numbers of maker and part."""
    pairs: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        pairs.setdefault(key.strip(), value.strip())
    for key in ("model name", "cpu model", "Hardware", "cpu"):
        if pairs.get(key):
            return pairs[key]
    maker, part = pairs.get("CPU implementer"), pairs.get("CPU part")
    return f"ARM {maker} {part}" if maker and part else ""


def gpus() -> list[str]:
    """The names of the NVIDIA GPUs, in the order of ``nvidia-smi``; empty where it fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    lines = _lines([tool, "--query-gpu=name", "--format=csv,noheader"])
    return [_clean(line) for line in lines if line.strip()][:64]


def _lines(command: list[str], timeout_s: float = _PROBE_S) -> list[str]:
    """The lines that a command prints; none if it fails or takes too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines()


def _clean(text: str) -> str:
    """The text as one short printable line: firmware may put anything into these names."""
    return one_line(text, _LONGEST_NAME) or "unknown"
