"""What an adapter is: the only thing a new backend has to write.

An adapter module imports its library at the top and offers a subclass of ``Adapter``. Its life in
a worker: ``__init__`` → ``probe`` (always; up to here timed as *import*) → ``build`` → ``run`` many
times → ``facts`` → ``close``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, List, NamedTuple


class Job(NamedTuple):
    """The part of a job that an adapter sees (see ``envbench.model.Job`` for the whole)."""

    family: str  # atari, mujoco or gym
    task: str
    numenv: int  # environments a consumer receives per vector step
    env_instances: int  # environments that exist
    frame_skip: float
    settings: Dict[str, Any]  # every setting of the backend, defaults filled in
    seed: int


class Counts(NamedTuple):
    """What one stretch of vector steps did."""

    steps: int  # transitions received: an action applied, an observation returned
    resets: int  # reset-only results received: not transitions


class UnknownTaskError(Exception):
    """The library does not know this task; ``known`` are those that it knows."""

    def __init__(self, task: str, known: List[str]) -> None:
        super().__init__("unknown task {!r}".format(task))
        self.known = known


class Adapter(ABC):
    """One way of running many copies of a task: what every adapter subclasses.

    One that lacks ``build``, ``run`` or ``facts`` fails when it is made, by the method's name.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    def probe(self) -> None:  # noqa: B027 - nothing to check is a fine default
        """Check cheaply that the task exists; raise ``UnknownTaskError`` where it does not."""

    @abstractmethod
    def build(self) -> None:
        """Make the environments, reset them, draw the actions. Timed as *build*."""

    @abstractmethod
    def run(self, calls: int) -> Counts:
        """Make ``calls`` vector steps in a loop that does only what a learner would do."""

    def unfinished(self) -> int:
        """Transitions of a ``run`` that an exception ended; asked for only then."""
        return 0

    @abstractmethod
    def facts(self) -> Dict[str, Any]:
        """What ran: at least observation_shape and observation_dtype (of one environment),
        action_source, autoreset and env_instances."""

    def close(self) -> None:  # noqa: B027 - nothing to end is, too
        """End the environments and their processes."""
