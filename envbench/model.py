"""The values that everything else passes around, and the schema of a results file.

A results file is JSON lines, one ``Record`` a line, told apart by ``"type"``. Raw facts only:
steps and nanoseconds; every derived number is computed when read (``envbench.statistics``).
What many runs share (the machine's fingerprint, a runtime's packages, a plan) is a line of its
own, written once and referred to by its ``hash`` or ``id``.

Units: names end in ``_ns`` (nanoseconds), ``_s`` (seconds) or ``_bytes``. ``steps`` are
transitions of single environments (reset-only steps excluded), ``calls`` are vector steps.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec

SCHEMA = 1
FAMILIES = ("atari", "mujoco", "gym")
DEFAULT_TASK = {"atari": "Pong-v5", "mujoco": "Ant-v3"}

Family = Literal["atari", "mujoco", "gym"]
Kind = Literal["env", "physics", "ceiling"]
Section = Literal["", "accelerators", "physics", "ceiling"]  # tables never mix them
# What a library counts in 64 bits: a number of a thousand digits is no count, and no float.
LARGEST = 2**62
Int = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Value = bool | Int | float | str
Settings = dict[str, Value]


def other_frames(family: Family, frame_skip: float) -> Settings:
    """``{"frame_skip": 4}`` where a task of one's own is told to have other frames than steps.

    Part of a row's label there: figures of different frames do not compare.
    """
    whole = int(frame_skip) if frame_skip == int(frame_skip) else frame_skip
    return {"frame_skip": whole} if family == "gym" and frame_skip != 1 else {}


def section(kind: Kind, *, accelerator: bool) -> Section:
    """The table that a kind belongs to; what runs whole batches on a device has its own."""
    if kind == "env":
        return "accelerators" if accelerator else ""
    return kind


# ---------------------------------------------------------------- what is asked for


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a table, made of several runs.

    ``settings`` holds every setting of the backend, defaults filled in, so that two cells are
    the same cell exactly when they are equal. ``variant`` holds those that differ from the
    backend's stated default: what the row's label shows.
    """

    machine: str
    env: Family
    task: str
    backend: str
    numenv: Int
    env_instances: Int
    frame_skip: Int | float
    settings: Settings
    variant: Settings = {}
    kind: Kind = "env"
    accelerator: bool = False

    @property
    def shown(self) -> Settings:
        """What a row's label tells besides the backend's name."""
        return self.variant | other_frames(self.env, self.frame_skip)

    @property
    def section(self) -> Section:
        """Which of its family's tables it belongs to: "" is the family's own."""
        return section(self.kind, accelerator=self.accelerator)

    @property
    def key(self) -> str:
        """A stable readable identifier: ``atari/Pong-v5/envpool-async/8`` and any variant."""
        tail = "".join(f",{k}={v}" for k, v in sorted(self.shown.items()))
        return f"{self.env}/{self.task}/{self.backend}/{self.numenv}{tail}"


class Protocol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How each run of a plan measures (seconds; MEASUREMENT: warm-up, then windows).

    ``measured_s`` is the measured time of *one run*. ``calls``, where not None, replaces it: in
    a job the run's vector steps, in a plan those of a cell over all its runs (``--total-step``).
    """

    window_s: float = 0.25
    warmup_min_s: float = 1.0
    warmup_max_s: float = 4.0
    measured_s: float = 8.0
    calls: Int | None = None


class Verify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a verifying worker does: vector steps in lock-step, and vector steps audited."""

    lock_steps: Int = 200
    audit_calls: Int = 1000


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run's order: the controller writes it as ``job.json``, the worker reads it."""

    schema: Int = SCHEMA
    mode: Literal["measure", "probe", "verify"] = "measure"
    run_id: str
    adapter: str  # "module:attribute", imported by the worker only
    family: Family
    task: str
    numenv: Int
    env_instances: Int
    frame_skip: Int | float
    settings: Settings
    seed: Int
    protocol: Protocol
    verify: Verify = Verify()
    cpus: list[Int] = []  # the cores that the worker keeps to; empty: all that it may use
    together: Int = 0  # verify: steps in which every environment gets the first one's action
    turns: str = ""  # a named pipe that orders slices one by one; empty: windows back to back


