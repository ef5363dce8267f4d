"""The values that everything else passes around, and the schema of a results file.

A results file is JSON lines. Each line is one ``Stored`` value; ``"type"`` names its kind. It has
raw facts only: steps and nanoseconds. Derived numbers are computed when it is read. What many
blocks share (the machine's fingerprint, a runtime's packages, an adapter's facts, the plan) is one
line, written once and referred to by its ``hash`` or ``id``.

Units: names end in ``_ns`` (nanoseconds), ``_s`` (seconds) or ``_bytes``. ``steps`` are
transitions of single environments (reset-only steps excluded), ``calls`` are vector steps.
"""

from envbench.model.measured import (
    Agreement,
    Audit,
    Failure,
    Load,
    Run,
    Times,
    TrialResult,
    Verification,
    Windows,
)
from envbench.model.plan import (
    Arm,
    Behaviour,
    Block,
    Cell,
    Design,
    Job,
    Mode,
    PairsDesign,
    Plan,
    Programme,
    Protocol,
    Rule,
    RunDesign,
    Trial,
    Verify,
    VerifyDesign,
    Workload,
    arm_key,
    run_design,
    section,
)
from envbench.model.records import (
    LARGEST_FPS,
    LARGEST_SKIP,
    BlockRecord,
    EndedRecord,
    FactsRecord,
    Fingerprint,
    MachineFact,
    ProgressRecord,
    Published,
    RuntimeFact,
    TrialRecord,
)
from envbench.model.values import (
    SCHEMA,
    Family,
    Int,
    Kind,
    Section,
    Settings,
    Value,
    digest,
    out_of_bounds,
)

Shared = MachineFact | RuntimeFact | FactsRecord
Stored = Plan | BlockRecord | ProgressRecord | EndedRecord | Shared | Published
# What a report reads: runs and verifications instead of blocks (``envbench.results.join``).
Record = Run | Plan | MachineFact | RuntimeFact | Verification | Published
