"""Do the intervals of the block model cover the truth? On simulated sessions.

    python tests/studies/blocks_simulated.py [--sessions 1000]

A session measures a plan in random incomplete blocks, as ``envbench run`` does: rounds, blocks of
five cells, 40 cycles of slices in random order, a fresh process per cell and block. The simulated
value is the logarithm of a slice's speed, and a trial's value is the mean over its slices. Each row
is a plan and something that disturbs the machine.

There are two truths. *This session*: each cell's mean speed if it had run during the whole session.
*The long run*: its mean speed over all sessions of such a machine. They differ only if classes
react differently.

The study is seeded and prints the same table again. Bounds are two standard errors. They are
computed from the sessions, because the ratios of one session depend on each other.

``leave_one_out`` does the same with a recorded session, whose truth is unknown. It fits the model
without one block, and predicts the ratios within that block.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, product
from statistics import fmean, median, stdev
from typing import Any

import click
import numpy as np
from document import fill
from scipy.signal import lfilter
from tabulate import tabulate

from envbench.decisions.ranking import proven
from envbench.stats.block_model import BlockModel, TrialRate, fit
from envbench.stats.intervals import TWO_SIDED, t_quantile

SESSIONS, SEED = 1000, 1
CYCLES, PER_BLOCK = 40, 200  # slices of a trial; points of time per block
LASTS = 3  # blocks: how long the drift remembers its level
LEVELS = (0.0, 0.03, 0.15)  # logarithms of the cells' speeds: some cells are equal


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A plan: the class of each backend, the number of columns, cells per block, and rounds.

    ``share`` of the sessions are simulated: those of a large plan hold many ratios each.
    """

    backends: tuple[str, ...]
    columns: int
    block: int = 5
    rounds: int = 5
    share: float = 1.0

    @property
    def classes(self) -> list[str]:
        """The class of each cell, column by column."""
        return list(self.backends) * self.columns

    def column(self, number: int) -> list[int]:
        count = len(self.backends)
        return list(range(number * count, (number + 1) * count))


FIVE = ("one-thread", "pool", "pool", "pool", "processes")
PLANS = {
    "56 cells": Setup(backends=(*FIVE, "one-thread", "processes"), columns=8, share=0.2),
    "10 cells": Setup(backends=FIVE, columns=2),
    "a cell, the kernel": Setup(backends=("pool", "pool"), columns=1, block=2),
    "the same, two classes": Setup(backends=("processes", "pool"), columns=1, block=2),
    "5 cells, three blocks": Setup(backends=FIVE, columns=1, rounds=3),
    "5 cells, two blocks": Setup(backends=FIVE, columns=1, rounds=2),
}


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What disturbs a session. Standard deviations and reactions are in logarithms of the speed.

    ``drift`` is the standard deviation of the machine's slow changes, and of its sudden ones, which
    happen ``steps`` times per block. ``follows`` is how strongly a class reacts to both (usually
    1). A core is lost for the share ``lost`` of the time, for ``episode`` blocks on average, and
    ``loses`` is how much a class loses then, give or take a fifth for each cell. ``offset`` is the
    standard deviation between the processes of a class, ``tails`` the degrees of freedom of their t
    distribution, and ``slow`` the share of processes that are 20 to 40 % slower for their whole
    life.
    """

    drift: float = 0.08
    steps: float = 0.0
    follows: Mapping[str, float] = field(default_factory=dict)
    lost: float = 0.0
    episode: float = 0.1
    loses: Mapping[str, float] = field(default_factory=dict)
    offset: Mapping[str, float] = field(default_factory=dict)
    tails: float | None = None
    slow: float = 0.0


USUAL_OFFSET, SLICE = 0.016, 0.06
UNEQUAL = {"processes": 0.06, "one-thread": 0.01}
LOSES = {"one-thread": 0.02, "pool": 0.12, "processes": 0.3}
NOISES = {
    "drift": Noise(),
    "steps": Noise(steps=0.5),
    "lost cores, seconds": Noise(lost=0.2, loses=LOSES),
    "lost cores, minutes": Noise(lost=0.2, episode=1.0, loses=LOSES),
    "processes react 1.7 times": Noise(steps=0.5, follows={"processes": 1.7}),
    "noisier processes": Noise(offset=UNEQUAL),
    "heavy tails (t, 3)": Noise(tails=3),
    "1 of 100 processes slow": Noise(slow=0.01),
    "all of these": Noise(
        steps=0.5,
        follows={"processes": 1.7},
        lost=0.2,
        loses=LOSES,
        offset=UNEQUAL,
        tails=3,
        slow=0.005,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true logarithm of each cell's rate."""

    session: list[float]
    long_run: list[float]


