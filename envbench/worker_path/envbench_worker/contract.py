"""What an adapter is: the only thing a new backend has to write.

An adapter module imports its library at the top and offers a subclass of ``Adapter``. Its life in
a worker: ``__init__`` → ``probe`` (always; up to here timed as *import*) → ``build`` →
``compile`` → ``run`` many times → ``facts`` → ``close``; where backends are compared (``mode``
verify) ``build`` → ``compile`` → ``follow`` → ``run`` and ``recount`` by turns → ``facts`` →
``close``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, List, NamedTuple, Optional


class Job(NamedTuple):
    """The part of a job that an adapter sees (see ``envbench.model.Job`` for the whole)."""

    mode: str  # probe, measure, or verify: from one fixed start, at leisure
    family: str  # atari, mujoco, …
    task: str
    numenv: int  # environments a consumer receives per vector step
    env_instances: int  # environments that exist
    frame_skip: float
    settings: Dict[str, Any]  # every setting of the backend, defaults filled in
    seed: int
    family_code: str = ""  # "module:Class" in envbench_worker.families, or a plugin's
    together: int = 0  # verify: batches in which every environment gets the first one's action


class Counts(NamedTuple):
    """What one stretch of vector steps did."""

    steps: int  # transitions received: an action applied, an observation returned
    resets: int  # reset-only results received: not transitions


class Trace(NamedTuple):
    """What environments did in lock-step: arrays of shape (calls, numenv, …).

    ``start``: the observations before the first step, (1, numenv, …), where a family's reference
    starts from them.
    """

    observations: Any
    rewards: Any
    ended: Any  # bool: terminated or truncated
    start: Any = None


class UnknownTaskError(Exception):
    """The library does not know this task; ``known`` are those that it knows."""

    def __init__(self, task: str, known: List[str]) -> None:
        super().__init__("unknown task {!r}".format(task))
        self.known = known


class ImpossibleFigure(Exception):
    """What the adapter claims cannot have happened."""


class Adapter(ABC):
    """One way of running many copies of a task: what every adapter subclasses.

    One that lacks ``build``, ``run`` or ``facts`` fails when it is made, by the method's name.
    ``first_calls``: the vector steps of the first ``run``, where one program makes several.
    """

    first_calls = 1
    start: Any = None  # verify: observations (numenv, …) that the environments have to start from

    def __init__(self, job: Job) -> None:
        self.job = job

    def probe(self) -> None:  # noqa: B027 - nothing to check is a fine default
        """Check cheaply that the task exists; raise ``UnknownTaskError`` where it does not."""

    @abstractmethod
    def build(self) -> None:
        """Make the environments, reset them, draw the actions. Timed as *build*."""

    def compile(self) -> None:  # noqa: B027 - most have nothing to compile
        """Compile what a learner would have to compile. Timed with the first ``run``."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing of the kind
        """Whatever else measuring needs that a learner would not. Not timed."""

    @abstractmethod
    def run(self, calls: int) -> Counts:
        """Make ``calls`` vector steps in a loop that does only what a learner would do."""

    def reset(self) -> Optional[int]:
        """Reset all environments at once, as a learner may; how many they are. Nothing is stepped
        afterwards. None where the library resets them only one by one, in their steps."""
        return None

    def unfinished(self) -> int:
        """Transitions of a ``run`` that an exception ended; asked for only then."""
        return 0

    def dead_child(self) -> Optional[int]:
        """Where processes of the adapter's own step: the exit code (or -signal) of one that ended
        early. Asked for after an exception only."""
        return None

    @abstractmethod
    def facts(self) -> Dict[str, Any]:
        """What ran: at least observation_shape and observation_dtype (of one environment),
        action_source, autoreset (next-step, same-step or none) and env_instances; in ``work`` what
        is done per step, by the names of ``envbench.equal_work.reference``."""

    def gpu_memory(self) -> Optional[int]:
        """Peak bytes of GPU memory, by the library's own count; None where there is no GPU."""
        return None

    def follow(self, calls: int) -> Optional[Trace]:
        """Verify: the first ``calls`` batches of the seeded actions, from the fixed start.

        The fixed start is without noise: MuJoCo's initial state (for physics, at rest in it), an
        Atari game after one no-op; the same for all environments. Environment i gets column i of
        the k-th batch as its k-th action, however results arrive. For physics an observation is
        qpos and qvel in one row and a reward is zero. None where the library cannot be led.
        """
        return None

    def recount(self) -> Optional[float]:
        """Verify: the frames of the latest ``run``'s transitions, counted in another way.

        By the environments themselves: an emulator's frame number, simulated time / 0.01 s, an
        elapsed-step counter x frame_skip. None where nothing else counts them.
        """
        return None

    def close(self) -> None:  # noqa: B027 - nothing to end is, too
        """End the environments and their processes."""
