"""This host: its identity, its fingerprint, and the CPUs that this process may use.

Results are compared by the fingerprint, so nothing in it changes from minute to minute: no load, no
clock rate, no free memory.

psutil counts CPUs and memory. It knows neither the CPU's name, nor GPUs, nor NUMA nodes, nor the
quotas and throttling of control groups, so these are read here (on Linux; elsewhere there are
none). The worker has its own reader (its ``sensors.py``), because it runs alone in another Python,
with the standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import math
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from envbench.errors import UsageError
from envbench.model import Fingerprint
from envbench.text import one_line

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")
MOUNTS = Path("/proc/self/mounts")
NODES = Path("/sys/devices/system/node")
MACHINE_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# A group's limit, its use, and the part of it that is a cache of files: v2, then v1
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
CONTAINERS = ("/.dockerenv", "/run/.containerenv", "/.singularity.d")  # files inside containers


def fingerprint() -> Fingerprint:
    """Look at this machine (a few milliseconds; longer where there is an ``nvidia-smi``)."""
    import psutil

    return Fingerprint(
        cpu=_cpu(),
        logical_cpus=psutil.cpu_count() or 1,
        physical_cores=psutil.cpu_count(logical=False),
        usable_cpus=usable_cpus(),
        memory_gib=nominal_gib(psutil.virtual_memory().total),
        gpus=gpus(),
        system=platform.system(),
        kernel=clean_name(platform.release()),
        architecture=platform.machine(),
        host=host_id(),
    )


def host_id() -> str:
    """Identify this computer among others of the same hardware, by 12 hex digits.

    They are a salted hash (HMAC-SHA256) of ``/etc/machine-id``, and say nothing about the computer
    or its user. Containers of one image have the same machine-id. So in a container, and where
    there is none, they are the hash of a random number that the user's state folder keeps. If that
    folder cannot be written, they are the hash of the kernel's number of this boot, or of the
    computer's name.
    """
    found = "" if in_container() else text_of(MACHINE_ID)
    if not re.fullmatch(r"[0-9a-f]{32}", found):  # it may also be "uninitialized"
        found = _kept_number()
    return hmac.new(b"envbench host", found.encode(), hashlib.sha256).hexdigest()[:12]


def in_container() -> bool:
    """Whether this process seems to run in a container: their root is usually an overlay."""
    mounts = (line.split() for line in text_of(MOUNTS).splitlines())
    overlay = any(words[1:3] == ["/", "overlay"] for words in mounts)
    return overlay or any(map(os.path.lexists, CONTAINERS))


def _kept_number() -> str:
    """The random number in the user's state folder. The first call makes it."""
    from platformdirs import user_state_path

    path, number = user_state_path("envbench") / "host", secrets.token_hex(16)
    if not text_of(path):
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as near:
                whole = Path(near, path.name)
                whole.write_text(number)
                os.link(whole, path)  # fails if another process has made it since
    return text_of(path) or text_of(BOOT_ID) or platform.node()


def nominal_gib(total_bytes: int) -> int:
    """Return the installed memory. The kernel reserves a few per cent of it.

    A newer kernel may reserve more. So the size is rounded, in steps between a sixteenth and an
    eighth of it (251.5 -> 256, 15.6 -> 16), and the fingerprint does not change.
    """
    gib = total_bytes / 2**30
    step = 1 << max(0, int(gib).bit_length() - 4)
    return max(1, round(gib / step) * step)


def _cpu() -> str:
    name = cpuinfo_name(text_of(Path("/proc/cpuinfo")))
    if sys.platform == "darwin":
        name = next(iter(_lines(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])), "")
    return clean_name(name or platform.processor() or platform.machine())


def cpuinfo_name(cpuinfo: str) -> str:
    """Find the CPU's name in ``/proc/cpuinfo``'s text; on ARM, the numbers of maker and part."""
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
    """Return the names of the NVIDIA GPUs, in the order of ``nvidia-smi``; empty without it."""
    lines = _lines(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return [clean_name(line) for line in lines if line.strip()][:64]


def _lines(command: list[str], timeout_s: float = 10.0) -> list[str]:
    """The lines that a command prints; none if it fails or takes too long.

    nvidia-smi takes seconds where the driver's persistence mode is off.
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines()


def clean_name(text: str) -> str:
    """Make the text one short printable line: firmware and strangers may put anything into it."""
    return one_line(text, 120) or "unknown"


# ---------------------------------------------------------------- CPUs and control groups


def usable_cores() -> list[int]:
    """List the logical CPUs in this process's affinity mask; empty where there are no masks."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def cores_of(text: str) -> list[int]:
    """Read a list of cores such as ``0-3,8``; ``ValueError`` if it is not one."""
    found: list[int] = []
    for part in map(str.strip, text.split(",")):
        match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part)
        span = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not span:
            raise ValueError(f"{part[:60]!r} is not a list of cores such as 0-3,8.")
        found += span
    return found


