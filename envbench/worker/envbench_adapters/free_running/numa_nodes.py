"""NUMA nodes: the cores of each, and how to bind a process to a node's cores and memory. Linux.

Standard library only, because a process binds itself before it imports anything that starts threads
or allocates memory. Threads inherit the binding, and allocated memory does not move. This is the
worker's only reader of lists of cores.

Sources: ``/sys/devices/system/node`` (Documentation/ABI/stable/sysfs-devices-node),
set_mempolicy(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from pathlib import Path
from typing import Any, List, NamedTuple, Optional

from envbench_worker.contract import named
from envbench_worker.sensors import usable_cores as usable_cores

SYSTEM = Path("/sys/devices/system/node")
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237}  # the system call's number
MPOL_BIND = 2


class Node(NamedTuple):
    """Cores that this process may use, and their memory."""

    cores: List[int]
    memory: Optional[int]  # the system's node number; None: defined by hand, memory not bound


def chosen(text: str) -> List[Node]:
    """Return the nodes of a setting such as ``0-3/4-7``. If it is empty, those of the system.

    ``ValueError`` if a core is unusable or listed twice.
    """
    if not text:
        return of_system()
    nodes = [Node(_listed(part), None) for part in text.split("/")]
    cores = [core for node in nodes for core in node.cores]
    if not all(node.cores for node in nodes):
        raise ValueError("nodes {!r}: every node needs a core".format(text))
    if unusable := sorted(set(cores) - set(usable_cores())):
        raise ValueError("nodes {!r}: this process may not use core {}".format(text, unusable[0]))
    if len(set(cores)) < len(cores):
        raise ValueError("nodes {!r}: a core belongs to one node only".format(text))
    return nodes


def of_system(folder: Path = SYSTEM) -> List[Node]:
    """List the system's nodes with their usable cores, without nodes that have none."""
    usable = set(usable_cores())
    nodes = []
    for place in folder.glob("node[0-9]*"):
        cores = usable.intersection(_listed((place / "cpulist").read_text()))
        if cores:
            nodes.append(Node(sorted(cores), int(place.name[len("node") :])))
    return sorted(nodes, key=lambda node: node.cores) or [Node(sorted(usable), None)]


def call_bound(node: Node, function: str, *arguments: Any) -> None:
    """Bind this new process, then import ``function`` (``module:name``) and call it.

    Its first argument says whether the memory is bound.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, node.cores)
    memory = "not bound"
    if node.memory is not None:
        refused = _bind_memory(node.memory)
        memory = "refused: " + refused if refused else "bound to node {}".format(node.memory)
    named(function)(memory, *arguments)


def _bind_memory(node: int) -> str:
    """Bind memory to a node. Returns why the system refused, or an empty string."""
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        return "set_mempolicy is not known on " + platform.machine()
    word = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (node // word + 1))()
    mask[node // word] = 1 << (node % word)
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel reads one bit fewer than the number passed.
    failed = libc.syscall(
        ctypes.c_long(number), ctypes.c_long(MPOL_BIND), mask, ctypes.c_ulong(len(mask) * word + 1)
    )
    return os.strerror(ctypes.get_errno()) if failed else ""


def _listed(text: str) -> List[int]:
    """The cores of a list such as ``0-3,8``. It is empty for a node without cores."""
    cores: List[int] = []
    for part in text.strip().split(",") if text.strip() else []:
        matched = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
        if not matched:
            raise ValueError("{!r} is not a list of cores such as 0-3,8".format(text.strip()))
        first, last = int(matched.group(1)), int(matched.group(2) or matched.group(1))
        cores.extend(range(first, last + 1))
    return cores


def shown(cores: List[int]) -> str:
    """Format a sorted list: ``0-3,8``."""
    runs: List[List[int]] = []
    for core in cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join("-".join(map(str, sorted({run[0], run[-1]}))) for run in runs)
