"""Pictures drawn, many of them by several processes at a time.

A process takes about half a second to begin (matplotlib's import), a picture a twentieth: only a
dozen for each of them make it worth one. Each draws what one process alone would, byte for byte.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from envbench.report.curves import Picture
from envbench.report.plots import Drawing, Kind, draw

PANELS_A_PROCESS = 12  # at least
MOST_PROCESSES = 8

Wanted = tuple[Picture, Kind]


def drawn(wanted: Sequence[Wanted]) -> Iterator[Drawing]:
    """The drawings, in this order."""
    processes = min(_cpus(), MOST_PROCESSES, _panels(wanted) // PANELS_A_PROCESS, len(wanted))
    if processes < 2:
        yield from map(_draw, wanted)
        return
    order = sorted(range(len(wanted)), key=lambda i: -len(wanted[i][0].panels))
    with ProcessPoolExecutor(processes, get_context("spawn"), _left_alone) as pool:
        begun = {i: pool.submit(_draw, wanted[i]) for i in order}  # the longest first
        try:
            for i in range(len(wanted)):
                yield begun.pop(i).result()
        finally:
            pool.shutdown(cancel_futures=True)


def _draw(wanted: Wanted) -> Drawing:
    return draw(*wanted)


def _panels(wanted: Sequence[Wanted]) -> int:
    return sum(len(picture.panels) for picture, _ in wanted)


def _cpus() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def _left_alone() -> None:
    """An interrupt is the parent's to tell of."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
