"""What envbench's loop itself adds to a vector step, in nanoseconds.

    python tests/benchmarks/loop_cost_empty_steps.py

``loop_cost_real_steps.py`` compares real steps, whose noise hides anything under one per cent. Here
the library's step does nothing and returns at once, so that only the loops are left: the ``run`` of
the adapters, with counting, against the bare loop. The figure is the best of many repetitions,
because the cost of code has a minimum. Divide it by the duration of a real step, hundreds of
microseconds, to get the share. Prints one JSON document:
{"for-loop and subprocess": ns, "envpool-sync": ns,
"envpool-async": ns, "window_us": the bookkeeping of one window, in microseconds}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "envbench" / "worker"))

import numpy as np
from envbench_adapters.envpool.asynchronous import EnvPoolAsync
from envbench_adapters.envpool.sync import EnvPoolSync
from envbench_adapters.gymnasium.for_loop import ForLoop
from envbench_worker import autoreset
from envbench_worker.contract import Adapter, Counts, Job
from envbench_worker.measure import Meter

NUMENV, CALLS, REPETITIONS = 4, 2000, 200
OVER = np.zeros(NUMENV, dtype=np.bool_)
INFO = {"elapsed_step": np.ones(NUMENV, np.int32), "env_id": np.arange(NUMENV, dtype=np.int32)}
RESULT = (None, None, OVER, OVER, INFO)
BATCHES = cycle([None] * 1024)


def step(_: Any) -> Any:
    return RESULT


def recv() -> Any:
    return RESULT


def send(_: Any, __: Any) -> None:
    return None


def bare_step() -> None:
    for batch in islice(BATCHES, CALLS):
        obs, reward, terminated, truncated, info = step(batch)  # noqa: RUF059


def bare_recv() -> None:
    for batch in islice(BATCHES, CALLS):
        info = recv()[-1]
        send(batch, info["env_id"])


def adapter(kind: Callable[[Job], Any]) -> Any:
    made = kind(Job("measure", "atari", "none", NUMENV, NUMENV, 4, {}, 1))
    made.envs = made.pool = SimpleNamespace(step=step, recv=recv, send=send)
    made.autoreset = autoreset.of(made.envs, (autoreset.NEXT_STEP,))
    made.batches, made.ended = BATCHES, 0
    return made


def per_call(loop: Callable[[], object]) -> float:
    """Nanoseconds per call, the best of many repetitions."""
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        loop()
        best = min(best, time.perf_counter_ns() - start)
    return best / CALLS


class Nothing(Adapter):
    def build(self) -> None:
        return None

    def facts(self) -> dict[str, Any]:
        return {}

    def run(self, calls: int) -> Counts:
        return Counts(calls, 0)


def window_us() -> float:
    """Microseconds that the meter spends per window: sensors, columns and the event."""
    sink = os.open(os.devnull, os.O_WRONLY)
    nothing = Nothing(Job("measure", "atari", "none", 1, 1, 4, {}, 1))
    meter = Meter(nothing, {"window_s": 0.25}, lambda e: os.write(sink, json.dumps(e).encode()))
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        meter.run_window("measure", meter.measured, 1)
        best = min(best, time.perf_counter_ns() - start)
    return best / 1000


def main() -> None:
    pairs: dict[str, tuple[Callable[[Job], Any], Callable[[], None]]] = {
        "for-loop and subprocess": (ForLoop, bare_step),
        "envpool-sync": (EnvPoolSync, bare_step),
        "envpool-async": (EnvPoolAsync, bare_recv),
    }
    found = {}
    for name, (kind, bare) in pairs.items():
        ours = adapter(kind)
        found[name] = round(per_call(lambda ours=ours: ours.run(CALLS)) - per_call(bare), 1)
    print(json.dumps({**found, "window_us": round(window_us(), 1)}))


if __name__ == "__main__":
    main()
