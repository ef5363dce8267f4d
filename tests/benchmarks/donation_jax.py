"""Does it matter on JAX whether a scan donates its buffers?

    python tests/benchmarks/donation_jax.py --backend brax --numenv 64 [--rounds 20] [--slice 0.5]

A program that donates its arguments may write the new state over the old one. Brax's training
donates them. Four programs step one batch of environments in one process: envbench's loop and a
bare ``jax.lax.scan`` (``loop_cost_jax.py``), each with and without donation. In every round each
program steps one slice, in random order, with equal numbers of steps. The result is the mean of the
log ratios of rounds with a 95 % t-interval. Above 1.00 the first of the two is faster. Ratios use
the clock and, on a CPU, also processor time (``cpu_…``), which is steadier if others use the
machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from typing import Any

import loop_cost_jax
from loop_cost_jax import ADAPTERS, WORKER, BareScan, Ours, Seconds

RATIOS = {
    "ours: donated / kept": ("ours donated", "ours kept"),
    "bare: donated / kept": ("bare donated", "bare kept"),
    "ours kept / bare kept": ("ours kept", "bare kept"),
    "ours donated / bare donated": ("ours donated", "bare donated"),
}


class OursWith(Ours):
    """The adapter under the meter, with its own program that donates these arguments."""

    def __init__(self, adapter: Any, donated: tuple[int, ...]) -> None:
        super().__init__(adapter)
        adapter.donated = donated
        self.programs = {adapter.first_calls: adapter.program(adapter.first_calls)}

    def stretch(self, calls: int) -> Seconds:
        self.adapter.programs = self.programs
        return super().stretch(calls)


def arms_of(adapter: Any) -> dict[str, Any]:
    return {
        "ours kept": OursWith(adapter, ()),
        "ours donated": OursWith(adapter, (0, 1)),
        "bare kept": BareScan(adapter),
        "bare donated": BareScan(adapter, donate_argnums=0),
    }


def fitting(arms: dict[str, Any], chunk: int, slice_s: float, most: int) -> int:
    """The steps of about one slice: whole chunks, at most as many as the bank has batches."""
    arm = arms["ours kept"]
    arm.stretch(chunk)
    calls = chunk
    while (seconds := arm.stretch(calls).clock) < slice_s and 2 * calls <= most:
        calls *= 2
    chunks = int(min(most, calls * slice_s / seconds)) // chunk
    return max(1, chunks) * chunk


def compare(given: argparse.Namespace) -> dict[str, Any]:
    """The ratios of steps per second over the given rounds of four slices."""
    adapter = loop_cost_jax.made(given)
    arms = arms_of(adapter)
    calls = fitting(arms, adapter.first_calls, given.slice_s, len(adapter.bank))
    for arm in arms.values():
        arm.stretch(calls)  # compiles, because a scan has a fixed length
    compiled, rounds, chance = len(adapter.compiled), [], random.Random(given.numenv)
    for done in range(given.rounds):
        names = chance.sample(list(arms), len(arms))
        rounds.append({name: arms[name].stretch(calls) for name in names})
        print(f"round {done + 1} of {given.rounds}", file=sys.stderr)
    assert len(adapter.compiled) == compiled, "a slice compiled something"
    return {**vars(given), "calls": calls, "ratios": ratios(rounds)}


def ratios(rounds: list[dict[str, Seconds]]) -> dict[str, Any]:
    found = {}
    for name, (a, b) in RATIOS.items():
        by_clock = loop_cost_jax.summary(
            [math.log(each[b].clock / each[a].clock) for each in rounds]
        )
        by_cpu = loop_cost_jax.summary([math.log(each[b].cpu / each[a].cpu) for each in rounds])
        found[name] = {**by_clock, **{f"cpu_{key}": value for key, value in by_cpu.items()}}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=list(ADAPTERS), default="brax")
    parser.add_argument("--pipeline", default="generalized")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--slice", type=float, default=0.5, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=64)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.mode = "scan"
    if not given.here:
        return loop_cost_jax.in_its_runtime(given.backend, __file__)
    sys.path.insert(0, str(WORKER))
    print(json.dumps(compare(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
