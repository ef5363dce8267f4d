"""What this host is, its profiles, its sources of noise.

A *profile* is a file in ``machines/`` that a person writes: what to measure. A *fingerprint* is
what is found on the machine; reports trust only this. An import reads no profile and probes
nothing, but it loads the plugins that add env families: each may have a table in a profile.

``host`` finds the fingerprint. ``profile_file`` reads and writes one profile, and
``known_profiles`` knows all of them. ``disturbance`` finds what makes the machine noisy, and
``lock`` lets one envbench measure at a time.
"""

from envbench.machine.host import *
from envbench.machine.known_profiles import *
from envbench.machine.profile_file import *
