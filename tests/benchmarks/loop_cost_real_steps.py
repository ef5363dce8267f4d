"""Does measuring cost anything? envbench's window loop against the library's bare loop.

    python tests/benchmarks/loop_cost_real_steps.py [--pairs 100] [--slice 0.25] [--numenv 4]

Two loops alternate: envbench's ``Meter`` and adapter with windows, sensors and events, and the
shortest loop that the library's documentation suggests. For each backend and family they step the
*same* set of environments in one process, because two sets at different places in memory differ by
several per cent. Slices have equal numbers of calls, one window each, in ABBA order, so that the
machine's drift falls on both. The figure is the mean of the log ratios of pairs of slices, with a
95 % t-interval: 1.00 means no cost, 0.99 means 1 %. ``added_cpu`` is the CPU time that envbench's
loop takes more than the bare one in the thread that calls the library, as a share of the bare
loop's time. Other processes do not disturb it, so it is more precise. Prints one JSON document per
line.
``tests/studies/overhead.py`` runs this and the other benchmarks of this folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
    os.environ.setdefault(pool, "1")
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "envbench" / "worker")]
# A backend's runtime lacks the packages that only the controller needs. They come last on the path,
# so they replace no package of the runtime.
sys.path += filter(None, [os.environ.get("CONTROLLER_PACKAGES")])

from envbench_worker.contract import Job  # noqa: E402
from envbench_worker.measure import Meter  # noqa: E402

from envbench import backends, families  # noqa: E402
from envbench.engine.request import make_cell  # noqa: E402

FAMILIES = ("atari", "mujoco", "box2d", "classic_control", "dm_control")
NAMES = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "ale-vector")
PROTOCOL = {"window_s": 0.25, "warmup_min_s": 1.0, "warmup_max_s": 4.0, "measured_s": 1.0}


class Ours:
    """The adapter under the meter, as a worker runs it; events go to /dev/null."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.sink = os.open(os.devnull, os.O_WRONLY)
        self.meter = Meter(adapter, PROTOCOL, self._emit)

    def stretch(self, calls: int) -> float:
        """Seconds for a window of this many calls, with its bookkeeping."""
        start = time.perf_counter()
        self.meter.run_window("measure", self.meter.measured, calls)
        return time.perf_counter() - start

    def _emit(self, event: dict[str, Any]) -> None:
        os.write(self.sink, (json.dumps(event) + "\n").encode())


class BareStep:
    """``for …: envs.step(actions)``: Gymnasium's and synchronous EnvPool's own loop."""

    def __init__(self, envs: Any, bank: list[Any]) -> None:
        self.envs, self.batches = envs, cycle(bank)

    def stretch(self, calls: int) -> float:
        envs = self.envs
        start = time.perf_counter()
        for batch in islice(self.batches, calls):
            obs, reward, terminated, truncated, info = envs.step(batch)  # noqa: RUF059
        return time.perf_counter() - start


class BareRecv(BareStep):
    """EnvPool's own benchmark loop: recv, then send to those that were received."""

    def stretch(self, calls: int) -> float:
        envs = self.envs
        start = time.perf_counter()
        for batch in islice(self.batches, calls):
            info = envs.recv()[-1]
            envs.send(batch, info["env_id"])
        return time.perf_counter() - start


def make(family: str, name: str, numenv: int) -> tuple[Ours, Any]:
    """Both ways of stepping the same environments, with the same actions."""
    backend = backends.get(name)
    cell = make_cell("loop-cost", family, families.default_task(family), backend, numenv, {})
    fields = {f: getattr(cell, f, None) for f in Job._fields}
    code = families.get(family).worker
    job = Job(**{**fields, "mode": "measure", "family": family, "family_code": code, "seed": 1})
    module, _, attribute = str(backend.adapter).partition(":")
    adapter = getattr(import_module(module), attribute)(job)
    adapter.build()
    envs = adapter.envs if hasattr(adapter, "envs") else adapter.pool
    bare = BareRecv if name == "envpool-async" else BareStep
    return Ours(adapter), bare(envs, adapter.bank)


def compare(family: str, name: str, numenv: int, pairs: int, slice_s: float) -> dict[str, Any]:
    """The ratio of both loops on environments of this backend and family."""
    ours, bare = make(family, name, numenv)
    found = ratio(ours, bare, pairs, slice_s)
    ours.adapter.close()
    return {"env": family, "backend": name, "numenv": numenv, "pairs": pairs, **found}


def ratio(ours: Any, bare: Any, pairs: int, slice_s: float) -> dict[str, Any]:
    """The ratio ours / bare of calls per second, over this number of pairs of slices.

    Each loop's ``stretch(calls)`` makes that number of calls and returns the seconds that they
    took.
    """
    calls = 16
    while bare.stretch(calls) < 4 * slice_s:  # also gets past first resets and cold caches
        calls *= 2
    calls = max(8, int(calls * slice_s / bare.stretch(calls)))
    logs, added = [], []
    for pair in range(pairs):
        if pair % 2:
            b, a = _timed(bare, calls), _timed(ours, calls)
        else:
            a, b = _timed(ours, calls), _timed(bare, calls)
        logs.append(math.log(b[0] / a[0]))
        added.append((a[1] - b[1]) / b[0])
    return {"slice_s": slice_s, **summary(logs), "added_cpu": _mean_and_interval(added)}


def _timed(loop: Any, calls: int) -> tuple[float, float]:
    """Seconds by the clock, and of this thread's CPU time."""
    before = time.thread_time()
    return loop.stretch(calls), time.thread_time() - before


def summary(logs: list[float]) -> dict[str, Any]:
    mean, low, high = map(math.exp, _mean_and_interval(logs))
    return {"ratio": mean, "interval": [low, high], "pair_sd": statistics.stdev(logs)}


def _mean_and_interval(values: list[float]) -> list[float]:
    from scipy.stats import t

    mean = statistics.fmean(values)
    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return [mean, mean - half, mean + half]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--slice", type=float, default=0.25, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=4)
    parser.add_argument("--env", choices=FAMILIES, action="append")
    parser.add_argument("--backend", choices=NAMES, action="append")
    given = parser.parse_args()
    for family in given.env or FAMILIES:
        for name in given.backend or NAMES:
            if family in backends.get(name).families:
                found = compare(family, name, given.numenv, given.pairs, given.slice_s)
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
