"""How many processes the kernel has ended for want of memory: read before a run and after it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from envbench.machine.cpus import control_groups


class MemoryKills(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes the kernel had ended for want of memory, at one moment.

    ``cgroup`` counts this process's own control group (the workers are in it), ``system`` the
    whole machine. None where there is no such counter.
    """

    cgroup: int | None
    system: int | None

    @classmethod
    def now(cls) -> MemoryKills:
        """Read the counters (v2: memory.events, v1: memory.oom_control; /proc/vmstat)."""
        found = (_counter(path) for path in _cgroup_files())
        return cls(
            cgroup=next((count for count in found if count is not None), None),
            system=_counter(Path("/proc/vmstat")),
        )

    def rose_in_cgroup(self) -> bool:
        """Whether a process of ours was killed since: near certain to be this run's."""
        return _rose(self.cgroup, MemoryKills.now().cgroup)

    def rose_anywhere(self) -> bool:
        """Whether any process was."""
        return self.rose_in_cgroup() or _rose(self.system, MemoryKills.now().system)


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before


def _cgroup_files() -> list[Path]:
    """Where the counter may be (v2, v1): the files of this process's own group come first."""
    groups = reversed(control_groups("memory"))
    return [group / name for group in groups for name in ("memory.events", "memory.oom_control")]


def _counter(path: Path) -> int | None:
    try:
        found = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
