"""The adapter: the only code that a new backend has to write.

An adapter module imports its library at the top and defines a subclass of ``Adapter``. A worker
calls ``__init__``, ``probe`` (both timed as *import*), ``build``, ``compile``, ``run`` many times,
``facts`` and ``close``. In mode verify, where backends are compared, it steps through given actions
after ``compile`` (by ``run`` and ``last``, or else by ``follow``; by ``predict`` for the
reference), and calls ``recount`` after each further ``run``. Some measured trials make a few such
steps between their slices, too: a spot check.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from itertools import cycle
from os import urandom
from random import Random
from typing import Any, Dict, Iterator, List, NamedTuple, Optional


class Job(NamedTuple):
    """The part of a job that an adapter sees (see ``envbench.model.Job`` for the whole)."""

    mode: str  # probe, measure, or verify (not timed)
    family: str  # atari, mujoco, …
    task: str
    numenv: int  # environments a consumer receives per vector step
    env_instances: int  # environments that exist
    frame_skip: float
    settings: Dict[str, Any]  # every setting of the backend, defaults filled in
    seed: int
    family_code: str = ""  # "module:Class" in envbench_families, or a plugin's
    together: int = 0  # verify: batches in which every environment gets the first one's action
    observed: Optional[int] = None  # verify: lock-steps whose observations are kept; None: all


def named(name: str) -> Any:
    """Import the module of ``module:attribute``, and return its attribute."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def call(function: str, *arguments: Any, **named: Any) -> str:
    """Write a call as Python: ``envpool.make('Ant-v4', num_envs=8)``."""
    words = [repr(each) for each in arguments]
    words += ["{}={!r}".format(name, value) for name, value in named.items()]
    return "{}({})".format(function, ", ".join(words))


class Counts(NamedTuple):
    """Counts the results of one ``run``."""

    steps: int  # transitions received: an action applied, an observation returned
    resets: int  # reset-only results received: not transitions


class Trace(NamedTuple):
    """What environments returned in lock-step: arrays of shape (calls, numenv, …).

    ``observations`` are those of the first ``Job.observed`` calls. ``ended``: terminated or
    truncated; ``truncated``: only that (None: unknown). ``start``: the observations before the
    first step, (1, numenv, …). ``same_step``: the step that ends an episode also resets, so its
    observation is the next episode's first one. Otherwise the step after it only resets.
    ``reused``: a step overwrote the observations that an earlier one had returned. ``columns``: the
    environments of the batch that were traced, drawn at random if there are over ``MOST_TRACED``
    (None: all). ``actions``: what they got in each vector step; None: the columns of the adapter's
    bank. ``at``: the vector step of each row (None: every one has a row). ``restarted``: in these
    rows envbench reset all environments. ``entered``: these rows are no steps. After steps that
    have no row, they show where the environments are, and in ``ended``, if the latest step ended an
    episode. ``resets``: how many resets ``run`` counted in each row; of the reference, how many
    episodes end within the row, before its last step (None: not all environments were traced).
    ``over``: the trace begins in the middle of episodes, and in these environments the step before
    it ended one, (numenv,) (None: it begins with a reset). ``by_run``: ``run`` made these steps.
    ``chosen``: the row from which on actions are not of the bank, but such that episodes last until
    their time limit. Of the reference, ``begun`` says how the trace's episodes began, (count, …),
    ``begun_by`` in which environment each, (count,), ``automatic`` which of them after the end of
    another, without a reset by envbench, (count,), and ``starts`` how further ones of its own did.
    They are first observations, or other numbers that show more. ``lost``: it could not follow
    these steps, and repeats what the trace shows.
    """

    observations: Any
    rewards: Any
    ended: Any
    start: Any
    same_step: bool = False
    reused: bool = False
    begun: Any = None
    starts: Any = None
    begun_by: Any = None
    automatic: Any = None
    columns: Any = None
    actions: Any = None
    at: Any = None
    restarted: Any = None
    entered: Any = None
    resets: Any = None
    truncated: Any = None
    over: Any = None
    by_run: Any = False
    chosen: Any = None
    lost: Any = None


# Verify: what counts the environments' frames in this process (``Counted``, ``Watched``). Each has
# ``seen_frames``, which only grows, or is None where nothing counts.
COUNTERS: List[Any] = []
MOST_TRACED = 50  # environments
EMULATOR, SIMULATION, LIBRARY = "the emulator", "simulated time", "the library"
COUNTED_BY = EMULATOR, SIMULATION, LIBRARY


def from_batch(bank: List[Any], first: int) -> Iterator[Any]:
    """Cycle through a bank, from one of its batches on.

    Each slice, and each call that is compared, gets a new one. So an adapter cannot tell by the
    iterator which of its steps are looked at.
    """
    first %= len(bank)
    return cycle(bank[first:] + bank[:first])


def shuffled(bank: List[Any]) -> List[Any]:
    """Return the batches in a random order, which no adapter can know before.

    ``build`` knows the bank. If its order were known, too, all steps could be made in advance.
    """
    return Random(urandom(16)).sample(bank, len(bank))


class UnknownTaskError(Exception):
    """The library does not know this task. ``known`` lists the tasks that it knows."""

    def __init__(self, task: str, known: List[str]) -> None:
        super().__init__("unknown task {!r}".format(task))
        self.known = known


class ImpossibleFigure(Exception):
    """The adapter reports a figure that is impossible."""


