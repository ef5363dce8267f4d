"""A target: a cell with its backend and its env family.

Only this module and ``request`` look up backends and families for the engine. From here on, a
``Target`` carries them as values.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from envbench import backends, families
from envbench.backends import Backend, resolve_settings
from envbench.backends.builtin import KERNEL
from envbench.backends.specification import check_shares
from envbench.decisions.equal_work import followed
from envbench.families.family import EnvFamily
from envbench.model import Cell, Family

MOST_TRACED = 50  # environments of a batch that a reference follows (the worker's constant, too)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Holds a cell, its backend and its env family, so that no other code looks them up."""

    cell: Cell
    backend: Backend
    family: EnvFamily


def make_cell(
    machine: str,
    family: Family,
    task: str,
    backend: Backend,
    numenv: int,
    given: Mapping[str, str],
    frame_skip: float | None = None,
) -> Cell:
    """Make the cell with every setting resolved; ``UsageError`` for an unknown setting."""
    settings, variant = resolve_settings(backend, family, given, task)
    own_family = families.get(family)
    frames = own_family.frames_per_step(task, frame_skip)
    check_shares(backend, numenv, settings)
    if own_family.any_frames and frames != 1:  # figures with other frames have their own row
        variant = {**variant, "frame_skip": frames}
    return Cell(
        machine=machine,
        env=family,
        task=task,
        backend=backend.name,
        numenv=numenv,
        env_instances=backends.env_instances(backend, numenv, settings),
        frame_skip=frames,
        settings=settings,
        variant=variant,
        kind=backend.kind,
        accelerator=backend.accelerator,
    )


def kernel_target(machine: str = "", kernel: Backend = KERNEL) -> Target:
    """Return a reference kernel as a cell, to be measured beside others."""
    cell = make_cell(machine, kernel.families[0], "reference", kernel, 1, {})
    return Target(cell=cell, backend=kernel, family=families.get(cell.env))


def target_of(cell: Cell) -> Target:
    """Return a cell that was read from a file, with its backend and env family."""
    return Target(cell=cell, backend=backends.get(cell.backend), family=families.get(cell.env))


def reference_of(cell: Cell) -> Target | None:
    """Return the reference that follows this cell while it is measured; None if there is none."""
    standard = families.get(cell.env).standards.get(cell.kind)
    reference = backends.registry().get(standard.reference) if standard else None
    if reference is None or cell.env not in reference.families or not followed(cell):
        return None
    settings, _ = resolve_settings(reference, cell.env, {}, cell.task)
    traced = min(cell.numenv, MOST_TRACED)
    own = cell.own_settings
    return target_of(
        msgspec.structs.replace(
            cell,
            backend=reference.name,
            numenv=traced,
            env_instances=traced,
            settings=settings,
            variant={name: each for name, each in cell.variant.items() if name not in own},
            accelerator=reference.accelerator,
        )
    )
