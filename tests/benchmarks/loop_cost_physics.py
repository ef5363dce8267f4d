"""Does measuring cost anything? The physics backends against their libraries' bare loops.

    RUNTIME/bin/python tests/benchmarks/loop_cost_physics.py BACKEND [--pairs 60] [--slice 0.25]
        [--numenv 16] [--cpu]

BACKEND is mujoco-rollout, mujoco-warp or genesis. RUNTIME is the runtime of that backend. Two loops
step one set of worlds alternately in one process: envbench's adapter under the meter, as a worker
runs it, and the loop that the library's documentation recommends. Slices have equal numbers of
calls, in ABBA order. The figure is the mean of the log ratios of pairs of slices with a 95 %
interval of 1.96 standard errors: 1.00 means no cost, 0.99 means 1 %. ``--cpu`` uses the processor
time of the process instead of the clock, for a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "envbench" / "worker"))

from envbench_worker.contract import Job
from envbench_worker.measure import Meter

ADAPTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mujoco-rollout": ("mujoco.rollout:MujocoRollout", {"threads": 0, "horizon": 1}),
    "mujoco-warp": ("mujoco.warp:MujocoWarp", {}),
    "genesis": ("genesis_scene:Genesis", {"threads": 0}),
}
PROTOCOL = {"window_s": 0.25, "warmup_min_s": 1.0, "warmup_max_s": 4.0, "measured_s": 1.0}
Loop = Callable[[int], None]


def bare_rollout(adapter: Any) -> Loop:
    """Five physics steps per control from the last states, into memory that is reused."""
    import numpy as np

    roll, model, datas = adapter.pool.rollout, adapter.model, adapter.datas
    batches = cycle([batch.astype(np.float64) for batch in adapter.bank])

    def loop(calls: int) -> None:
        state = adapter.states
        for batch in islice(batches, calls):
            held = np.repeat(batch[:, None], 5, axis=1)
            state, _ = roll(model, datas, state[:, -1], held, state=adapter.room)
        adapter.states = state

    return loop


def bare_warp(adapter: Any) -> Loop:
    """Copy the controls and launch the graph per step. Wait once at the end."""
    import warp as wp

    batches = cycle(adapter.bank)

    def loop(calls: int) -> None:
        for batch in islice(batches, calls):
            wp.copy(adapter.data.ctrl, batch)
            wp.capture_launch(adapter.graph)
        wp.synchronize()

    return loop


def bare_genesis(adapter: Any) -> Loop:
    """``control_dofs_force``, then ``scene.step``. Wait once at the end."""
    import genesis as gs

    batches = cycle(adapter.bank)

    def loop(calls: int) -> None:
        for batch in islice(batches, calls):
            adapter.ant.control_dofs_force(batch.to(gs.device), adapter.dofs)
            adapter.scene.step()
        gs.qd.sync()

    return loop


BARE = {"mujoco-rollout": bare_rollout, "mujoco-warp": bare_warp, "genesis": bare_genesis}


def compare(
    name: str, numenv: int, pairs: int, slice_s: float, clock: Callable[[], float]
) -> dict[str, Any]:
    """The ratio ours / bare of calls per second over the given pairs of slices."""

    def seconds(loop: Loop, calls: int) -> float:
        start = clock()
        loop(calls)
        return clock() - start

    place, settings = ADAPTERS[name]
    module, _, attribute = place.partition(":")
    job = Job("measure", "mujoco", "Ant-v3", numenv, numenv, 5, settings, 1)
    adapter = getattr(import_module("envbench_adapters." + module), attribute)(job)
    adapter.build()
    adapter.compile()
    adapter.prepare()
    sink = os.open(os.devnull, os.O_WRONLY)
    meter = Meter(adapter, PROTOCOL, lambda event: _write(sink, event))
    bare = BARE[name](adapter)

    def ours(calls: int) -> None:
        meter.run_window("measure", meter.measured, calls)

    calls = 1
    while seconds(bare, calls) < 4 * slice_s:  # this also gets past the first falls and cold caches
        calls *= 2
    ours(calls)
    calls = max(1, int(calls * slice_s / seconds(bare, calls)))
    logs = []
    for pair in range(pairs):
        if pair % 2:
            b, a = seconds(bare, calls), seconds(ours, calls)
        else:
            a, b = seconds(ours, calls), seconds(bare, calls)
        logs.append(math.log(b / a))
    mean = statistics.fmean(logs)
    half = 1.96 * statistics.stdev(logs) / math.sqrt(pairs)
    interval = [math.exp(mean - half), math.exp(mean + half)]
    what = {"env": "mujoco", "backend": name, "numenv": numenv, "pairs": pairs}
    return {**what, "ratio": math.exp(mean), "interval": interval}


def _write(sink: int, event: dict[str, Any]) -> None:
    os.write(sink, (json.dumps(event) + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("backend", choices=list(ADAPTERS))
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--slice", type=float, default=0.25, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=16)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    clock = time.process_time if given.cpu else time.perf_counter
    print(json.dumps(compare(given.backend, given.numenv, given.pairs, given.slice_s, clock)))


if __name__ == "__main__":
    main()
