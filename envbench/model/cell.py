"""A cell: one entry of a report's table, and the unit of everything that is measured."""

from __future__ import annotations

from typing import Literal

import msgspec

from envbench.model.values import Family, Int, Kind, Section, Settings

Workload = Literal["step"]  # what is done with the environments; a policy or training come later


def section(kind: Kind, *, accelerator: bool) -> Section:
    """The table that a kind belongs to. Backends that step whole batches on a device have one of
    their own."""
    if kind == "env":
        return "accelerators" if accelerator else ""
    return kind


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a table.

    ``settings`` holds every setting of the backend with defaults filled in, so two cells are the
    same cell exactly when they are equal. ``variant`` holds what the row's label shows besides the
    backend's name: the settings that differ from the backend's default, and ``frame_skip`` where a
    person chose it.
    """

    machine: str
    env: Family
    task: str
    backend: str
    numenv: Int
    env_instances: Int
    frame_skip: Int | float
    workload: Workload = "step"
    settings: Settings
    variant: Settings = {}
    kind: Kind = "env"
    accelerator: bool = False

    @property
    def section(self) -> Section:
        """Which of its family's tables it belongs to: "" is the family's own."""
        return section(self.kind, accelerator=self.accelerator)

    @property
    def key(self) -> str:
        """A stable readable identifier: ``atari/Pong-v5/envpool-async/8`` and any variant."""
        tail = "".join(f",{k}={v}" for k, v in sorted(self.variant.items()))
        return f"{self.env}/{self.task}/{self.backend}/{self.numenv}{tail}"
