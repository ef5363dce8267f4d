"""Turn a request into cells: families, backends, ladder and settings.

Only this module looks up backends for the engine. A ``Target`` then carries its backend as a value.
Errors are ``UsageError`` (exit 2), raised before anything is measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from envbench import backends, families
from envbench.backends import Backend, resolve_settings
from envbench.backends.specification import check_shares, settings_of, with_role
from envbench.errors import UnknownName, UsageError
from envbench.machine import Profile, numa_nodes, usable_cores
from envbench.model import Cell, Family, Job, Trial, section


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A cell with its backend."""

    cell: Cell
    backend: Backend


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options that select cells; None or empty if left out.

    ``in_flight`` and ``nodes`` are values for the settings with that role, whatever their name.
    """

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
        """Does envbench choose the backends? Then one that cannot run is not an error."""
        return self.backends is None or "all" in self.backends


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The targets in the order of the tables, and notes for the user."""

    targets: list[Target]
    notes: list[str] = []


def choose(request: CellRequest, profile: Profile, cpus: int = 1) -> Chosen:
    """Every requested cell. ``cpus``: usable cores; a ceiling has one environment per core."""
    return _Choice(request, profile, cpus).made()


def target_of(cell: Cell) -> Target:
    """A cell that was read from a file, with its backend."""
    return Target(cell=cell, backend=backends.get(cell.backend))


