"""The values that everything else passes around, and the schema of a results file.

A results file is JSON lines, one ``Record`` a line, told apart by ``"type"``. Raw facts only:
steps and nanoseconds; every derived number is computed when read (``envbench.statistics``).
What many runs share (the machine's fingerprint, a runtime's packages, a plan) is a line of its
own, written once and referred to by its ``hash`` or ``id``.

Units: names end in ``_ns`` (nanoseconds), ``_s`` (seconds) or ``_bytes``. ``steps`` are
transitions of single environments (reset-only steps excluded), ``calls`` are vector steps.
"""

from envbench.model.asked import Cell, Job, Plan, Protocol, Verify, other_frames, section
from envbench.model.checked import ArmFact, Check, Gauge, Pair, Side
from envbench.model.found import Fingerprint, MachineFact, RuntimeFact
from envbench.model.measured import Failure, Load, Run, Times, Windows
from envbench.model.published import LARGEST_FPS, LARGEST_SKIP, Published
from envbench.model.values import (
    DEFAULT_TASK,
    FAMILIES,
    SCHEMA,
    Family,
    Int,
    Kind,
    Section,
    Settings,
    Value,
    bounded,
    digest,
)
from envbench.model.verified import Agreement, Audit, Verification

Record = Run | Plan | MachineFact | RuntimeFact | Verification | Published | Check | Pair | Gauge

__all__ = [
    "DEFAULT_TASK",
    "FAMILIES",
    "LARGEST_FPS",
    "LARGEST_SKIP",
    "SCHEMA",
    "Agreement",
    "ArmFact",
    "Audit",
    "Cell",
    "Check",
    "Failure",
    "Family",
    "Fingerprint",
    "Gauge",
    "Int",
    "Job",
    "Kind",
    "Load",
    "MachineFact",
    "Pair",
    "Plan",
    "Protocol",
    "Published",
    "Record",
    "Run",
    "RuntimeFact",
    "Section",
    "Settings",
    "Side",
    "Times",
    "Value",
    "Verification",
    "Verify",
    "Windows",
    "bounded",
    "digest",
    "other_frames",
    "section",
]
