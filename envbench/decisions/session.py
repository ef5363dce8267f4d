"""The cells of one session, compared with each other. Pure.

A session is one plan of ``run``. Its cells alternated in blocks, so they are compared by the block
model (``stats.block_model``), in frames per second. Cells of one task and kind have ratios. Those
that also have the same numenv are a column and have ranks. A cell with a failed run has no place.
Cells of two sessions have neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from envbench import backends
from envbench.decisions.ranking import Place, Ranking, best_row, rank
from envbench.model import Behaviour, Cell, Run
from envbench.stats.block_model import Adjusted, BlockModel, Ratio, TrialRate, fit
from envbench.stats.summary import rate

_NOTHING = BlockModel(
    cells=(), adjusted={}, pairs=None, error_spread={}, block_spread={}, degrees=0
)


@dataclass(frozen=True, kw_only=True)
class Session:
    """The rates of one plan's trials, the reference kernel's included, and its cells by key.

    ``kernel_packages``: the Python and NumPy that ran the kernels. With others, a kernel is other
    work.
    """

    cells: Mapping[str, Cell] = field(default_factory=dict)
    rates: tuple[TrialRate, ...] = ()
    kernels: Mapping[str, str] = field(default_factory=dict)  # the class of each kernel, by key
    kernel_packages: str = ""

    @cached_property
    def model(self) -> BlockModel:
        """The fitted model; without ratios if no two trials of the session shared a block."""
        shared = Counter(each.block for each in self.rates)
        return fit(self.rates) if max(shared.values(), default=0) > 1 else _NOTHING

    @property
    def resolves(self) -> bool:
        """Do ratios have intervals? Not if each cell was in one block, or alone in its blocks."""
        return self.model.degrees > 0

    def without(self, keys: Collection[str]) -> Session:
        """The session without these cells. Their rates still show the speeds of the blocks."""
        kept = {key: each for key, each in self.cells.items() if key not in keys}
        return replace(self, cells=kept)

    @cached_property
    def classes(self) -> dict[str, str]:
        """The class of each cell, by key (``Behaviour.steps_in``)."""
        return {each.cell: each.steps_in for each in self.rates}

    def adjusted(self, cell: Cell) -> Adjusted | None:
        """In frames per second; None if no other cell of the session alternated with it."""
        return self.model.adjusted.get(cell.key) if self._several else None

    @cached_property
    def _several(self) -> bool:
        """Has it several cells, those included that are refused or in doubt?"""
        return len({each.cell for each in self.rates} - self.kernels.keys()) > 1

    def ratio(self, cell: Cell, to: Cell) -> Ratio | None:
        """The FPS of a cell divided by those of another; None if nothing connects them."""
        return self.model.ratio(cell.key, to.key)

    def ratios(self) -> Iterator[tuple[Cell, Cell, Ratio]]:
        """Each pair of one task and kind that blocks connect, once."""
        for (one, other), ratio in self.model.ratios.items():
            if one in self.cells and other in self.cells:
                cell, to = self.cells[one], self.cells[other]
                if _task(cell) == _task(to):
                    yield cell, to, ratio

    def ranking(self, column: Iterable[Cell]) -> Ranking:
        """The places of these cells of one column."""
        return rank(self.model, [each.key for each in column if each.key in self.cells])

    def best_row(self, rows: Mapping[str, Iterable[Cell]]) -> tuple[str | None, list[str]]:
        """The key of the fastest cell of all rows, and the other rows that tie with it."""
        own = {
            name: [each.key for each in row if each.key in self.cells] for name, row in rows.items()
        }
        return best_row(self.model, own)

    @cached_property
    def standings(self) -> dict[str, Place]:
        """Each cell's place in its column, by key."""
        columns: dict[object, list[Cell]] = {}
        for cell in self.cells.values():
            columns.setdefault((_task(cell), cell.numenv), []).append(cell)
        return {
            key: place
            for column in columns.values()
            for key, place in self.ranking(column).places.items()
        }


def session(runs: Iterable[Run], behaviour: Mapping[str, Behaviour]) -> Session:
    """Compare the runs of one plan. ``behaviour``: of each backend; it has the cell's class."""
    every = [run for run in runs if not (run.failure and run.failure.reason == "interrupted")]
    figures = [(run, None if run.failure else rate(run).fps) for run in every]
    failed = {run.cell.key for run, fps in figures if fps is None}
    sound = [(run, fps) for run, fps in figures if fps is not None and run.cell.key not in failed]
    blocks = {name: number for number, name in enumerate(dict.fromkeys(run.block for run in every))}
    rates = [
        TrialRate(
            cell=key_of(run),
            block=blocks[run.block],
            steps_in=behaviour.get(run.cell.backend, Behaviour()).steps_in,
            rate=fps,
        )
        for run, fps in sound
    ]
    return Session(
        cells={run.cell.key: run.cell for run, _ in sound if not run.arm},
        rates=tuple(rates),
        kernels={
            each.cell: each.steps_in for each, (run, _) in zip(rates, sound, strict=True) if run.arm
        },
    )


def key_of(run: Run) -> str:
    """The key of a run's cell in its session. A reference kernel with another number of threads is
    another kernel."""
    threads = backends.threads_of(run.facts) if run.arm else 0
    return f"{run.cell.key} ({threads} threads)" if threads else run.cell.key


def _task(cell: Cell) -> tuple[str, str, str]:
    return cell.env, cell.task, cell.kind
