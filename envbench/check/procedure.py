"""How many pairs a check makes, how long that takes, and what it can see. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envbench.backends import get
from envbench.check.regression import FEWEST_PAIRS, Rule, detectable, pairs_for
from envbench.errors import UsageError
from envbench.model import Cell, Protocol

DEFAULT_PAIRS = 13
BLOCKS = 50  # of four slices a pair
SLICE_S = 0.01  # short, so that what disturbs the machine for longer disturbs both arms alike
LOTS = 10  # times as long, and as few, are the slices of what steps in lots
RESET_SLICES = 40  # at the most
WINDOW_S = 0.025  # of the warm-up
WARM_UP = (0.2, 2.0)  # seconds, at the least and at the most
PRECISE = 0.02
MOST_PRECISE_PAIRS = 130
# Standard deviations of a pair as measured on a shared machine of two cores, before anything is
# known of the machine at hand: docs/check.md.
ONE_THREAD_SPREAD, POOL_SPREAD, PROCESSES_SPREAD = 0.012, 0.022, 0.05
START_S, TYPICAL_WARM_UP_S = 1.0, 0.25  # of one process
CHANGE_S = 0.002  # from one's slice to the other's


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What was decided before anything ran: pairs of a stage, and seconds of stage one in all."""

    pairs: int
    seconds: float
    cells: int
    detectable: dict[str, float]  # by a cell's key: the slowdown that would be found


def sizes(
    cells: Sequence[Cell], rule: Rule, *, pairs: int | None, budget: float | None, precise: bool
) -> Sizes:
    """As many pairs as were asked for, fit the budget, or see what ``precise`` promises."""
    spreads = {cell.key: expected_spread(cell.backend) for cell in cells}
    chosen = pairs or DEFAULT_PAIRS
    if precise:
        if rule.margin >= PRECISE:
            raise UsageError(
                f"--precise finds a slowdown of {100 * PRECISE:.0f} %, which is none by --margin "
                f"{rule.margin:g}.",
                hint="Give a smaller --margin, or --pairs.",
            )
        most = max(spreads.values())
        chosen = pairs or precise_pairs(most, rule)
    elif budget is not None and pairs is None:
        chosen = int(budget / (len(cells) * pair_seconds()))
        if chosen < FEWEST_PAIRS:
            least = FEWEST_PAIRS * len(cells) * pair_seconds()
            raise UsageError(
                f"--budget {budget:.0f}: {FEWEST_PAIRS} pairs of {len(cells)} cells take "
                f"about {least:.0f} s.",
                hint="Give it that, or name fewer cells.",
            )
    return Sizes(
        pairs=chosen,
        seconds=chosen * len(cells) * pair_seconds(),
        cells=len(cells),
        detectable={key: detectable(spread, chosen, rule) for key, spread in spreads.items()},
    )


def precise_pairs(spread: float, rule: Rule) -> int:
    """As many as find ``PRECISE``, or the most that are made."""
    return pairs_for(PRECISE, spread, rule, MOST_PRECISE_PAIRS)


def pair_seconds() -> float:
    """About what a pair takes, with resets."""
    slices = 4 * BLOCKS + RESET_SLICES
    return 2 * (START_S + TYPICAL_WARM_UP_S) + slices * (SLICE_S + CHANGE_S)


def protocol() -> Protocol:
    """Of either process of a pair."""
    least, most = WARM_UP
    return Protocol(window_s=WINDOW_S, warmup_min_s=least, warmup_max_s=most)


def slicing(blocks: int, slice_s: float, backend: str) -> tuple[int, float]:
    """Of a check's blocks and seconds a slice, those of this backend."""
    if get(backend).in_lots:
        return max(1, blocks // LOTS), slice_s * LOTS
    return blocks, slice_s


def expected_spread(backend: str) -> float:
    """The standard deviation between pairs to expect, before any was made."""
    found = get(backend)
    if found.one_thread:
        return ONE_THREAD_SPREAD
    return PROCESSES_SPREAD if found.many_processes else POOL_SPREAD
