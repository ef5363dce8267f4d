"""What one worker measured, piece by piece: windows, times, load, failures, equal work.

They have raw facts only. ``records`` puts them together.
"""

from __future__ import annotations

from typing import Literal

from envbench.model.values import Int, Strict

# Signals sent from outside. They say nothing about the process that they end.
FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")


class Windows(Strict, frozen=True, kw_only=True):
    """Windows or slices in order, one entry each in every column.

    ``start_ns`` is the offset from the first window's start on the monotonic clock. ``invalid``
    maps a window's index (as a string) to what made it invalid: suspended, throttled or steal.
    """

    start_ns: list[Int] = []
    ns: list[Int] = []
    calls: list[Int] = []
    steps: list[Int] = []
    resets: list[Int] = []
    invalid: dict[str, str] = {}

    @property
    def whole(self) -> bool:
        """Do all columns have the same length?"""
        later = len(self.calls) == len(self.steps) == len(self.resets)
        return len(self.start_ns) == len(self.ns) == len(self.calls) and later

    @property
    def without_gap(self) -> int:
        """How many windows from the first one each begin where the one before it ended.

        In a ``warmup``, these are the warm-up itself. Lead-ins come after it, each with its slice.
        """
        ends = (start + ns for start, ns in zip(self.start_ns, self.ns, strict=True))
        later = zip(self.start_ns[1:], ends, strict=False)
        return next((i for i, (own, end) in enumerate(later, 1) if own != end), len(self.ns))


class Histogram(Strict, frozen=True, kw_only=True):
    """How often each value occurred: ``counts`` belong to ``values``, which are in rising order."""

    values: list[Int] = []
    counts: list[Int] = []

    @property
    def whole(self) -> bool:
        """Does each value have a count, and are all positive or zero?"""
        return len(self.values) == len(self.counts) and min((*self.values, *self.counts, 0)) == 0


class Returns(Strict, frozen=True, kw_only=True):
    """Which environments were in the batches of ``calls`` vector steps.

    ``counts``: how often, by the environment's id. ``ages``: vector steps from one return of an
    environment to its next one.
    """

    calls: Int
    counts: list[Int]
    ages: Histogram

    def fits(self, numenv: int, env_instances: int) -> bool:
        """Do the counts fit this many environments, and add up to the results of its calls?"""
        results = self.calls * numenv
        as_many = len(self.counts) == env_instances and sum(self.counts) == results > 0
        return as_many and min(self.counts) >= 0 and self.ages.whole


class Times(Strict, frozen=True, kw_only=True):
    """Where a trial's time went, in nanoseconds."""

    import_ns: Int
    build_ns: Int
    first_step_ns: Int
    warmup_ns: Int
    measured_ns: Int


class Load(Strict, frozen=True, kw_only=True):
    """What the machine and the worker's process tree did while windows were open.

    ``None``: this system has no such sensor.
    """

    cpu_s: float | None = None  # CPU seconds of the worker's process tree
    other_cpu_s: float | None = None  # CPU seconds of everything else on the usable cores
    steal_s: float | None = None
    throttled_s: float | None = None
    throttled_periods: Int | None = None
    pressure_s: float | None = None  # time in which some task waited for a CPU (PSI)
    switches_voluntary: Int | None = None
    switches_involuntary: Int | None = None
    cpu_energy_j: float | None = None  # joules of all processors and their memory (RAPL)
    gpu_energy_j: float | None = None  # of all GPUs (NVML), if the backend uses one
    load_before: float | None = None  # 1-minute load average before the start


class Failure(Strict, frozen=True, kw_only=True):
    """Why a trial gave no figure. ``reason`` is one word of a fixed list."""

    reason: Literal[
        "import",  # the backend's library is missing or broken
        "exception",  # the environment or library raised
        "signal",  # the worker died of a signal
        "exit",  # the worker ended without a reply
        "out-of-memory",
        "stalled",  # no progress within the phase's limit
        "invalid-figure",  # zero, negative, or more steps than calls allow
        "setup",  # the runtime cannot be made or used, or the reference failed
        "interrupted",
    ]
    message: str
    phase: str = ""  # start, import, build, first_step, warmup, measure, close
    step: Int | None = None  # transitions made when it happened
    signal: str | None = None  # e.g. SIGSEGV
    exit_code: Int | None = None
    stderr_tail: str = ""
    hint: str = ""  # what to do next

    @property
    def killed(self) -> bool:
        """Was the worker, or one of its environments, killed from outside?"""
        return self.reason == "signal" and self.signal in FROM_OUTSIDE


class Audit(Strict, frozen=True, kw_only=True):
    """The same vector steps counted twice: by the adapter, and by the environments.

    ``frames`` (of transitions only) is None if nothing counts them in a second way. ``counted_by``
    says whose count it is. "": the adapter's own, which proves nothing.
    """

    calls: Int
    steps: Int
    resets: Int
    frames: float | None
    counted_by: Literal["", "the emulator", "simulated time", "the library"] = ""
    resets_claimed: Int | None = None  # None: nothing else counts them
    resets_seen: Int | None = None


class Apart(Strict, frozen=True, kw_only=True):
    """Distances of one environment's steps from the reference's: quantiles. Older records lack
    ``p97``."""

    median: float
    p90: float
    p97: float | None = None
    largest: float


class Agreement(Strict, frozen=True, kw_only=True):
    """How far a backend's steps are from the reference's, each from the same state and action.

    The distance of a step is the largest difference in the compared part of an observation
    (``decisions.traces``). Its unit is grey levels per pixel, or the engine's own unit.
    ``observations`` and ``rewards``: by environment. ``start``: the largest distance of an
    episode's first observation from any that the reference can start with.
    """

    reference: str  # the backend it was compared with
    steps: Int = 0  # of the environment with the fewest
    observations: list[Apart] = []
    rewards: list[Apart] = []
    start: float = 0.0
    same_engine: bool = True  # both report the same version
    rounded: bool = False  # the backend's observations have fewer digits than the reference's
    # The first vector step (from 0) over a tolerance; -1: the first observations of all are
    first_difference: Int | None = None
    begins: bool = False  # is the first difference only where an episode begins?
    ends: Int = 0  # episodes that ended, before the part that leads to the time limit
    reference_ends: Int = 0
    other_ends: Int = 0  # ended on one side only, or by a time limit there only
    limits: Int = 0  # episodes of the reference that ended in that part
    other_limits: Int = 0  # ended there on one side only, or for another reason
    within: Int = 0  # episodes of the reference that end within a call of several steps
    not_reset: Int = 0  # of these, how many the backend did not count as reset in that call
    # The shape of its observations, if the reference's have another one
    other_shape: list[Int] | None = None
    reused: bool = False  # its next step overwrites the observations that a step returned
    # Kolmogorov-Smirnov tests on whole episodes, by quantity (length, return)
    p_values: dict[str, float] = {}
    in_calls: float | None = None  # the largest distance after a call of several steps
    longer: float | None = None  # the median distance after calls of a few steps (traces.py)
    by_run: bool = True  # its ``run`` made the steps, not another method
    hollow: bool = False  # it reports numbers that it does not compute: they are all zero
    # The numbers of an observation after the compared ones: their distance in 97 of 100 steps
    beside: float | None = None
    actions_apart: float | None = None  # how far its actions are from those asked for (traces.py)
    # Where the reference starts from the same seed, and the steps differ: does it repeat itself?
    repeats: bool | None = None
    actions_related: float | None = None  # how much they depend on each other (traces.py)
