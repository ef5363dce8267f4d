"""Measure and read results from Python, such as in a notebook.

    import envbench

    found = envbench.measure("Pong-v5", backend="envpool-async", numenv=8)
    found.fps, found.interval           # frames per second
    envbench.load("results").cells      # a pandas DataFrame

``measure`` does what ``envbench run`` does, with the same records in the same folder: a stopped
measurement resumes, and ``envbench report`` shows it. Interrupting a notebook's kernel (Ctrl-C)
ends the workers and raises ``KeyboardInterrupt``. It runs in any thread, but Python delivers
signals to the main thread only: a measurement in another one ends when it is done, or with the
process.
Messages and progress are the log ``envbench``. Where no handler is set up for it, ``measure``
writes them to stderr; ``progress=False`` keeps it quiet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbench.backends import shown
from envbench.engine.availability import Build
from envbench.engine.campaign import Campaign
from envbench.engine.carry_out import carry_out
from envbench.engine.experiment import Done, Experiment, Options
from envbench.engine.request import CellRequest
from envbench.engine.signals import raise_on_signals
from envbench.errors import EnvbenchError, Interrupted, Unavailable, UsageError
from envbench.experiments.run import Figures, Measure, RunExperiment
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
    fields,
)
from envbench.process.reply import Event
from envbench.report.data_export import of_cell, of_runs, of_slices
from envbench.report.tables.conclusion import conclusions
from envbench.results.folder import Loaded, load_files, load_folder
from envbench.results.measured_cells import Measured
from envbench.runtimes.interpreters import interpreter
from envbench.text import counted, one_line, rounded

if TYPE_CHECKING:
    from pandas import DataFrame

LOG = logging.getLogger("envbench")  # messages of a measurement, such as a note or a warning


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
        return _html(self.to_frame())

    @property
    def _only(self) -> Measured:
        if len(self.measured) != 1:
            raise ValueError(f"{len(self.measured)} cells were measured: use to_frame().")
        return self.measured[0]


@contextmanager
def _hints_shown() -> Iterator[None]:
    """A traceback shows what to do next, too."""
    try:
        yield
    except EnvbenchError as error:
        if error.hint:
            error.add_note(error.hint)
        raise


@_hints_shown()
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
    ``python`` is the interpreter of the backend, and ``build`` permits to build its runtime.
    ``progress`` shows messages and progress on stderr, unless the log ``envbench`` has a handler.
    ``settings`` are those of the backend (``envbench backends NAME``).

    Raises ``envbench.EnvbenchError``: an unknown name, a backend that cannot run here, or another
    measurement on this machine. A cell that fails while it is measured has no ``fps``.
    """
    given = {name: value for name, value in locals().items() if name != "settings"} | settings
    names = [backend] if isinstance(backend, str) else [*backend]
    numbers = [*numenv] if isinstance(numenv, Iterable) else [numenv]
    for name, each in (("task and env", [task or env]), ("backend", names), ("numenv", numbers)):
        if not each or each == [None]:
            raise UsageError(f"{name}: there is nothing to measure.", hint="Name at least one.")
    _check(numenv=numbers, seed=seed, duration=duration, repeats=repeats, frame_skip=frame_skip)
    if not isinstance(numenv, int):
        given |= {"numenv": [int(each) for each in numbers]}
    if not isinstance(backend, str):
        given |= {"backend": names}
    if quick and not (duration is None and repeats is None):
        raise UsageError("quick cannot be combined with duration or repeats.")
    cells = CellRequest(
        family=env,
        task=task,
        backends=names,
        numenv=[int(each) for each in numbers],
        frame_skip=frame_skip,
        settings={name: shown(value) for name, value in settings.items()},
    )
    asked: dict[str, Any] = {"duration_s": duration, "repeats": repeats, "quick": quick}
    amount = Measure(**{name: value for name, value in asked.items() if value is not None})
    options = Options(
        results=Path(results),
        machine=machine,
        seed=seed,
        pythons={} if python is None else {name: interpreter(python, "python") for name in names},
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
    own = load_files([campaign.journal.path], _warn).selection
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
    """``UsageError`` for a number of another kind, or beyond the limits of the command line."""
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


def _warn(warnings: Iterable[str]) -> None:
    for each in warnings:
        LOG.warning(each)


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

    def trying_again(self, block: Block, failure: Failure) -> None:
        LOG.warning("%s. Trying again.", failure.message)

    def event(self, event: Event) -> None: ...

    def block_ended(self, record: BlockRecord, left: int) -> None:
        LOG.info("a block took %.0f s: %s left", record.seconds, counted(left, "block"))

    def close(self) -> None: ...


# ---------------------------------------------------------------- results on disk


def _html(cells: DataFrame) -> str:
    """What a notebook shows: the columns that most readers want."""
    names = "machine env task backend numenv fps fps_low fps_high flags failure"
    shown: str = cells.reindex(columns=names.split()).to_html(max_rows=20, na_rep="")
    return shown


@dataclass(frozen=True, repr=False)
class Results:
    """The results in a folder, as ``envbench report`` shows them."""

    _loaded: Loaded

    def __repr__(self) -> str:
        cells = counted(len(self._loaded.selection.measured), "cell")
        return f"<envbench.Results: {cells}; .cells, .runs, .slices and .published are DataFrames>"

    def _repr_html_(self) -> str:
        return _html(self.cells)

    @cached_property
    def cells(self) -> DataFrame:
        """One row per cell, with the columns of ``envbench export``."""
        from pandas import DataFrame

        return DataFrame([of_cell(each) for each in self._loaded.selection.measured])

    @cached_property
    def runs(self) -> DataFrame:
        """One row per process, with the columns of ``envbench export --runs``."""
        from pandas import DataFrame

        found = self._loaded
        return DataFrame(of_runs(found.records, found.locations, found.selection))

    @cached_property
    def slices(self) -> DataFrame:
        """One row per timed slice: its run, its start and length in ns, its vector steps (calls),
        its steps and resets of single environments, and what disturbed it ("" if nothing)."""
        from pandas import DataFrame

        return DataFrame(of_slices(self._loaded.records))

    @cached_property
    def published(self) -> DataFrame:
        """One row per figure that others published, with its source. None was measured here."""
        from pandas import DataFrame

        names = "machine env task backend numenv frame_skip fps source"
        return DataFrame([fields(each, names) for each in self._loaded.selection.published])


@_hints_shown()
def load(results: str | Path = "results") -> Results:
    """Read a folder of results. Raises ``envbench.EnvbenchError`` if it has none."""
    return Results(load_folder(Path(results), _warn, every_window=True))
