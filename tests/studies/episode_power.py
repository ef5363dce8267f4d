"""How large a difference does ``envbench verify`` find where it compares whole episodes?

    python tests/studies/episode_power.py

Box2D's terrain cannot be set, so the lengths and returns of episodes are compared as two samples
(Kolmogorov-Smirnov). This draws pairs of normal samples that differ in a known way, and counts how
many pairs count as different. The table is in docs/studies.md.
"""

from __future__ import annotations

import click
import numpy as np
from document import fill
from scipy.stats import ks_2samp
from tabulate import tabulate

from envbench import families
from envbench.decisions.agreement import LEAST_P

PAIRS = 2_000
DIFFERENCES = {  # shift of the mean in standard deviations, factor of the standard deviation
    "none": (0.0, 1.0),
    "mean + 0.3 standard deviations": (0.3, 1.0),
    "mean + 0.5": (0.5, 1.0),
    "mean + 0.6": (0.6, 1.0),
    "mean + 0.7": (0.7, 1.0),
    "spread × 1.5": (0.0, 1.5),
    "spread × 2": (0.0, 2.0),
    "spread × 2.5": (0.0, 2.5),
}


def found(shift: float, factor: float, episodes: int, chance: np.random.Generator) -> float:
    """The share of pairs of samples that count as different."""
    different = 0
    for _ in range(PAIRS):
        ours = chance.normal(size=episodes)
        theirs = shift + factor * chance.normal(size=episodes)
        different += ks_2samp(ours, theirs).pvalue < LEAST_P
    return different / PAIRS


@click.command()
def main() -> None:
    """Fill the table."""
    chance = np.random.default_rng(0)
    episodes = families.get("box2d").standards["env"].episodes
    rows = [
        [name, f"{100 * found(*each, episodes, chance):.1f} %"]
        for name, each in DIFFERENCES.items()
    ]
    text = tabulate(rows, ["difference", "found"], tablefmt="github", disable_numparse=True)
    click.echo(text)
    fill("episode-power", text)


if __name__ == "__main__":
    main()
