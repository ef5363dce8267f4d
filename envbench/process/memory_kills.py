"""Count the processes that the kernel has killed because memory ran out."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from envbench.machine.cpus import control_groups


class MemoryKills(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of such kills at one moment; None if there is no such counter.

    ``cgroup`` is of this process's own control group, with its workers; ``system`` of the machine.
    """

    cgroup: int | None
    system: int | None

    @classmethod
    def now(cls) -> MemoryKills:
        """Read the counters (v2: memory.events, v1: memory.oom_control; /proc/vmstat)."""
        counts = (_counter(path) for path in _cgroup_files())
        return cls(
            cgroup=next((count for count in counts if count is not None), None),
            system=_counter(Path("/proc/vmstat")),
        )

    def rose_in_cgroup(self) -> bool:
        """Was a process of this control group killed since then? It is almost surely a worker."""
        return _rose(self.cgroup, MemoryKills.now().cgroup)

    def rose_anywhere(self) -> bool:
        """Was any process of the machine killed since then?"""
        return self.rose_in_cgroup() or _rose(self.system, MemoryKills.now().system)


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before


def _cgroup_files() -> list[Path]:
    """Where the counter may be (v2, v1): the files of this process's own group come first."""
    groups = reversed(control_groups("memory"))
    return [group / name for group in groups for name in ("memory.events", "memory.oom_control")]


def _counter(path: Path) -> int | None:
    try:
        match = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None
