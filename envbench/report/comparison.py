"""Two sets of measurements beside each other: ratio and interval a cell. PURE.

Cells are paired by what the two sides do not differ in: two machines by task, row and numenv; two
backends by machine, task and numenv; two files by all of it. The ratio is the second side's frames
per second over the first's. Its interval is of independent processes of both (``ratio_interval``);
``~`` is what holds 1, widened by what a machine drifts where the two were measured at different
times (``results.ties``); ``?`` is what has no interval. Where a pair does other work on its
two sides (``Pair.unlike``) the ratio says nothing about speed: it has no verdict and is not in the
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from envbench import backends
from envbench.backends.settings import shown
from envbench.results.shown import DRIFT, Measured, drift, holds_one
from envbench.stats.intervals import Interval, geometric_mean, mean_ratio_interval, ratio_interval

By = Callable[[Measured], Hashable]

UNLIKE = {
    "settings": "their settings differ: {}",
    "frames": "a step is not as many frames on both sides: {}",
    "kind": "one is raw physics or a ceiling, the other an environment",
    "task": "the libraries ran other tasks: {}",
    "work": "the settings of one change its work",
    "refused": "`envbench verify` refused the figures of one: they are not believed",
    "unequal": "`envbench verify` did not find that they do the same work ({})",
}
NOTES = {
    "hardware": "measured on different hardware",
    "stand-in": "the libraries ran tasks of other names (one stands in for a task that is no "
    "more): `envbench verify` found that they do the same work, and lists in what they differ",
    "in-flight": "one side keeps more environments in flight than it returns",
    "session": f"measured at different times, between which a machine drifts: there ~ is what "
    f"its interval and {100 * (DRIFT - 1):.0f} % more cannot tell from 1, and the mean's interval "
    "does not hold that drift",
}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One cell on both sides. ``ratio`` is None where a side has no figure."""

    first: Measured
    second: Measured
    ratio: float | None
    interval: Interval | None
    unlike: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``~`` (within the noise), ``?`` (unknown), "" (no figure)."""
        if self.ratio is None:
            return ""
        if self.unlike or self.interval is None:
            return "?"
        if holds_one(self.interval, drift(self.first, self.second)):
            return "~"
        return "faster" if self.interval[0] > 1 else "slower"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All pairs in the tables' order, and what stands on one side only."""

    pairs: list[Pair]
    only_first: list[Measured]
    only_second: list[Measured]

    @property
    def geometric_mean(self) -> float | None:
        """Of the ratios of pairs that do the same work; None where there is none."""
        return geometric_mean([pair.ratio for pair in self.counted if pair.ratio is not None])

    @property
    def mean_interval(self) -> Interval | None:
        """Of that mean; None where one of its ratios has none. It holds no drift between times."""
        if not self.counted or any(pair.interval is None for pair in self.counted):
            return None
        return mean_ratio_interval(
            [(pair.second.summary.speeds, pair.first.summary.speeds) for pair in self.counted]
        )

    @property
    def counted(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.ratio is not None and not pair.unlike]


def by_machine(found: Measured) -> Hashable:
    """Two machines: everything but the machine."""
    cell = found.summary.cell
    return cell.env, cell.task, cell.section, found.label, cell.numenv


def by_backend(found: Measured) -> Hashable:
    """Two backends: everything but the row."""
    cell = found.summary.cell
    return cell.machine, cell.env, cell.task, cell.numenv


def by_cell(found: Measured) -> Hashable:
    """Two files: all of it."""
    return found.summary.cell.machine, by_machine(found)


def compare(first: Iterable[Measured], second: Iterable[Measured], by: By) -> Comparison:
    """Both sides, paired."""
    ours, theirs = {by(each): each for each in first}, {by(each): each for each in second}
    return Comparison(
        pairs=sorted(
            (_pair(found, theirs[key], by) for key, found in ours.items() if key in theirs),
            key=_place,
        ),
        only_first=[found for key, found in ours.items() if key not in theirs],
        only_second=[found for key, found in theirs.items() if key not in ours],
    )


def _place(pair: Pair) -> tuple[object, ...]:
    cell = pair.first.summary.cell
    return cell.machine, cell.env, cell.task, cell.section, pair.first.label, cell.numenv


def _pair(first: Measured, second: Measured, by: By) -> Pair:
    above, below = second.summary, first.summary
    has_both = above.fps is not None and below.fps is not None
    spans = above.interval is not None and below.interval is not None
    return Pair(
        first=first,
        second=second,
        ratio=above.fps / below.fps if above.fps and below.fps else None,
        interval=ratio_interval(above.speeds, below.speeds) if has_both and spans else None,
        unlike=_unlike(first, second, by),
        notes=_notes(first, second),
    )


def _unlike(first: Measured, second: Measured, by: By) -> dict[str, str]:
    one, other = first.summary.cell, second.summary.cell
    found: dict[str, str] = {}
    if one.backend == other.backend and by is not by_backend and one.settings != other.settings:
        names = [
            f"{name} is {_value(one.settings, name)} and {_value(other.settings, name)}"
            for name in sorted({*one.settings, *other.settings})
            if one.settings.get(name) != other.settings.get(name)
        ]
        found["settings"] = ", ".join(names)
    if one.frame_skip != other.frame_skip:
        found["frames"] = f"{one.frame_skip:g} and {other.frame_skip:g}"
    if one.kind != other.kind:
        found["kind"] = ""
    badges = [first.badge, second.badge]
    if first.ran != second.ran and badges != ["✓", "✓"]:
        found["task"] = f"{first.ran or one.task} and {second.ran or other.task}"
    same = [backends.same_work(cell.backend, cell.variant) for cell in (one, other)]
    if same[0] != same[1]:
        found["work"] = ""
    if "✗" in badges:
        found["refused"] = ""
    elif by is by_backend and "≠" in badges:
        found["unequal"] = " and ".join(badge or "not verified" for badge in badges)
    return {name: UNLIKE[name].format(told) for name, told in found.items()}


def _value(settings: dict[str, bool | int | float | str], name: str) -> str:
    return shown(settings[name]) if name in settings else "unset"


def _notes(first: Measured, second: Measured) -> list[str]:
    found = []
    if first.fingerprint != second.fingerprint:
        found.append("hardware")
    if first.ran != second.ran and first.badge == second.badge == "✓":
        found.append("stand-in")
    one, other = first.summary.cell, second.summary.cell
    if one.env_instances * other.numenv != other.env_instances * one.numenv:
        found.append("in-flight")
    if first.plan_id != second.plan_id:
        found.append("session")
    return found


# ---------------------------------------------------------------- which measurements are meant


def rows_of(measured: Sequence[Measured], name: str) -> list[Measured]:
    """Those of a backend's own row, or of a row by its label as in the tables."""
    label = backends.row_label(name, {}) if name in backends.registry() else name
    return [found for found in measured if found.label == label]