def deal(rng: Any, setup: Setup) -> list[Any]:
    """The cells of each block: random incomplete blocks, in rounds."""
    count = len(setup.classes)
    parts = math.ceil(count / setup.block)
    rounds = [rng.permutation(count) for _ in range(setup.rounds)]
    return [block for dealt in rounds for block in np.array_split(dealt, parts)]


def session(rng: Any, setup: Setup, noise: Noise) -> tuple[list[TrialRate], Truth]:
    """The trials of a simulated session; cells are named by their number."""
    blocks, classes = deal(rng, setup), setup.classes
    truth = rng.choice(LEVELS, size=len(classes))
    points = len(blocks) * PER_BLOCK
    follows = np.array([noise.follows.get(each, 1.0) for each in classes])
    loses = np.array([noise.loses.get(each, 0.0) for each in classes])
    loses *= rng.uniform(0.8, 1.2, size=len(loses))
    machine, core = shared(rng, noise, points), lost(rng, noise, points)
    usual = follows * machine.mean() - loses * core.mean()  # of this session
    trials = []
    for number, block in enumerate(blocks):
        order = np.argsort(rng.random((CYCLES, len(block))), axis=1)
        places = (np.arange(CYCLES)[:, None] + (order + 0.5) / len(block)) / CYCLES
        when = number * PER_BLOCK + (places * PER_BLOCK).astype(int)  # of each slice
        for cell, at in zip(block, when.T, strict=True):
            log = truth[cell] + follows[cell] * machine[at].mean() - loses[cell] * core[at].mean()
            log += rng.normal(scale=SLICE / math.sqrt(CYCLES))
            rate = math.exp(log - usual[cell] + offset(rng, noise, classes[cell]))
            trials.append(
                TrialRate(cell=str(cell), block=number, steps_in=classes[cell], rate=rate)
            )
    return trials, Truth(session=truth.tolist(), long_run=(truth - usual).tolist())


def shared(rng: Any, noise: Noise, points: int) -> Any:
    """The machine's speed at each point of time. Its long-run mean is zero."""
    keeps = 1 - 1 / (LASTS * PER_BLOCK)
    fresh = rng.normal(scale=noise.drift * math.sqrt(1 - keeps**2), size=points)
    made = lfilter([1.0], [1.0, -keeps], fresh, zi=[keeps * rng.normal(scale=noise.drift)])[0]
    if noise.steps:
        jumps = rng.random(points) < noise.steps / PER_BLOCK
        since = np.maximum.accumulate(jumps * np.arange(points))
        made = made + rng.normal(scale=noise.drift, size=points)[since]
    return made


def lost(rng: Any, noise: Noise, points: int) -> Any:
    """Whether a core is lost at each point of time (1 or 0), minus the long-run share."""
    if not noise.lost:
        return np.zeros(points)
    episode = noise.episode * PER_BLOCK
    mean = {True: episode, False: episode * (1 - noise.lost) / noise.lost}
    state, made = bool(rng.random() < noise.lost), np.empty(0)
    while len(made) < points:
        stays = 1 + int(rng.exponential(mean[state]))
        made, state = np.concatenate([made, np.full(stays, float(state))]), not state
    return made[:points] - noise.lost


