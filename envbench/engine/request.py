"""Turn a request into cells: families, backends, ladder and settings.

Errors are ``UsageError`` (exit 2), raised before anything is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from envbench import backends, families
from envbench.backends import Backend, Setting
from envbench.backends.specification import settings_of, with_role
from envbench.engine.target import Target, make_cell
from envbench.errors import UnknownName, UsageError
from envbench.families.family import EnvFamily
from envbench.machine import Profile, cores_of, numa_nodes, usable_cores
from envbench.model import Family, section
from envbench.text import listed


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options that select cells; None or empty if left out. ``in_flight`` and ``nodes`` are
    values for the settings with that role, whatever their name."""

    family: str | None = None
    task: str | None = None
    backends: list[str] | None = None
    numenv: list[int] | None = None
    ladder: list[int] | None = None  # replaces the profile's, if ``numenv`` is not given
    settings: dict[str, str] = {}
    in_flight: str | None = None
    nodes: str = ""
    preset: str | None = None
    frame_skip: float | None = None

    @property
    def takes_all(self) -> bool:
        """Does envbench choose the backends? If so, a backend that cannot run is no error."""
        return self.backends is None or "all" in self.backends


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the targets in the order of the tables, and notes for the user."""

    targets: list[Target]
    notes: list[str] = []


def choose(request: CellRequest, profile: Profile, cpus: int = 1) -> Chosen:
    """Resolve every requested cell. ``cpus``: usable cores. A ceiling has one process per core."""
    if request.family is None and request.task is not None:
        request = msgspec.structs.replace(request, family=families.of_task(request.task))
    return _Choice(request, profile, cpus).made()


@dataclass
class _Choice:
    """Resolves one request."""

    request: CellRequest
    profile: Profile
    cpus: int
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)  # what is lacking: where

    def made(self) -> Chosen:
        targets = [
            self._target(family, backend, numenv)
            for family in self._families
            for backend in self._backends(family)
            for numenv in self._enough(backend, self._ladder(family, backend))
        ]
        if not targets:
            wanted = ", ".join(self._families) or "any env family that is known here"
            raise UsageError(
                f"the profile {self.profile.name!r} has no table for {wanted}.",
                hint="Give --env and --numenv, or add a table with a ladder to the profile.",
            )
        without = [
            f"Note: these {lack} and are measured without it: {', '.join(lacking)}."
            for lack, lacking in self.left_out.items()
        ]
        return Chosen(targets=targets, notes=[*self.notes, *without])

    # ------------------------------------------------------------ families and backends

    @cached_property
    def _families(self) -> dict[Family, EnvFamily]:
        """The requested family, or those that the profile lists, by name."""
        request = self.request
        if request.task is not None and not request.task.partition(":")[0].strip():
            raise UsageError(f"--task {request.task!r} is not a task such as my_package:MyEnv-v0.")
        if request.family is None:
            tables = self.profile.tables  # of families, and of accelerators and physics
            shared = {*tables}.difference(families.names())
            rows = [backends.of_record(row) for name in shared for row in tables[name].rows]
            listed = {*tables, *(family for backend in rows for family in backend.families)}
            return {name: each for name, each in families.registry().items() if name in listed}
        family = families.get(request.family)
        if not family.default_task and request.task is None:
            raise UsageError(f"--env {family.name} needs --task, such as my_package:MyEnv-v0.")
        return {family.name: family}

    @cached_property
    def _named(self) -> list[Backend]:
        """The backends that a person named."""
        return [backends.get(name) for name in self.request.backends or [] if name != "all"]

    def _backends(self, family: Family) -> list[Backend]:
        """The backends to choose from that run the family. Refuses a named one that runs no
        requested family."""
        if not self.request.takes_all:
            for backend in self._named:
                # With several families, a backend need not run all of them.
                if self.request.family or not set(backend.families) & set(self._families):
                    backends.check_family(backend, family)
        runs_it = [each for each in self._eligible if family in each.families]
        return [each for each in runs_it if self._is_listed(each, family)]

    def _is_listed(self, backend: Backend, family: Family) -> bool:
        """Is it a row of the profile? All are, if the profile does not list the family or a person
        asked for backends. Profiles list no plugins."""
        heading, tables = (
            section(backend.kind, accelerator=backend.accelerator),
            self.profile.tables,
        )
        if self.request.backends is not None or not backends.is_built_in(backend.name):
            return True
        table = tables.get(heading or family)
        return not {family, heading} & tables.keys() or bool(table and backend.name in table.rows)

    # ------------------------------------------------------------ numbers of environments

    def _ladder(self, family: Family, backend: Backend) -> list[int]:
        """The requested numbers of environments, or the profile's ladder for the backend."""
        request = self.request
        if backend.one_per_core:
            if request.numenv and request.backends == [backend.name]:
                raise UsageError(f"{backend.name} takes no --numenv: the number of cores decides.")
            return [self.cpus * self._families[family].ceiling_states]
        heading = section(backend.kind, accelerator=backend.accelerator)
        if request.family is None and not {family, heading} & self.profile.tables.keys():
            return []  # the profile lists other backends of the family
        table = self.profile.table(family, heading)
        return request.numenv or request.ladder or (table.numenv if table else [])

    def _enough(self, backend: Backend, numenvs: list[int]) -> list[int]:
        """The numbers that give each node at least one environment, if the backend has nodes."""
        setting = with_role(backend, "nodes")
        if setting is None:
            return numenvs
        by_hand = self.request.nodes or self.request.settings.get(setting.name, "")
        _check_cores(str(setting.parse(by_hand)))  # of at most four digits each
        nodes = by_hand.count("/") + 1 if by_hand else numa_nodes()
        enough = [numenv for numenv in numenvs if numenv >= nodes]
        if not enough and self.request.backends == [backend.name]:
            raise UsageError(
                f"{backend.name} has {nodes} nodes here, so --numenv has to be at least {nodes}."
            )
        if self.request.numenv and len(enough) < len(numenvs):
            few = ", ".join(str(numenv) for numenv in numenvs if numenv < nodes)
            self.notes.append(f"{backend.name} has {nodes} nodes here: numenv {few} is left out.")
        return enough

    # ------------------------------------------------------------ settings

    def _target(self, family: Family, backend: Backend, numenv: int) -> Target:
        request = self.request
        given = self._settings(backend)
        if request.takes_all or len(self._named) > 1 or request.family is None:
            given = self._own(given, backend, family)
        if request.preset:
            given = {**backends.preset_settings(request.preset, backend, family), **given}
        task = request.task or self._families[family].default_task
        cell = make_cell(
            self.profile.name, family, task, backend, numenv, given, request.frame_skip
        )
        return Target(cell=cell, backend=backend, family=self._families[family])

    def _settings(self, backend: Backend) -> dict[str, str]:
        """The given settings. One given by its role gets the backend's name for that role."""
        request = self.request
        given = dict(request.settings)
        for role, option, value in [
            ("in-flight", "--overcommit", request.in_flight),
            ("nodes", "--numa-node", request.nodes or None),
        ]:
            if value is None:
                continue
            if role not in {each.role for each in self._known}:
                every = backends.registry().values()
                takers = [each.name for each in every if with_role(each, role)]
                raise UsageError(f"{option} applies to {listed(takers)} only.")
            setting = with_role(backend, role)
            if setting is None:
                self.left_out.setdefault(f"do not take {option}", {})[backend.name] = None
            elif setting.name in given:
                raise UsageError(f"{setting.name!r} is given twice: by --set and by {option}.")
            else:
                given[setting.name] = value
        return given

    def _own(self, given: dict[str, str], backend: Backend, family: Family) -> dict[str, str]:
        """The given settings that this backend has. Refuses one that no chosen backend has."""
        mine, known = settings_of(backend, family), {each.name for each in self._known}
        for name in given:
            if name not in known:
                raise UnknownName("setting", name, sorted(known))
            if name not in mine:
                self.left_out.setdefault(f"have no setting {name}", {})[backend.name] = None
        return {name: value for name, value in given.items() if name in mine}

    @cached_property
    def _eligible(self) -> list[Backend]:
        """The backends to choose from: the named ones, or all but ceilings that no one named."""
        if not self.request.takes_all:
            return self._named
        every = backends.registry().values()
        return [each for each in every if each.kind != "ceiling" or each in self._named]

    @cached_property
    def _known(self) -> list[Setting]:
        """The settings of the chosen backends, in the requested families."""
        chosen = [(each, family) for family in self._families for each in self._backends(family)]
        return [setting for pair in chosen for setting in settings_of(*pair).values()]


def _check_cores(nodes: str) -> None:
    """Refuse nodes with unusable cores, or with one core twice."""
    usable, seen = set(usable_cores()), set[int]()
    try:
        cores = [core for node in nodes.split("/") if node for core in cores_of(node)]
    except ValueError as error:
        raise UsageError(f"nodes {nodes!r}: {error}") from None
    for core in cores:
        if usable and core not in usable:
            raise UsageError(
                f"nodes {nodes!r}: core {core} cannot be used here.",
                hint=f"Usable cores: {', '.join(map(str, sorted(usable)))}",
            )
        if core in seen:
            raise UsageError(f"nodes {nodes!r}: core {core} is named twice.")
        seen.add(core)