class _Choice:
    """One request while it is being resolved."""

    def __init__(self, request: CellRequest, profile: Profile, cpus: int) -> None:
        self.request = request
        self.profile = profile
        self.cpus = cpus
        self.known = backends.registry()
        self.notes: list[str] = []

    def made(self) -> Chosen:
        targets = [
            self._target(family, backend, numenv)
            for family in self._families()
            for backend in self._backends(family)
            for numenv in self._enough(backend, self._ladder(family, backend))
        ]
        if not targets:
            raise UsageError(
                f"the profile {self.profile.name!r} has no table for that family.",
                hint="Say --numenv, or give the profile a table with a ladder.",
            )
        return Chosen(targets=targets, notes=[*self.notes, *self._settings_left_out(targets)])

    # ------------------------------------------------------------ families and backends

    def _families(self) -> Sequence[Family]:
        """The requested family, or those that the profile has tables for."""
        request = self.request
        if request.task is not None and not request.task.strip():
            raise UsageError("--task is empty: leave it out for each family's default task.")
        if request.family is None:
            if request.task is not None:
                raise UsageError(
                    "--task needs --env: which family is it?",
                    hint="Add --env atari, --env mujoco, or --env gym for a task of your own.",
                )
            every = families.registry().values()
            return [each.name for each in every if each.name in self.profile.tables]
        family = families.get(request.family)
        if not family.default_task and request.task is None:
            raise UsageError(
                f"--env {family.name} needs --task, such as --task my_package:MyEnv-v0."
            )
        return [family.name]

    def _named(self, name: str) -> Backend:
        if name not in self.known:
            raise UnknownName("backend", name, list(self.known))
        return self.known[name]

    def _backends(self, family: Family) -> list[Backend]:
        """The requested backends, or all that run the family except ceilings."""
        names = self.request.backends or []
        if self.request.takes_all:
            named = {self._named(name).name for name in names if name != "all"}
            every = self.known.values()
            wanted = [each for each in every if each.kind != "ceiling" or each.name in named]
            return [each for each in wanted if family in each.families]
        for backend in map(self._named, names):
            # With several families, a backend need not run all of them.
            if self.request.family or not set(backend.families) & set(self._families()):
                backends.check_family(backend, family)
        return [each for each in map(self._named, names) if family in each.families]

    # ------------------------------------------------------------ numbers of environments

    def _ladder(self, family: Family, backend: Backend) -> list[int]:
        """The requested numbers of environments, or the profile's ladder for the backend."""
        request = self.request
        if backend.one_per_core:
            if request.numenv and request.backends == [backend.name]:
                raise UsageError(
                    f"{backend.name} takes no --numenv: it has one environment per core."
                )
            return [self.cpus * families.get(family).ceiling_states]
        if request.numenv:
            return request.numenv
        if request.ladder:
            return request.ladder
        heading = section(backend.kind, accelerator=backend.accelerator)
        table = self.profile.table(family, heading)
        return table.numenv if table else []

    def _enough(self, backend: Backend, numenvs: list[int]) -> list[int]:
        """The numbers that give each node at least one environment, if the backend has nodes."""
        setting = with_role(backend, "nodes")
        if setting is None:
            return numenvs
        by_hand = self.request.nodes or self.request.settings.get(setting.name, "")
        _check_cores(by_hand)
        nodes = by_hand.count("/") + 1 if by_hand else numa_nodes()
        enough = [numenv for numenv in numenvs if numenv >= nodes]
        if not enough and self.request.backends == [backend.name]:
            raise UsageError(
                f"{backend.name} has {nodes} nodes here: --numenv takes as many or more."
            )
        if self.request.numenv and len(enough) < len(numenvs):
            few = ", ".join(str(numenv) for numenv in numenvs if numenv < nodes)
            self.notes.append(
                f"{backend.name} has {nodes} nodes here: no cell of it with numenv {few}."
            )
        return enough

    # ------------------------------------------------------------ settings

    def _target(self, family: Family, backend: Backend, numenv: int) -> Target:
        request = self.request
        given = self._settings(backend)
        if self._shared_settings:
            self._check_known(given)
            mine = settings_of(backend, family)
            given = {key: value for key, value in given.items() if key in mine}
        if request.preset:
            given = {**backends.preset_settings(request.preset, backend, family), **given}
        task = request.task or families.default_task(family)
        cell = make_cell(
            self.profile.name, family, task, backend, numenv, given, request.frame_skip
        )
        return Target(cell=cell, backend=backend)

    @property
    def _shared_settings(self) -> bool:
        """Are the settings for several backends? Then each takes those that it has."""
        request = self.request
        return request.takes_all or len(request.backends or []) > 1 or request.family is None

    def _settings(self, backend: Backend) -> dict[str, str]:
        """The given settings. Options for a role get the name of this backend's setting."""
        given = dict(self.request.settings)
        for role, option, value in self._by_role:
            setting = with_role(backend, role)
            name = setting.name if setting else _any_name(self.known.values(), role)
            if setting is None and self._shared_settings:
                continue
            if name in given:
                raise UsageError(f"the setting {name!r} is given twice: by --set and by {option}.")
            given[name] = value
        return given

    @property
    def _by_role(self) -> list[tuple[str, str, str]]:
        request = self.request
        given = [
            ("in-flight", "--overcommit", request.in_flight),
            ("nodes", "--numa-node", request.nodes or None),
        ]
        return [(role, option, value) for role, option, value in given if value is not None]

    def _check_known(self, given: Mapping[str, str]) -> None:
        """Refuse a setting that none of several backends has."""
        every, families = self._eligible, self._families()
        known = sorted({s for f in families for each in every for s in settings_of(each, f)})
        of_no_one = [
            _any_name(self.known.values(), role)
            for role, _, _ in self._by_role
            if not any(with_role(each, role) for each in every)
        ]
        for key in [*given, *of_no_one]:
            if key not in known:
                raise UnknownName("setting", key, known)

    @property
    def _eligible(self) -> list[Backend]:
        """The backends to choose from: the requested ones, or all."""
        names = self.request.backends
        if names and not self.request.takes_all:
            return [self._named(name) for name in names]
        return [*self.known.values()]

    def _settings_left_out(self, targets: Sequence[Target]) -> list[str]:
        """A note per given setting that some chosen backends do not have."""
        notes = []
        given = {key: key for key in self.request.settings}
        given |= {_any_name(self.known.values(), role): role for role, _, _ in self._by_role}
        for key, role in given.items():
            without = dict.fromkeys(
                each.backend.name
                for each in targets
                if key not in each.cell.settings and not with_role(each.backend, role)
            )
            if without:
                notes.append(
                    f"Note: {key} is no setting of {', '.join(without)}: measured without it."
                )
        return notes


