"""Which cells a check compares, and how many pairs it makes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from envbench import backends, families
from envbench.decisions import slowdown
from envbench.decisions.slowdown import FEWEST_PAIRS
from envbench.engine.experiment import Site
from envbench.engine.request import CellRequest, Chosen, choose
from envbench.engine.target import Target
from envbench.errors import UsageError
from envbench.experiments.pairs import DEFAULT_PAIRS, pair_seconds
from envbench.model import MOST_ROUNDS, Rule

MOST_CELLS = 12
DEFAULT_CELLS = ("for-loop/1", "envpool-sync/4", "envpool-async/4")  # of the usual families
PRECISE = 0.02
MOST_PRECISE_PAIRS = 130
# Standard deviation between pairs by ``steps_in``, measured on a shared machine of two cores
# (docs/check.md). They are used while the spread on this machine is not known yet.
SPREADS = {"one-thread": 0.012, "pool": 0.022, "device": 0.022, "processes": 0.05}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What was decided before anything ran: pairs per stage, and seconds of stage one in all."""

    pairs: int
    seconds: float
    detectable: dict[str, float]  # by a cell's key: the slowdown that would be found


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How many pairs: a given number, what fits ``budget`` seconds, or enough for ``PRECISE``."""

    pairs: int | None = None
    budget: float | None = None
    precise: bool = False

    def of(self, targets: Sequence[Target], rule: Rule) -> Sizes:
        """Decide the sizes for these cells. ``UsageError`` if the rule or the budget forbids it."""
        spreads = {each.cell.key: SPREADS[each.backend.behaviour.steps_in] for each in targets}
        pairs, round_s = self.pairs or DEFAULT_PAIRS, len(targets) * pair_seconds()
        if self.precise:
            pairs = precise_pairs(max(spreads.values()), rule)
        elif self.budget is not None:
            pairs = min(int(self.budget / round_s), MOST_ROUNDS)
            if pairs < FEWEST_PAIRS:
                raise UsageError(
                    f"--budget {self.budget:.0f}: {FEWEST_PAIRS} pairs of {len(targets)} cells "
                    f"take about {FEWEST_PAIRS * round_s:.0f} s.",
                    hint="Give --budget at least that, or name fewer cells.",
                )
        return Sizes(
            pairs=pairs,
            seconds=pairs * round_s,
            detectable={k: slowdown.detectable(each, pairs, rule) for k, each in spreads.items()},
        )


def precise_pairs(spread: float, rule: Rule) -> int:
    """Enough pairs to find ``PRECISE``, at most ``MOST_PRECISE_PAIRS``."""
    if rule.margin >= PRECISE:
        raise UsageError(
            f"--precise finds a slowdown of {100 * PRECISE:.0f} %, which does not count with "
            f"--margin {rule.margin:g}.",
            hint="Give a smaller --margin, or --pairs.",
        )
    return slowdown.pairs_for(PRECISE, spread, rule, MOST_PRECISE_PAIRS)


def cells_to_check(request: CellRequest, site: Site) -> Chosen:
    """Return the named cells, or those of the profile; at most ``MOST_CELLS``."""
    profile, cpus = site.profile, site.fingerprint.usable_cpus
    if request.family or request.backends or request.numenv or request.task:
        return not_too_many(choose(request, profile, cpus))
    targets: list[Target] = []
    notes: dict[str, None] = {}
    usual = [each.name for each in families.registry().values() if each.usual]
    for text in profile.check or [f"{name}/{cell}" for name in usual for cell in DEFAULT_CELLS]:
        family, backend, numenv = text.split("/")
        if not profile.check and family not in backends.get(backend).families:
            continue
        one = msgspec.structs.replace(
            request, family=family, backends=[backend], numenv=[int(numenv)]
        )
        chosen = choose(one, profile, cpus)
        targets += chosen.targets
        notes |= dict.fromkeys(chosen.notes)
    return Chosen(targets=targets, notes=[*notes])


def not_too_many(chosen: Chosen) -> Chosen:
    """Return the same cells; ``UsageError`` if there are too many."""
    if len(chosen.targets) > MOST_CELLS:
        raise UsageError(
            f"a check compares at most {MOST_CELLS} cells, and these are {len(chosen.targets)}.",
            hint="Name fewer with --env, --backend and --numenv.",
        )
    return chosen
