"""Facts about machines and runtimes."""

from __future__ import annotations

import msgspec

from envbench.model.values import SCHEMA, Int


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What identifies the hardware and system. Excludes what changes from minute to minute."""

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
    """The facts of a machine. Referred to by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    fingerprint: Fingerprint


class RuntimeFact(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runtime"
):
    """The interpreter of a worker, and its packages. Referred to by ``hash``."""

    schema: Int = SCHEMA
    hash: str
    python: str
    implementation: str
    packages: dict[str, str]
