"""The requested work: cells, how a trial measures, what a block is, and a plan of many blocks."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeVar

from envbench.model.values import (
    SCHEMA,
    Count,
    Family,
    Int,
    Kind,
    Positive,
    Section,
    Settings,
    Strict,
)

Mode = Literal["measure", "probe", "verify"]
Workload = Literal["step"]  # what runs the environments; later perhaps a policy or training
MOST_ROUNDS = 1000  # of a cell: more repeats or pairs are refused
LARGEST_NUMENV = 1_000_000  # of a cell to measure


# ---------------------------------------------------------------- cells and trials


def section(kind: Kind, *, accelerator: bool) -> Section:
    """The table that a kind belongs to. Backends that step batches on a device have their own."""
    if kind == "env":
        return "accelerators" if accelerator else ""
    return kind


class Cell(Strict, frozen=True, kw_only=True):
    """One entry of a table.

    ``settings`` has every setting of the backend, with defaults filled in, so equal cells are the
    same cell. ``variant`` has what the row's label adds to the backend's name: settings that differ
    from the default, and ``frame_skip`` if a person chose it.
    """

    machine: str
    env: Family
    task: str
    backend: str
    numenv: Count
    env_instances: Count
    frame_skip: Count | Positive
    workload: Workload = "step"
    settings: Settings
    variant: Settings = {}
    kind: Kind = "env"
    accelerator: bool = False

    @property
    def section(self) -> Section:
        """Which of its family's tables it belongs to; "" is the main one."""
        return section(self.kind, accelerator=self.accelerator)

    @property
    def own_settings(self) -> Settings:
        """The settings of its backend that differ from the default."""
        return {name: value for name, value in self.variant.items() if name != "frame_skip"}

    @property
    def key(self) -> str:
        """Stable and readable: ``atari/Pong-v5/envpool-async/8``, any variant, any workload."""
        tail = "".join(f",{k}={v}" for k, v in sorted(self.variant.items()))
        tail += "" if self.workload == "step" else f"@{self.workload}"
        return f"{self.env}/{self.task}/{self.backend}/{self.numenv}{tail}"


Other = Literal["latency", "returns", "reset", "short_calls"]  # measured after a trial's steps


class Protocol(Strict, frozen=True, kw_only=True):
    """How a trial measures, in seconds: warm-up, then windows.

    ``measured_s`` is the measured time of one trial. ``calls``, if not None, replaces it: the
    vector steps of a trial or, in a plan, of a cell over all its trials (``--total-step``).
    ``after`` has the seconds for each other quantity, which has slices of its own after the steps
    (``short_calls``: between two slices of steps).
    ``results``: keep checksums of what each slice's last step returned.
    """

    window_s: float = 0.25
    warmup_min_s: float = 1.0
    warmup_max_s: float = 4.0
    measured_s: float = 8.0
    calls: Int | None = None
    after: dict[Other, float] = {}
    results: bool = False


class Verify(Strict, frozen=True, kw_only=True):
    """How much a verifying trial does: vector steps in lock-step, and vector steps audited.

    In the first ``together`` lock-steps all environments get the action of the first one.
    ``several``: a few calls in lock-step make several steps. ``limit``: the steps of one more part,
    in which all episodes last until their time limit; 0: there is no such part. The worker's
    function ``lasting`` ("module:function") makes its actions.
    """

    lock_steps: Int = 200
    audit_calls: Int = 1000
    together: Int = 0
    several: bool = False
    limit: Int = 0
    lasting: str = ""


