"""The overview: each row's highest FPS on each machine, and a single environment's FPS. Pure.

Backends down, machines across. A table covers the environments of one family and task, including
those on accelerators, but not raw physics and ceilings, which are other kinds. Refused rows have no
figure, and different work is never bold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from envbench.report.escape import markdown
from envbench.report.tables.footnotes import DRIFT, OPENING
from envbench.report.tables.machine_results import MachineResults, family_title
from envbench.report.tables.table import Entry, Table, competes, same_work
from envbench.results.shown import Measured, within_noise

BASE = "for-loop"  # speed-ups are relative to it

DIFFERENT_WORK = (
    "≠: different work from the reference: another engine, or settings that change the work."
)

_Place = tuple[str, str]  # row label, machine title


def highest(every: Iterable[MachineResults]) -> list[Table]:
    """*Highest FPS*: a table per family and task, each machine's best in bold."""
    return [_highest(group) for group in _grouped(every)]


def single(every: Iterable[MachineResults]) -> list[Table]:
    """*Single environment*: the FPS of one environment, and its ratio to the Python loop's."""
    return [made for group in _grouped(every) if (made := _single(group)) is not None]


def _grouped(every: Iterable[MachineResults]) -> list[list[MachineResults]]:
    """The results with figures by family and task: the machines of one table."""
    groups: dict[tuple[str, str], list[MachineResults]] = defaultdict(list)
    for results in every:
        if results.section in ("", "accelerators") and results.with_figures:
            groups[results.env, results.task].append(results)
    return list(groups.values())


def _highest(group: Sequence[MachineResults]) -> Table:
    best: dict[_Place, Measured] = {}
    best_equal: dict[str, float] = defaultdict(float)
    for results in group:
        for found in results.with_figures:
            place, fps = (found.label, results.title), found.fps or 0.0
            if place not in best or fps > (best[place].fps or 0.0):
                best[place] = found
            if competes(found, results):
                best_equal[results.title] = max(best_equal[results.title], fps)
    entries = {}
    for (label, machine), found in best.items():
        figure = f"{found.fps:.2f}"
        figure = f"**{figure}**" if found.fps == best_equal[machine] else figure
        entries[label, machine] = _entry(found, f"{figure} at {found.numenv}")
    note = (
        f"{OPENING}, including frame_skip: each row's maximum over all measured numbers of "
        "environments, and the number that reached it. A maximum is biased upward; expect less "
        "when re-measured."
    )
    sessions: dict[str, set[str]] = defaultdict(set)
    for (_, machine), found in best.items():
        sessions[machine].add(found.plan_id)
    if any(len(plans) > 1 for plans in sessions.values()):
        note += f" A machine's rows come from several sessions: {DRIFT}."
    return _table("Highest FPS", group, entries, note)


def _single(group: Sequence[MachineResults]) -> Table | None:
    alone = {
        (found.label, results.title): found
        for results in group
        for found in results.with_figures
        if found.numenv == 1
    }
    if not alone:
        return None
    bases = {
        machine: found
        for (_, machine), found in alone.items()
        if found.cell.backend == BASE and not found.cell.variant
    }
    entries = {
        place: _entry(
            found, f"{found.fps:.2f}{_speed_up(found, bases.get(place[1]))}", *_in_flight(found)
        )
        for place, found in alone.items()
    }
    note = (
        f"{OPENING} of one environment, including frame_skip; in brackets its ratio to the Python "
        "loop. ≈: the difference is within noise."
    )
    return _table("Single environment", group, entries, note)


def _entry(found: Measured, text: str, *notes: str) -> Entry:
    """The entry, marked where the row is known to do different work."""
    if found.badge != "≠" and same_work(found.cell):
        return Entry(text=text, notes=notes, measured=found)
    return Entry(text=f"≠ {text}", notes=(DIFFERENT_WORK, *notes), measured=found)


def _in_flight(found: Measured) -> tuple[str, ...]:
    instances = found.cell.env_instances
    return (
        () if instances == 1 else (f"{instances} environments are in flight for a batch of one.",)
    )


def _speed_up(found: Measured, base: Measured | None) -> str:
    if base is None or found is base or not found.fps or not base.fps:
        return ""
    near = "≈ " if within_noise(found, base) else ""
    return f" ({near}{found.fps / base.fps:.2f}×)"


def _table(
    name: str, group: Sequence[MachineResults], entries: dict[_Place, Entry], note: str
) -> Table:
    machines = list(dict.fromkeys(results.title for results in group))
    labels = dict.fromkeys(label for results in group for label in results.labels)
    return Table(
        heading=markdown(f"{name} - {family_title(group[0].env, group[0].task)}"),
        columns=[markdown(machine) for machine in machines],
        rows=[
            (markdown(label), [entries.get((label, machine), Entry()) for machine in machines])
            for label in labels
            if any((label, machine) in entries for machine in machines)
        ],
        note=note,
    )
