"""The results of one machine for one family and task: what a table shows. Pure.

The heading is the marker's text and the table's first cell: ``Atari - Laptop``, or
``Atari Breakout-v5 - Laptop`` for a task other than the family's default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envbench import backends, families
from envbench.machine import Profile, profile_for_host
from envbench.model import Family, Section
from envbench.report.escape import comment
from envbench.results.selection import Selection
from envbench.results.shown import Measured, Verified


@dataclass(frozen=True, kw_only=True)
class MachineResults:
    """One table's content. ``labels`` are its rows, ``ladder`` is the profile's numenvs, ``title``
    is the machine's; ``verified`` is by label, ``not_run`` lists labels without results."""

    heading: str
    machine: str
    title: str
    env: Family
    task: str
    section: Section = ""
    profile: Profile | None
    ceiling: Measured | None = None
    ladder: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    verified: dict[str, Verified] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)

    @property
    def with_figures(self) -> list[Measured]:
        return [each for each in self.measured if each.fps is not None]


_Key = tuple[Family, str, Section]  # family, task, section
Title = tuple[Family, str, str]  # the same for a heading; its last part may be "published"
_Group = Mapping[_Key, list[Measured]]


def machine_results(
    selection: Selection, profiles: Mapping[str, Profile]
) -> dict[str, MachineResults]:
    """Every table that can be filled, by heading.

    Machines with results come first, then the others, each by the size of the ladder. A machine's
    tables are in the order of families, default tasks, tasks and sections.
    """
    cells: dict[str, dict[_Key, list[Measured]]] = {}
    for found in selection.measured:
        tables = cells.setdefault(found.cell.machine, defaultdict(list))
        tables[found.cell.env, found.cell.task, found.cell.section].append(found)
    unique: dict[str, MachineResults] = {}
    for name, profile, group in _machines(cells, profiles):
        for key in _tables(profile, group):
            made = _results(name, profile, key, group, selection)
            if made.heading in unique and made.measured:  # two machines have the same title
                title = f"{made.title} ({name})"
                made = replace(made, heading=heading(key, title), title=title)
            unique.setdefault(made.heading, made)
    return unique


def _machines(
    cells: Mapping[str, _Group], profiles: Mapping[str, Profile]
) -> Iterable[tuple[str, Profile | None, _Group]]:
    known = {name: profiles.get(name) or _host_profile(name, cells[name]) for name in cells}
    for name in sorted(cells, key=lambda name: _size(name, known[name], cells[name])):
        yield name, known[name], cells[name]
    for name in sorted(profiles.keys() - cells, key=lambda name: _size(name, profiles[name], {})):
        yield name, profiles[name], {}


def _size(name: str, profile: Profile | None, group: _Group) -> tuple[int, str]:
    """The end of the ladder; without a profile the largest measured numenv."""
    tables = [profile.tables.get(name) for name in families.names()] if profile else []
    ladders = [table.numenv[-1] for table in tables if table]
    return max(ladders or [each.numenv for each in _every(group)], default=0), name


def _host_profile(name: str, group: _Group) -> Profile | None:
    """The profile that ``envbench run`` made for the host, where no file has one."""
    for found in _every(group):
        if found.fingerprint is not None:
            made = profile_for_host(found.fingerprint)
            if made.name == name:
                return made
    return None


def _every(group: _Group) -> list[Measured]:
    return [found for each in group.values() for found in each]


def _tables(profile: Profile | None, group: _Group) -> list[_Key]:
    """A ceiling has no table of its own: the table of its family's environments shows it."""
    wanted: dict[_Key, None] = dict.fromkeys(
        (family, task, "" if section == "ceiling" else section) for family, task, section in group
    )
    for family in families.registry().values():
        if profile is not None and family.default_task and family.name in profile.tables:
            wanted[family.name, family.default_task, ""] = None
    return sorted(wanted, key=_order)


def _order(key: _Key) -> tuple[int, bool, str, Section]:
    family, task, section = key
    order = [*families.names(), family]
    return order.index(family), task != families.default_task(family), task, section


def _results(
    name: str, profile: Profile | None, key: _Key, group: _Group, selection: Selection
) -> MachineResults:
    family, task, section = key
    measured = group.get(key, [])
    table = profile.table(family, section) if profile else None
    rows = table.rows if table else []
    title = profile.title if profile else name
    ceilings = [each for each in group.get((family, task, "ceiling"), []) if not each.refused]
    if section == "accelerators":
        ceilings = []
    return MachineResults(
        heading=heading(key, title),
        machine=name,
        title=title,
        env=family,
        task=task,
        section=section,
        profile=profile,
        ceiling=max(ceilings, key=lambda found: found.rank, default=None),
        ladder=list(table.numenv) if table else [],
        labels=_labels(rows, measured),
        measured=measured,
        verified={
            row[-1]: found
            for row, found in selection.verified.items()
            if (*row[:-1], found.verification.cell.section) == (name, *key)
        },
        not_run=_not_run(rows, measured),
    )


def in_order(results: MachineResults) -> list[Measured]:
    """The measurements by row and numenv, the ceiling last."""
    ceiling = [results.ceiling] if results.ceiling else []
    place = {label: index for index, label in enumerate(results.labels)}
    return sorted(
        [*results.measured, *ceiling],
        key=lambda each: (place.get(each.label, len(place)), each.numenv),
    )


def _not_run(rows: Sequence[str], measured: Iterable[Measured]) -> list[str]:
    """The profile's rows without results whose library has to be installed by hand."""
    known, ran = backends.registry(), {found.cell.backend for found in measured}
    waiting = [name for name in rows if name in known and known[name].by_hand and name not in ran]
    return [backends.row_label(name, {}) for name in waiting]


def heading(key: Title, machine: str) -> str:
    """The marker's text: ``Atari - Laptop``, ``Gym my_package:MyEnv-v0 - Laptop``,
    ``Mujoco (physics) - Laptop``."""
    family, task, section = key
    title = family_title(family, task)
    if section:
        title = f"{title} ({section})"
    return f"{title} - {comment(machine) or '?'}"


def family_title(family: Family, task: str) -> str:
    """The family's title, followed by the task unless it is the family's default."""
    title = families.of_record(family).title
    return title if task == families.default_task(family) else f"{title} {comment(task) or '?'}"


def _labels(rows: Sequence[str], measured: Iterable[Measured]) -> list[str]:
    """The profile's rows, then the other measured ones; variants follow their backend."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in measured:
        found[each.cell.backend].add(each.label)
    others = sorted(found.keys() - rows, key=lambda name: (backend_order(name), name))
    labels = []
    for name in [*rows, *others]:
        base = backends.row_label(name, {})
        labels += [base] if name in rows or base in found[name] else []
        labels += sorted(found[name] - {base})
    return labels


def backend_order(name: str) -> int:
    """A backend's position in the registry; unknown ones come last."""
    known = list(backends.registry())
    return known.index(name) if name in known else len(known)
