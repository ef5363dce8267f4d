"""What each table is about: one machine, one family, one task; its heading, rows and columns.

The heading is both the marker's text and the table's first cell: ``Atari - Laptop``; with another
task than the family's default, and always for gym, ``Atari Breakout-v5 - Laptop``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envbench import backends
from envbench.machine import Profile, profile_for_host
from envbench.model import DEFAULT_TASK, FAMILIES, Family
from envbench.report.escape import comment
from envbench.report.selection import Measured

FAMILY_TITLES: dict[Family, str] = {"atari": "Atari", "mujoco": "Mujoco", "gym": "Gym"}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A table's subject. ``labels`` are its rows, ``ladder`` the profile's columns."""

    heading: str
    env: Family
    profile: Profile | None
    ladder: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)


def subjects(measured: Iterable[Measured], profiles: Mapping[str, Profile]) -> dict[str, Subject]:
    """Every table that could be filled, by heading: machines with results first, then the others
    by the size of their ladder; within a machine by family, the default task first."""
    cells: dict[str, dict[tuple[Family, str], list[Measured]]] = {}
    for found in measured:
        cell = found.summary.cell
        tables = cells.setdefault(cell.machine, defaultdict(list))
        tables[cell.env, cell.task].append(found)
    unique: dict[str, Subject] = {}
    for name, profile, group in _machines(cells, profiles):
        for family, task in _tables(profile, group):
            subject = _subject(name, profile, family, task, group.get((family, task), []))
            if subject.heading in unique and subject.measured:  # two machines of one title
                own = heading(family, task, f"{profile.title if profile else name} ({name})")
                subject = replace(subject, heading=own)
            unique.setdefault(subject.heading, subject)
    return unique


_Group = Mapping[tuple[Family, str], list[Measured]]


def _machines(
    cells: Mapping[str, _Group], profiles: Mapping[str, Profile]
) -> Iterable[tuple[str, Profile | None, _Group]]:
    for name in sorted(cells, key=lambda name: _size(name, profiles.get(name))):
        yield name, profiles.get(name) or _on_the_spot(name, cells[name]), cells[name]
    for name in sorted(profiles, key=lambda name: _size(name, profiles[name])):
        if name not in cells:
            yield name, profiles[name], {}


def _size(name: str, profile: Profile | None) -> tuple[int, str]:
    tables = [t for t in (profile.atari, profile.mujoco, profile.gym) if t] if profile else []
    return max((table.numenv[-1] for table in tables), default=0), name


def _on_the_spot(name: str, group: _Group) -> Profile | None:
    """The profile that ``envbench run`` made of the hardware where no file has one."""
    for found in (found for each in group.values() for found in each):
        if found.fingerprint is not None:
            made = profile_for_host(found.fingerprint)
            if made.name == name:
                return made
    return None


def _tables(profile: Profile | None, group: _Group) -> list[tuple[Family, str]]:
    wanted = dict.fromkeys(group)
    for family, task in DEFAULT_TASK.items():
        if profile is not None and getattr(profile, family) is not None:
            wanted[family, task] = None  # type: ignore[index]
    return sorted(
        wanted,
        key=lambda key: (FAMILIES.index(key[0]), key[1] != DEFAULT_TASK.get(key[0]), key[1]),
    )


def _subject(
    name: str, profile: Profile | None, family: Family, task: str, measured: list[Measured]
) -> Subject:
    table = profile.table(family) if profile else None
    return Subject(
        heading=heading(family, task, profile.title if profile else name),
        env=family,
        profile=profile,
        ladder=list(table.numenv) if table else [],
        labels=_labels(table.rows if table else [], measured),
        measured=measured,
    )


def heading(family: Family, task: str, machine: str) -> str:
    """The marker's text: ``Atari - Laptop``, ``Gym my_package:MyEnv-v0 - Laptop``."""
    title = FAMILY_TITLES[family]
    if task != DEFAULT_TASK.get(family):
        title = f"{title} {comment(task) or '?'}"
    return f"{title} - {comment(machine) or '?'}"


def _labels(rows: Sequence[str], measured: Iterable[Measured]) -> list[str]:
    """The profile's rows, and what was measured besides; variants after their backend."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in measured:
        found[each.summary.cell.backend].add(each.label)
    known = list(backends.registry())
    others = sorted(
        set(found) - set(rows), key=lambda n: (known.index(n) if n in known else 999, n)
    )
    labels = []
    for name in [*rows, *others]:
        base = backends.row_label(name, {})
        labels += [base] if name in rows or base in found[name] else []
        labels += sorted(found[name] - {base})
    return labels
