"""``python -m brief`` is envbench with a warm-up of 0.2 to 0.4 seconds instead of 1 to 4: for tests
that ask what ``run`` records, says and leaves behind, not how fast an environment steps."""

from __future__ import annotations

from functools import partial

from envbench.__main__ import main
from envbench.experiments import run
from envbench.model import Protocol

if __name__ == "__main__":
    run.Protocol = partial(  # type: ignore[misc,assignment]
        Protocol, window_s=0.05, warmup_min_s=0.2, warmup_max_s=0.4
    )
    main()
