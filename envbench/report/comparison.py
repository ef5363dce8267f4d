"""Two sets of measurements compared: a ratio and its interval per cell. Pure.

Cells are paired by what both sides share: machines by task, row and numenv; backends by machine,
task and numenv; files by all of these. The ratio is the second side's FPS over the first's. Where
the sides do different work (``Pair.unlike``) it says nothing about speed, and the mean omits it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from envbench import backends
from envbench.backends import shown
from envbench.results.measured_cells import Measured
from envbench.results.relations import Relation, Relations
from envbench.stats.intervals import Interval

By = Callable[[Measured], Hashable]

NOTES = {
    "hardware": "were measured on different hardware or another version of the system",
    "host": "were measured on different computers of the same hardware, or on unknown ones",
    "quick": "have a figure that was measured quickly (`--quick`, or under 2 s in all)",
    "stand-in": "ran as tasks with different names (one replaces a task that no longer exists): "
    "`envbench verify` found that they do the same work, and lists the differences",
    "in-flight": "have different numbers of environments in flight per environment in the batch",
    "session": "were measured in different sessions: the intervals contain the drift between them, "
    "as far as the records show it (the FPS of each side has the interval of its own session)",
}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One cell on both sides; ``relation`` is None where a side has no figure.

    ``unlike`` says why the sides are not comparable, ``notes`` are keys of ``NOTES``.
    """

    first: Measured
    second: Measured
    relation: Relation | None
    unlike: list[str]
    notes: list[str]

    @property
    def ratio(self) -> float | None:
        return self.relation.ratio if self.relation else None

    @property
    def kernel_ratio(self) -> float | None:
        """How fast the reference kernel ran, if the ratio is relative to it."""
        return self.relation.kernel if self.relation else None

    @property
    def interval(self) -> Interval | None:
        return self.relation.interval if self.relation else None

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``~`` (within the noise), ``?`` (unknown), "" (no figure)."""
        if self.relation is None:
            return ""
        return "?" if self.unlike else self.relation.verdict


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All pairs in the tables' order, and the cells of one side only."""

    pairs: list[Pair]
    only_first: list[Measured]
    only_second: list[Measured]

    @property
    def geometric_mean(self) -> float | None:
        """The mean ratio of the pairs that do the same work; None without such pairs, or if only
        some ratios are relative to the reference kernel."""
        ratios = [pair.ratio for pair in self.counted if pair.ratio is not None]
        kinds = {pair.kernel_ratio is None for pair in self.counted}
        return geometric_mean(ratios) if len(kinds) == 1 else None

    @property
    def mean_interval(self) -> Interval | None:
        """The mean's interval; None where one of its ratios has no interval.

        It supposes that all ratios have the same error, as when one host has drifted. So it covers
        the mean in at least 95 of 100 cases, whatever the errors have in common.
        """
        spans = [pair.interval for pair in self.counted if pair.interval is not None]
        if self.geometric_mean is None or len(spans) < len(self.counted):
            return None
        return geometric_mean(low for low, _ in spans), geometric_mean(high for _, high in spans)

    @property
    def counted(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.ratio is not None and not pair.unlike]


def by_machine(found: Measured) -> tuple[str | int, ...]:
    """Return the key that pairs cells of two machines: everything but the machine."""
    cell = found.cell
    return cell.env, cell.task, cell.section, found.label, cell.numenv


def by_backend(found: Measured) -> Hashable:
    """Return the key that pairs cells of two backends: everything but the row."""
    cell = found.cell
    return cell.machine, cell.env, cell.task, cell.numenv


def by_cell(found: Measured) -> tuple[str | int, ...]:
    """Return the key that pairs cells of two files: everything."""
    return found.cell.machine, *by_machine(found)


def compare(
    first: Iterable[Measured], second: Iterable[Measured], by: By, relations: Relations
) -> Comparison:
    """Return the cells of both sides, paired by a key."""
    ours, theirs = {by(each): each for each in first}, {by(each): each for each in second}
    pairs = [
        _pair(found, theirs[key], by, relations) for key, found in ours.items() if key in theirs
    ]
    return Comparison(
        pairs=sorted(pairs, key=lambda pair: by_cell(pair.first)),
        only_first=[found for key, found in ours.items() if key not in theirs],
        only_second=[found for key, found in theirs.items() if key not in ours],
    )


def _pair(first: Measured, second: Measured, by: By, relations: Relations) -> Pair:
    one, other = first.cell, second.cell
    machines = [first.fingerprint, second.fingerprint]
    hardware = [each and each.hardware for each in machines]
    notes = {
        "hardware": hardware[0] != hardware[1],
        "host": hardware[0] == hardware[1] and machines[0] != machines[1],
        "quick": first.quick or second.quick,
        "stand-in": first.ran != second.ran and first.badge == second.badge == "✓",
        "in-flight": one.env_instances * other.numenv != other.env_instances * one.numenv,
        "session": first.plan_id != second.plan_id,
    }
    return Pair(
        first=first,
        second=second,
        relation=relations.between(second, first),
        unlike=_unlike(first, second, by),
        notes=[name for name, applies in notes.items() if applies],
    )


def _unlike(first: Measured, second: Measured, by: By) -> list[str]:
    one, other = first.cell, second.cell
    badges = [first.badge, second.badge]
    found = []
    if one.backend == other.backend and by is not by_backend and one.settings != other.settings:
        ours, theirs = ({k: shown(v) for k, v in each.settings.items()} for each in (one, other))
        names = ", ".join(
            f"{name} is {ours.get(name, 'unset')} and {theirs.get(name, 'unset')}"
            for name in sorted({*ours, *theirs})
            if one.settings.get(name) != other.settings.get(name)
        )
        found.append(f"their settings differ: {names}")
    if one.frame_skip != other.frame_skip:
        skips = f"{one.frame_skip:g} and {other.frame_skip:g}"
        found.append(f"the number of frames per step differs: {skips}")
    if one.kind != other.kind:
        found.append("one is raw physics or a ceiling, the other an environment")
    if first.ran != second.ran and badges != ["✓", "✓"]:
        tasks = f"{first.ran or one.task} and {second.ran or other.task}"
        found.append(f"the libraries ran different tasks: {tasks}")
    if backends.same_work(one) != backends.same_work(other):
        found.append("the settings of one side change its work")
    found += [
        f"one side has no figure: {each.summary.failure.message}"
        for each in (first, second)
        if each.refused and each.summary.failure
    ]
    found += [f"one figure is in doubt: {each.doubt}" for each in (first, second) if each.doubt]
    if by is by_backend and "≠" in badges and "✗" not in badges:
        each = " and ".join(badge or "not verified" for badge in badges)
        found.append(f"`envbench verify` did not find that they do the same work ({each})")
    return found


def rows_of(measured: Sequence[Measured], name: str) -> list[Measured]:
    """Return the measurements of a backend's own row, or of the row with this label."""
    label = backends.of_record(name).label
    return [found for found in measured if found.label == label]
