"""How two measurements relate: their ratio, and what its interval rests on. Pure.

* Of one session whose cells alternated: the block model.
* Of one session without blocks: Welch's interval of their processes, which were spread over it.
* Of two sessions of one host: through the reference kernel, and the drift of rates beside it.
* Of two hosts: through the figures themselves, and the drift of figures on both hosts.

The drift between sessions is estimated from the same records, from cells that were measured in
several sessions. Where it is unknown, there is no interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from statistics import fmean, stdev

from envbench.decisions.session import Session
from envbench.model import Cell, Fingerprint
from envbench.results.measured_cells import Measured
from envbench.stats.drift import Drift, Uncertain, drift, ratio_between
from envbench.stats.intervals import RUNS_FOR_INTERVAL, Interval, ratio_interval

MOST_SESSIONS = 10  # of a cell that show the drift: more are hardly more exact, and each is fitted


@dataclass(frozen=True, kw_only=True)
class Relation:
    """The ratio of two figures. ``interval`` is None where it is unknown.

    ``kernel``: if both figures are divided by the same reference kernel's, how fast that ran beside
    the first one, relative to the other. So the ratio of the figures is ``ratio * kernel``.
    """

    ratio: float
    interval: Interval | None
    kernel: float | None = None

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``~`` (within the noise) or ``?`` (unknown)."""
        if self.interval is None:
            return "?"
        if self.interval[0] <= 1 <= self.interval[1]:
            return "~"
        return "faster" if self.interval[0] > 1 else "slower"


@dataclass(frozen=True, kw_only=True)
class Relations:
    """The drift between sessions, of figures and of figures relative to the kernel.

    ``sessions``: each cell's measurements that show it.
    """

    figures: Drift | None = None
    sessions: Sequence[Sequence[Measured]] = ()

    @cached_property
    def span_s(self) -> float:
        """The longest time between two sessions of one cell, in seconds: the drift over longer
        times is not known."""
        times = [[at for each in group if (at := _seconds(each.when))] for group in self.sessions]
        return max((max(each) - min(each) for each in times if each), default=0.0)

    @cached_property
    def tasks(self) -> set[tuple[str, str]]:
        """The families and tasks of the cells that show it."""
        return {(each.cell.env, each.cell.task) for group in self.sessions for each in group}

    @cached_property
    def beside_kernel(self) -> Drift | None:
        """The drift of figures relative to the kernel. For this, each session is fitted."""
        beside: list[tuple[str, dict[str, float]]] = []
        for group in self.sessions:
            for kernel in sorted({name for each in group for name in each.session.kernels}):
                values = {
                    each.plan_id: value.log
                    for each in group
                    if (value := _beside(each.session, each.cell, kernel))
                }
                beside.append((group[0].plan.fingerprint, values))
        return drift(beside)

    def between(self, found: Measured, to: Measured) -> Relation | None:
        """The FPS of one divided by those of the other; None where one has no figure."""
        if not found.fps or not to.fps:
            return None
        if found.plan_id == to.plan_id:
            if ratio := found.session.ratio(found.cell, to.cell):
                return Relation(ratio=ratio.ratio, interval=ratio.interval)
            spans = found.summary.interval and to.summary.interval
            pair = (found.summary.speeds, to.summary.speeds)
            interval = ratio_interval(*pair) if spans else None
            return Relation(ratio=found.fps / to.fps, interval=interval)
        one_host = _of_one_host(found.fingerprint, to.fingerprint)
        related = self._beside_kernel(found, to) if one_host else self._of_two_hosts(found, to)
        return related or Relation(ratio=found.fps / to.fps, interval=None)

    def _beside_kernel(self, found: Measured, to: Measured) -> Relation | None:
        for kernel in common_kernels(found, to):
            one, other = (_beside(each.session, each.cell, kernel) for each in (found, to))
            drift, hosts = self.beside_kernel, {found.plan.fingerprint, to.plan.fingerprint}
            if one and other and drift and hosts & drift.hosts:
                interval = ratio_between(one, other, drift)
                ratio = math.exp(one.log - other.log)
                kernels = (each.session.model.adjusted[kernel].rate for each in (found, to))
                return Relation(
                    ratio=ratio, interval=interval, kernel=next(kernels) / next(kernels)
                )
        return None

    def _of_two_hosts(self, found: Measured, to: Measured) -> Relation | None:
        drift, hosts = self.figures, {found.plan.fingerprint, to.plan.fingerprint}
        one, other = _alone(found), _alone(to)
        if drift is None or not hosts <= drift.hosts or not (one and other):
            return None
        interval = ratio_between(one, other, drift)
        return Relation(ratio=(found.fps or 0.0) / (to.fps or 1.0), interval=interval)


def _seconds(utc: str) -> float | None:
    """Since 1970; None for an invalid time."""
    try:
        return datetime.fromisoformat(utc).timestamp()
    except (ValueError, OverflowError):
        return None


def _of_one_host(one: Fingerprint | None, other: Fingerprint | None) -> bool:
    """Are both of one computer, perhaps with another version of the system? Equal fingerprints
    without a host count as one computer."""
    if one is None or other is None:
        return False
    return one.host == other.host if one.host and other.host else one == other


def relations(complete: Iterable[Iterable[Measured]]) -> Relations:
    """Estimate the drift from all complete measurements of each cell, quick ones left out.

    Only sessions of one host with the same packages show its drift: the newest of each cell, since
    every one has to be fitted.
    """
    sessions: list[list[Measured]] = []
    for every in complete:
        groups: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
        for each in every:
            if each.fingerprint is not None and each.fps and not each.quick:
                same = each.runtime, each.session.kernel_packages
                groups[each.fingerprint.host, each.plan.fingerprint, *same].append(each)
        newest = (sorted(each, key=lambda e: e.when)[-MOST_SESSIONS:] for each in groups.values())
        sessions.extend(group for group in newest if len(group) > 1)
    return _of_sessions(sessions)


def of_two_sides(one: Relations, other: Relations) -> Relations:
    """The drift that both show, such as of two computers whose profiles have the same name."""
    return _of_sessions([*one.sessions, *other.sessions])


def _of_sessions(sessions: Sequence[Sequence[Measured]]) -> Relations:
    figures = drift(
        (group[0].plan.fingerprint, {each.plan_id: math.log(each.fps or 1.0) for each in group})
        for group in sessions
    )
    return Relations(figures=figures, sessions=sessions)


def common_kernels(found: Measured, to: Measured) -> list[str]:
    """The kernels that both sessions measured, with the same Python and NumPy: that of the first
    cell's class first."""
    ours, theirs = found.session.kernels, to.session.kernels
    if found.session.kernel_packages != to.session.kernel_packages:
        return []
    steps_in = found.session.classes.get(found.cell.key)
    return sorted(ours.keys() & theirs.keys(), key=lambda name: (ours[name] != steps_in, name))


def _beside(session: Session, cell: Cell, kernel: str) -> Uncertain | None:
    ratio = session.model.ratio(cell.key, kernel)
    if ratio is None or ratio.error is None or ratio.degrees is None:
        return None
    return Uncertain(log=math.log(ratio.ratio), error=ratio.error, degrees=ratio.degrees)


def _alone(found: Measured) -> Uncertain | None:
    logs = [math.log(each) for each in found.summary.speeds if each > 0]
    if found.summary.interval is None or len(logs) < RUNS_FOR_INTERVAL:
        return None
    error = stdev(logs) / math.sqrt(len(logs))
    return Uncertain(log=fmean(logs), error=error, degrees=len(logs) - 1)
