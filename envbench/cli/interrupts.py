"""SIGINT, SIGTERM and SIGHUP become ``Interrupted`` in the main thread, once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from envbench.errors import Interrupted


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Within the block, the first signal to stop raises ``Interrupted`` (128 + its number).

    A signal that is ignored already (``nohup``) stays ignored.
    Further ones are ignored while what is running is ended: that takes two seconds at the most.
    """
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
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
