"""How often the rule of ``envbench check`` is wrong on pairs that were recorded on a real machine.

    python tests/studies/check_resampled.py [--results FOLDER]

The equal checks (A/A) of ``check_live.py`` have dozens of pairs of a cell. Pairs are independent,
fresh processes: a check of some is as likely as any other so many of them. Checks are drawn from
them, with as many other pairs for a second stage, whose sides are exchanged; a slowdown is put in
by making each time of the candidate's longer. No pair is twice in a check, but where a cell has
too few pairs for two stages: there they are drawn with return. The truth that an interval should
cover is the (trimmed) mean of all pairs of the cell, and is shown. Sixty pairs know it to 0.3 %
only: so a slowdown is put into pairs of which that mean was taken off.
Seeded: it prints its table again. Bounds are exact (Clopper-Pearson, 95 %) for the drawing, and
know nothing of hours that were not recorded.
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
from envbench.engine.pairs import DEFAULT_PAIRS, cell_of
from envbench.experiments.check.size import PRECISE, expected_spread, precise_pairs
from envbench.experiments.check.stages import slices_of
from envbench.model import Rule
from envbench.stats.regression import (
    Slices,
    effect,
    stage,
    step_stages,
    usual_effect,
)

RULE = Rule()


def drawn(rng: Any, pairs: Sequence[Slices], count: int, slowdown: float) -> list[list[Slices]]:
    """Two stages of ``count`` pairs each, the second one's sides exchanged."""
    few = 2 * count > len(pairs)
    chosen = [pairs[k] for k in rng.choice(len(pairs), size=2 * count, replace=few)]
    exchanged = [(theirs, ours, spoilt) for ours, theirs, spoilt in chosen[count:]]
    return [slower(chosen[:count], slowdown), slower(exchanged, slowdown)]


def slower(pairs: Sequence[Slices], slowdown: float) -> list[Slices]:
    """The pairs with a slower candidate."""
    return [
        (ours, [time / (1 - slowdown) for time in theirs], spoilt) for ours, theirs, spoilt in pairs
    ]


def verdicts(
    rng: Any, pairs: Sequence[Slices], count: int, slowdown: float, checks: int
) -> tuple[dict[str, int], int]:
    """How many checks came to each verdict, and how many intervals held the truth."""
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
    precise = precise_pairs(expected_spread(backends.get(cell.split("/")[2]).behaviour), RULE)
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
    """By all pairs, candidate over baseline."""
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
@click.option("--checks", default=4000, show_default=True, help="Drawn, a cell.")
@click.option("--seed", default=1, show_default=True)
def main(results: Path, checks: int, seed: int) -> None:
    """Prints the table, and puts it into docs/check.md."""
    text = table(results, checks, seed)
    click.echo(text)
    if results.absolute() == RESULTS:
        fill("check-resampled", text)


if __name__ == "__main__":
    main()
