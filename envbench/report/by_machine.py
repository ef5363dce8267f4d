"""Sort a selection's measurements by machine, family, task and section: one table each. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envbench import families
from envbench.machine import Profile, Profiles, profile_for_host
from envbench.model import Family, Published, Section
from envbench.report.machine_results import MachineResults
from envbench.results.measured_cells import Measured
from envbench.results.plausible import is_ceiling
from envbench.results.selection import Selection

_Key = tuple[Family, str, Section]  # family, task, section
_Group = Mapping[_Key, list[Measured]]


def machine_results(
    selection: Selection, profiles: Profiles, *, plain: bool = False
) -> dict[str, MachineResults]:
    """Every table that can be filled, by heading.

    Machines with results come first, then the others, each by the size of the ladder. A machine's
    tables are in the order of families, default tasks, tasks and sections.
    """
    measured: dict[str, dict[_Key, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for found in selection.measured:
        key = found.cell.env, found.cell.task, found.cell.section
        measured[found.cell.machine][key].append(found)
    published: dict[str, dict[_Key, list[Published]]] = defaultdict(lambda: defaultdict(list))
    for figure in selection.published:
        published[figure.machine][figure.env, figure.task, ""].append(figure)
    known: dict[str, Profile | None] = {
        name: profiles.get(name) or _host_profile(name, measured[name])
        for name in {*measured, *published, *profiles}
    }

    def order(name: str) -> tuple[bool, int, str]:
        return not measured[name], _size(known[name], measured[name], published[name]), name

    unique: dict[str, MachineResults] = {}
    for name in sorted(known, key=order):
        for key in _tables(known[name], measured[name], published[name]):
            made = _results(name, known[name], key, measured[name], selection)
            made = replace(made, published=published[name].get(key, []), plain=plain)
            if made.heading in unique and (made.measured or made.published):
                made = replace(made, title=f"{made.title} ({name})")  # two have the same title
            unique.setdefault(made.heading, made)
    return unique


def _host_profile(name: str, group: _Group) -> Profile | None:
    """The profile that ``envbench run`` made for the host, where no file has one."""
    prints = [each.fingerprint for row in group.values() for each in row]
    made = (profile_for_host(each) for each in prints if each is not None)
    return next((profile for profile in made if profile.name == name), None)


def _size(profile: Profile | None, *groups: Mapping[_Key, Sequence[Measured | Published]]) -> int:
    """The end of the ladder; without a profile the largest numenv of any figure."""
    tables = [profile.tables.get(name) for name in families.names()] if profile else []
    ladders = [table.numenv[-1] for table in tables if table]
    rows = [row for group in groups for row in group.values()]
    return max(ladders or [each.numenv for row in rows for each in row], default=0)


def _tables(profile: Profile | None, *groups: Iterable[_Key]) -> list[_Key]:
    """The keys of a machine's tables. A ceiling has none: its family's main table shows it."""
    wanted: set[_Key] = {
        (family, task, "" if section == "ceiling" else section)
        for group in groups
        for family, task, section in group
    }
    for family in families.registry().values():
        if profile is not None and family.default_task and family.name in profile.tables:
            wanted.add((family.name, family.default_task, ""))
    order = [*families.names(), *(family for family, *_ in wanted)]
    return sorted(
        wanted, key=lambda k: (order.index(k[0]), k[1] != families.default_task(k[0]), *k[1:])
    )


def _results(
    name: str, profile: Profile | None, key: _Key, group: _Group, selection: Selection
) -> MachineResults:
    family, task, section = key
    every = group.get((family, task, "ceiling"), [])
    ceilings = [each for each in every if is_ceiling(each.cell) and not each.refused]
    if section == "accelerators":
        ceilings = []
    return MachineResults(
        machine=name,
        title=profile.title if profile else name,
        env=family,
        task=task,
        section=section,
        profile=profile,
        ceilings=ceilings,
        measured=group.get(key, []),
        relations=selection.relations,
        main=selection.sessions.get((name, *key), ""),
        verified={
            row[-1]: found
            for row, found in selection.verified.items()
            if (*row[:-1], found.verification.cell.section) == (name, *key)
        },
    )