class Job(Strict, frozen=True, kw_only=True):
    """The order for one worker. The controller writes it as ``job.json``; the worker reads it."""

    schema: Int = SCHEMA
    mode: Mode = "measure"
    run_id: str
    adapter: str  # "module:attribute", imported by the worker only
    family: Family
    family_code: str = ""  # "module:Class", the family's class for adapters
    task: str
    numenv: Int
    env_instances: Int
    frame_skip: Int | float
    settings: Settings
    seed: Int
    protocol: Protocol = Protocol()
    verify: Verify = Verify()
    cpus: list[Int] = []  # the cores that the worker may use; empty: no limit
    spot: Int = 0  # a measuring job: vector steps to trace, between slices or before the first
    # How a reference follows this cell, also after a reset. "": it does not, or only at first.
    follows_by: Literal["state", "seed", ""] = ""
    # Each observation shows the whole state: the reference can begin in the middle of an episode.
    midway: bool = False
    own_task: bool = False  # a user's own task, which may read the current folder
    together: Int = 0  # as in ``verify``, for adapters
    observed: Int | None = None  # verify: lock-steps whose observations are kept; None: all
    turns: str = ""  # a named pipe that orders slices one by one; empty: windows back to back


# ---------------------------------------------------------------- blocks


class Trial(Strict, frozen=True, kw_only=True):
    """One fresh worker process for one cell in one arm."""

    cell: Cell
    arm: str = ""  # the name of one of the plan's arms; "": the backend's own runtime
    mode: Mode = "measure"
    seed: Int = 0
    protocol: Protocol = Protocol()
    verify: Verify = Verify()
    cpus: list[Int] = []  # empty: no limit
    spot: Int = 0  # vector steps between or before the slices that the reference follows


Start = Literal["alternately", "at once"]


class Programme(Strict, frozen=True, kw_only=True):
    """Which slices the trials of a block make, and in which order.

    Either ``turns`` lists the trial (its index) of each slice of steps, in order. A slice lasts
    ``slice_s``. ``equal_calls``: all trials make the same number of vector steps per slice, and the
    same number before their first slice. The first trial's speed decides it. Otherwise each trial
    has its own number. ``reset_turns`` are slices of resets, made after the steps.

    Or ``mixed`` has the seconds per slice of each trial. Each makes slices for the time, or the
    vector steps, of its protocol, in a random order (``seed``) over the whole block. Without
    either, each trial runs on its own, by its protocol.

    ``lead_in_s``: seconds of untimed steps of each trial after a switch to it; empty: none.
    ``start``: the trials alternate every 10 ms until they warm up, or all run at once.
    """

    turns: list[Int] = []
    slice_s: float = 0.0
    mixed: list[float] = []
    seed: Int = 0
    equal_calls: bool = False
    reset_turns: list[Int] = []
    lead_in_s: list[float] = []
    start: Start = "alternately"

    @property
    def alternates(self) -> bool:
        return bool(self.turns or self.mixed)


class Block(Strict, frozen=True, kw_only=True):
    """Trials that belong together. If the programme alternates, one steps while the others are
    stopped.

    (stage, round, cells) identify a block within its plan. ``reference``: the index of the trial
    that the others are compared with; it runs last. None: nothing is compared.
    """

    stage: Int = 1
    round: Int = 0
    trials: list[Trial]
    programme: Programme = Programme()
    reference: Int | None = None


# ---------------------------------------------------------------- plans


class Behaviour(Strict, frozen=True, kw_only=True):
    """How a backend uses a machine. It decides about cores, slices and the expected noise.

    ``steps_in``: one thread, a pool of threads, its own processes, or a program on a device.
    ``large_batches``: it makes many steps at a time (a rollout, a compiled scan, free-running
    processes), so slices have to be long.
    """

    steps_in: Literal["one-thread", "pool", "processes", "device"] = "pool"
    large_batches: bool = False


class ArmFact(Strict, frozen=True, kw_only=True):
    """The origin of an arm. ``place`` is the hash of its interpreters' folders, which differ
    between commits and requirements."""

    name: str
    source: str
    place: str = ""


class _Design(Strict, frozen=True, kw_only=True):
    """The numbers of an experiment that are fixed before anything is measured."""

    trials: ClassVar[int | None] = None  # of each block; None: any number


