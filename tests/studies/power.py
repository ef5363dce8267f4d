"""How large a difference does ``envbench verify`` find where it compares distributions?

    python tests/studies/power.py

Box2D's terrain cannot be set, so the lengths and returns of episodes are compared as two samples
(Kolmogorov-Smirnov). So are the starts of episodes, in all families whose observations show them.
This draws pairs of samples that differ in a known way, and counts how many pairs count as
different. The tables are in docs/studies.md.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from document import fill
from scipy.stats import ks_2samp
from tabulate import tabulate

from envbench import families
from envbench.decisions import starts
from envbench.decisions.agreement import LEAST_P

PAIRS_OF_EPISODES, PAIRS_OF_STARTS = 2_000, 200
EPISODES = {  # shift of the mean in standard deviations, factor of the standard deviation
    "none": (0.0, 1.0),
    "mean + 0.3 standard deviations": (0.3, 1.0),
    "mean + 0.5": (0.5, 1.0),
    "mean + 0.6": (0.6, 1.0),
    "mean + 0.7": (0.7, 1.0),
    "spread × 1.5": (0.0, 1.5),
    "spread × 2": (0.0, 2.0),
    "spread × 2.5": (0.0, 2.5),
}
STARTS = {
    "none": (0.0, 1.0),
    "mean + 0.5 standard deviations": (0.5, 1.0),
    "mean + 1": (1.0, 1.0),
    "mean + 1.5": (1.5, 1.0),
    "mean + 2": (2.0, 1.0),
    "spread × 0.5": (0.0, 0.5),
    "spread × 0.1": (0.0, 0.1),
    "spread × 2": (0.0, 2.0),
    "spread × 4": (0.0, 4.0),
}
STORES = 100, 1_000, 10_000  # states that a backend keeps, and begins each episode in one of them
OF_REFERENCE = 100  # starts
SEEN = 8, 12, 50  # starts of the backend
NUMBERS = 4  # of a start, as in CartPole-v1; one of them differs

Array = np.ndarray[Any, Any]


def uniform(chance: np.random.Generator, count: int) -> Array:
    """So many starts, with a mean of 0 and a standard deviation of 1 in each number."""
    return chance.uniform(-(3**0.5), 3**0.5, size=(count, NUMBERS))


def episodes_found(shift: float, factor: float, episodes: int) -> str:
    """The share of pairs of samples of episodes that count as different."""
    chance, different = np.random.default_rng(0), 0
    for _ in range(PAIRS_OF_EPISODES):
        ours = chance.normal(size=episodes)
        theirs = shift + factor * chance.normal(size=episodes)
        different += ks_2samp(ours, theirs).pvalue < LEAST_P
    return f"{100 * different / PAIRS_OF_EPISODES:.1f} %"


def starts_found(seen: int, shift: float = 0.0, factor: float = 1.0, store: int = 0) -> str:
    """The share of pairs of samples of starts that count as different."""
    chance, different = np.random.default_rng(0), 0
    for _ in range(PAIRS_OF_STARTS):
        begun = uniform(chance, seen)
        if store:
            begun = uniform(chance, store)[chance.integers(store, size=seen)]
        begun[:, 0] = shift + factor * begun[:, 0]
        by, usual = np.arange(seen) % 4, uniform(chance, OF_REFERENCE)
        different += starts.probability(begun, usual, by, None) < LEAST_P
    return f"{100 * different / PAIRS_OF_STARTS:.0f} %"


def show(study: str, heads: list[str], rows: list[list[str]]) -> None:
    text = tabulate(rows, heads, tablefmt="github", disable_numparse=True)
    click.echo(text)
    fill(study, text)


@click.command()
def main() -> None:
    """Fill the tables."""
    episodes = families.get("box2d").standards["env"].episodes
    rows = [[name, episodes_found(*each, episodes)] for name, each in EPISODES.items()]
    show("episode-power", ["difference", "found"], rows)
    rows = [
        *([name, *(starts_found(n, *each) for n in SEEN)] for name, each in STARTS.items()),
        *(
            [f"a store of {store:,} starts", *(starts_found(n, store=store) for n in SEEN)]
            for store in STORES
        ),
    ]
    show("start-power", ["difference", *(f"{seen} starts" for seen in SEEN)], rows)


if __name__ == "__main__":
    main()
