"""The rule of ``envbench check`` and the rules of pyperf, asv and benchstat on the same noise.

    python tests/studies/check_traces.py [--results FOLDER]

**Recorded**: the equal checks (A/A) that ``check_live.py`` measured on a real machine, slice by
slice. Each rule gets the measurements of one check of one cell, ten processes per side, and uses
what its tool would use (``other_rules.py``). *Alternating*: both sides of one check, as measured.
*One after the other*: the old side of a check and the new side of the cell's next check, some
minutes later. That is how those tools measure by default. A slowdown makes each time of the new
side longer. envbench's own rule uses a second stage: the next check of the cell, with exchanged
sides. Nothing here is random, so the study prints the same table again.

**Simulated**: the kinds of noise of ``check_simulated.py``, seeded.

Bounds are exact (Clopper-Pearson, 95 %) for independent checks. Neighbouring recorded checks share
measurements if a rule uses two checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from check_live import RESULTS, all_made, read
from check_simulated import LINES, slices
from document import fill, share
from other_rules import RULES, Rule, Side
from tabulate import tabulate

from envbench.decisions import slowdown
from envbench.experiments.check.verdicts import BASELINE, CANDIDATE
from envbench.experiments.pairs import DEFAULT_PAIRS, cell_of, trial_of
from envbench.model import PairsDesign, Windows
from envbench.model import Rule as OwnRule

OURS = "envbench check"
SLOWDOWNS = (0.0, 0.02, 0.05)  # of the rate
STORED = OwnRule()


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One cell of one check: times per step, one list per process."""

    old: Side
    new: Side

    def exchanged(self) -> Trace:
        return Trace(old=self.new, new=self.old)

    def slower(self, slowdown: float) -> Trace:
        new = [[time / (1 - slowdown) for time in each] for each in self.new]
        return Trace(old=self.old, new=new)


Checks = Sequence[tuple[Trace, Trace]]
Asked = Callable[
    [Trace, Trace], bool
]  # a check, the next one -> is the new side reported as slower?


def ours(first: Trace, second: Trace) -> bool:
    early, late = (
        slowdown.step_stages(
            [(*sides, ()) for sides in zip(trace.old, trace.new, strict=True)], STORED
        )
        for trace in (first, second)
    )
    return bool(slowdown.alarms(early)) and slowdown.of_cell(early, late)[0] == "REGRESSION"


def alternating(rule: Rule) -> Asked:
    return lambda first, _: rule(first.old, first.new)


def one_after_the_other(rule: Rule) -> Asked:
    return lambda first, second: rule(first.old, second.new)


# ---------------------------------------------------------------- recorded


def recorded(results: Path) -> dict[str, list[Trace]]:
    """Traces by cell, in the order in which they were measured."""
    traces: dict[str, list[Trace]] = {}
    for made in all_made(results):
        if made.study not in ("same", "cells"):
            continue
        plan, pairs = read(results / made.file)
        for cell in plan.cells:
            own = [pair for pair in pairs if cell_of(pair) == cell and pair.stage == 1]
            if len(own) == plan.design_as(PairsDesign).pairs and not any(
                pair.failure for pair in own
            ):
                old = [times(trial_of(pair, BASELINE).measured) for pair in own]
                new = [times(trial_of(pair, CANDIDATE).measured) for pair in own]
                traces.setdefault(cell.key, []).append(Trace(old=old, new=new))
    return {key: each for key, each in traces.items() if len(each) > 1}


def times(windows: Windows) -> list[float]:
    return [ns / max(1, steps) for ns, steps in zip(windows.ns, windows.steps, strict=True)]


def neighbours(traces: dict[str, list[Trace]]) -> list[tuple[Trace, Trace]]:
    """Each check with the next one of its cell."""
    return [pair for each in traces.values() for pair in pairwise(each)]


def found(asked: Asked, checks: Checks, slowdown: float) -> tuple[int, int]:
    hits = [asked(first.slower(slowdown), second.slower(slowdown)) for first, second in checks]
    return sum(hits), len(hits)