def offset(rng: Any, noise: Noise, class_: str) -> float:
    """How much faster a process is for its whole life."""
    usual = noise.offset.get(class_, USUAL_OFFSET)
    made = rng.normal() if noise.tails is None else rng.standard_t(noise.tails) / math.sqrt(3)
    slow = rng.uniform(0.2, 0.4) if rng.random() < noise.slow else 0.0
    return float(usual * made - slow)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Of one session: whether each ratio's interval covers the truth of the session, by whether
    the ratio is across classes; and the truth of the long run for ratios across classes; the
    half-widths; the columns with a false claim about the session."""

    covered: Mapping[bool, list[bool]]
    again: list[bool]
    halves: Mapping[bool, list[float]]
    false_claims: int


def judge(setup: Setup, trials: Sequence[TrialRate], truth: Truth) -> Tally:
    model, again = fit(trials), []
    covered: dict[bool, list[bool]] = {False: [], True: []}
    halves: dict[bool, list[float]] = {False: [], True: []}
    for (one, other), found in model.ratios.items():
        cell, to = int(one), int(other)
        low, high = map(math.log, found.interval or (0.0, math.inf))
        across = setup.classes[cell] != setup.classes[to]
        covered[across].append(low <= truth.session[cell] - truth.session[to] <= high)
        halves[across].append((high - low) / 2)
        if across:
            again.append(low <= truth.long_run[cell] - truth.long_run[to] <= high)
    claims = [proven(model, list(map(str, setup.column(k)))) for k in range(setup.columns)]
    true = truth.session
    false = [any(true[int(a)] <= true[int(b)] for a, b in column) for column in claims]
    return Tally(covered=covered, again=again, halves=halves, false_claims=sum(false))


def row(names: tuple[str, str], sessions: int, seed: int) -> list[str]:
    setup, noise = PLANS[names[0]], NOISES[names[1]]
    rng = np.random.default_rng([seed, list(PLANS).index(names[0]), list(NOISES).index(names[1])])
    count = round(setup.share * sessions)
    made = [judge(setup, *session(rng, setup, noise)) for _ in range(count)]
    shown = []
    for across in (False, True):
        halves = [median(each.halves[across]) for each in made if each.halves[across]]
        shown.append(f"±{100 * median(halves):.1f} %" if halves else "")
        shown.append(share([each.covered[across] for each in made]))
    again = share([each.again for each in made])
    false = share([[each.false_claims / setup.columns] for each in made])
    return [*names, *shown, again, false]


def share(of_sessions: Sequence[Sequence[float]]) -> str:
    """The mean over the sessions, with two standard errors; empty without any value."""
    means = [fmean(each) for each in of_sessions if each]
    if not means:
        return ""
    error = stdev(means) / math.sqrt(len(means))
    return f"{100 * fmean(means):.1f} ±{200 * error:.1f} %"


# ---------------------------------------------------------------- recorded sessions


def leave_one_out(trials: Sequence[TrialRate]) -> dict[tuple[str, str], list[bool]]:
    """Was each ratio within a block inside the 95 % interval that the other blocks predict?

    By pair of classes. A ratio counts once per block that holds both cells.
    """
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for number in sorted({each.block for each in trials}):
        rest = [each for each in trials if each.block != number]
        own = [each for each in trials if each.block == number]
        model = fit(rest) if rest else None
        for one, other in combinations(own, 2):
            if model is not None and {one.cell, other.cell} <= set(model.cells):
                pair = min(one.steps_in, other.steps_in), max(one.steps_in, other.steps_in)
                found[pair] += predicted(model, one, other)
    return dict(found)


def predicted(model: BlockModel, one: TrialRate, other: TrialRate) -> list[bool]:
    """One value; none where the other blocks give no interval."""
    ratio = model.ratio(one.cell, other.cell)
    if ratio is None or ratio.error is None or ratio.degrees is None:
        return []
    both = one.steps_in, other.steps_in
    spreads = [model.error_spread[each] for each in both]
    if one.steps_in != other.steps_in:
        spreads += [model.block_spread[each] for each in both]
    error = math.hypot(ratio.error, *spreads)
    seen = math.log(one.rate / other.rate) - math.log(ratio.ratio)
    return [abs(seen) <= t_quantile(TWO_SIDED, ratio.degrees) * error]


@click.command()
@click.option("--sessions", default=SESSIONS, show_default=True)
@click.option("--seed", default=SEED, show_default=True)
def main(sessions: int, seed: int) -> None:
    """Print the table, and put it into docs/studies.md."""
    names = list(product(PLANS, NOISES))
    with ProcessPoolExecutor() as pool:  # each row has a seed of its own
        rows = list(pool.map(partial(row, sessions=sessions, seed=seed), names))
    heads = [
        "plan",
        "disturbance",
        "within a class",
        "covers",
        "across classes",
        "covers",
        "covers the long run",
        "false claims",
    ]
    text = tabulate(rows, heads, tablefmt="github", disable_numparse=True)
    click.echo(text)
    if (sessions, seed) == (SESSIONS, SEED):
        fill("blocks", text)


if __name__ == "__main__":
    main()