class RunDesign(_Design, frozen=True, kw_only=True, tag="run"):
    """Rounds of random blocks, whose cells alternate. The mappings are by backend.

    ``slice_s``: seconds per slice; 0.0: the backend cannot alternate, and has blocks of its own.
    ``block_size``: the most cells of a block.
    """

    repeats: dict[str, Int]  # rounds
    protocol: dict[str, Protocol]
    slice_s: dict[str, float] = {}
    block_size: Int = 1
    quick: bool = False


class Rule(Strict, frozen=True, kw_only=True):
    """What counts as slower. ``margin`` and ``tolerance`` are shares of the baseline's rate,
    ``cost_tolerance`` of a cost; ``false_alarm`` is one-sided, per stage."""

    margin: float = 0.01
    tolerance: float = 0.05
    cost_tolerance: float = 0.25
    false_alarm: float = 0.001


class PairsDesign(_Design, frozen=True, kw_only=True, tag="pairs"):
    """Two trials per block that alternate in short slices.

    ``pairs``: per cell and stage. A pair has ``quads`` times four slices, two per trial, of
    ``slice_s`` seconds each. ``rule``: None if no verdict is needed.
    """

    trials: ClassVar[int | None] = 2

    pairs: Int
    quads: Int
    slice_s: float
    protocol: Protocol
    rule: Rule | None = None


class VerifyDesign(_Design, frozen=True, kw_only=True, tag="verify"):
    """A backend and its reference get the same actions. The mappings are by cell key.

    ``references``: the cell to compare with. ``lock_steps``, ``together`` and ``limits``: as in
    ``Verify``.
    """

    verify: Verify
    references: dict[str, Cell] = {}
    lock_steps: dict[str, Int] = {}
    together: dict[str, Int] = {}
    limits: dict[str, Int] = {}


Design = RunDesign | PairsDesign | VerifyDesign
OneDesign = TypeVar("OneDesign", bound=_Design)


class Plan(Strict, frozen=True, kw_only=True, tag="plan"):
    """What an experiment will do, and everything that decides which block comes next.

    ``spec`` is the hash of the request: the same command gives the same hash. ``code``, ``places``,
    ``imports`` and ``runtimes`` identify what ran, by ``arm_key``: envbench's own code, a hash per
    mode (``…/measure``); the interpreter's folder; all code that it may import, where a person may
    edit that; and the packages. To resume, all must be unchanged. ``logical_cpus`` counts the whole
    machine, ``cores`` are those that may be used, and ``quota`` is the container's limit.
    ``free_memory`` is in bytes.
    """

    schema: Int = SCHEMA
    plan_id: str
    experiment: str
    spec: str
    cells: list[Cell]
    design: Design
    behaviour: dict[str, Behaviour] = {}  # by backend
    arms: list[ArmFact] = []  # empty: each backend in its own runtime
    logical_cpus: Int = 1
    cores: list[Int] = []
    quota: float | None = None
    free_memory: Int = 0
    seed: Int
    fingerprint: str
    code: dict[str, str] = {}
    places: dict[str, str] = {}
    imports: dict[str, str] = {}
    runtimes: dict[str, str] = {}  # hashes of RuntimeFacts
    started_utc: str
    command: list[str]
    envbench_version: str
    git_commit: str | None = None
    git_dirty: bool | None = None

    @property
    def quick(self) -> bool:
        """Is it a quick look?"""
        return isinstance(self.design, RunDesign) and self.design.quick

    @property
    def sides_are_one(self) -> bool:
        """Do two arms have the same code and the same packages?"""
        hashes = sorted(self.runtimes.items())
        sides = {(a.place, *(h for key, h in hashes if key.startswith(a.name))) for a in self.arms}
        return len(sides) < len(self.arms)

    def design_as(self, kind: type[OneDesign]) -> OneDesign:
        """The design, of that kind; ``TypeError`` for the plan of another experiment."""
        if not isinstance(self.design, kind):
            raise TypeError(f"the plan {self.plan_id} is of {self.experiment}")
        return self.design


def arm_key(arm: str, cell: Cell) -> str:
    """The key of a runtime: the arm's name, backend, family and workload."""
    return "/".join([*([arm] if arm else []), cell.backend, cell.env, cell.workload])
