"""Machine profiles and fingerprints: what is measured here, and what "here" is.

A *profile* is a file in ``machines/``: data a person wrote. A *fingerprint* is what the machine
is found to be: what the report trusts. Nothing is read or probed at import.
"""

from envbench.machine.cpus import numa_nodes, usable_cores, usable_cpus
from envbench.machine.known_profiles import (
    LOCAL,
    Catalogue,
    Entry,
    catalogue,
    matching,
    profile,
    profiles,
)
from envbench.machine.own_profile import choose, default_ladder, host_matches, profile_for_host
from envbench.machine.probe import fingerprint
from envbench.machine.profile_file import (
    TABLES,
    Match,
    Profile,
    Table,
    parse_profile,
    profile_toml,
    read_profile,
    valid_name,
    write_profile,
)

__all__ = [
    "LOCAL",
    "TABLES",
    "Catalogue",
    "Entry",
    "Match",
    "Profile",
    "Table",
    "catalogue",
    "choose",
    "default_ladder",
    "fingerprint",
    "host_matches",
    "matching",
    "numa_nodes",
    "parse_profile",
    "profile",
    "profile_for_host",
    "profile_toml",
    "profiles",
    "read_profile",
    "usable_cores",
    "usable_cpus",
    "valid_name",
    "write_profile",
]
