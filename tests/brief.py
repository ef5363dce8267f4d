"""``python -m brief`` is envbench with a warm-up of 0.2 to 0.4 seconds instead of 1 to 4: for tests
that ask what ``run`` records, says and leaves behind, not how fast an environment steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from envbench.experiments import rounds
from envbench.model import Protocol


def shorten(set_attribute: Callable[[object, str, object], None] = setattr) -> None:
    """Let ``run`` make short warm-ups and windows. Those of ``--quick`` stay as they are."""
    short = partial(Protocol, window_s=0.05, warmup_min_s=0.2, warmup_max_s=0.4)
    set_attribute(rounds, "Protocol", short)


if __name__ == "__main__":
    from envbench.__main__ import main

    shorten()
    main()
