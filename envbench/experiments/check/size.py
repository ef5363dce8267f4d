"""How many pairs a check makes, how long that takes, and what it can detect. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from envbench.engine.pairs import DEFAULT_PAIRS, pair_seconds
from envbench.engine.request import Target
from envbench.errors import UsageError
from envbench.model import Behaviour, Rule
from envbench.stats.slowdown import FEWEST_PAIRS, detectable, pairs_for

PRECISE = 0.02
MOST_PRECISE_PAIRS = 130
# Standard deviation between pairs by ``steps_in``, measured on a shared machine of two cores
# (docs/check.md). They apply before the machine at hand is known.
ONE_THREAD_SPREAD, POOL_SPREAD, PROCESSES_SPREAD = 0.012, 0.022, 0.05


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What was decided before anything ran: pairs per stage, and seconds of stage one in all."""

    pairs: int
    seconds: float
    cells: int
    detectable: dict[str, float]  # by a cell's key: the slowdown that would be found


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How many pairs: a given number, what fits ``budget`` seconds, or enough for ``PRECISE``."""

    pairs: int | None = None
    budget: float | None = None
    precise: bool = False

    def of(self, targets: Sequence[Target], rule: Rule) -> Sizes:
        """For these cells. ``UsageError`` if the rule or the budget does not allow it."""
        spreads = {each.cell.key: expected_spread(each.backend.behaviour) for each in targets}
        pairs = self.pairs or DEFAULT_PAIRS
        if self.pairs is None and self.precise:
            pairs = precise_pairs(max(spreads.values()), rule)
        elif self.pairs is None and self.budget is not None:
            pairs = _affordable(self.budget, len(targets))
        return Sizes(
            pairs=pairs,
            seconds=pairs * len(targets) * pair_seconds(),
            cells=len(targets),
            detectable={key: detectable(spread, pairs, rule) for key, spread in spreads.items()},
        )


def precise_pairs(spread: float, rule: Rule) -> int:
    """Enough pairs to find ``PRECISE``, at most ``MOST_PRECISE_PAIRS``."""
    if rule.margin >= PRECISE:
        raise UsageError(
            f"--precise finds a slowdown of {100 * PRECISE:.0f} %, which does not count with "
            f"--margin {rule.margin:g}.",
            hint="Give a smaller --margin, or --pairs.",
        )
    return pairs_for(PRECISE, spread, rule, MOST_PRECISE_PAIRS)


def _affordable(budget: float, cells: int) -> int:
    pairs = int(budget / (cells * pair_seconds()))
    if pairs < FEWEST_PAIRS:
        least = FEWEST_PAIRS * cells * pair_seconds()
        raise UsageError(
            f"--budget {budget:.0f}: {FEWEST_PAIRS} pairs of {cells} cells take "
            f"about {least:.0f} s.",
            hint="Give it that, or name fewer cells.",
        )
    return pairs


def expected_spread(behaviour: Behaviour) -> float:
    """The standard deviation between pairs to expect, before any was made."""
    if behaviour.steps_in == "one-thread":
        return ONE_THREAD_SPREAD
    return PROCESSES_SPREAD if behaviour.steps_in == "processes" else POOL_SPREAD
