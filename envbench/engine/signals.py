"""Signals that stop a measurement become an exception, so that its workers are ended first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from envbench.errors import Interrupted

STOPS = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """In the block, the first SIGINT, SIGTERM or SIGHUP raises ``Interrupted`` (128 + its number).

    A signal that was already ignored (``nohup``) stays ignored. Later signals are ignored while
    running workers are ended, which takes at most two seconds. In a thread that is not the main
    one, Python delivers no signals, and nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [each for each in signal.Signals if each.name in STOPS]
    numbers = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(128 + number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
