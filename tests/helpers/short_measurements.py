"""Measuring commands that end in seconds: for tests that ask what a command records, says and
leaves behind, not how fast an environment steps.

``python -m helpers.short_measurements`` is envbench with the warm-ups and windows of
``shorten_runs``. ``start_short_pairs`` starts a command with those of ``shorten_pairs``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from envbench.experiments import pairs
from envbench.experiments.run import rounds as run
from envbench.model import Protocol

if TYPE_CHECKING:
    from helpers.command_line import Place

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SHORT_PAIRS = (
    "from helpers.short_measurements import shorten_pairs; shorten_pairs();"
    "from envbench.__main__ import main; main()"
)


def shorten_runs(set_attribute: Callable[[object, str, object], None] = setattr) -> None:
    """Let ``run`` warm up for 0.2 to 0.4 seconds instead of 1 to 4, and make short windows. Those
    of ``--quick`` stay as they are."""
    short = partial(Protocol, window_s=0.05, warmup_min_s=0.2, warmup_max_s=0.4)
    set_attribute(run, "Protocol", short)


def shorten_pairs(set_attribute: Callable[[object, str, object], None] = setattr) -> None:
    """Let pairs take three seconds."""
    set_attribute(pairs, "QUADS", 2)
    set_attribute(pairs, "SLICE_S", 0.05)
    set_attribute(pairs, "WARM_UP", (0.2, 0.4))


def start_short_pairs(place: Place, *words: object) -> subprocess.Popen[str]:
    """Start the command with such pairs in its own process."""
    return subprocess.Popen(
        [sys.executable, "-c", SHORT_PAIRS, *map(str, words)],
        cwd=place.folder,
        env=place.environment(PYTHONPATH=f"{ROOT}:{TESTS}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    from envbench.__main__ import main

    shorten_runs()
    main()
