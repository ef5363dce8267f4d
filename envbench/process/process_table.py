"""List processes with their parents, sessions, start times and environments, from proc(5).

Process numbers are reused, so a process is identified by its number and its start time. psutil
does not replace this: its start times move with the system's clock, it reports no session, its
``environ`` stops at an empty entry, and it reads several files per process. Systems without
/proc have only ``start_time`` and ``has_ended``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NamedTuple


class Process(NamedTuple):
    """A process at one moment. ``start`` is in ticks since the system started."""

    state: str
    parent: int
    session: int
    start: int


def all_processes() -> dict[int, Process]:
    """Every process, by its number."""
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    processes = ((pid, _process(pid)) for pid in numbers)
    return {pid: process for pid, process in processes if process is not None}


def _process(pid: int) -> Process | None:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        # the command's name may contain spaces and brackets: count from its last bracket
        fields = file.read().rpartition(b")")[2].split()
        return Process(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))
    return None


def start_time(pid: int) -> int | None:
    """When the process started, in ticks of this system; None if there is no such process."""
    if sys.platform == "linux":
        process = _process(pid)
        return process.start if process else None
    import psutil

    with contextlib.suppress(psutil.Error):
        return round(psutil.Process(pid).create_time() * 100)
    return None


def has_ended(pid: int, start: int) -> bool:
    """Is it certain that the process ``pid`` that started at ``start`` has ended?

    A zombie has ended. It is not certain if the process cannot be read, for example because no
    file descriptor is free.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # the number belongs to another user's process now
        pass
    if sys.platform == "linux":
        process = _process(pid)
        return process is not None and (process.start != start or process.state in "ZX")
    return start_time(pid) not in (None, start)


def below(top: int, processes: dict[int, Process], without: set[int]) -> set[int]:
    """All descendants of ``top``, except ``without`` and their descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    descendants: set[int] = set()
    todo = [top]
    while todo:
        new = [pid for pid in children.get(todo.pop(), []) if pid not in without]
        descendants.update(new)
        todo += new
    return descendants


def user(pid: int) -> int | None:
    """The process's user; None if there is no such process."""
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid
    return None


def environment(pid: int) -> set[bytes]:
    """The variables that a process was started with; none if it has ended or hides them."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return set(file.read().split(b"\0"))
    return set()
