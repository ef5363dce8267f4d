"""Which envbench process a temporary folder or a worker's process belongs to.

The process that makes a folder or starts a worker ends it again, unless it is killed. So it
writes its name on both: in the folder's name and in a variable of the worker. A later process
reads the name and sees whether its owner is dead. The text has a fixed length, because its length
shifts the worker's stack:

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
    """An envbench process. Its number means something in its own process namespace only."""

    user: int
    namespace: int
    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.user:08x}-{self.namespace:08x}-{self.pid:08x}-{self.start:016x}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The owner that ``str`` wrote as ``text``; None for any other text."""
        if not re.fullmatch(PATTERN, text):
            return None
        return cls(*(int(number, 16) for number in text.split("-")))

    @property
    def is_dead(self) -> bool:
        """Whether it is certain that this process of our user and namespace has ended.

        Of other users and other namespaces (containers) nothing is certain.
        """
        if (self.user, self.namespace) != (os.getuid(), _namespace()):
            return False
        known = self.start != _UNKNOWN and (self.namespace != _UNKNOWN or not LINUX)
        return known and has_ended(self.pid, self.start)


def this_process() -> Owner:
    """The owner of what this process makes."""
    start = start_time(os.getpid()) or _UNKNOWN
    return Owner(user=os.getuid(), namespace=_namespace(), pid=os.getpid(), start=start)


def _namespace() -> int:
    """The process namespace; unknown where /proc shows the processes of another one."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            return os.stat("/proc/self/ns/pid").st_ino
    return _UNKNOWN
