"""What each table is about: one machine, one family, one task; its heading, rows and columns.

The heading is both the marker's text and the table's first cell: ``Atari - Laptop``; with another
task than the family's default, and always for gym, ``Atari Breakout-v5 - Laptop``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envbench import backends, families
from envbench.machine import Profile, profile_for_host
from envbench.model import Family, Section, Verification
from envbench.report.escape import comment
from envbench.results.archive import Origin
from envbench.results.selection import Selection
from envbench.results.shown import Measured


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A table's subject. ``labels`` are its rows, ``ladder`` the profile's columns, ``name`` is its
    machine's, ``machine`` that one's title."""

    heading: str
    name: str
    machine: str
    env: Family
    task: str
    section: Section = ""
    profile: Profile | None
    ceiling: Measured | None = None
    ladder: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    verified: dict[str, Verification] = field(default_factory=dict)  # by label
    verified_at: dict[str, Origin] = field(default_factory=dict)  # the finding's record, by label
    stale: set[str] = field(default_factory=set)  # labels measured otherwise than verified
    by_hand: list[str] = field(default_factory=list)  # labels of rows that nobody has run yet


_Key = tuple[Family, str, Section]  # family, task, section
Title = tuple[Family, str, str]  # what a heading tells of a key; its last part may be "published"
_Group = Mapping[_Key, list[Measured]]


def subjects(selection: Selection, profiles: Mapping[str, Profile]) -> dict[str, Subject]:
    """Every table that could be filled, by heading: machines with results first, then the others
    by the size of their ladder; within a machine by family, the default task first, and of one
    task the environments before the accelerators and the physics."""
    cells: dict[str, dict[_Key, list[Measured]]] = {}
    for found in selection.measured:
        cell = found.summary.cell
        tables = cells.setdefault(cell.machine, defaultdict(list))
        tables[cell.env, cell.task, cell.section].append(found)
    unique: dict[str, Subject] = {}
    places = selection.verified_at
    for name, profile, group in _machines(cells, profiles):
        for key in _tables(profile, group):
            table = (name, *key[:2])
            verified = {
                row[-1]: found
                for row, found in selection.verified.items()
                if (row[:-1], found.cell.section) == (table, key[2])
            }
            subject = replace(
                _subject(name, profile, key, group),
                verified=verified,
                verified_at={
                    label: at for label in verified if (at := places.get((*table, label)))
                },
                stale={row[-1] for row in selection.stale if row[:-1] == table},
            )
            if subject.heading in unique and subject.measured:  # two machines of one title
                machine = f"{subject.machine} ({name})"
                subject = replace(subject, heading=heading(key, machine), machine=machine)
            unique.setdefault(subject.heading, subject)
    return unique


def _machines(
    cells: Mapping[str, _Group], profiles: Mapping[str, Profile]
) -> Iterable[tuple[str, Profile | None, _Group]]:
    known = {name: profiles.get(name) or _on_the_spot(name, cells[name]) for name in cells}
    for name in sorted(cells, key=lambda name: _size(name, known[name], cells[name])):
        yield name, known[name], cells[name]
    for name in sorted(profiles, key=lambda name: _size(name, profiles[name], {})):
        if name not in cells:
            yield name, profiles[name], {}


def _size(name: str, profile: Profile | None, group: _Group) -> tuple[int, str]:
    """By the end of the ladder; without a profile by the most environments measured."""
    tables = [profile.tables.get(name) for name in families.names()] if profile else []
    ladders = [table.numenv[-1] for table in tables if table]
    measured = [found.summary.cell.numenv for each in group.values() for found in each]
    return max(ladders or measured, default=0), name


def _on_the_spot(name: str, group: _Group) -> Profile | None:
    """The profile that ``envbench run`` made of the hardware where no file has one."""
    for found in (found for each in group.values() for found in each):
        if found.fingerprint is not None:
            made = profile_for_host(found.fingerprint)
            if made.name == name:
                return made
    return None


def _tables(profile: Profile | None, group: _Group) -> list[_Key]:
    """A ceiling has no table: it stands under the table of its family's environments."""
    wanted: dict[_Key, None] = dict.fromkeys(
        (family, task, "" if section == "ceiling" else section) for family, task, section in group
    )
    for family in families.registry().values():
        if profile is not None and family.default_task and family.name in profile.tables:
            wanted[family.name, family.default_task, ""] = None
    return sorted(wanted, key=_place)


def _place(key: _Key) -> tuple[int, bool, str, Section]:
    family, task, section = key
    order = [*families.names(), family]
    return order.index(family), task != families.default_task(family), task, section


def _subject(name: str, profile: Profile | None, key: _Key, group: _Group) -> Subject:
    family, task, section = key
    measured = group.get(key, [])
    table = profile.table(family, section) if profile else None
    ceilings = [found for found in group.get((family, task, "ceiling"), []) if not found.refused]
    return Subject(
        heading=heading(key, profile.title if profile else name),
        name=name,
        machine=profile.title if profile else name,
        env=family,
        task=task,
        section=section,
        profile=profile,
        ceiling=_newest(ceilings) if section != "accelerators" else None,
        ladder=list(table.numenv) if table else [],
        labels=_labels(table.rows if table else [], measured),
        measured=measured,
        by_hand=_not_run(table.rows if table else [], measured),
    )


def in_order(subject: Subject) -> list[Measured]:
    """What was measured by rows and numbers of environments, the ceiling last."""
    ceiling = [subject.ceiling] if subject.ceiling else []
    place = {label: index for index, label in enumerate(subject.labels)}
    return sorted(
        [*subject.measured, *ceiling],
        key=lambda each: (place.get(each.label, len(place)), each.summary.cell.numenv),
    )


def _not_run(rows: Sequence[str], measured: Iterable[Measured]) -> list[str]:
    """The profile's rows whose library a person has to get by hand, and that have no results."""
    known, ran = backends.registry(), {found.summary.cell.backend for found in measured}
    waiting = [name for name in rows if name in known and known[name].by_hand and name not in ran]
    return [backends.row_label(name, {}) for name in waiting]


def _newest(ceilings: Sequence[Measured]) -> Measured | None:
    return max(ceilings, key=lambda found: found.rank, default=None)


def heading(key: Title, machine: str) -> str:
    """The marker's text: ``Atari - Laptop``, ``Gym my_package:MyEnv-v0 - Laptop``,
    ``Mujoco (physics) - Laptop``."""
    family, task, section = key
    title = titled(families.of_record(family).title, family, task)
    if section:
        title = f"{title} ({section})"
    return f"{title} - {comment(machine) or '?'}"


def titled(title: str, family: Family, task: str) -> str:
    """A title with the task behind it, where that is another than the family's default."""
    return title if task == families.default_task(family) else f"{title} {comment(task) or '?'}"


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