def ours_found(checks: Checks, slowdown: float) -> tuple[int, int]:
    """The next check with exchanged sides is used as stage two. Its sides are equal."""
    return found(ours, [(first, second.exchanged()) for first, second in checks], slowdown)


def precisely(traces: dict[str, list[Trace]], checks: int = 6) -> dict[str, list[Trace]]:
    """As many pairs as ``--precise`` uses, joined from six checks of a cell each."""
    joined = {
        key: [
            Trace(
                old=[side for trace in each[k : k + checks] for side in trace.old],
                new=[side for trace in each[k : k + checks] for side in trace.new],
            )
            for k in range(0, len(each) - checks + 1, checks)
        ]
        for key, each in traces.items()
    }
    return {key: each for key, each in joined.items() if len(each) > 1}


def recorded_table(traces: dict[str, list[Trace]]) -> str:
    heads = ["rule", "sides measured", "checks", "reported slower: equal sides",
             *(f"{100 * s:.0f} % slower" for s in SLOWDOWNS[1:])]  # fmt: skip
    rows = []

    def add(name: str, how: str, counted: Callable[[float], tuple[int, int]]) -> None:
        counts = [counted(slowdown) for slowdown in SLOWDOWNS]
        rows.append([name, how, str(counts[0][1]), *(share(*each, 1) for each in counts)])

    checks, precise = neighbours(traces), neighbours(precisely(traces))
    add(OURS, "alternating", lambda slowdown: ours_found(checks, slowdown))
    if precise:
        add(f"{OURS} --precise", "alternating", lambda slowdown: ours_found(precise, slowdown))
    for name, rule in RULES.items():
        add(name, "alternating", lambda s, rule=rule: found(alternating(rule), checks, s))
        add(name, "one after the other",
            lambda s, rule=rule: found(one_after_the_other(rule), checks, s))  # fmt: skip
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


# ---------------------------------------------------------------- simulated


def simulated(rng: Any, kind: str, slowdown: float, checks: int) -> Checks:
    """Simulated checks, each with a second stage of its own."""
    made, turns = slices(rng, kind, 2 * checks * DEFAULT_PAIRS, slowdown)
    half = made.shape[1] // 2
    old, new = (
        made[turns == side].reshape(2 * checks, DEFAULT_PAIRS, half).tolist() for side in (0, 1)
    )
    traces = [Trace(old=a, new=b) for a, b in zip(old, new, strict=True)]
    return list(zip(traces[::2], traces[1::2], strict=True))


def simulated_table(checks: int, seed: int) -> str:
    names = [OURS, *RULES]
    heads = ["noise", *(f"{name}: {what}" for what in ("false", "5 %") for name in names)]
    rows = []
    for number, kind in enumerate(LINES):
        rng = np.random.default_rng([seed, number])
        row = [kind]
        for planted in (0.0, 0.05):
            made = simulated(rng, kind, planted, checks)
            counts = [found(ours, made, 0.0)]
            counts += [found(alternating(rule), made, 0.0) for rule in RULES.values()]
            row += [share(*each, 1) for each in counts]
        rows.append(row)
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS)
@click.option(
    "--checks", default=1000, show_default=True, help="Simulate this many checks per row."
)
@click.option("--seed", default=1, show_default=True)
def main(results: Path, checks: int, seed: int) -> None:
    """Print the tables, and put them into docs/studies.md."""
    traces = recorded(results)
    parts = {"rules-simulated": simulated_table(checks, seed)}
    if traces:
        count = sum(map(len, traces.values()))
        cells = ", ".join(f"{key} ({len(each)})" for key, each in traces.items())
        text = f"{recorded_table(traces)}\n\n{count} checks of equal sides: {cells}."
        parts["rules-recorded"] = text
    for name, text in parts.items():
        click.echo(f"{text}\n")
        if name == "rules-simulated" or results.absolute() == RESULTS:
            fill(name, text)


if __name__ == "__main__":
    main()
