"""How often is the rule of ``envbench check`` wrong on pairs recorded on a real machine?

    python tests/studies/check_resampled.py [--results FOLDER]

The equal checks (A/A) of ``check_live.py`` have dozens of pairs per cell. Pairs are independent,
fresh processes, so every selection of the same size is equally likely. The study draws checks from
them, and the same number of other pairs for a second stage with exchanged sides. A slowdown makes
each time of the candidate longer. A check contains no pair twice. If a cell has too few pairs for
two stages, they are drawn with replacement. The truth that an interval should cover is the
(trimmed) mean of all pairs of the cell; the table shows it. Sixty pairs determine it only to 0.3 %,
so a slowdown is put into pairs from which that mean was removed.

The study is seeded and prints the same table again. Bounds are exact (Clopper-Pearson, 95 %) for
the drawing. They do not cover hours that were not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import click
import numpy as np
from check_live import RESULTS, all_made, read
from check_simulated import judged
from document import fill, share
from tabulate import tabulate

from envbench import backends
from envbench.decisions.slowdown import (
    Slices,
    effect,
    stage,
    step_stages,
    usual_effect,
)
from envbench.experiments.check.cells import PRECISE, SPREADS, precise_pairs
from envbench.experiments.check.verdicts import slices_of
from envbench.experiments.pairs import DEFAULT_PAIRS, cell_of
from envbench.model import Rule

RULE = Rule()


def drawn(rng: Any, pairs: Sequence[Slices], count: int, slowdown: float) -> list[list[Slices]]:
    """Two stages of ``count`` pairs each; the sides of the second are exchanged."""
    few = 2 * count > len(pairs)
    chosen = [pairs[k] for k in rng.choice(len(pairs), size=2 * count, replace=few)]
    exchanged = [(theirs, ours, invalid) for ours, theirs, invalid in chosen[count:]]
    return [slower(chosen[:count], slowdown), slower(exchanged, slowdown)]


def slower(pairs: Sequence[Slices], slowdown: float) -> list[Slices]:
    """The pairs with a slower candidate."""
    return [
        (ours, [time / (1 - slowdown) for time in theirs], invalid)
        for ours, theirs, invalid in pairs
    ]


def verdicts(
    rng: Any, pairs: Sequence[Slices], count: int, slowdown: float, checks: int
) -> tuple[dict[str, int], int]:
    """How many checks reached each verdict, and how many intervals covered the truth."""
    found = {"PASS": 0, "REGRESSION": 0, "IMPROVEMENT": 0, "INCONCLUSIVE": 0}
    covered = 0
    truth = ratio(pairs)
    for _ in range(checks):
        early, late = (step_stages(each, RULE) for each in drawn(rng, pairs, count, slowdown))
        verdict, (low, high) = judged(early, late)
        covered += low <= truth * (1 - slowdown) <= high
        found[verdict] += 1
    return found, covered


def row(rng: Any, cell: str, pairs: Sequence[Slices], checks: int) -> list[str]:
    precise = precise_pairs(SPREADS[backends.get(cell.split("/")[2]).behaviour.steps_in], RULE)
    same, covered = verdicts(rng, pairs, DEFAULT_PAIRS, 0.0, checks)
    equal = slower(pairs, 1 - 1 / ratio(pairs))
    much, _ = verdicts(rng, equal, DEFAULT_PAIRS, 0.05, checks // 4)
    little, _ = verdicts(rng, equal, precise, PRECISE, checks // 4)
    return [
        cell,
        str(len(pairs)),
        f"{ratio(pairs):.4f}",
        f"{spread(usual_effect, pairs)}, {spread(effect, pairs)}",
        share(same["REGRESSION"], checks),
        share(same["INCONCLUSIVE"], checks),
        share(covered, checks),
        share(much["REGRESSION"], checks // 4),
        f"{share(little['REGRESSION'], checks // 4)} by {precise}",
    ]


def ratio(pairs: Sequence[Slices]) -> float:
    """Candidate over baseline, from all pairs."""
    return stage([each for pair in pairs if (each := usual_effect(*pair)) is not None], RULE).ratio


def spread(of: Any, pairs: Sequence[Slices]) -> str:
    return f"{100 * stdev(of(*pair) for pair in pairs):.1f} %"


def recorded(results: Path) -> dict[str, list[Slices]]:
    """All pairs of equal sides, by cell."""
    found: dict[str, list[Slices]] = {}
    for made in all_made(results):
        if made.study in ("same", "cells"):
            for pair in read(results / made.file)[1]:
                if pair.failure is None:
                    found.setdefault(cell_of(pair).key, []).append(slices_of(pair))
    return found


def table(results: Path, checks: int, seed: int) -> str:
    heads = ["cell", "pairs", "candidate / baseline", "spread: steps, all steps",
             "false alarms", "inconclusive", "interval covers",
             f"5 % found, {DEFAULT_PAIRS} pairs", "2 % found, precise"]  # fmt: skip
    rows = [
        row(np.random.default_rng([seed, number]), cell, pairs, checks)
        for number, (cell, pairs) in enumerate(recorded(results).items())
    ]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS)
@click.option("--checks", default=4000, show_default=True, help="Draw this many checks per cell.")
@click.option("--seed", default=1, show_default=True)
def main(results: Path, checks: int, seed: int) -> None:
    """Print the table, and put it into docs/studies.md."""
    text = table(results, checks, seed)
    click.echo(text)
    if results.absolute() == RESULTS:
        fill("check-resampled", text)


if __name__ == "__main__":
    main()
