"""What machines and runtimes were found to be."""

from __future__ import annotations

import msgspec

from envbench.model.values import SCHEMA, Int


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What identifies the hardware and system; nothing that changes from minute to minute."""

    cpu: str
    logical_cpus: Int
    physical_cores: Int | None
    usable_cpus: Int  # after affinity masks and cgroup quotas
    memory_gib: Int
    gpus: list[str] = []
    system: str = ""
    kernel: str = ""
    architecture: str = ""


class MachineFact(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="machine"
):
    """What the machine was found to be. Referred to by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    fingerprint: Fingerprint


class RuntimeFact(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runtime"
):
    """The interpreter that a worker ran in, and every package there. Referred to by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    python: str
    implementation: str
    packages: dict[str, str]
