"""A cell: one entry of a report's table, and the unit of everything that is measured."""

from __future__ import annotations

from typing import Literal

import msgspec

from envbench.model.values import Count, Family, Kind, Positive, Section, Settings

Workload = Literal["step"]  # what runs the environments; a policy or training may follow


def section(kind: Kind, *, accelerator: bool) -> Section:
    """The table that a kind belongs to. Backends that step batches on a device have their own."""
    if kind == "env":
        return "accelerators" if accelerator else ""
    return kind


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a table.

    ``settings`` has every setting of the backend, with defaults filled in, so equal cells are the
    same cell. ``variant`` has what the row's label adds to the backend's name: settings that differ
    from the default, and ``frame_skip`` if a person chose it.
    """

    machine: str
    env: Family
    task: str
    backend: str
    numenv: Count
    env_instances: Count
    frame_skip: Count | Positive
    workload: Workload = "step"
    settings: Settings
    variant: Settings = {}
    kind: Kind = "env"
    accelerator: bool = False

    @property
    def section(self) -> Section:
        """Which of its family's tables it belongs to; "" is the main one."""
        return section(self.kind, accelerator=self.accelerator)

    @property
    def key(self) -> str:
        """A stable readable identifier: ``atari/Pong-v5/envpool-async/8`` and any variant."""
        tail = "".join(f",{k}={v}" for k, v in sorted(self.variant.items()))
        return f"{self.env}/{self.task}/{self.backend}/{self.numenv}{tail}"
