"""The values that everything else passes around, and the schema of a results file.

A results file is JSON lines. Each line is one ``Stored`` value; ``"type"`` names its kind. It has
raw facts only: steps and nanoseconds. Derived numbers are computed when it is read. What many
blocks share (the machine's fingerprint, a runtime's packages, an adapter's facts, the plan) is one
line, written once and referred to by its ``hash`` or ``id``.

Units: names end in ``_ns`` (nanoseconds), ``_s`` (seconds) or ``_bytes``. ``steps`` are
transitions of single environments (reset-only steps excluded), ``calls`` are vector steps.
"""

from envbench.model.block import (
    Agreement,
    Audit,
    BlockRecord,
    EndedRecord,
    FactsRecord,
    ProgressRecord,
    TrialRecord,
)
from envbench.model.cell import Cell, Workload, section
from envbench.model.joined import Run, Verification
from envbench.model.machine import Fingerprint, MachineFact, RuntimeFact
from envbench.model.measured import Failure, Load, Times, Windows
from envbench.model.plan import (
    Arm,
    Behaviour,
    Block,
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
    arm_key,
    run_design,
)
from envbench.model.published import LARGEST_FPS, LARGEST_SKIP, Published
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
# What a report reads: runs and verifications instead of blocks (``envbench.archive``).
Record = Run | Plan | MachineFact | RuntimeFact | Verification | Published

__all__ = [
    "LARGEST_FPS",
    "LARGEST_SKIP",
    "SCHEMA",
    "Agreement",
    "Arm",
    "Audit",
    "Behaviour",
    "Block",
    "BlockRecord",
    "Cell",
    "Design",
    "EndedRecord",
    "FactsRecord",
    "Failure",
    "Family",
    "Fingerprint",
    "Int",
    "Job",
    "Kind",
    "Load",
    "MachineFact",
    "Mode",
    "PairsDesign",
    "Plan",
    "Programme",
    "ProgressRecord",
    "Protocol",
    "Published",
    "Record",
    "Rule",
    "Run",
    "RunDesign",
    "RuntimeFact",
    "Section",
    "Settings",
    "Shared",
    "Stored",
    "Times",
    "Trial",
    "TrialRecord",
    "Value",
    "Verification",
    "Verify",
    "VerifyDesign",
    "Windows",
    "Workload",
    "arm_key",
    "digest",
    "out_of_bounds",
    "run_design",
    "section",
]
