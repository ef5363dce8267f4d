"""Which speed does a learner get that computes between its steps?

    python tests/studies/learner.py                    # the missing processes, then the table

``envpool-sync`` is slower if nothing stops it than in slices: Linux then keeps both threads of its
pool on one core at times. A learner computes between its steps, which neither of the two does. Here
fresh processes step EnvPool's synchronous pool with eight environments, in its own loop without
envbench, in parts of ``STEPS`` vector steps each: without a pause; in slices of 0.1 s after a pause
of 0.4 s; and with 1 or 5 ms of NumPy in one thread after each step. Only the calls of ``step`` are
timed. Each process makes its parts in another random order. It takes about five minutes. Use the
machine for nothing else.

Processes are lines of ``results/studies/learner/steps.jsonl``. The table is in docs/studies.md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
from document import fill
from tabulate import tabulate

from envbench.machine.host import fingerprint
from envbench.stats.without_stops import pooled

RESULTS = Path(__file__).parents[2] / "results" / "studies" / "learner" / "steps.jsonl"
TASKS = {"Pong-v5": 8, "Ant-v4": 8}
PROCESSES, ROUNDS, STEPS = 5, 3, 500
SLICE_S, PAUSE_S = 0.1, 0.4
USUAL = "in slices"
WAYS = {USUAL: 0.0, "without a pause": 0.0, "1 ms of NumPy": 0.001, "5 ms of NumPy": 0.005}


def step_for(envs: Any, bank: list[Any], way: str) -> float:
    """Seconds in ``step``, of ``STEPS`` calls."""
    import numpy as np

    clock, some = time.perf_counter, np.random.default_rng(0).normal(size=(64, 64))
    took, since = 0.0, clock()
    for made in range(STEPS):
        if way == USUAL and clock() - since > SLICE_S:
            time.sleep(PAUSE_S)
            since = clock()
        start = clock()
        envs.step(bank[made % len(bank)])
        end = clock()
        took += end - start
        while clock() - end < WAYS[way]:
            some @ some
    return took


def one(task: str, seed: int) -> dict[str, Any]:
    """Seconds of each part of a new process, by way of stepping."""
    import envpool
    from gymnasium.vector.utils import batch_space

    count = TASKS[task]
    envs = envpool.make(task, "gymnasium", num_envs=count, seed=seed)
    space = batch_space(envs.action_space, count)
    space.seed(seed)
    bank = [space.sample() for _ in range(1024)]
    envs.reset()
    chance, found = random.Random(seed), defaultdict(list)
    step_for(envs, bank, "without a pause")
    for _ in range(ROUNDS):
        for way in chance.sample(list(WAYS), len(WAYS)):
            found[way].append(step_for(envs, bank, way))
    return {"task": task, "numenv": count, "seed": seed, "steps": STEPS, "seconds": found}


@click.command()
@click.option("--one", "single", nargs=2, hidden=True)
def main(single: tuple[str, str] | None) -> None:
    if single:
        print(json.dumps(one(single[0], int(single[1]))))
        return
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    known = [json.loads(line) for line in lines]
    host = fingerprint().host
    for seed in range(PROCESSES):
        for task in TASKS:
            if any((each["task"], each["seed"]) == (task, seed) for each in known):
                continue
            words = [sys.executable, __file__, "--one", task, str(seed)]
            limits = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            done = subprocess.run(
                words, env={**os.environ, **limits}, stdout=subprocess.PIPE, text=True, check=True
            )
            made = {**json.loads(done.stdout.splitlines()[-1]), "host": host}
            made["utc"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            known.append(made)
            with RESULTS.open("a") as file:
                file.write(json.dumps(made) + "\n")
            click.echo(f"{task}, process {seed + 1} of {PROCESSES}", err=True)
    fill("learner", tabulate(rows(known), headers=["way", *TASKS], tablefmt="github"))


def rows(known: list[dict[str, Any]]) -> list[list[str]]:
    """The speed of each way relative to slices, with the interval of the processes."""
    found = []
    for way in WAYS:
        row = [way]
        for task in TASKS:
            ratios = [
                sum(each["seconds"][USUAL]) / sum(each["seconds"][way])
                for each in known
                if each["task"] == task
            ]
            mean = pooled(ratios)
            if way == USUAL or mean is None or mean.interval is None:
                row.append("1")
                continue
            low, high = mean.interval
            row.append(f"{mean.ratio:.3f} ({low:.3f}–{high:.3f}), {mean.processes}")
        found.append(row)
    return found


if __name__ == "__main__":
    main()
