"""The interface of an experiment: which block comes next, and what the records mean.

A new experiment is a subclass of ``Experiment``, which ``recorded_plans.EVERY`` lists, and a
command that shows its findings. From ``place`` on, its methods are pure: they depend on the plan
and the records alone, so resuming is replaying.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from envbench.engine.availability import Arm, Say, own_runtime
from envbench.engine.request import Chosen
from envbench.engine.target import Target
from envbench.machine import Profile
from envbench.model import Block, BlockRecord, Design, Failure, Fingerprint, Plan, arm_key
from envbench.results.joining import Facts as Facts

# What happens if a backend cannot run here: the request is refused, its cells are recorded as
# failures, or they are left out.
Missing = Literal["refuse", "record", "leave out"]
Done = Sequence[BlockRecord]  # a plan's blocks so far, without interrupted ones
Findings = TypeVar("Findings")
Findings_co = TypeVar("Findings_co", covariant=True)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every measuring command. ``pythons`` are interpreters by backend; ``setup``:
    isolated runtimes may be made, and ``yes``: without a question; ``cpus`` are the cores to
    measure on (empty: all usable); ``command``: what results record (empty: the command line)."""

    results: Path = Path("results")
    machine: str | None = None
    seed: int = 0
    wait: bool = False
    fresh: bool = False
    setup: bool = True
    yes: bool = False
    pythons: Mapping[str, str] = {}
    cpus: Sequence[int] = ()
    command: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Site:
    """Says on which machine, and with which options, an experiment is carried out."""

    profile: Profile
    fingerprint: Fingerprint
    options: Options

    @property
    def other_hardware(self) -> bool:
        """Is this machine not the hardware that the profile names?"""
        return not self.profile.match.fits_hardware(self.fingerprint)


class Experiment(ABC, Generic[Findings_co]):
    """Decides which block comes next, and what the records mean."""

    name: ClassVar[str]
    unit: ClassVar[str] = "block"  # what a person calls a block; its plural ends in s
    modes: ClassVar[tuple[str, ...]] = ("measure",)  # of its trials
    in_tables: ClassVar[bool] = False  # do a report's tables show the findings?
    shows_figures: ClassVar[bool] = False  # does the figure of a block mean something on its own?
    own_runtimes: ClassVar[bool] = True  # are its arms the backends' own runtimes?
    watches_code: ClassVar[bool] = False  # can the measured code be edited while it runs?
    longest_pause_s: ClassVar[float | None] = None  # of an unfinished plan; None: any
    block_seconds: ClassVar[float] = 8.0  # about, before the first has ended
    purpose: str = ""  # a plan of another purpose is not resumed

    @property
    def missing(self) -> Missing:
        return "refuse"

    @property
    def named(self) -> bool:
        """Did a person name the backends? If so, a backend that cannot run is an error."""
        return True

    # ------------------------------------------------------------ what was asked for

    @abstractmethod
    def choose(self, site: Site) -> Chosen:
        """Choose the cells. Raise ``UsageError`` before any work."""

    @abstractmethod
    def design(self, targets: Sequence[Target], site: Site) -> Design:
        """Decide the numbers that are fixed before anything is measured."""

    def arms(self, targets: Sequence[Target], site: Site, say: Say) -> list[Arm]:
        """Return every arm: by default, each backend in its own runtime."""
        options = site.options
        return [
            own_runtime(each, options.pythons, setup=options.setup, say=say)
            for each in one_per_arm(targets)
        ]

    # ------------------------------------------------------------ pure

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        """Where the block is in the plan, for the progress display."""
        return self.name

    @abstractmethod
    def remaining(self, plan: Plan, done: Done) -> Sequence[Any]:
        """Return what identifies each remaining block, in order, as far as it is decided."""

    @abstractmethod
    def block(self, plan: Plan, todo: Any) -> Block:
        """Return the block for one entry of ``remaining``."""

    @abstractmethod
    def conclude(self, plan: Plan, done: Done, facts: Facts) -> Findings_co:
        """Return what the records say, whether the plan is complete or not."""

    def failures(self, block: BlockRecord) -> list[Failure]:
        """Return the failures of a block's trials, in order. By default, all of them count."""
        return [each.failure for each in block.trials if each.failure]

    def next(self, plan: Plan, done: Done) -> Block | None:
        """Return the next block; None if the plan is complete."""
        todo = self.remaining(plan, done)
        return self.block(plan, todo[0]) if todo else None

    def seconds_left(self, plan: Plan, done: Done, before: Done = ()) -> float:
        """Estimate the seconds of the blocks still to come, from those that have ended. ``before``:
        blocks of earlier plans on this machine."""
        ended = [each.seconds for each in done if not self.failures(each)]
        usual = fmean(ended) if ended else self.block_seconds
        return self.left(plan, done) * usual

    def left(self, plan: Plan, done: Done) -> int:
        """Return how many blocks are still to come, where known."""
        return len(self.remaining(plan, done))


def seed_of_round(seed: int, round_: int) -> int:
    """Return the seed of all cells of a round. Environment i adds i, so seeds are far apart."""
    return (seed * 1000 + round_) * 0x2545F491 % 2**31  # an odd factor: all differ


def one_per_arm(targets: Sequence[Target]) -> list[Target]:
    """Return the first target of each backend, family and workload."""
    first: dict[str, Target] = {}
    for each in targets:
        first.setdefault(arm_key("", each.cell), each)
    return [*first.values()]
