"""What the results of one machine and task say: which row is fastest, and by how much. Pure.

The page's cards, the table *Recommendation* and the first sentence of ``envbench run`` are made
from the same conclusion, so they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from envbench import backends
from envbench.decisions.ranking import near
from envbench.machine import Profiles
from envbench.report.by_machine import machine_results
from envbench.report.machine_results import MachineResults
from envbench.results.measured_cells import Measured
from envbench.results.relations import Relation
from envbench.results.selection import Selection
from envbench.text import counted, listed, times, times_from_to

BASE = "for-loop"  # speed-ups are relative to it
QUICK = "quick figures are never ranked. Measure for longer, without --quick, to be sure"
OTHER_SESSION = "these figures are of another session than the table's"
NO_INTERVAL = "the figures have no interval. Measure with at least five blocks to be sure"


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The best row of one machine's results, and the rows that tie with it.

    ``base`` is the best of the Python loop's row; None without such a row, or if it is the best.
    ``relation`` compares ``best`` with ``to``: with ``base`` or, without one, with the best of the
    other rows. Both are None without another row. ``able`` are the figures that compete.
    ``provisional`` says why nothing is shown; "" where the rows are ranked, or where the only one
    has an interval. ``enough``: above this number of environments, its row shows no gain beyond
    noise.
    """

    results: MachineResults
    best: Measured
    ties: list[Measured] = field(default_factory=list)
    base: Measured | None = None
    to: Measured | None = None
    relation: Relation | None = None
    able: list[Measured]
    provisional: str = ""
    enough: int

    @property
    def rows(self) -> int:
        """How many rows compete."""
        return len({each.label for each in self.able})

    @property
    def alone(self) -> bool:
        """Are there other rows with figures, none of which competes?"""
        return self.rows == 1 and len(self.results.highest) > 1

    @property
    def higher(self) -> str:
        """``A and B have a higher FPS, but their work is not known to be equal``: rows that do not
        compete for that reason; "" if there are none."""
        highest, value = self.results.highest.values(), self.results.value
        able = {each.label for each in self.able}
        unlike = [e for e in highest if e.label not in able and not self.results.equal_work(e)]
        names = [each.label for each in unlike if value(each) > value(self.best)]
        if not names:
            return ""
        has, its = ("has", "its") if len(names) == 1 else ("have", "their")
        return f"{listed(names)} {has} a higher FPS, but {its} work is not known to be equal"

    @property
    def factor(self) -> str:
        """``2.6 × For-loop (2.5 to 2.7)``: how many times ``to`` it is; "" if nothing shows it."""
        if self.to is None or self.relation is None or self.to in self.ties:
            return ""
        ratio, interval = self.relation.ratio, self.relation.interval
        if interval is None and self.to.plan_id != self.best.plan_id:
            return ""  # how far the two sessions differ is not known
        label = self.to.label if self.to is self.base else self._named(self.to)
        span = f" ({times_from_to(ratio, interval)})" if interval else ""
        return f"{times(ratio)} {label}{span}"

    @property
    def sentence(self) -> str:
        """``On Pong-v5, EnvPool (async) is fastest at 8 environments: 2.6 × For-loop (2.5 to
        2.7).``

        If other rows tie with it, it ``has the highest FPS``, and they are named. Where the Python
        loop is the fastest or was not measured, it is compared with the best of the other rows:
        ``27,000 FPS ±13 %, 9.0 × Subprocess (8.1 to 10.0)``.
        """
        best, results = self.best, self.results
        section = f" ({results.section})" if results.section else ""
        place = f"at {counted(best.numenv, 'environment')}"
        value, space, half = results.text(best).partition(" ")
        figure = f"{value} FPS{space}{half}"
        if self.rows == 1:
            several = sum(each.label == best.label for each in results.with_figures) > 1
            makes = f"up to {figure}, {place}" if several else f"{figure} {place}"
            says = f"{best.label} reaches {makes}"
        else:
            sure = not self.provisional and not self.ties
            leads = "is fastest" if sure else "has the highest FPS"
            says = f"{best.label} {leads} {place}: {self._much(figure)}"
        other = self.higher or ("no other row is comparable" if self.alone else "")
        says = "; ".join([says + self._ties(), *filter(None, [other])])
        return f"On {results.task}{section}, {says}.{self._caution()}"

    def _much(self, figure: str) -> str:
        """The factor over the Python loop, or the figure with the factor over another row."""
        if self.base is not None or not self.factor:
            return self.factor or figure
        return f"{figure}, {self.factor}"

    def _named(self, found: Measured) -> str:
        """``EnvPool (sync)`` or, if it has another number of environments, ``… at 12``"""
        return found.label + ("" if found.numenv == self.best.numenv else f" at {found.numenv}")

    def _ties(self) -> str:
        """``; EnvPool (sync) at 12 and ALE (vector) tie``, or, without intervals, ``are near``"""
        if not self.ties:
            return ""
        names = [*map(self._named, self.ties)]
        between = self.results.relations.between
        relations = [between(each, self.best) for each in self.ties]
        sure = all(each is not None and each.interval is not None for each in relations)
        one, several = ("ties", "tie") if sure else ("is near", "are near")
        return f"; {listed(names)} {one if len(names) == 1 else several}"

    def _caution(self) -> str:
        return f" This is provisional: {self.provisional}." if self.provisional else ""

    def json(self) -> dict[str, Any]:
        """Return it as plain values. Cells are named by key."""
        relation = self.relation
        return {
            "env": self.results.env,
            "task": self.results.task,
            "section": self.results.section,
            "best": self.best.cell.key,
            "ties": [each.cell.key for each in self.ties],
            "to": self.to.cell.key if self.to else None,
            "ratio": relation.ratio if relation else None,
            "interval": relation.interval if relation else None,
            "provisional": self.provisional,
            "sentence": self.sentence,
        }


