"""How long should a slice of a check be, and which effect of its slices should count?

    python tests/studies/slice_length.py               # resumes if it was stopped

Pairs of equal workers step in slices of 100, 20, 10 and 5 ms. All lengths get the same total time,
in rounds of random order, so that each length is measured in the same hours. Three effects are
computed from the slices of each pair: from all slices, from the faster half of each side, and from
the interquartile mean of neighbours' ratios. The less an effect differs between equal pairs, the
better. Pairs are lines of ``results/studies/slice-length/pairs.jsonl``. The table is in
docs/studies.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from statistics import stdev

import click
import msgspec
from document import fill
from tabulate import tabulate

from envbench.decisions import slowdown
from envbench.engine import request as cells
from envbench.engine.local_executor import LocalExecutor
from envbench.engine.request import CellRequest
from envbench.engine.target import Target
from envbench.experiments import pairs
from envbench.experiments.check import sources
from envbench.machine import choose, fingerprint, lock, usable_cores
from envbench.model import Block, Programme, Trial, arm_key

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "studies" / "slice-length"
CELLS = ("mujoco/for-loop/1", "mujoco/envpool-sync/4", "atari/envpool-async/4")
LENGTHS_MS = (100, 20, 10, 5)
STEPPING_MS = 2000  # of both sides together


class Stepped(msgspec.Struct, frozen=True, kw_only=True):
    """A pair: nanoseconds per step of each side's slices."""

    cell: str
    slice_ms: int
    seed: int
    ours: list[float]
    theirs: list[float]


def faster_half(ours: Sequence[float], theirs: Sequence[float]) -> float:
    half = (len(ours) + 1) // 2
    return math.log(sum(sorted(ours)[:half]) / sum(sorted(theirs)[:half]))


def _known(of: Callable[..., float | None]) -> Callable[..., float]:
    return lambda *sides: of(*sides) or 0.0


EFFECTS: dict[str, Callable[..., float]] = {
    "all slices": _known(slowdown.effect),
    "faster halves": faster_half,
    "neighbours": _known(slowdown.usual_effect),
}


def step(text: str, target: Target, slice_ms: int, seed: int) -> Stepped:
    cell = target.cell
    arm = sources.make(sources.prepare("candidate", sources.Source()), target, click.echo)
    turns = pairs.turns(STEPPING_MS // (4 * slice_ms), seed)
    alone = target.backend.behaviour.steps_in == "one-thread"
    cores = usable_cores() if alone else []
    trial = Trial(
        cell=cell,
        arm=arm.name,
        seed=seed,
        protocol=pairs.design(1).protocol,
        cpus=[cores[seed % len(cores)]] if cores else [],
    )
    programme = Programme(
        turns=turns,
        slice_s=slice_ms / 1e3,
        equal_calls=True,
        reset_turns=turns[: pairs.RESET_SLICES],
    )
    block = Block(trials=[trial, trial], programme=programme)
    sides = []
    for made in LocalExecutor().run(block, {arm_key(arm.name, cell): arm}, lambda _: None).trials:
        if made.failure is not None:
            raise SystemExit(f"{text}: {made.failure.message}")
        slices = made.measured
        sides.append([ns / steps for ns, steps in zip(slices.ns, slices.steps, strict=True)])
    return Stepped(cell=text, slice_ms=slice_ms, seed=seed, ours=sides[0], theirs=sides[1])


def make_all(path: Path, rounds: int) -> None:
    """Measure in rounds: every cell and length once per round, in a random order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = fingerprint()
    profile = choose(None, machine)
    done = {(each.cell, each.slice_ms, each.seed) for each in read(path)}
    for number in range(rounds):
        round_ = [(cell, length) for cell in CELLS for length in LENGTHS_MS]
        random.Random(number).shuffle(round_)
        for (text, length), seed in zip(round_, count(1000 * number), strict=False):
            if (text, length, seed) in done:
                continue
            family, backend, numenv = text.split("/")
            asked = CellRequest(family=family, backends=[backend], numenv=[int(numenv)])
            (target,) = cells.choose(asked, profile, machine.usable_cpus).targets
            with path.open("ab") as file:
                file.write(msgspec.json.encode(step(text, target, length, seed)) + b"\n")
        click.echo(f"round {number + 1} of {rounds}")


def read(path: Path) -> list[Stepped]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Stepped) for line in lines]


def table(made: Sequence[Stepped]) -> str:
    rows = []
    for cell in CELLS:
        for length in LENGTHS_MS:
            own = [each for each in made if (each.cell, each.slice_ms) == (cell, length)]
            if len(own) > 1:
                shown = [spread([of(x.ours, x.theirs) for x in own]) for of in EFFECTS.values()]
                rows.append([cell, f"{length} ms", str(len(own)), *shown])
    heads = ["cell", "slice", "pairs", *EFFECTS]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def spread(effects: Sequence[float]) -> str:
    found = stdev(effects)
    low, high = slowdown.spread_interval(found, len(effects))
    return f"{100 * found:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS)
@click.option("--pairs", default=12, show_default=True, help="Pairs per cell and length.")
def main(results: Path, pairs: int) -> None:
    """Measure the missing pairs, and fill the table of docs/studies.md."""
    path = results / "pairs.jsonl"
    with lock.acquire(wait=True, on_wait=click.echo):
        make_all(path, pairs)
    text = table(read(path))
    click.echo(text)
    if results.absolute() == RESULTS:
        fill("slice-length", text)


if __name__ == "__main__":
    main()
