"""What this host is, its profiles, its sources of noise.

A *profile* is a file in ``machines/`` that a person writes: what to measure. A *fingerprint* is
what is found on the machine; reports trust only this. Nothing is read or probed at import.
"""

from envbench.machine.host import fingerprint, numa_nodes, usable_cores, usable_cpus
from envbench.machine.known_profiles import (
    LOCAL,
    Entry,
    catalogue,
    choose,
    profile,
    profile_for_host,
)
from envbench.machine.profile_file import TABLES, Match, Profile, Table, valid_name, write_profile

__all__ = [
    "LOCAL",
    "TABLES",
    "Entry",
    "Match",
    "Profile",
    "Table",
    "catalogue",
    "choose",
    "fingerprint",
    "numa_nodes",
    "profile",
    "profile_for_host",
    "usable_cores",
    "usable_cpus",
    "valid_name",
    "write_profile",
]
