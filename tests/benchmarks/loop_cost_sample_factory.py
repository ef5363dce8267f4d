"""Does measuring cost anything? envbench's windows against Sample Factory's own sampling loop.

    RUNTIME/bin/python tests/benchmarks/loop_cost_sample_factory.py [--pairs 60] [--slice 0.5]

RUNTIME is the runtime of the backend (``envbench setup sample-factory`` says where). Two loops step
one set of samplers alternately in one process. One is the adapter under envbench's ``Meter``. The
other is the loop of the library's own example
(``sf_examples.sampler.use_simplified_sampling_api``), which counts the samples of each trajectory
and prints their rate. Slices are equal numbers of trajectories, in ABBA order. The figure is the
mean of the log ratios of pairs of slices, with a 95 % interval. The example's own function prints
the rate of its slices for comparison.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

for pool in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
    os.environ.setdefault(pool, "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "envbench" / "worker"))

from envbench_adapters.sample_factory.sampler import SampleFactory  # noqa: E402
from envbench_worker.contract import Job  # noqa: E402
from envbench_worker.measure import Meter  # noqa: E402
from sample_factory.algo.utils.rl_utils import samples_per_trajectory  # noqa: E402
from sf_examples.sampler.use_simplified_sampling_api import _print_fps_stats  # noqa: E402

TASKS = {"atari": ("Pong-v5", 4), "mujoco": ("Ant-v3", 5)}


class Ours:
    """The adapter under the meter, as a worker runs it. Events go to /dev/null."""

    def __init__(self, adapter: Any) -> None:
        sink = os.open(os.devnull, os.O_WRONLY)
        self.meter = Meter(adapter, {}, lambda event: os.write(sink, json.dumps(event).encode()))
        self.seconds = 0.0

    def stretch(self, calls: int) -> float:
        start = time.perf_counter()
        self.meter.run_window("measure", self.meter.measured, calls)
        seconds = time.perf_counter() - start
        self.seconds += seconds
        return seconds


class Bare:
    """The loop of the library's example: a sampler without a learner."""

    def __init__(self, adapter: Any) -> None:
        self.api, self.numenv = adapter.api, adapter.job.numenv
        self.seconds, self.samples = 0.0, 0

    def stretch(self, calls: int) -> float:
        sampled = 0
        start = time.perf_counter()
        while sampled < calls * self.numenv:
            trajectory = self.api.get_trajectories_sync()
            sampled += samples_per_trajectory(trajectory)
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self.samples += sampled
        return seconds


def compare(family: str, numenv: int, pairs: int, slice_s: float) -> dict[str, Any]:
    task, frame_skip = TASKS[family]
    settings = {"envs_per_worker": 1, "worker_splits": 1}
    adapter = SampleFactory(Job("measure", family, task, numenv, numenv, frame_skip, settings, 1))
    adapter.build()
    ours, bare = Ours(adapter), Bare(adapter)
    rollout = adapter.cfg.rollout
    for _ in range(8):
        seconds = bare.stretch(4 * rollout)
    calls = max(1, round(slice_s / seconds * 4)) * rollout
    bare = Bare(adapter)
    logs = []
    for pair in range(pairs):
        if pair % 2:
            b, a = bare.stretch(calls), ours.stretch(calls)
        else:
            a, b = ours.stretch(calls), bare.stretch(calls)
        logs.append(math.log(b / a))
    adapter.close()
    _print_fps_stats(adapter.cfg, deque([(0.0, 0), (bare.seconds, bare.samples)]))
    rate = sum(ours.meter.measured.steps) / ours.seconds
    mean, half = statistics.fmean(logs), 1.96 * statistics.stdev(logs) / math.sqrt(pairs)
    return {
        "env": family,
        "backend": "sample-factory",
        "numenv": numenv,
        "pairs": pairs,
        "calls": calls,
        "ratio": math.exp(mean),
        "interval": [math.exp(mean - half), math.exp(mean + half)],
        "steps_per_second": rate,
        "library_steps_per_second": bare.samples / bare.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--slice", type=float, default=0.5, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=2)
    parser.add_argument("--env", choices=list(TASKS), action="append")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for family in given.env or TASKS:
            print(json.dumps(compare(family, given.numenv, given.pairs, given.slice_s)), flush=True)


if __name__ == "__main__":
    main()
