"""``measure``: what ``envbench run`` does, for Python programs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbench.api.results import LOG, html, warn
from envbench.backends import shown
from envbench.engine.availability import Build
from envbench.engine.campaign import Campaign
from envbench.engine.carry_out import carry_out
from envbench.engine.experiment import Done, Experiment, Options
from envbench.engine.request import CellRequest
from envbench.errors import Interrupted, Unavailable, UsageError, hints_shown
from envbench.experiments.run.rounds import Figures, Measure, RunExperiment
from envbench.families import SMALLEST_SKIP
from envbench.machine import catalogue
from envbench.model import (
    LARGEST_NUMENV,
    LARGEST_SKIP,
    MOST_ROUNDS,
    Block,
    BlockRecord,
    Failure,
    Plan,
    Trial,
)
from envbench.process.reply import Event
from envbench.process.signals import raise_on_signals
from envbench.report.conclusion import conclusions
from envbench.report.data_export import of_cell
from envbench.results.folder import load_files
from envbench.results.measured_cells import Measured
from envbench.runtimes.interpreters import interpreter
from envbench.text import counted, one_line, rounded

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What ``measure`` found. ``plan`` identifies it in the results folder.

    ``sentence``: which backend is fastest and by how much, as ``envbench run`` prints it, and what
    failed. The other attributes are those of the only cell.
    """

    measured: list[Measured]
    plan: str
    sentence: str

    @property
    def fps(self) -> float | None:
        """Frames per second (environment steps per second times ``frame_skip``). None: it failed,
        and ``failure`` says why."""
        return self._only.fps

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of ``fps``. None: fewer than five processes, as with ``quick``."""
        return self._only.summary.interval

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps per second."""
        return self._only.summary.steps_per_second

    @property
    def failure(self) -> str:
        """Why there is no figure; "" if there is one."""
        failure = self._only.summary.failure
        return failure.message if failure else ""

    def to_frame(self) -> DataFrame:
        """Return one row per cell, with the columns of ``envbench export``."""
        from pandas import DataFrame

        return DataFrame([of_cell(each) for each in self.measured])

    def __repr__(self) -> str:
        cells = [
            f"{each.label} at {each.numenv}: "
            + (f"{rounded(each.fps)} FPS" if each.fps else "failed")
            + (" (quick)" if each.quick else "")
            for each in self.measured
        ]
        return f"<envbench.Result: {'; '.join(cells)}>"

    def _repr_html_(self) -> str:
        return html(self.to_frame())

    @property
    def _only(self) -> Measured:
        if len(self.measured) != 1:
            raise ValueError(f"{len(self.measured)} cells were measured: use to_frame().")
        return self.measured[0]


@hints_shown()
def measure(
    task: str | None = None,
    *,
    backend: str | Iterable[str],
    numenv: int | Iterable[int],
    env: str | None = None,
    frame_skip: float | None = None,
    duration: float | None = None,
    repeats: int | None = None,
    quick: bool = False,
    seed: int = 0,
    machine: str | None = None,
    results: str | Path = "results",
    python: str | None = None,
    build: bool = False,
    progress: bool = True,
    **settings: str | int | float | bool,
) -> Result:
    """Measure how fast a task steps on this machine, for about a minute per cell.

    ``task`` is the id of a task, such as ``"Pong-v5"`` or ``"my_package:MyEnv-v0"``; ``env`` is its
    family. Give it unless the task is the default of a family or has a colon. ``numenv`` is the
    number of environments per vector step. With several backends or numbers, all cells alternate.
    ``duration`` is in seconds per cell. ``quick`` measures 2 s per cell, without an interval.
    ``python`` is the interpreter of the backend, and ``build`` allows envbench to build its
    runtime. ``progress`` shows messages and progress on stderr, unless the log ``envbench`` has a
    handler. ``settings`` are those of the backend (``envbench backends NAME``).

    Raises ``envbench.EnvbenchError``: an unknown name, a backend that cannot run here, or another
    measurement on this machine. A cell that fails while it is measured has no ``fps``.
    """
    given = {name: value for name, value in locals().items() if name != "settings"} | settings
    cells, given = _cells(given, settings)
    if quick and not (duration is None and repeats is None):
        raise UsageError("quick cannot be combined with duration or repeats.")
    asked: dict[str, Any] = {"quick": quick}  # numbers may be those of NumPy
    asked |= {} if duration is None else {"duration_s": float(duration)}
    asked |= {} if repeats is None else {"repeats": int(repeats)}
    amount = Measure(**asked)
    path = None if python is None else interpreter(python, "python")
    if path and cells.takes_all:
        raise UsageError("python is the interpreter of one backend: name it with backend=.")
    own = {} if path is None else dict.fromkeys(cells.backends or [], path)
    options = Options(
        results=Path(results),
        machine=machine,
        seed=int(seed),
        pythons=own,
        setup=build,
        yes=build,
        command=["python", "-c", f"import envbench; envbench.{_call(given)}"],
    )
    found: list[Campaign[Figures]] = []

    def keep(campaign: Campaign[Figures]) -> int:
        found.append(campaign)
        return 0

    try:
        with raise_on_signals(), _shown(progress):
            carry_out(RunExperiment(cells=cells, measure=amount), options, _Log(), keep)
    except Interrupted as error:
        raise _stopped(error) from None
    except Unavailable as error:
        if not build:
            error.hint += " measure(…, build=True) builds missing runtimes."
        raise
    (campaign,) = found
    if campaign.stopped is not None:
        raise _stopped(campaign.stopped)
    return _result(campaign)


