"""False alarms and missed slowdowns of the rule of ``envbench check`` on simulated noise.

    python tests/studies/check_simulated.py [--checks 20000]

Each row is a kind of noise. The slices of a pair follow one another in time and alternate in the
order of a real check. The simulated value is the logarithm of a slice's time per step. The noise is
scaled so that the effect with the smaller spread between pairs (of the usual pace, or of all
slices) has the standard deviation that EnvPool shows on a shared machine of two cores (1.9 %).
Bounds are exact (Clopper-Pearson, 95 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import click
import numpy as np
from document import fill, share
from tabulate import tabulate

from envbench.decisions.slowdown import (
    STEPS,
    Stage,
    Verdict,
    alarms,
    of_cell,
    stages_of,
)
from envbench.experiments.check.cells import PRECISE, SPREADS, precise_pairs
from envbench.experiments.pairs import DEFAULT_PAIRS, QUADS
from envbench.model import Rule

CHECKS, SEED = 20_000, 1
SPREAD = 0.019
PRECISE_PAIRS = precise_pairs(SPREADS["pool"], Rule())  # for a cell of EnvPool
SLICES = 4 * QUADS
Noise = Callable[[Any, int, int], Any]  # (generator, pairs of processes, slices) -> log times


def iid(rng: Any, pairs: int, slices: int) -> Any:
    return rng.normal(size=(pairs, slices))


def autocorrelated(rho: float) -> Noise:
    def noise(rng: Any, pairs: int, slices: int) -> Any:
        made = np.empty((pairs, slices))
        made[:, 0] = rng.normal(size=pairs)
        for k in range(1, slices):
            fresh = rng.normal(size=pairs)
            made[:, k] = rho * made[:, k - 1] + math.sqrt(1 - rho**2) * fresh
        return made

    return noise


def heavy_tails(rng: Any, pairs: int, slices: int) -> Any:
    return rng.standard_t(2.5, size=(pairs, slices))


def drift(rng: Any, pairs: int, slices: int) -> Any:
    height = rng.normal(scale=10.0, size=(pairs, 1))  # at the end
    return height * np.arange(slices) / slices + iid(rng, pairs, slices)


def steps(rng: Any, pairs: int, slices: int) -> Any:
    """The machine changes its speed once, at a random place in the pair."""
    at = rng.integers(0, slices, size=(pairs, 1))
    height = rng.normal(scale=5.0, size=(pairs, 1))
    return height * (np.arange(slices) >= at) + iid(rng, pairs, slices)


def periodic(rng: Any, pairs: int, slices: int) -> Any:
    """A neighbour whose period is close to two slices: the worst case for alternating slices."""
    phase = rng.uniform(0, 2 * math.pi, size=(pairs, 1))
    period = rng.uniform(1.8, 2.2, size=(pairs, 1))
    wave = np.sin(2 * math.pi * np.arange(slices) / period + phase)
    return 2 * wave + iid(rng, pairs, slices)


KINDS: dict[str, Noise] = {
    "independent": iid,
    "AR(1) 0.6": autocorrelated(0.6),
    "AR(1) 0.9": autocorrelated(0.9),
    "heavy tails (t, 2.5)": heavy_tails,
    "drift": drift,
    "a step": steps,
    "periodic, near two slices": periodic,
}
BURSTS = "bursts in one process"  # two of its threads share a core for a while
OFFSETS = "process offsets"  # every process is faster or slower for its whole life
CORES = "asymmetric cores"  # every other pair's core is 10 % slower, for both of its processes
LINES = [*KINDS, BURSTS, OFFSETS, CORES]


def stages(
    rng: Any, kind: str, pairs: int, slowdown: float, checks: int, rule: Rule
) -> list[dict[str, Stage]]:
    """What one stage of each check says about steps."""
    times, turns = slices(rng, kind, checks * pairs, slowdown)
    usual, every = (
        of(times, turns).reshape(checks, pairs).tolist() for of in (usual_effects, effects)
    )
    return [stages_of(*each, rule) for each in zip(usual, every, strict=True)]


def slices(rng: Any, kind: str, count: int, slowdown: float) -> tuple[Any, Any]:
    """The times per step of ``count`` pairs, slice by slice, and the side of each slice."""
    firsts = rng.integers(0, 2, size=(count, QUADS))
    turns = np.concatenate([np.stack([b, 1 - b, 1 - b, b], axis=1) for b in firsts.T], axis=1)
    if kind == OFFSETS:
        noise = 0.3 * iid(rng, count, SLICES)
        noise = noise + np.where(turns == 1, rng.normal(size=(count, 1)), 0)
    elif kind in (CORES, BURSTS):
        noise = iid(rng, count, SLICES)
    else:
        noise = KINDS[kind](rng, count, SLICES)
    if kind == BURSTS:
        noise = noise + sum(_burst(rng, turns == side) for side in (0, 1))
    small = 1e-3  # so small that logarithms add up
    made = np.exp(small * noise)
    least = min(np.std(of(made, turns)) for of in (usual_effects, effects))
    scale = small * SPREAD / least
    core = np.where(np.arange(count) % 2, 0.1, 0.0)[:, None] if kind == CORES else 0.0
    return np.exp(scale * noise + core) / np.where(turns == 1, 1 - slowdown, 1.0), turns


def _burst(rng: Any, own: Any) -> Any:
    """In two of five pairs, a fifth of one arm's slices in a row take twice as long."""
    place = np.cumsum(own, axis=1) - 1
    count = SLICES // 10
    first = rng.integers(0, SLICES // 2 - count + 1, size=(len(own), 1))
    hit = rng.random(size=(len(own), 1)) < 0.4
    return 7.0 * (own & hit & (place >= first) & (place < first + count))


def usual_effects(times: Any, turns: Any) -> Any:
    """Like ``regression.usual_effect``: interquartile mean of log(baseline / candidate time)."""
    ours, theirs = _arms(times, turns)
    ratios = np.sort(np.log(ours / theirs), axis=1)
    cut = SLICES // 8
    return ratios[:, cut : SLICES // 2 - cut].mean(axis=1)


def effects(times: Any, turns: Any) -> Any:
    """Like ``regression.effect``: from all slices."""
    ours, theirs = _arms(times, turns)
    return np.log(ours.sum(axis=1) / theirs.sum(axis=1))


def _arms(times: Any, turns: Any) -> list[Any]:
    return [times[turns == side].reshape(len(times), -1) for side in (0, 1)]


def outcomes(rng: Any, kind: str, pairs: int, slowdown: float, checks: int, rule: Rule) -> Any:
    """How many checks ended in each verdict, and how many intervals covered the truth."""
    found = {"PASS": 0, "REGRESSION": 0, "IMPROVEMENT": 0, "INCONCLUSIVE": 0}
    covered = 0
    first, second = (stages(rng, kind, pairs, slowdown, checks, rule) for _ in (1, 2))
    for early, late in zip(first, second, strict=True):
        verdict, (low, high) = judged(early, late)
        covered += low <= 1 - slowdown <= high
        found[verdict] += 1
    return found, covered


def judged(
    early: Mapping[str, Stage], late: Mapping[str, Stage]
) -> tuple[Verdict, tuple[float, float]]:
    """The verdict from stage one and, after an alarm, stage two; the interval of stage one."""
    return of_cell(early, late if alarms(early) else None)[0], early[STEPS].interval


def row(kind: str, checks: int, seed: int) -> list[str]:
    rule = Rule()
    rng = np.random.default_rng([seed, LINES.index(kind)])
    fewer = checks // 4
    same, covered = outcomes(rng, kind, DEFAULT_PAIRS, 0.0, checks, rule)
    slower, _ = outcomes(rng, kind, DEFAULT_PAIRS, 0.05, fewer, rule)
    little, _ = outcomes(rng, kind, PRECISE_PAIRS, PRECISE, fewer, rule)
    return [
        kind,
        share(same["REGRESSION"], checks),
        share(same["INCONCLUSIVE"], checks),
        share(covered, checks),
        share(slower["REGRESSION"], fewer),
        share(little["REGRESSION"], fewer),
    ]


@click.command()
@click.option("--checks", default=CHECKS, show_default=True)
@click.option("--seed", default=SEED, show_default=True)
def main(checks: int, seed: int) -> None:
    """Print the table, and put it into docs/studies.md."""
    with ProcessPoolExecutor() as pool:  # each row has a seed of its own
        rows = list(pool.map(partial(row, checks=checks, seed=seed), LINES))
    heads = [
        "noise",
        "false alarms",
        "inconclusive",
        "interval covers",
        f"5 % found, {DEFAULT_PAIRS} pairs",
        f"2 % found, {PRECISE_PAIRS} pairs",
    ]
    text = tabulate(rows, heads, tablefmt="github", disable_numparse=True)
    click.echo(text)
    if (checks, seed) == (CHECKS, SEED):
        fill("check-simulated", text)


if __name__ == "__main__":
    main()