# ---------------------------------------------------------------- what came back


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same vector steps counted twice: by the adapter, and by the environments.

    ``frames`` (of transitions only) is None where nothing counts them a second way.
    """

    calls: Int
    steps: Int
    resets: Int
    frames: float | None


class Windows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consecutive windows, one entry a window in every column.

    ``start_ns`` is the offset from the first window's start on the monotonic clock.
    ``invalid`` maps a window's index (as a string) to the outside signal that spoilt it.
    """

    start_ns: list[Int] = []
    ns: list[Int] = []
    calls: list[Int] = []
    steps: list[Int] = []
    resets: list[Int] = []
    invalid: dict[str, str] = {}


class Times(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the run's time went, in nanoseconds."""

    import_ns: Int
    build_ns: Int
    first_step_ns: Int
    warmup_ns: Int
    measured_ns: Int


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine and the worker's process tree did while windows were open.

    ``None`` where this system has no such sensor.
    """

    cpu_s: float | None = None  # CPU seconds of the worker's process tree
    other_cpu_s: float | None = None  # CPU seconds of everything else on the machine
    steal_s: float | None = None
    throttled_s: float | None = None
    throttled_periods: Int | None = None
    pressure_s: float | None = None  # time in which some task waited for a CPU (PSI)
    switches_voluntary: Int | None = None
    switches_involuntary: Int | None = None
    load_before: float | None = None  # 1-minute load average before the start


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run gave no figure. ``reason`` is one word of a fixed list."""

    reason: Literal[
        "import",  # the backend's library is missing or broken
        "exception",  # the environment or library raised
        "signal",  # the worker died of a signal
        "exit",  # the worker ended without a reply
        "out-of-memory",
        "stalled",  # no progress within the phase's limit
        "invalid-figure",  # zero, negative, or more steps than calls allow
        "setup",  # the runtime could not be made
        "interrupted",
    ]
    message: str
    phase: str = ""  # start, import, build, first_step, warmup, measure, close
    step: Int | None = None  # transitions made when it happened
    signal: str | None = None  # e.g. SIGSEGV
    exit_code: Int | None = None
    stderr_tail: str = ""
    hint: str = ""  # what to do next


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="run"):
    """One fresh worker process: a line of a results file, whatever its end."""

    schema: Int = SCHEMA
    run_id: str
    plan_id: str
    round: Int  # from 0
    cell: Cell
    seed: Int
    started_utc: str
    fingerprint: str  # hash of a MachineFact
    runtime: str  # hash of a RuntimeFact, "" where the worker never came up
    quick: bool = False
    times: Times | None = None
    warmup: Windows = Windows()
    measured: Windows = Windows()
    steady: bool | None = None
    peak_memory_bytes: Int | None = None
    peak_gpu_memory_bytes: Int | None = None
    load: Load = Load()
    facts: dict[str, Any] = {}  # observation shape and dtype, autoreset, threads, physics …
    failure: Failure | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="plan"):
    """What a results file set out to measure; first line of the file.

    A plan is complete when each (cell, round) has a run that was not interrupted, or its cell
    has failed. ``worker`` and ``runtimes`` are hashes: a resume needs them unchanged.
    """

    schema: Int = SCHEMA
    plan_id: str
    spec: str  # hash of cells, repeats, protocol and seed choice: what was asked for
    cells: list[Cell]
    repeats: dict[str, Int]  # rounds a backend takes part in
    protocol: dict[str, Protocol]  # by backend
    quick: bool
    seed: Int
    fingerprint: str
    worker: str  # hash of the worker's source
    runtimes: dict[str, str]  # backend -> RuntimeFact hash
    started_utc: str
    command: list[str]
    envbench_version: str
    git_commit: str | None = None
    git_dirty: bool | None = None


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
    """The interpreter a backend's worker ran in, and every package there."""

    schema: Int = SCHEMA
    hash: str
    python: str
    implementation: str
    packages: dict[str, str]


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


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a backend went with the reference, from the same start by the same actions.

    Distances are of the compared part of an observation (``envbench.equivalence``), the largest
    of any environment, step by step: grey levels a pixel, or the engine's own units.
    """

    reference: str  # the backend that was followed
    distances: list[float]
    reward_distances: list[float]
    same_ends: bool  # episodes ended in the same steps
    first_other_end: Int | None = None  # the first step, from 0, in which they did not
    ends: Int | None = None  # episodes that ended in what was led
    reference_ends: Int | None = None
    # of its stillest environment, from step to step in the second half, over the reference's
    late_movement: float | None = None


class Verification(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="verification"
):
    """What was found out about one backend's work (``envbench verify``). Raw facts only.

    ``agreement`` is None where the reference cannot be followed: another engine, or a library that
    cannot be led. ``responds``: observations are numbers that change from step to step, the same
    in all environments while their actions are, and others as soon as these are; None where the
    environments were not led, and for a task of one's own, which may stand still.
    """

    schema: Int = SCHEMA
    verification_id: str
    cell: Cell
    started_utc: str
    fingerprint: str
    runtime: str
    worker: str
    seed: Int
    audit: Audit | None = None
    agreement: Agreement | None = None
    responds: bool | None = None
    work: dict[str, Any] = {}
    failure: Failure | None = None


LARGEST_FPS, LARGEST_SKIP = 1e12, 1000  # of what may be believed of anybody


class Published(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="published"
):
    """A figure that others have published. Nobody measured it here: it never enters a comparison.

    ``fps`` has frame_skip multiplied in; ``source`` says who published it, and where.
    """

    schema: Int = SCHEMA
    machine: str
    env: Family
    task: str
    backend: str
    numenv: Int
    fps: float
    frame_skip: Int | float
    source: str


class Side(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One arm's process of a pair: what ``Run`` has of a process, and its resets."""

    runtime: str  # hash of a RuntimeFact, "" where the worker never came up
    times: Times | None = None
    stood_still_ns: dict[str, Int] = {}  # of these times, by their names, while the other started
    measured: Windows = Windows()  # its slices, one entry a slice
    resets: Windows = Windows()  # slices in which all environments were reset, again and again
    peak_memory_bytes: Int | None = None
    load: Load = Load()
    failure: Failure | None = None