def _any_name(known: Iterable[Backend], role: str) -> str:
    """A backend's name for the setting of that role, for messages."""
    found = (with_role(each, role) for each in known)
    return next((setting.name for setting in found if setting), role)


def _check_cores(nodes: str) -> None:
    """Refuse nodes with unusable cores, or with one core twice."""
    usable = set(usable_cores())
    seen: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", nodes):
        cores = set(range(int(first), int(last or first) + 1))
        if not cores:
            raise UsageError(f"nodes {nodes!r}: {first}-{last} ends before it begins.")
        if usable and cores - usable:
            raise UsageError(
                f"nodes {nodes!r}: core {min(cores - usable)} may not be used here.",
                hint=f"Cores that may be: {', '.join(map(str, sorted(usable)))}",
            )
        if cores & seen:
            raise UsageError(f"nodes {nodes!r}: core {min(cores & seen)} is named twice.")
        seen |= cores


# ---------------------------------------------------------------- cells, trials, jobs


def make_cell(
    machine: str,
    family: Family,
    task: str,
    backend: Backend,
    numenv: int,
    given: Mapping[str, str],
    frame_skip: float | None = None,
) -> Cell:
    """The cell with every setting resolved; ``UsageError`` for an unknown setting."""
    settings, variant = resolve_settings(backend, family, given, task)
    own_family = families.get(family)
    frames = own_family.frames_per_step(task, frame_skip)
    check_shares(backend, numenv, settings)
    return Cell(
        machine=machine,
        env=family,
        task=task,
        backend=backend.name,
        numenv=numenv,
        env_instances=backends.env_instances(backend, numenv, settings),
        frame_skip=frames,
        settings=settings,
        variant={**variant, **own_family.other_frames(frames)},
        kind=backend.kind,
        accelerator=backend.accelerator,
    )


def kernel_target(machine: str = "") -> Target:
    """The reference kernel as a cell, to be measured beside others."""
    from envbench.backends.builtin import KERNEL

    return Target(cell=make_cell(machine, "gym", "reference", KERNEL, 1, {}), backend=KERNEL)


def make_job(trial: Trial, adapter: str, run_id: str) -> Job:
    """The order for a trial's worker."""
    cell = trial.cell
    return Job(
        mode=trial.mode,
        run_id=run_id,
        adapter=adapter,
        family=cell.env,
        family_code=families.get(cell.env).worker,
        own_task=families.get(cell.env).own_tasks,
        task=cell.task,
        numenv=cell.numenv,
        env_instances=cell.env_instances,
        frame_skip=cell.frame_skip,
        settings=cell.settings,
        seed=trial.seed,
        protocol=trial.protocol,
        verify=trial.verify,
        cpus=trial.cpus,
        together=trial.verify.together if trial.mode == "verify" else 0,
    )


def seed_of_round(seed: int, round_: int) -> int:
    """Different in every round, the same for all cells of a round.

    Environment i of a cell is seeded with this plus i, so the seeds of rounds lie far apart.
    """
    return (seed * 1000 + round_) * 0x2545F491 % 2**31  # odd, so all are different


def unknown_task(cell: Cell, known: list[str]) -> UnknownName:
    """The error for a task that the cell's backend does not know."""
    error = UnknownName(f"{cell.env} task of {cell.backend}", cell.task, known)
    every = families.registry().values()
    owner = next((each.name for each in every if each.default_task == cell.task), None)
    if owner is not None:
        error.hint = f"It is a {owner} task: --env {owner}"
    elif families.get(cell.env).own_tasks and ":" not in cell.task:
        error.hint += ". A task of your own package is written my_package:MyEnv-v0"
    return error
