"""What does sharing a window cost? envpool-numa on two nodes made by hand, and envpool-async.

    python tests/benchmarks/loop_cost_envpool_numa.py [--pairs 40] [--slice 0.5]
        [--numenv 4] [--env …]

Both have the same numenv and the same number of environments in flight, on the first two cores,
under envbench's own ``Meter``. Slices have equal numbers of calls and alternate in ABBA order. The
inactive arm waits (the processes of envpool-numa are allowed no calls). The figure is the mean of
the log ratios of results per second, with a 95 % t-interval: 1.00 is as fast as one pool.
``per_cpu`` is the ratio of results per CPU second. If others use the machine, two processes get
more CPU time than one. Only ``per_cpu`` corrects for that.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from importlib import import_module
from typing import Any

import loop_cost_real_steps as real_steps
from envbench_adapters.free_running.processes import WITHOUT_END
from envbench_worker.contract import Job
from envbench_worker.sensors import tree_usage

from envbench import backends, families
from envbench.engine.target import make_cell

SETTLE_S = 0.05  # lets calls finish that are in progress when an arm stops


class Arm:
    """One adapter under the meter, in slices. Nothing of it runs between slices."""

    def __init__(self, family: str, name: str, numenv: int, given: dict[str, str]) -> None:
        cell = make_cell(
            "loop-cost", family, families.default_task(family), backends.get(name), numenv, given
        )
        fields = {field: getattr(cell, field, None) for field in Job._fields}
        code = families.get(family).worker
        job = Job(**{**fields, "mode": "measure", "family": family, "family_code": code, "seed": 1})
        module, _, attribute = str(backends.get(name).adapter).partition(":")
        self.adapter = getattr(import_module(module), attribute)(job)
        self.adapter.build()
        self.ours = real_steps.Ours(self.adapter)
        self.results, self.cpu_s = 0, 0.0
        self._stop()

    def slice(self, calls: int) -> float:
        """Results per second. Their CPU time is added to ``cpu_s``."""
        before = tree_usage(os.getpid())["cpu_s"]
        self._go_on()
        rate = calls * self.adapter.job.numenv / self.ours.stretch(calls)
        self.results += calls * self.adapter.job.numenv + self._stop()
        self.cpu_s += tree_usage(os.getpid())["cpu_s"] - before
        return float(rate)

    def _go_on(self) -> None:
        if hasattr(self.adapter, "table"):
            self.adapter.table["allowed"] = WITHOUT_END

    def _stop(self) -> int:
        """Returns the results that came after the slice. They belong to no other slice."""
        if not hasattr(self.adapter, "table"):
            time.sleep(SETTLE_S)
            return 0
        self.adapter.table["allowed"] = 0
        time.sleep(SETTLE_S)
        received = int(self.adapter.table["received"].sum())
        beyond, self.adapter.credited = received - self.adapter.credited, received
        return beyond


def compare(family: str, numenv: int, pairs: int, slice_s: float) -> dict[str, Any]:
    """The ratio envpool-numa / envpool-async over the given pairs of slices."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    one = Arm(family, "envpool-async", numenv, {})
    two = Arm(family, "envpool-numa", numenv, {"nodes": "/".join(map(str, cores))})
    calls = 64
    for _ in range(3):  # this also gets past the first resets and cold caches
        calls = max(16, int(one.slice(calls) * slice_s / numenv))
        two.slice(calls)
    one.results = two.results = 0
    one.cpu_s = two.cpu_s = 0.0
    logs = []
    for pair in range(pairs):
        rates = {arm: arm.slice(calls) for arm in ((one, two) if pair % 2 else (two, one))}
        logs.append(math.log(rates[two] / rates[one]))
    one.adapter.close()
    two.adapter.close()
    per_cpu = (two.results / two.cpu_s) / (one.results / one.cpu_s)
    what = {"env": family, "backend": "envpool-numa", "numenv": numenv, "pairs": pairs}
    return {**what, "per_cpu": per_cpu, **real_steps.summary(logs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--slice", type=float, default=0.5, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=4)
    parser.add_argument("--env", choices=real_steps.FAMILIES, action="append")
    given = parser.parse_args()
    for family in given.env or real_steps.FAMILIES:
        print(json.dumps(compare(family, given.numenv, given.pairs, given.slice_s)), flush=True)


if __name__ == "__main__":
    main()