@contextlib.contextmanager
def kept_to(cores: Collection[int]) -> Iterator[None]:
    """Keep this thread, and the threads and processes that it starts, to these cores; empty: all.

    Raises ``UsageError`` for a core that cannot be used, and where the system has no masks.
    """
    if not cores:
        yield
        return
    usable = usable_cores()
    if unusable := sorted(set(cores) - set(usable)):
        known = f"Usable cores: {', '.join(map(str, usable))}" if usable else "Leave out --cpus."
        raise UsageError(f"--cpus: core {unusable[0]} cannot be used here.", hint=known)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def busy_cores(cores: Collection[int]) -> list[int]:
    """List those of these cores that are busy for over a tenth of half a second."""
    import psutil

    shares = psutil.cpu_percent(interval=0.5, percpu=True)
    return [core for core in sorted(cores) if core < len(shares) and shares[core] > 10]


def usable_cpus() -> int:
    """Count the CPUs that the mask and the quota allow. A part of a CPU counts as one, as in Go."""
    allowed = len(usable_cores()) or os.cpu_count() or 1
    return max(1, min(allowed, math.ceil(quota_cpus() or allowed)))


def quota_cpus() -> float | None:
    """Return the CPUs that control groups allow: the lowest quota of the group and its parents."""
    quotas = map(_quota, control_groups("cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def free_memory() -> int:
    """Bytes that new processes can use: of the machine, and within each control group's limit.

    A group's cache of files is free, too: the system drops it when memory is needed.
    """
    import psutil

    free = int(psutil.virtual_memory().available)
    for group in control_groups("memory"):
        for limit, used, cache in MEMORY_FILES:
            most, now = text_of(group / limit), text_of(group / used)
            if most.isdecimal() and now.isdecimal():
                reclaimable = counter(group / "memory.stat", cache) or 0
                free = min(free, int(most) - int(now) + reclaimable)
    return max(free, 0)


def throttled_periods() -> int | None:
    """In how many periods a quota has stopped this group or a parent; None where unknown."""
    every = [counter(group / "cpu.stat", "nr_throttled") for group in control_groups("cpu")]
    known = [count for count in every if count is not None]
    return sum(known) if known else None


def numa_nodes(folder: Path = NODES) -> int:
    """Count the NUMA nodes with a core that this process may use; 1 where the system has no list.

    Some nodes have memory only.
    """
    usable = set(usable_cores())
    lists = [text_of(each / "cpulist") for each in folder.glob("node[0-9]*")]
    return max(1, sum(not usable.isdisjoint(cores_of(each)) for each in lists if each))


def control_groups(controller: str) -> list[Path]:
    """Return the folders of this process's control groups (v1 or v2), parents first.

    Only v1 has a tree per controller. A container often sees its group's path as the host does
    (``/docker/…``) or relative to its own root (``/..``), so not every folder exists.
    """
    found: list[Path] = []
    for line in text_of(MEMBERSHIP).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            roots = [MOUNT, MOUNT / "unified"]
        elif controller in controllers.split(","):
            roots = [MOUNT / controller, MOUNT / controllers]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        for root in dict.fromkeys(root.resolve() for root in roots):  # v1 links one to the other
            found += [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return found


def text_of(path: Path) -> str:
    """Return the stripped text of a system file; empty where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def counter(path: Path, name: str) -> int | None:
    """Return the number after a name in a system file; None where there is none."""
    match = re.search(rf"^{name} (\d+)$", text_of(path), re.MULTILINE)
    return int(match[1]) if match else None


def _quota(group: Path) -> float | None:
    v2 = text_of(group / "cpu.max").split()
    v1 = [text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us")]
    for pair in (v2, v1):
        if len(pair) == 2 and all(number.isdecimal() and int(number) > 0 for number in pair):
            return int(pair[0]) / int(pair[1])
    return None  # "max", "-1", or no quota at all
