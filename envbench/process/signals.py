"""Signals that stop a measurement become an exception, so that its workers are ended first.

Python delivers signals to the main thread only. In another thread nothing here has an effect.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from envbench.errors import Interrupted

STOPS = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP does not exist on Windows


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """In the block, the first SIGINT, SIGTERM or SIGHUP raises ``Interrupted`` (128 + its number).

    A signal that was already ignored (``nohup``) stays ignored. Later signals are ignored while
    running workers are ended, which takes at most two seconds.
    """
    numbers = [each for each in _stops() if signal.getsignal(each) is not signal.SIG_IGN]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(128 + number)

    with _handled(numbers, stop):
        yield


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP to the end of the block, so that no started process is
    forgotten.

    A signal mask does not do this: another thread takes the signal, and Python still runs the
    handler in the main thread.
    """
    received: list[int] = []
    try:
        with _handled(_stops(), lambda number, _: received.append(number)):
            yield
    finally:
        for late in received:
            signal.raise_signal(late)


def _stops() -> list[signal.Signals]:
    return [each for each in signal.Signals if each.name in STOPS]


@contextmanager
def _handled(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """In the block, a function handles these signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, own in before.items():
            # None: a program that embeds Python handled it in C, which cannot be restored.
            signal.signal(number, signal.SIG_DFL if own is None else own)
