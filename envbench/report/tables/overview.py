"""The overview: each row's highest FPS on each machine, and one environment alone. PURE.

Backends down, machines across; a family's and task's environments only, those on accelerators
with them (raw physics and ceilings are another kind). A row that ``envbench verify`` refused has no
figure, one whose work is unequal is never bold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from envbench import families
from envbench.report.escape import markdown
from envbench.report.tables.footnotes import DRIFTS, OPENING
from envbench.report.tables.subjects import Subject, titled
from envbench.report.tables.table import Entry, Table, competes, same_work
from envbench.results.shown import Measured, within_noise

BASE = "for-loop"  # what a single environment's speed-up is over

OTHER_WORK = "≠: other work than the reference's: another engine, or settings that change it."

_Place = tuple[str, str]  # row label, machine


def highest(subjects: Iterable[Subject]) -> list[Table]:
    """*Highest FPS*: a table a family and task, best of each machine in bold."""
    return [_highest(group) for group in _grouped(subjects)]


def single(subjects: Iterable[Subject]) -> list[Table]:
    """*Single environment*: FPS of one environment alone, and how many times the Python loop's."""
    return [made for group in _grouped(subjects) if (made := _single(group)) is not None]


def _grouped(subjects: Iterable[Subject]) -> list[list[Subject]]:
    """The subjects with figures of each family and task: one table's machines."""
    groups: dict[tuple[str, str], list[Subject]] = defaultdict(list)
    for subject in subjects:
        if subject.section in ("", "accelerators") and any(map(_shown, subject.measured)):
            groups[subject.env, subject.task].append(subject)
    return list(groups.values())


def _shown(found: Measured) -> bool:
    return found.summary.fps is not None


def _highest(group: Sequence[Subject]) -> Table:
    best: dict[_Place, Measured] = {}
    able: dict[str, float] = defaultdict(float)
    for subject in group:
        for found in filter(_shown, subject.measured):
            place, fps = (found.label, subject.machine), found.summary.fps or 0.0
            if place not in best or fps > (best[place].summary.fps or 0.0):
                best[place] = found
            if competes(found, subject):
                able[subject.machine] = max(able[subject.machine], fps)
    entries = {}
    for (label, machine), found in best.items():
        fps = found.summary.fps or 0.0
        figure = f"{fps:.2f}"
        figure = f"**{figure}**" if fps == able[machine] else figure
        entries[label, machine] = _entry(found, f"{figure} at {found.summary.cell.numenv}")
    note = (
        f"{OPENING}, frame_skip multiplied in: each row's highest of all numbers of environments "
        "measured, and that number. The highest of several is a little more than it would be "
        "measured again."
    )
    times: dict[str, set[str]] = defaultdict(set)
    for (_, machine), found in best.items():
        times[machine].add(found.plan_id)
    if any(len(plans) > 1 for plans in times.values()):
        note += f" Not all rows of a machine were measured at one time: {DRIFTS}."
    return _table("Highest FPS", group, entries, note)


def _single(group: Sequence[Subject]) -> Table | None:
    alone = {
        (found.label, subject.machine): found
        for subject in group
        for found in filter(_shown, subject.measured)
        if found.summary.cell.numenv == 1
    }
    if not alone:
        return None
    bases = {
        machine: found
        for (_, machine), found in alone.items()
        if found.summary.cell.backend == BASE and not found.summary.cell.variant
    }
    entries = {
        place: _entry(
            found,
            f"{found.summary.fps:.2f}{_speed_up(found, bases.get(place[1]))}",
            *_in_flight(found),
        )
        for place, found in alone.items()
    }
    note = (
        f"{OPENING} of one environment, frame_skip multiplied in; in brackets how many times the "
        "Python loop's. ≈: within the noise of it."
    )
    return _table("Single environment", group, entries, note)


def _entry(found: Measured, text: str, *notes: str) -> Entry:
    """With a mark before the figure of what is known to do other work."""
    if found.badge != "≠" and same_work(found.summary.cell):
        return Entry(written=text, notes=notes, of=found)
    return Entry(written=f"≠ {text}", notes=(OTHER_WORK, *notes), of=found)


def _in_flight(found: Measured) -> tuple[str, ...]:
    instances = found.summary.cell.env_instances
    if instances == 1:
        return ()
    return (f"{instances} environments are in flight for the one that is received.",)


def _speed_up(found: Measured, base: Measured | None) -> str:
    if base is None or found is base or not found.summary.fps or not base.summary.fps:
        return ""
    ratio = found.summary.fps / base.summary.fps
    near = "≈ " if within_noise(found, base) else ""
    return f" ({near}{ratio:.2f}×)"


def _table(name: str, group: Sequence[Subject], entries: dict[_Place, Entry], note: str) -> Table:
    first = group[0]
    machines = list(dict.fromkeys(subject.machine for subject in group))
    labels = dict.fromkeys(label for subject in group for label in subject.labels)
    title = titled(families.of_record(first.env).title, first.env, first.task)
    return Table(
        heading=markdown(f"{name} - {title}"),
        columns=[markdown(machine) for machine in machines],
        rows=[
            (markdown(label), [entries.get((label, machine), Entry()) for machine in machines])
            for label in labels
            if any((label, machine) in entries for machine in machines)
        ],
        note=note,
    )
