"""Children that the worker starts end with it, even if guardian and controller were killed.

The guardian ends what a worker leaves behind. If the guardian and the controller are both killed,
only the kernel remains. On Linux a process can ask the kernel to kill it when its parent ends, even
while it is stopped (``PR_SET_PDEATHSIG``). A child does not inherit this, so every child has
to ask for itself. Standard library only.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing import util
from typing import Any

_ASK = "import ctypes; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)"  # PR_SET_PDEATHSIG, SIGKILL


def end_children_with_parent() -> None:
    """From now on, every process that this one forks or spawns (multiprocessing) ends with it.

    Grandchildren do not: a daemon has to survive the process that forked it. The kernel sends the
    signal when the starting *thread* ends, so only starts of the main thread are included.
    """
    if sys.platform != "linux":
        return
    worker, asks, spawn = os.getpid(), False, util.spawnv_passfds

    def in_main_thread() -> bool:
        return os.getpid() == worker and threading.current_thread() is threading.main_thread()

    def before() -> None:
        nonlocal asks
        asks = in_main_thread()

    def in_child() -> None:
        if asks:
            exec(_ASK)

    def spawn_asking(path: Any, args: Any, passfds: Any) -> int:
        code = list(args).index("-c") + 1
        asking = f"{_ASK}; {args[code]}" if in_main_thread() else args[code]
        return spawn(path, [*args[:code], asking, *args[code + 1 :]], passfds)

    os.register_at_fork(before=before, after_in_child=in_child)
    util.spawnv_passfds = spawn_asking
