"""No process of a trial outlives the worker, however the worker ends.

The guardian ends what a worker leaves behind. If the guardian and the controller are both killed,
only the kernel remains. On Linux a process can ask the kernel to kill it when its parent ends, even
while it is stopped (``PR_SET_PDEATHSIG``). A forked child does not inherit this, so every child has
to ask for itself. Standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends. Elsewhere: do nothing."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_forked_children_with_parent() -> None:
    """From now on, every process that this one forks ends with it.

    Grandchildren do not: a daemon has to survive the process that forked it. The kernel sends the
    signal when the forking *thread* ends, so only forks of the main thread are included.
    """
    worker, asks = os.getpid(), False

    def before() -> None:
        nonlocal asks
        asks = os.getpid() == worker and threading.current_thread() is threading.main_thread()

    def in_child() -> None:
        if asks:
            end_with_parent()

    os.register_at_fork(before=before, after_in_child=in_child)
