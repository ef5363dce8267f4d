"""Name the envbench process that a temporary folder or a worker's process belongs to.

The process that makes a folder or starts a worker ends it, unless it is killed. So it writes its
name into the folder's name and into a variable of the worker. A later process reads the name and
checks whether the owner is dead. The length is fixed, because it shifts the worker's stack:

    <user>-<process namespace>-<process>-<start time>       hexadecimal numbers
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import NamedTuple

from envbench.process.process_table import has_ended, start_time

LINUX = sys.platform == "linux"
_UNKNOWN = 0  # a namespace or a start time; other systems than Linux have no namespaces
PATTERN = r"[0-9a-f]{8}-[0-9a-f]{8}-[0-7][0-9a-f]{7}-[0-9a-f]{16}"


class Owner(NamedTuple):
    """An envbench process. Its number is valid in its own process namespace only."""

    user: int
    namespace: int
    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.user:08x}-{self.namespace:08x}-{self.pid:08x}-{self.start:016x}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The inverse of ``str``; None for any other text."""
        if not re.fullmatch(PATTERN, text):
            return None
        return cls(*(int(number, 16) for number in text.split("-")))

    @property
    def is_dead(self) -> bool:
        """Is it certain that this process has ended?

        It never is for other users and other namespaces (containers).
        """
        if (self.user, self.namespace) != (os.getuid(), _namespace()):
            return False
        known = self.start != _UNKNOWN and (self.namespace != _UNKNOWN or not LINUX)
        return known and has_ended(self.pid, self.start)


def this_process() -> Owner:
    """This process, as an owner."""
    start = start_time(os.getpid()) or _UNKNOWN
    return Owner(user=os.getuid(), namespace=_namespace(), pid=os.getpid(), start=start)


def _namespace() -> int:
    """The process namespace; unknown if /proc shows the processes of another one."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            return os.stat("/proc/self/ns/pid").st_ino
    return _UNKNOWN
