"""Does measuring cost anything on JAX? envbench's windows against the library's bare loop.

    python tests/benchmarks/loop_cost_jax.py --backend brax --mode scan [--pairs 30] [--slice 0.5] …

The script restarts itself in the backend's own runtime (``envbench setup`` builds it). Two loops
step *one* batch of environments alternately in one process. One is envbench's ``Meter`` and
adapter, whose loop takes its length as an argument. The other is the loop that JAX's documentation
recommends. In mode scan it is a ``jax.lax.scan`` of a fixed length and the same step, which returns
every observation, reward and done. In mode step it calls the jitted step for each batch and waits
at the end. Slices have equal numbers of calls, in ABBA order. The result is the mean of the log
ratios of pairs with a 95 % t-interval: 1.00 means no cost, 0.99 means 1 %. Ratios use the clock
and, on a CPU, also the processor time of all threads (``cpu_…``), which is steadier if others use
the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "envbench" / "worker"
ADAPTERS = {"brax": "brax_env:Brax", "mjx": "mujoco.mjx:Mjx"}
PROTOCOL = {"window_s": 0.25, "warmup_min_s": 1.0, "warmup_max_s": 4.0, "measured_s": 1.0}


class Seconds(NamedTuple):
    """Seconds of clock time and of processor time."""

    clock: float
    cpu: float

    def __sub__(self, earlier: Seconds) -> Seconds:
        return Seconds(self.clock - earlier.clock, self.cpu - earlier.cpu)


def now() -> Seconds:
    return Seconds(time.perf_counter(), time.process_time())


class Ours:
    """The adapter under the meter, as a worker runs it. Events go to /dev/null."""

    def __init__(self, adapter: Any) -> None:
        from envbench_worker.measure import Meter

        self.adapter = adapter
        self.sink = os.open(os.devnull, os.O_WRONLY)
        self.meter = Meter(adapter, PROTOCOL, self._emit)

    def stretch(self, calls: int) -> Seconds:
        start = now()
        self.meter.run_window("measure", self.meter.measured, calls)
        return now() - start

    def _emit(self, event: dict[str, Any]) -> None:
        os.write(self.sink, (json.dumps(event) + "\n").encode())


def returned(state: Any) -> Any:
    """What a learner stores per step: Brax's results, or a physics state."""
    return (
        (state.obs, state.reward, state.done) if hasattr(state, "obs") else (state.qpos, state.qvel)
    )


class BareScan:
    """``jax.lax.scan`` of ``calls`` steps over actions that are already on the device.

    ``options`` go to ``jax.jit``.
    """

    def __init__(self, adapter: Any, **options: Any) -> None:
        import jax

        def unroll(state: Any, batches: Any) -> Any:
            def one(state: Any, batch: Any) -> Any:
                state = adapter.step(state, batch)
                return state, returned(state)

            return jax.lax.scan(one, state, batches)

        self.jax, self.adapter, self.unroll = jax, adapter, jax.jit(unroll, **options)
        self.batches = cycle(adapter.bank)

    def stretch(self, calls: int) -> Seconds:
        batches = self.jax.device_put(np.stack(list(islice(self.batches, calls))))
        self.jax.block_until_ready(batches)
        start = now()
        self.adapter.state, results = self.unroll(self.adapter.state, batches)
        self.jax.block_until_ready((self.adapter.state, results))
        return now() - start


class BareStep:
    """``state = step(state, batch)`` for each batch, and a wait at the end."""

    def __init__(self, adapter: Any) -> None:
        import jax

        self.jax, self.adapter, self.step = jax, adapter, jax.jit(adapter.step)
        self.batches = cycle(adapter.bank)

    def stretch(self, calls: int) -> Seconds:
        step, state = self.step, self.adapter.state
        start = now()
        for batch in islice(self.batches, calls):
            state = step(state, batch)
        self.jax.block_until_ready(state)
        self.adapter.state = state
        return now() - start


def made(given: argparse.Namespace) -> Any:
    from envbench_worker.contract import Job

    module, _, name = ADAPTERS[given.backend].partition(":")
    settings = {"mode": given.mode, "pipeline": given.pipeline}
    job = Job("measure", "mujoco", "Ant-v3", given.numenv, given.numenv, 5, settings, 1)
    adapter = getattr(import_module("envbench_adapters." + module), name)(job)
    adapter.build()
    adapter.compile()
    adapter.prepare()
    return adapter


def compare(given: argparse.Namespace) -> dict[str, Any]:
    """The ratio ours / bare of steps per second over the given pairs of slices."""
    adapter = made(given)
    ours = Ours(adapter)
    bare = BareScan(adapter) if given.mode == "scan" else BareStep(adapter)
    ours.stretch(1)
    calls = 4
    while (seconds := ours.stretch(calls).clock) < given.slice_s and calls < len(adapter.bank):
        calls *= 2
    calls = max(1, min(len(adapter.bank), int(calls * given.slice_s / seconds)))
    bare.stretch(calls)  # compiles, because a scan has a fixed length
    compiled, logs = len(adapter.compiled), []
    for pair in range(given.pairs):
        if pair % 2:
            b, a = bare.stretch(calls), ours.stretch(calls)
        else:
            a, b = ours.stretch(calls), bare.stretch(calls)
        logs.append([math.log(b.clock / a.clock), math.log(b.cpu / a.cpu)])
    assert len(adapter.compiled) == compiled, "a slice compiled something"
    by_clock, by_cpu = (summary(list(each)) for each in zip(*logs, strict=True))
    by_cpu = {f"cpu_{name}": value for name, value in by_cpu.items()}
    return {**vars(given), "calls": calls, **by_clock, **by_cpu}


def summary(logs: list[float]) -> dict[str, Any]:
    from scipy.stats import t

    mean, sd = statistics.fmean(logs), statistics.stdev(logs)
    half = float(t.ppf(0.975, len(logs) - 1)) * sd / math.sqrt(len(logs))
    interval = [math.exp(mean - half), math.exp(mean + half)]
    middle = math.exp(statistics.median(logs))
    return {"ratio": math.exp(mean), "interval": interval, "median": middle, "pair_sd": sd}


def in_its_runtime(backend: str, script: str = __file__) -> int:
    """Run the script again with the backend's own interpreter."""
    sys.path.insert(0, str(ROOT))
    from envbench import backends, runtimes

    found = runtimes.find(backends.get(backend), {}, "mujoco")
    if not found.ready:
        found = runtimes.make(backends.get(backend), lambda line: None, "mujoco")
    return subprocess.call([found.python, script, "--here", *sys.argv[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=list(ADAPTERS), default="brax")
    parser.add_argument("--mode", choices=["scan", "step"], default="scan")
    parser.add_argument("--pipeline", default="generalized")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--slice", type=float, default=0.5, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=64)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.here:
        return in_its_runtime(given.backend)
    sys.path.insert(0, str(WORKER))
    print(json.dumps(compare(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