def conclusions(selection: Selection, profiles: Profiles) -> list[Conclusion]:
    """Return what a selection says, for each machine and task with a figure."""
    every = machine_results(selection, profiles).values()
    return [found for results in every if (found := conclude(results))]


def conclude(results: MachineResults) -> Conclusion | None:
    """Return what these results say; None where no row with a figure does equal work."""
    able = candidates(results)
    if not able:
        return None
    best, *ties = leading(able, results)
    label = backends.row_label(BASE, {})
    base = max((e for e in able if e.label == label), key=results.value, default=None)
    if base is not None and base.label == best.label:
        base = None
    to = base or next(iter(best_of_rows(best, able, results.value)), None)
    return Conclusion(
        results=results,
        best=best,
        ties=ties,
        base=base,
        to=to,
        relation=results.relations.between(best, to) if to else None,
        able=able,
        provisional=provisional(able, results),
        enough=enough(best, able, results),
    )


def candidates(results: MachineResults) -> list[Measured]:
    """The figures that can be the best. Only if none competes, those of quick runs and of other
    sessions."""
    able = [each for each in results.with_figures if results.competes(each)]
    return able or [each for each in results.with_figures if results.equal_work(each)]


def provisional(able: Sequence[Measured], results: MachineResults) -> str:
    """Why no row can be shown to be the fastest, or the only one has no interval; "" otherwise."""
    if results.leading_rows(able):
        return ""
    if any(each.plan_id != results.session for each in able if not each.quick):
        return OTHER_SESSION
    if any(each.quick for each in able):
        return QUICK
    best, *_ = leading(able, results)
    others = best_of_rows(best, able, results.value)
    related = [results.relations.between(each, best) for each in others]
    known = [each.interval if each else None for each in related] or [best.span]
    return "" if all(known) else NO_INTERVAL


def enough(best: Measured, able: Sequence[Measured], results: MachineResults) -> int:
    """The smallest number of environments at which the row of ``best`` ties with it."""
    row = [each for each in able if each.label == best.label]
    tied = results.leading(row) or [each for each in row if is_tied(each, best, results)]
    return min(each.numenv for each in (best, *tied))


def leading(able: Sequence[Measured], results: MachineResults) -> list[Measured]:
    """The best, followed by the best of each row that ties with it. Where they did not alternate,
    rows tie if the interval of their ratio contains 1, or, without one, if they are near."""
    if leading := results.leading_rows(able):
        return leading
    best = max(able, key=results.value)
    others = best_of_rows(best, able, results.value)
    return [best, *(each for each in others if is_tied(each, best, results))]


def best_of_rows(
    best: Measured, able: Sequence[Measured], figure: Callable[[Measured], float]
) -> list[Measured]:
    """The other rows, each at its best numenv, from the highest."""
    rows = {each.label: each for each in sorted(able, key=figure) if each.label != best.label}
    return sorted(rows.values(), key=figure, reverse=True)


def is_tied(found: Measured, best: Measured, results: MachineResults) -> bool:
    """Whether it cannot be distinguished from the best, where the two did not alternate."""
    relation = results.relations.between(found, best)
    if relation is None or relation.interval is None:
        return near(results.value(found), results.value(best))
    return relation.verdict == "~"
