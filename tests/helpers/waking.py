"""What it costs on this machine to wake: milliseconds on some virtual machines."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PAUSE_S, TIMES = 0.25, 16
WRITER = f"""
import time
for _ in range({TIMES}):
    time.sleep({PAUSE_S})
    print("a window", flush=True)
"""


def share_of_waking() -> float:
    """The share of a core that this process uses if it only reads a line every ``PAUSE_S``, as the
    controller does while windows are open."""
    samples: list[tuple[float, float]] = []
    with subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) as writer:
        for _ in writer.stdout or ():
            samples.append((time.monotonic(), time.process_time()))
            Path(f"/proc/{writer.pid}/stat").read_text()  # as a test of the guardian does
    (start, mine), *_, (end, mine_then) = samples[1:]
    return (mine_then - mine) / (end - start)
