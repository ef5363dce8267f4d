"""The values that everything else passes around, and the schema of a results file.

A results file is JSON lines. Each line is one ``Stored`` value; ``"type"`` names its kind. It has
raw facts only: steps and nanoseconds. Derived numbers are computed when it is read. What many
blocks share (the machine's fingerprint, a runtime's packages, an adapter's facts, the plan) is one
line, written once and referred to by its ``hash`` or ``id``.

Units: names end in ``_ns`` (nanoseconds), ``_s`` (seconds) or ``_bytes``. ``steps`` are
transitions of single environments (reset-only steps excluded), ``calls`` are vector steps.
"""

from envbench.model.measurements import *
from envbench.model.plan import *
from envbench.model.records import *
from envbench.model.values import *
