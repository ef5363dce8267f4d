"""The results of one machine for one family and task: what a table shows. Pure.

``by_machine`` makes them from a selection.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from envbench import backends, families
from envbench.decisions.session import Session
from envbench.machine import Profile, Table
from envbench.model import Family, Published, Section
from envbench.results.measured_cells import Measured, Verified
from envbench.results.relations import Relations
from envbench.stats.without_stops import WithoutStops, pooled
from envbench.text import comment, percent, rounded


@dataclass(frozen=True, kw_only=True)
class MachineResults:
    """One table's content. ``title`` is the machine's. ``published`` have their own table.

    ``main`` is the plan that the selection prefers. ``plain``: figures have two decimals, and no
    interval.
    """

    machine: str
    title: str
    env: Family
    task: str
    section: Section = ""
    profile: Profile | None
    ceilings: list[Measured] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    verified: dict[str, Verified] = field(default_factory=dict)
    relations: Relations = field(default_factory=Relations)
    main: str = ""
    plain: bool = False

    @cached_property
    def planned(self) -> Table:
        """The profile's rows and numenvs, perhaps none. A family that the profile does not list has
        the numenvs that were measured."""
        table = self.profile.table(self.env, self.section) if self.profile else None
        if self.profile is None or table is None:
            return Table(numenv=[], rows=[])
        listed = (self.section or self.env) in self.profile.tables
        sizes = [] if listed else sorted({found.numenv for found in self.measured})
        return replace(table, numenv=sizes or table.numenv)

    @cached_property
    def labels(self) -> list[str]:
        """The profile's rows, then the other measured ones; variants follow their backend."""
        found = {name: {backends.row_label(name, {})} for name in self.planned.rows}
        others = sorted({each.cell.backend for each in self.measured} - found.keys())
        found |= {name: set() for name in sorted(others, key=backend_order)}
        for each in self.measured:
            found[each.cell.backend].add(each.label)
        # A backend's own label is sorted before those of its variants, which begin with it.
        return [label for labels in found.values() for label in sorted(labels)]

    @property
    def not_run(self) -> list[str]:
        """The profile's rows without results whose library has to be installed by hand."""
        ran = {found.cell.backend for found in self.measured}
        waiting = [backends.of_record(name) for name in self.planned.rows if name not in ran]
        return [each.label for each in waiting if each.by_hand]

    @cached_property
    def ceiling(self) -> Measured | None:
        """The highest measurement of the ceiling, of the table's session if it has one."""

        def order(found: Measured) -> tuple[bool, bool, int, float]:
            own = found.plan_id == self.session
            return found.fps is not None, own, found.quality, self.value(found)

        return max(self.ceilings, key=order, default=None)

    @property
    def top(self) -> float | None:
        """The ceiling's FPS."""
        return self.value(self.ceiling) if self.ceiling else None

    @property
    def with_figures(self) -> list[Measured]:
        return [each for each in self.measured if each.fps is not None]

    @property
    def rows(self) -> dict[str, list[Measured]]:
        """The measurements with figures by label, in the order of ``labels``."""
        rows: dict[str, list[Measured]] = {label: [] for label in self.labels}
        for found in self.with_figures:
            rows[found.label].append(found)
        return {label: row for label, row in rows.items() if row}

    @property
    def highest(self) -> dict[str, Measured]:
        """Each row's highest figure. Figures that are not quick come first, then those without
        doubt, then those of the table's session."""

        def rank(found: Measured) -> tuple[bool, bool, bool, float]:
            own = found.plan_id == self.session
            return not found.quick, not found.doubt, own, self.value(found)

        return {label: max(row, key=rank) for label, row in self.rows.items()}

    @property
    def largest(self) -> dict[str, Measured]:
        """Each row's measurement with the most environments, if possible of the table's session."""

        def order(found: Measured) -> tuple[bool, int]:
            return found.plan_id == self.session, found.numenv

        return {label: max(row, key=order) for label, row in self.rows.items()}

    @cached_property
    def without_stops(self) -> dict[str, WithoutStops]:
        """How fast each row steps without stops, compared with its slices. Over all processes of
        its cells in the table's session."""
        ratios = {
            label: [
                ratio
                for found in row
                if found.plan_id == self.session and found.summary.costs
                for ratio in found.summary.costs.without_stops
            ]
            for label, row in self.rows.items()
        }
        return {label: found for label, own in ratios.items() if (found := pooled(own))}

    # ------------------------------------------------------------ figures

    def value(self, found: Measured) -> float:
        """The figure that the table shows; 0.0 where there is none."""
        return (found.fps if self.plain else found.figure) or 0.0

    def text(self, found: Measured) -> str:
        """``20,700 ±2 %``, or ``20735.12``. A figure of another session has no ±: it says nothing
        about the difference to those of the table's session."""
        value = self.value(found)
        if self.plain:
            return f"{value:.2f}"
        text = rounded(value, found.half)
        own = found.plan_id == self.session or found.cell.kind == "ceiling"
        return text if own else text.partition(" ")[0]

    def share(self, found: Measured) -> str:
        """``87 %``: of the ceiling, where there is one. A GPU has none."""
        return percent(self.value(found) / self.top) if self.top and not found.on_gpu else ""

    # ------------------------------------------------------------ the best

    @cached_property
    def session(self) -> str:
        """The plan whose figures are ranked. If ``main`` has none, because all were refused: the
        plan that most of the shown figures are of, the newest of several."""
        plans = Counter(found.plan_id for found in self.with_figures)
        if self.main in plans:
            return self.main
        began = {found.plan_id: found.plan.started_utc for found in self.with_figures}
        return max(plans, key=lambda name: (plans[name], began[name], name), default="")

    @cached_property
    def leaders(self) -> dict[int, list[Measured]]:
        """The best of each column (numenv), followed by those that tie with it."""
        columns: dict[int, list[Measured]] = defaultdict(list)
        for found in self.with_figures:
            columns[found.numenv].append(found)
        return {numenv: self._leading_column(column) for numenv, column in columns.items()}

    @cached_property
    def fastest(self) -> list[Measured]:
        """The best of all rows at any numenv, followed by the best of each row that ties with
        it."""
        return self.leading_rows(self.with_figures)

    def leading_rows(self, figures: Iterable[Measured]) -> list[Measured]:
        """The best of these figures, followed by the highest of each other row that ties with it.
        The list is empty if only one row competes, or if their ratios have no intervals."""
        rows: dict[str, list[Measured]] = defaultdict(list)
        for found in figures:
            if self.competes(found):
                rows[found.label].append(found)
        session = next(iter(rows.values()))[0].session if len(rows) > 1 else Session()
        if not session.resolves or self._outdone([each for row in rows.values() for each in row]):
            return []
        best, ties = session.best_row({name: [e.cell for e in row] for name, row in rows.items()})
        if best is None:
            return []
        leader = next(each for row in rows.values() for each in row if each.cell.key == best)
        tied = [max(rows[name], key=self.value) for name in ties]
        return [leader, *sorted(tied, key=self.value, reverse=True)]

    def _leading_column(self, column: Iterable[Measured]) -> list[Measured]:
        """Cells tie as in the ranks of their session, which include the cells that do not compete:
        so bold and ≈ never contradict a rank."""
        session, able = self._able(column)
        places = session.standings
        known = [found for key, found in able.items() if found.adjusted and key in places]
        best = max(known, key=lambda found: found.figure or 0.0, default=None)
        if best is None:
            return []
        return [best, *(able[key] for key in places[best.cell.key].ties if key in able)]

    def leading(self, row: Iterable[Measured]) -> list[Measured]:
        """The best of a row, followed by those that tie with it. The list is empty if only one
        competes, or if their ratios have no intervals."""
        session, able = self._able(row)
        ranking = session.ranking(each.cell for each in able.values())
        return [able[key] for key in (ranking.best, *ranking.ties) if key is not None]

    def _able(self, figures: Iterable[Measured]) -> tuple[Session, dict[str, Measured]]:
        """Those that compete, by key, and their session; nothing if only one competes, or if their
        ratios have no intervals."""
        able = {found.cell.key: found for found in figures if self.competes(found)}
        session = next(iter(able.values())).session if len(able) > 1 else Session()
        shown = session.resolves and not self._outdone(able.values())
        return (session, able) if shown else (Session(), {})

    def _outdone(self, figures: Collection[Measured]) -> bool:
        """Is the highest figure one that alternated with no other cell, such as on a GPU? Then
        nothing shows which is the best."""
        highest = max(figures, key=self.value, default=None)
        return highest is not None and highest.adjusted is None

    def competes(self, found: Measured) -> bool:
        """Whether it can be the best of its column: it is of the table's session, which is not
        quick, and does equal work as far as known."""
        own = found.plan_id == self.session and not self.has_quick
        return own and self.equal_work(found)

    @cached_property
    def has_quick(self) -> bool:
        """Is a figure of the session quick? With a number of steps (``--total-step``), that is the
        fastest one. So without it, a slower one would be the best."""
        own = [each for each in self.with_figures if each.plan_id == self.session]
        return any(each.quick for each in own if self.equal_work(each))

    def equal_work(self, found: Measured) -> bool:
        """Whether it does equal work, as far as known, and nothing makes its figure doubtful.

        A badge other than ✓ excludes a row, and so do settings that change the work. Without a
        current verification only built-in backends compete: the project's tests verify them.
        """
        verified = self.verified.get(found.label)
        built_in = backends.is_built_in(found.cell.backend)
        if verified is None or verified.verification.failure is not None:
            equal = built_in
        else:
            equal = verified.verdict.badge == "✓" and (built_in or not verified.stale)
        return equal and not found.doubt and backends.same_work(found.cell)

    def unverified(self, found: Measured) -> bool:
        """Is it of a plugin, without a current verification that says what its work is?"""
        if backends.is_built_in(found.cell.backend):
            return False
        verified = self.verified.get(found.label)
        return verified is None or verified.stale or verified.verification.failure is not None

    def place(self, label: str) -> tuple[int, str]:
        """A key that sorts by row; other labels come last."""
        return [*self.labels, label].index(label), label

    @cached_property
    def verified_rows(self) -> dict[str, Verified]:
        """The verifications of measured rows, by label."""
        labels = {found.label for found in self.measured}
        return {label: each for label, each in self.verified.items() if label in labels}

    @cached_property
    def shared_differences(self) -> list[str]:
        """The settings in which all of several verified rows differ from the request."""
        rows = [each.verdict.differences for each in self.verified_rows.values()]
        return [each for each in rows[0] if all(each in row for row in rows)] if rows[1:] else []

    @property
    def heading(self) -> str:
        """The marker's text and the table's first cell: ``Atari - Laptop``,
        ``Gym my_package:MyEnv-v0 - Laptop``, ``Mujoco (physics) - Laptop``."""
        return self._heading(self.section)

    @property
    def published_heading(self) -> str:
        """The heading of its published figures: ``Atari (published) - Laptop``."""
        return self._heading("published")

    def _heading(self, section: str) -> str:
        family = family_title(self.env, self.task) + (f" ({section})" if section else "")
        return f"{family} - {comment(self.title) or '?'}"


def in_order(results: MachineResults) -> list[Measured]:
    """The measurements by row and numenv, the ceiling last."""
    ceiling = [results.ceiling] if results.ceiling else []
    return sorted(
        [*results.measured, *ceiling], key=lambda each: (results.place(each.label), each.numenv)
    )


def family_title(family: Family, task: str) -> str:
    """The family's title, followed by the task unless it is the family's default."""
    title = families.of_record(family).title
    return title if task == families.default_task(family) else f"{title} {comment(task) or '?'}"


def backend_order(name: str) -> int:
    """A backend's position in the registry; unknown ones come last."""
    return [*backends.registry(), name].index(name)
