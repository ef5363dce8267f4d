"""What an env family is, as data: its tasks, its frames, and what counts as the same work.

Everything that depends on a family is a field here, or a method of the class in ``worker``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from keyword import iskeyword
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from envbench.errors import UnknownName, UsageError
from envbench.model import LARGEST_SKIP, Apart, Kind
from envbench.text import counted, listed

SMALLEST_SKIP = 0.001
MOST_STEPS = 100_000  # of an episode that ``verify`` follows until its time limit
NO_NUMBER = 1e308  # recorded for a distance that is infinite or not a number

DEFAULT_ROWS = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "envpool-numa")
# The built-in backends that step any family by its class in the worker.
FOR_ANY_FAMILY = (*DEFAULT_ROWS, "sample-factory")
Frames = Annotated[float, Meta(ge=SMALLEST_SKIP, le=LARGEST_SKIP)]  # in one step
# Names with another meaning in a profile. No family may have them: its table there has its name.
_TAKEN = "accelerators|physics|name|title|hardware|check|match|fits|table|tables"
# How Gymnasium's environments reset, and where their results are: a part of each reference's work.
AS_GYMNASIUM = {"autoreset": "next-step", "returned_to": "host"}
REPORTED = ("engine", "precision", "observation_dtype", "autoreset", "returned_to")


class Standard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When two backends count as equal, for environments of one kind.

    Each step of the backend is compared with the reference's step from the same state with the same
    action. Where states cannot be set, whole ``episodes`` are compared as distributions instead.
    """

    reference: str = "for-loop"  # the backend that the others are compared with
    steps: Annotated[int, Meta(ge=0)] = 0  # per environment, at least
    tolerance: Annotated[float, Meta(ge=0)] = 0.0  # of observations, in ``unit``
    unit: str = ""
    reward_tolerance: Annotated[float, Meta(ge=0)] = 0.0
    # The share of each environment's steps that have to agree: another build of an engine resolves
    # some contacts otherwise. 1, 0.97 or 0.9: records have these quantiles.
    agreeing: Annotated[float, Meta(ge=0.9, le=1)] = 1.0
    # An environment can stay in contact for the rest of its steps. So half of the environments may
    # differ in more than a tenth of their steps, but each agrees in half of them.
    no_resets: bool = False
    # With the same build of the engine: every step agrees, observations within this. None: there is
    # no such rule.
    same_engine: Annotated[float, Meta(ge=0)] | None = None
    # Of observations with fewer digits than the reference's, which do not show the whole state: the
    # tolerance in 97 of 100 steps. None: as for any other.
    rounded: Annotated[float, Meta(ge=0)] | None = None
    first: Annotated[int, Meta(ge=1)] | None = None  # numbers of an observation; None: all
    # After a call of several steps, small differences have grown. None: as after one step.
    in_calls: Annotated[float, Meta(ge=0)] | None = None
    # With the same build of the engine, the other numbers agree, too, in 97 of 100 steps. None:
    # they are not compared.
    beside: Annotated[float, Meta(ge=0)] | None = None
    # A backend whose ``work`` has this setting reports the other numbers, too: they cannot all be
    # zero.
    promised_by: str = ""
    # An observation is a stack of this many frames. Those from before an episode's first
    # observation are ignored.
    stack: Annotated[int, Meta(ge=0)] = 0
    last: bool = True  # is the last observation of an episode compared?
    episodes: Annotated[int, Meta(ge=0)] = 0  # of each side, at least
    episode_tasks: list[str] = []  # empty: all

    def of(self, *, same_engine: bool, rounded: bool) -> Standard:
        """The rule for a backend that reports the reference's engine, or another one, and whose
        observations may have fewer digits than the reference's."""
        if rounded and self.rounded is not None:
            reward, agreeing = max(self.rounded, self.reward_tolerance), min(self.agreeing, 0.97)
            return replace(self, tolerance=self.rounded, reward_tolerance=reward, agreeing=agreeing)
        if same_engine and self.same_engine is not None:
            in_calls = self.tolerance if self.in_calls is None else self.in_calls
            return replace(self, tolerance=self.same_engine, agreeing=1.0, in_calls=in_calls)
        return self

    @property
    def in_how_many_steps(self) -> str:
        """What follows a distance in a sentence; "" if every step has to agree."""
        if self.agreeing == 1:
            return ""
        share = "nine of ten" if self.agreeing == 0.9 else f"{100 * self.agreeing:.0f} of 100"
        return f" in {share} steps" + (" of half of the environments" if self.no_resets else "")

    def apart(self, environments: Sequence[Apart]) -> float:
        """The distance that counts, of the environment in which it is largest. No step may return
        infinity or something that is not a number."""
        largest = max((each.largest for each in environments), default=0.0)
        if self.agreeing == 1 or largest >= NO_NUMBER:
            return largest
        strict = self.agreeing > 0.9
        ordered = sorted((strict and each.p97) or each.p90 for each in environments)
        if not self.no_resets:
            return max(ordered, default=0.0)
        best = ordered[: len(ordered) - len(ordered) // 2]
        return max([*best, *(each.median for each in environments)], default=0.0)

    def not_reset(self, ends: int) -> int:
        """Of the reference's ends within a call of several steps: how many may come later on the
        other side, because two builds of an engine drift apart there."""
        return max(2, ends // 4) if self.agreeing < 1 else 0

    def other_ends(self, ends: int) -> int:
        """How many of both sides' ends may be on one side only: those that are a close call."""
        return max(1, ends // 10) if self.agreeing < 1 else 0


class EnvFamily(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes an env family.

    Frames per step are ``frames``; or those of the task in ``frames_of``; or, with ``any_frames``,
    ``--frame-skip`` (1 by default).
    """

    name: str
    title: str
    worker: str  # "module:Class", imported by the worker only
    default_task: str = ""  # "": a person has to choose a task
    frames: Frames | None = None
    frames_of: dict[str, Frames] = {}  # by the task's name without the version
    any_frames: bool = False
    frames_rule: str = ""  # how a person computes those of a task that ``frames_of`` lacks
    # Tasks come from a user's own packages. A person may edit these, so edits are looked for before
    # a plan resumes. The tasks may read the current folder, and need not respond to actions.
    own_tasks: bool = False
    packages: list[str] = []  # what Gymnasium needs for the tasks, besides itself and numpy
    # How the reference follows a backend (docs/backends.md): it is put into each state, or both
    # start from one seed. "": it cannot follow.
    follows_by: Literal["state", "seed", ""] = ""
    state_tasks: list[str] = []  # whose states can be set; empty: all
    lock_steps: Annotated[int, Meta(ge=1)] = 200  # vector steps that are compared
    # How many leading numbers of a task's observation are its state, if not ``Standard.first``; by
    # the task's name without the version.
    state_of: dict[str, Annotated[int, Meta(ge=1)]] = {}
    # Tasks in which the same state and actions can lead to different steps: they are not compared.
    unfollowed: list[str] = []
    # "module:function" of the worker: makes actions with which an episode of the default task lasts
    # until its time limit (``max_steps`` of ``work``).
    lasting: str = ""
    # What one step of the reference does, by kind: names and values that ``envbench.decisions``
    # compares. None: any value is accepted, but not to report the name is a difference.
    work: dict[Kind, dict[str, Any]] = {}
    any_task: list[str] = []  # the names of ``work`` that apply to other tasks than the default
    reported: tuple[str, ...] = REPORTED  # may differ although a step computes the same
    standards: dict[Kind, Standard] = {}
    rows: tuple[str, ...] = DEFAULT_ROWS  # of its table in a new profile, or without a table
    usual: bool = False  # a new profile has its table, and ``check`` measures it by default
    ceiling_states: Annotated[int, Meta(ge=1)] = 1  # environments per core of its ceiling
    engine: str = "the engine"  # what its ceiling measures, in Markdown
    backends: list[str] = []  # of a plugin: those of ``FOR_ANY_FAMILY`` that run it, at least one

    def standard(self, kind: Kind, task: str) -> Standard | None:
        """The rule for a task; None if nothing is compared."""
        found, first = self.standards.get(kind), self.state_of.get(without_version(task))
        return replace(found, first=first) if found and found.first and first else found

    def uncompared(self, kind: Kind, task: str) -> str:
        """Say why two backends cannot be compared on the task; "" if they can."""
        standard = self.standards.get(kind)
        if standard is None:
            return f"no comparison is defined for {self.name}"
        if standard.episodes:
            tasks = standard.episode_tasks or [task]
            return "" if task in tasks else f"only episodes of {listed(tasks)} are compared"
        if task in self.unfollowed:
            return f"the state of {task} cannot be set completely"
        if self.follows_by == "state" and kind == "env" and self.state_tasks:
            known = task in self.state_tasks
            shows = "the state that an observation shows"
            return "" if known else f"envbench cannot put {task} into {shows}"
        return "" if self.follows_by else f"nothing sets the state of {task}"

    def time_limit(self, kind: Kind, task: str) -> int:
        """Steps until an episode ends by its time limit; 0 if ``lasting`` does not lead there."""
        known = self.lasting and kind == "env" and task == self.default_task
        return int(self.work["env"]["max_steps"]) if known else 0

    @property
    def table_rows(self) -> list[str]:
        """The rows of its tables: the ``rows`` that can run it."""
        return [each for each in self.rows if each in (self.backends or self.rows)]

    def frames_per_step(self, task: str, given: float | None = None) -> int | float:
        """Frames in one step of the task. ``given`` is ``--frame-skip``; ``UsageError`` if invalid.

        FPS is frames per second, so this number is part of every published figure.
        """
        if given is not None and not SMALLEST_SKIP <= given <= LARGEST_SKIP:
            raise UsageError(
                f"--frame-skip takes a number from {SMALLEST_SKIP} to {LARGEST_SKIP}, "
                f"not {given:g}."
            )
        fixed = self.frames_of.get(without_version(task), self.frames)
        if fixed is None:
            if given is None and not self.any_frames:
                version = self.default_task.removeprefix(without_version(self.default_task))
                known = [f"{name}{version}" for name in self.frames_of]
                error = UnknownName(f"{self.name} task", task, known)
                rule = f" ({self.frames_rule})" if self.frames_rule else ""
                error.hint += f". For another task, give its frames per step{rule} by --frame-skip."
                raise error
            return _whole(1 if given is None else given)
        if given not in (None, fixed):
            raise UsageError(
                f"a step of {task} is {counted(_whole(fixed), 'frame')}, not {given:g}.",
                hint="Leave out --frame-skip.",
            )
        return _whole(fixed)


def without_version(task: str) -> str:
    """``Ant`` for ``Ant-v3``."""
    return re.sub(r"-v[0-9]+$", "", task)


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number


def trouble(family: EnvFamily) -> str:
    """Say which field of a plugin's family is wrong, and why; "" if none is."""
    name = family.name
    if iskeyword(name) or not re.fullmatch(rf"(?!({_TAKEN})$)[a-z][a-z0-9_]{{0,39}}", name):
        return f"`name` {name!r} cannot name a table of a profile"
    if not re.fullmatch(r"[\w.]+:[\w.]+", family.worker):
        return f"`worker` {family.worker!r} is not 'module:Class'"
    if family.lasting and not re.fullmatch(r"[\w.]+:[\w.]+", family.lasting):
        return f"`lasting` {family.lasting!r} is not 'module:function'"
    limit = family.work.get("env", {}).get("max_steps")
    known = isinstance(limit, int) and 0 < limit <= MOST_STEPS and bool(family.default_task)
    if family.lasting and not (known and family.follows_by == "state"):
        return (
            "`lasting` needs `follows_by='state'`, a `default_task`, and `max_steps` in its `work`"
        )
    if not f"{family.default_task}{family.engine}{family.frames_rule}".isprintable():
        return "`default_task`, `engine` or `frames_rule` holds control characters"
    task = without_version(family.default_task)
    frames = family.frames or (family.frames_of.get(task) if task else family.frames_of)
    if not frames and not family.any_frames:
        return "`frames` is missing: frames per step (or give `frames_of` or `any_frames`)"
    if family.usual and not family.default_task:
        return "`default_task` is missing: a `usual` family is measured without --task"
    for field, names in (("backends", family.backends), ("rows", family.rows)):
        if unknown := [each for each in names if each not in FOR_ANY_FAMILY]:
            return f"`{field}`: {unknown[0]!r} is not one of {listed(FOR_ANY_FAMILY)}"
        if not names or len(set(names)) < len(names):
            return f"`{field}` is empty, or names a backend twice"
    standards = family.standards.values()
    if unknown := [e.reference for e in standards if e.reference not in family.backends]:
        return f"`standards`: the reference {unknown[0]!r} is not one of the `backends`"
    if " - " in family.title or "(" in family.title or family.title.startswith("envbench"):
        return "`title` is part of a marker: it cannot contain ( or ' - ', or begin with envbench"
    if any(math.isinf(each.tolerance + each.reward_tolerance) for each in standards):
        return "`standards`: a tolerance is infinite, so everything would be equal"
    return title_trouble(family.title)


def title_trouble(title: str) -> str:
    """Say why a text cannot be a part of a table's marker; "" if it can."""
    if not title.isprintable() or title != title.strip() or not 0 < len(title) <= 80:
        return "`title` must be one printable line of 1 to 80 characters, without space at its ends"
    if any(mark in title for mark in ("<", ">", "|", "--")):
        return "`title` is part of a table's marker: it cannot contain < > | or --"
    return ""