def _cells(
    given: dict[str, Any], settings: Mapping[str, str | int | float | bool]
) -> tuple[CellRequest, dict[str, Any]]:
    """The requested cells, and the arguments as the call is recorded."""
    backend, numenv = given["backend"], given["numenv"]
    names = [backend] if isinstance(backend, str) else [*backend]
    numbers = [*numenv] if isinstance(numenv, Iterable) else [numenv]
    of = [given["task"] or given["env"]]
    for name, each in (("task and env", of), ("backend", names), ("numenv", numbers)):
        if not each or each == [None]:
            raise UsageError(f"{name}: there is nothing to measure.", hint="Name at least one.")
    limited = {name: given[name] for name in _LIMITS}
    _check(**{**limited, "numenv": numbers})
    numbers = [int(each) for each in numbers]
    if twice := sorted({each for each in numbers if numbers.count(each) > 1}):
        raise UsageError(f"numenv has {twice[0]} twice.")
    names = [*dict.fromkeys(names)]
    cells = CellRequest(
        family=given["env"],
        task=given["task"],
        backends=names,
        numenv=numbers,
        frame_skip=None if given["frame_skip"] is None else float(given["frame_skip"]),
        settings={name: shown(value) for name, value in settings.items()},
    )
    as_called = {
        "backend": backend if isinstance(backend, str) else names,
        "numenv": numenv if isinstance(numenv, int) else numbers,
    }
    return cells, given | as_called


def _result(campaign: Campaign[Figures]) -> Result:
    own = load_files([campaign.journal.path], warn).selection
    says = [one.sentence for one in conclusions(own, catalogue().profiles)]
    for one in own.measured:
        if failure := one.summary.failure:
            says.append(f"{one.label} at {one.numenv} failed: {one_line(failure.message, 300)}.")
            LOG.warning("%s", says[-1])
    return Result(measured=own.measured, plan=campaign.plan.plan_id, sentence=" ".join(says))


_LIMITS: dict[str, tuple[type, float, float]] = {
    "numenv": (int, 1, LARGEST_NUMENV),
    "seed": (int, 0, 2**31 - 1),
    "duration": (float, 1, 86400),
    "repeats": (int, 1, MOST_ROUNDS),
    "frame_skip": (float, SMALLEST_SKIP, LARGEST_SKIP),
}


def _check(**given: Any) -> None:
    """``UsageError`` for a number of the wrong type, or outside the limits of the command line."""
    for name, value in given.items():
        kind, least, most = _LIMITS[name]
        for each in value if isinstance(value, list) else [value]:
            right = Integral if kind is int else Real
            fits = isinstance(each, right) and not isinstance(each, bool)
            if each is None or (fits and least <= float(each) <= most):
                continue
            what = "a whole number" if kind is int else "a number"
            raise UsageError(f"{name} is {each!r}, not {what} from {least:,} to {most:,}.")


def _call(given: Mapping[str, object]) -> str:
    """The call, without defaults, as results record it."""
    usual = {name: each.default for name, each in signature(measure).parameters.items()}
    named = {name: value for name, value in given.items() if value != usual.get(name)}
    words = [repr(named.pop("task", None)), *(f"{k}={v!r}" for k, v in named.items())]
    return f"measure({', '.join(words)})"


def _stopped(error: Interrupted) -> BaseException:
    """What Python raises for that signal."""
    return KeyboardInterrupt() if error.exit_code == 130 else SystemExit(error.exit_code)


@contextmanager
def _shown(progress: bool) -> Iterator[None]:
    """Write the log to stderr, unless it has a handler."""
    if not progress or LOG.hasHandlers():
        yield
        return
    handler, level = logging.StreamHandler(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


class _Log:
    """The messages and progress of a measurement, as the log ``envbench``."""

    def say(self, text: str, /) -> None:
        LOG.info(text)

    def doing(self, text: str, /) -> None:
        LOG.info(text)

    def agrees(self, builds: Sequence[Build], /) -> bool:
        return True  # only asked with ``build=True``

    def began(self, experiment: Experiment[Any], plan: Plan, done: Done, before: Done) -> None:
        left = experiment.seconds_left(plan, done, before)
        blocks = counted(experiment.left(plan, done), "block")
        LOG.info("%s to do: about %.0f s left", blocks, left)

    def block_began(self, block: Block) -> None: ...

    def trying_again(self, block: Block, of: Trial, failure: Failure, /) -> None:
        LOG.warning("%s: %s. Trying again.", of.cell.key, failure.message)

    def event(self, event: Event) -> None: ...

    def block_ended(self, record: BlockRecord, left: int) -> None:
        LOG.info("a block took %.0f s: %s left", record.seconds, counted(left, "block"))

    def close(self) -> None: ...