class Pair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="pair"):
    """Two fresh processes that made equal slices by turns (``envbench check``). Raw facts only.

    ``turns`` says whose slice each was: 0 is the baseline, 1 the candidate.
    """

    schema: Int = SCHEMA
    pair_id: str
    check_id: str
    stage: Int  # 1, or 2 where an alarm was tried again
    number: Int  # of the pair in its stage, from 0
    cell: Cell
    seed: Int
    turns: list[Int]
    cpus: list[Int] = []  # the cores that both kept to; empty: all
    started_utc: str
    baseline: Side
    candidate: Side


class Gauge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gauge"):
    """A cell and the reference kernel, two fresh processes that stepped by turns: what a stored
    baseline is made of. ``turns``: 0 is the kernel, 1 the cell."""

    schema: Int = SCHEMA
    gauge_id: str
    cell: Cell
    number: Int
    seed: Int
    turns: list[Int]
    cpus: list[Int] = []
    started_utc: str
    fingerprint: str
    worker: str
    kernel: Side
    measured: Side


class ArmFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an arm came from, as it was asked for, and the hash of its worker's code.

    ``place`` is the hash of its interpreters' paths: another commit or requirement, another place.
    """

    source: str
    worker: str
    place: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="check"):
    """What a check set out to compare, and by what rule; its pairs name it."""

    schema: Int = SCHEMA
    check_id: str
    cells: list[Cell]
    baseline: ArmFact
    candidate: ArmFact
    pairs: Int  # of a stage
    blocks: Int  # of four slices, two an arm
    slice_s: float
    margin: float
    tolerance: float
    cost_tolerance: float
    false_alarm: float
    seed: Int
    fingerprint: str
    started_utc: str
    command: list[str]
    envbench_version: str
    git_commit: str | None = None
    git_dirty: bool | None = None


Record = Run | Plan | MachineFact | RuntimeFact | Verification | Published | Check | Pair | Gauge


# ---------------------------------------------------------------- identity


def digest(value: object) -> str:
    """A short stable hash of any value msgspec can encode (12 hex digits of SHA-256)."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:12]


def bounded(value: object) -> bool:
    """Whether every whole number in a free-form value (``facts``, ``work``) is one of 64 bits."""
    if isinstance(value, dict):
        return all(map(bounded, value.values()))
    if isinstance(value, list):
        return all(map(bounded, value))
    return not isinstance(value, int) or -LARGEST <= value <= LARGEST
