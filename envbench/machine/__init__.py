"""What this host is, its profiles, its sources of noise.

A *profile* is a file in ``machines/`` that a person writes: what to measure. A *fingerprint* is
what is found on the machine; reports trust only this. Nothing is read or probed at import.
"""

from envbench.machine.host import *
from envbench.machine.known_profiles import *
from envbench.machine.profile_file import *
