"""Which CPUs this process may use: its affinity mask, its quota, and the machine's NUMA nodes.

psutil counts the machine's CPUs. It reads neither quotas and throttling of control groups nor
NUMA nodes, so this module does (on Linux; elsewhere there are none). The worker has a reader of
its own, ``adapters/numa_nodes.py``, because it imports nothing of the controller.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def logical_cpus() -> int:
    """How many logical CPUs the machine has."""
    import psutil

    return psutil.cpu_count() or 1


def usable_cores() -> list[int]:
    """The logical CPUs in this process's affinity mask; empty where the system has no masks."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def usable_cpus() -> int:
    """How many CPUs the mask and the quota allow. A part of a CPU counts as one, as in Go."""
    allowed = len(usable_cores()) or logical_cpus()
    return max(1, min(allowed, math.ceil(quota_cpus() or allowed)))


def quota_cpus(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> float | None:
    """The CPUs that control groups allow: the lowest quota of the group and its parents."""
    groups = control_groups("cpu", membership, mount)
    return min((q for group in groups if (q := _quota(group)) is not None), default=None)


def throttled_periods() -> int | None:
    """In how many periods a quota has stopped this group or a parent; None where unknown."""
    counts = []
    for group in control_groups("cpu"):
        words = text_of(group / "cpu.stat").split()
        facts = dict(zip(words[::2], words[1::2], strict=False))
        if facts.get("nr_throttled", "").isdecimal():
            counts.append(int(facts["nr_throttled"]))
    return sum(counts) if counts else None


def numa_nodes() -> int:
    """How many NUMA nodes the system has; 1 where it does not say."""
    return max(1, len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))))


def control_groups(
    controller: str, membership: Path = MEMBERSHIP, mount: Path = MOUNT
) -> list[Path]:
    """The folders of this process's control groups (v1 or v2), parents first.

    Only v1 has a tree per controller. A container often sees its group's path as the host does
    (``/docker/…``) or from below (``/..``), so not every folder exists.
    """
    found: list[Path] = []
    for line in text_of(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            roots = [mount, mount / "unified"]
        elif controller in controllers.split(","):
            roots = [mount / controller, mount / controllers]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        for root in dict.fromkeys(root.resolve() for root in roots):  # v1 links one to the other
            found += [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return found


def text_of(path: Path) -> str:
    """The stripped text of a system file; empty where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _quota(group: Path) -> float | None:
    v2 = text_of(group / "cpu.max").split()
    v1 = [text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us")]
    for pair in (v2, v1):
        if len(pair) == 2 and all(number.isdecimal() and int(number) > 0 for number in pair):
            return int(pair[0]) / int(pair[1])
    return None  # "max", "-1", or no quota at all
