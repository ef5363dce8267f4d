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
    action: at least ``steps`` per environment. Observations may differ by at most ``tolerance`` (in
    ``unit``), rewards by ``reward_tolerance``; ``nine_of_ten``: in nine of ten steps of each
    environment, because another build of an engine resolves some contacts otherwise. With the same
    build, every step agrees, observations within ``same_engine`` (None: there is no such rule).
    ``no_resets``: an environment can stay in contact for the rest of its steps. So half of the
    environments may differ in more than a tenth of their steps, but each agrees in half of them.
    ``rounded``: the tolerance, in nine of ten steps, of observations with fewer digits than the
    reference's (None: as for any other), because they do not show the whole state.
    Where states cannot be set, ``episodes`` of both are compared as distributions instead, on
    ``episode_tasks`` (empty: all tasks). ``first``: how many leading numbers of an observation are
    compared; None: all. ``promised_by``: a backend whose ``work`` has this setting reports the
    other numbers, too: they cannot all be zero. ``stack``: an observation is a stack of this many
    frames; those from before an episode's first observation are ignored. ``last``: is the last
    observation of an episode compared? ``restarts``: are the steps compared that come after
    envbench reset all environments?
    """

    reference: str = "for-loop"
    steps: Annotated[int, Meta(ge=0)] = 0
    tolerance: Annotated[float, Meta(ge=0)] = 0.0
    reward_tolerance: Annotated[float, Meta(ge=0)] = 0.0
    nine_of_ten: bool = False
    no_resets: bool = False
    same_engine: Annotated[float, Meta(ge=0)] | None = None
    rounded: Annotated[float, Meta(ge=0)] | None = None
    promised_by: str = ""
    unit: str = ""
    first: Annotated[int, Meta(ge=1)] | None = None
    stack: Annotated[int, Meta(ge=0)] = 0
    last: bool = True
    restarts: bool = True
    episodes: Annotated[int, Meta(ge=0)] = 0
    episode_tasks: list[str] = []

    def of(self, *, same_engine: bool, rounded: bool) -> Standard:
        """The rule for a backend that reports the reference's engine, or another one, and whose
        observations may have fewer digits than the reference's."""
        if rounded and self.rounded is not None:
            reward = max(self.rounded, self.reward_tolerance)
            return replace(self, tolerance=self.rounded, reward_tolerance=reward, nine_of_ten=True)
        if same_engine and self.same_engine is not None:
            return replace(self, tolerance=self.same_engine, nine_of_ten=False)
        return self

    @property
    def most(self) -> str:
        if not self.nine_of_ten:
            return ""
        return " in nine of ten steps" + (" of half of the environments" if self.no_resets else "")

    def apart(self, environments: Sequence[Apart]) -> float:
        """The distance that counts, of the environment in which it is largest. No step may return
        infinity or something that is not a number."""
        largest = max((each.largest for each in environments), default=0.0)
        if not self.nine_of_ten or largest >= NO_NUMBER:
            return largest
        ordered = sorted(each.p90 for each in environments)
        if not self.no_resets:
            return max(ordered, default=0.0)
        best = ordered[: len(ordered) - len(ordered) // 2]
        return max([*best, *(each.median for each in environments)], default=0.0)

    def not_reset(self, ends: int) -> int:
        """Of the reference's ends within a call of several steps: how many may come later on the
        other side, because two builds of an engine drift apart there."""
        return max(2, ends // 4) if self.nine_of_ten else 0

    def other_ends(self, ends: int) -> int:
        """How many of both sides' ends may be on one side only: those that are a close call."""
        return max(1, ends // 10) if self.nine_of_ten else 0


class EnvFamily(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes an env family. ``default_task`` empty: a person has to choose a task.

    Frames per step: ``frames``; or ``frames_of`` the task (its name without the version); or, with
    ``any_frames``, ``--frame-skip`` (1 by default). ``frames_rule``: how a person computes those of
    a task that ``frames_of`` lacks.

    ``own_tasks``: tasks come from a user's own packages. A person may edit these packages, so edits
    are looked for before a plan resumes. The tasks may read the current folder, and need not
    respond to actions. ``packages`` are what Gymnasium needs for the tasks, besides itself and
    numpy. ``follows_by`` says how the reference follows a backend (docs/backends.md): it is put
    into each "state" (in ``state_tasks`` only; empty: all tasks), or both start from one "seed";
    "": it cannot follow. ``lock_steps``: vector steps that are compared. ``state_of`` a task (its
    name without the version): how many leading numbers of an observation are its state, if it is
    not ``Standard.first``. ``odd_resets``: tasks in which a reset in the middle of an episode leads
    to a state that no other reset reaches; steps after one are not compared. ``lasting``
    ("module:function" of the worker) makes actions with which an episode of the default task lasts
    until its time limit (``max_steps`` of ``work``).

    ``work`` is what one step of the reference does, by kind: the names and values that
    ``envbench.decisions`` compares. None: any value is accepted, and the name is a difference only
    if the backend does not report it. ``any_task`` are the names that apply to tasks other than the
    default. The names in ``reported`` may differ although a step computes the same. ``backends``,
    for a plugin: those of ``FOR_ANY_FAMILY`` that run it, at least one. ``rows`` are the backends
    of its table in a new profile, and where a profile has no table for the family. ``usual``: a new
    profile has its table, and ``check`` measures it by default.
    """

    name: str
    title: str
    worker: str  # "module:Class", imported by the worker only
    default_task: str = ""
    frames: Frames | None = None
    frames_of: dict[str, Frames] = {}
    any_frames: bool = False
    frames_rule: str = ""
    own_tasks: bool = False
    packages: list[str] = []
    follows_by: Literal["state", "seed", ""] = ""
    state_tasks: list[str] = []
    lock_steps: Annotated[int, Meta(ge=1)] = 200
    state_of: dict[str, Annotated[int, Meta(ge=1)]] = {}
    odd_resets: list[str] = []
    lasting: str = ""
    work: dict[Kind, dict[str, Any]] = {}
    any_task: list[str] = []
    reported: tuple[str, ...] = REPORTED
    standards: dict[Kind, Standard] = {}
    rows: tuple[str, ...] = DEFAULT_ROWS
    usual: bool = False
    ceiling_states: Annotated[int, Meta(ge=1)] = 1  # environments per core of its ceiling
    engine: str = "the engine"  # what its ceiling measures, in Markdown
    backends: list[str] = []

    def standard(self, kind: Kind, task: str) -> Standard | None:
        """The rule for a task; None if nothing is compared."""
        found, first = self.standards.get(kind), self.state_of.get(without_version(task))
        if found and task in self.odd_resets:
            found = replace(found, restarts=False)
        return replace(found, first=first) if found and found.first and first else found

    def uncompared(self, kind: Kind, task: str) -> str:
        """Say why two backends cannot be compared on the task; "" if they can."""
        standard = self.standards.get(kind)
        if standard is None:
            return f"no comparison is defined for {self.name}"
        if standard.episodes:
            tasks = standard.episode_tasks or [task]
            return "" if task in tasks else f"only episodes of {listed(tasks)} are compared"
        if self.follows_by == "state" and kind == "env" and self.state_tasks:
            known = task in self.state_tasks
            return "" if known else f"the state of {task} cannot be read from its observation"
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