class Adapter(ABC):
    """One way of running many copies of a task; the base class of every adapter.

    ``first_calls``: the vector steps of the first ``run``, for programs that make several at once.
    ``single_steps``: how single vector steps are timed after the windows. "batches": ``run`` takes
    the next batch from ``self.batches`` at the start of each step, and the clock is read then.
    "calls": by ``run(1)``, which waits for the device. "": a consumer gets no single steps.
    ``counted_by``: who makes the count that ``recount`` returns, one of ``COUNTED_BY``. "": the
    adapter itself, which is no second count.
    ``first_observations``: what the latest reset (in ``build`` or ``reset``) returned, (numenv, …),
    if ``run`` takes batches from ``self.batches`` and ``last`` returns observations, rewards,
    terminated and truncated. Then envbench compares the steps of ``run`` itself, and never calls
    ``follow``.
    """

    first_calls = 1
    single_steps = ""
    counted_by = ""
    first_observations: Any = None
    batches: Any
    bank: List[Any]  # batches of actions; ``build`` draws them

    def __init__(self, job: Job) -> None:
        self.job = job

    def tasks(self) -> Optional[List[str]]:
        """Return the tasks that the library knows; None if ``probe`` finds out without a list."""
        return None

    def probe(self) -> None:
        """Check cheaply that the task exists; raise ``UnknownTaskError`` if it does not."""
        known = self.tasks()
        if known is not None and self.job.task not in known:
            raise UnknownTaskError(self.job.task, known)

    @abstractmethod
    def build(self) -> None:
        """Make the environments, reset them, draw the actions. Timed as *build*."""

    def compile(self) -> None:  # noqa: B027 - optional
        """Compile what a learner would also compile. Timed with the first ``run``."""

    def prepare(self) -> None:  # noqa: B027 - optional
        """Prepare what only the measurement needs and a learner does not. Not timed."""

    @abstractmethod
    def run(self, calls: int) -> Counts:
        """Make ``calls`` vector steps in a loop that does only what a learner does."""

    def resume(self) -> None:  # noqa: B027 - optional
        """Called at the start of each slice of a block, which is timed: all processes were stopped.

        What free-running processes made while no clock ran belongs to no slice.
        """

    def reset(self) -> Optional[int]:
        """Reset all environments at once, and return their number; None if the library cannot."""
        return None

    @property
    def begins_anew(self) -> bool:
        """Does ``reset`` begin all episodes anew, and renew ``first_observations``?"""
        return type(self).reset is not Adapter.reset

    def last(self) -> Optional[List[Any]]:
        """Return what the latest ``run``'s last vector step returned, as arrays: observations,
        rewards and ends, or a state.

        ``check`` compares them between its arms, which get the same actions. None: results arrive
        in any order, or cannot be read cheaply.
        """
        return None

    def returned(self, calls: int) -> Optional[List[Any]]:
        """Make ``calls`` vector steps. Return the ids of the environments in each batch, as arrays.

        None: ids are unknown, or every environment is in every batch.
        """
        return None

    def unfinished(self) -> int:
        """After an exception: the transitions that the latest ``run`` made before it."""
        return 0

    def dead_child(self) -> Optional[int]:
        """After an exception, in any phase: the exit code (or -signal) of a child that died."""
        return None

    @abstractmethod
    def facts(self) -> Dict[str, Any]:
        """Report what ran: at least observation_shape and observation_dtype (of one environment),
        action_source, autoreset (next-step, same-step or none) and env_instances. ``work`` says
        what a step does, with the keys that ``envbench.families`` has. ``code`` is Python that
        makes the same environments, for a reader to copy."""

    def action_source(self) -> str:
        """Where the actions of ``bank`` came from."""
        if len(self.bank) == 1:
            return "one constant random batch, seed {}".format(self.job.seed)
        return "bank of {} random batches, seed {}, cycled".format(len(self.bank), self.job.seed)

    def common_facts(
        self, seen: Any, autoreset: str, work: Dict[str, Any], returned_to: str, **more: Any
    ) -> Dict[str, Any]:
        """Return what adapters with a ``bank`` report in the same way, for ``facts``.

        ``seen`` is one environment's observation, or its space. ``returned_to``: host or device.
        ``more`` are facts of this backend alone.
        """
        received = {
            "observation_shape": None if seen.shape is None else list(seen.shape),
            "observation_dtype": str(seen.dtype),
            "autoreset": autoreset,
        }
        return {
            **received,
            "action_source": self.action_source(),
            "env_instances": self.job.env_instances,
            **more,
            "work": {**work, **received, "returned_to": returned_to},
        }

    def gpu_memory(self) -> Optional[int]:
        """Peak bytes of GPU memory, as the library counts them; None without a GPU."""
        return None

    def follow(self, calls: int) -> Optional[Trace]:
        """Verify, and spot checks: step through the first ``calls`` batches of actions.

        Environment i gets column i of the k-th batch as its k-th action, in whatever order results
        arrive. For physics, an observation is qpos and qvel in one row, and a reward is zero. None:
        the library cannot be driven in lock-step.
        """
        return None

    def predict(self, given: Trace) -> Optional[Trace]:
        """Verify, the reference only: what each step of another backend's trace should have given.

        Before each step its environments are put into the state that the trace shows, and then get
        the same action. None: it cannot set states, or the trace's observations do not show them.
        Then it makes lock-steps of its own instead.
        """
        return None

    def recount(self) -> Optional[float]:
        """Verify: the frames of the latest ``run``'s transitions, as the environments count them.

        By an emulator's frame number, simulated time / 0.01 s, or a library's own counter of steps
        x frame_skip: ``counted_by`` says which. None: nothing else counts them.
        """
        return None

    def close(self) -> None:  # noqa: B027 - optional
        """End the environments and their processes."""
