"""Compare cells that were measured in alternating blocks. Pure.

The trials of a block alternate, so they share the speed of the machine. Blocks differ in it. The
model of a trial's rate is

    log rate = cell + block + block×class + error

*cell* is what we want to know. *block* is the machine's speed in that block. Nothing is assumed
about it. *block×class* is how one class of backends (``Behaviour.steps_in``) reacted differently
from the others in that block, for example to a lost core. *error* is what remains, above all the
difference between processes. Both are random, and each class has a variance of its own for each.
They are estimated from the measured rates (``reml.py``). The design may be incomplete: a block
holds some of the cells. Source: the recovery of treatment effects from incomplete blocks with
mixed models, e.g. Searle, Casella and McCulloch, Variance Components (1992), chapter 8.

The ratio of two cells of one class does not contain the variance of block×class where they share
blocks. All intervals are Student's t with Satterthwaite's degrees of freedom (Giesbrecht and Burns,
Biometrics 41, 1985). Within a class these are mainly the degrees of its errors, across classes
mainly those of the blocks. Standard errors contain that the variances are estimates (Kenward and
Roger, Biometrics 53, 1997).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from envbench.stats.intervals import TWO_SIDED, Interval

if TYPE_CHECKING:  # numpy is imported where a model is fitted
    import numpy as np
    from numpy.typing import NDArray

    from envbench.stats.reml import Array, Design, Fit

LARGEST = 700.0  # the logarithm of a rate or a ratio, in absolute value
BLOCKS_FOR_INTERVAL = 2  # of each cell; one process may be slow for its whole life


@dataclass(frozen=True, kw_only=True)
class TrialRate:
    """The rate of one trial of a cell in a block, such as its frames per second. ``steps_in`` is
    the cell's class."""

    cell: str
    block: int
    steps_in: str
    rate: float


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The rate of a cell divided by that of another, as if both were measured at the same time.

    ``error`` is the standard error of the ratio's logarithm and ``degrees`` its degrees of freedom.
    ``interval`` is the 95 % interval. All three are None where there are too few blocks.
    """

    ratio: float
    error: float | None = None
    degrees: float | None = None
    interval: Interval | None = None

    @property
    def inverse(self) -> Ratio:
        limits = None if self.interval is None else (1 / self.interval[1], 1 / self.interval[0])
        return replace(self, ratio=1 / self.ratio, interval=limits)


@dataclass(frozen=True, kw_only=True)
class Adjusted:
    """The rate of a cell, as if all connected cells were measured at the same time.

    It is a geometric mean. ``error`` is the quasi-standard error of its logarithm: the squares of
    two cells' errors add up to about the square of their ratio's error (Firth and de Menezes,
    Biometrika 91, 2004). ``interval`` compares cells with each other in the same way. It says
    nothing about another hour. Both are None where there are too few blocks.
    """

    rate: float
    error: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs of cells by their places. ``logs`` are the cells' adjusted logarithms, (p,).

    The others are (p, p): is there a ratio, and its standard error, degrees of freedom and
    half-width (NaN where unknown)."""

    logs: Array
    joined: NDArray[np.bool_]
    errors: Array
    degrees: Array
    halves: Array

    def ratio(self, one: int, other: int) -> Ratio | None:
        if not self.joined[one, other]:
            return None
        log, half = float(self.logs[one] - self.logs[other]), float(self.halves[one, other])
        if math.isnan(half):
            return Ratio(ratio=_exp(log))
        return Ratio(
            ratio=_exp(log),
            error=float(self.errors[one, other]),
            degrees=float(self.degrees[one, other]),
            interval=_limits(log, half),
        )


@dataclass(frozen=True, kw_only=True)
class BlockModel:
    """The fitted model.

    ``cells`` are in the order in which they first appeared. ``adjusted`` holds each cell that
    shares a block with another one. ``pairs`` holds the logarithms of ratios.

    ``error_spread`` and ``block_spread`` are the standard deviations of the error and of
    block×class by class, as shares (0.02 is 2 %). They are empty where nothing can be estimated;
    ``block_spread`` also with a single class. With two classes, only the sum of the squares of
    ``block_spread`` is determined by the rates. ``degrees`` are the degrees of freedom of all
    errors.
    """

    cells: tuple[str, ...]
    adjusted: Mapping[str, Adjusted]
    pairs: Pairs | None
    error_spread: Mapping[str, float]
    block_spread: Mapping[str, float]
    degrees: int

    def ratio(self, cell: str, to: str) -> Ratio | None:
        """Return the ratio of two cells in either order; None where nothing connects them."""
        one, other = self._places.get(cell), self._places.get(to)
        if self.pairs is None or one is None or other is None or one == other:
            return None
        found = self.pairs.ratio(min(one, other), max(one, other))
        return found.inverse if found and one > other else found

    @cached_property
    def ratios(self) -> dict[tuple[str, str], Ratio]:
        """Each pair of cells that a chain of blocks connects, once: (cell, to)."""
        every = ((pair, self.ratio(*pair)) for pair in combinations(self.cells, 2))
        return {pair: ratio for pair, ratio in every if ratio}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {cell: place for place, cell in enumerate(self.cells)}


def fit(trials: Sequence[TrialRate]) -> BlockModel:
    """Fit the model to at least one trial.

    A cell may have several trials in a block. Raises ValueError where a rate is not a positive
    finite number, or a cell has two classes.
    """
    from threadpoolctl import threadpool_limits

    from envbench.stats import reml

    if not trials or not all(0 < each.rate < math.inf for each in trials):
        raise ValueError("the block model needs positive finite rates")
    cells = list(dict.fromkeys(each.cell for each in trials))
    classes = list(dict.fromkeys(each.steps_in for each in trials))
    if len({(each.cell, each.steps_in) for each in trials}) > len(cells):
        raise ValueError("a cell has two classes")
    design, values = _read(trials, cells, classes)
    with threadpool_limits(1):  # the matrices are small: several threads only wait for each other
        if design.degrees > 0:
            fitted = reml.fit(design, values)
        else:
            fitted = reml.least_squares(design, values)
        return _model(design, fitted, cells, classes)


def _read(
    trials: Sequence[TrialRate], cells: Sequence[str], classes: Sequence[str]
) -> tuple[Design, Array]:
    import numpy as np

    from envbench.stats import reml

    blocks = {name: place for place, name in enumerate(sorted({each.block for each in trials}))}
    places = [{name: place for place, name in enumerate(names)} for names in (cells, classes)]
    rows = sorted(
        (blocks[each.block], places[1][each.steps_in], places[0][each.cell], math.log(each.rate))
        for each in trials
    )
    block, kind, cell, values = zip(*rows, strict=True)
    design = reml.Design(cell=np.array(cell), block=np.array(block), kind=np.array(kind))
    return design, np.array(values)


def _model(design: Design, fit: Fit, cells: Sequence[str], classes: Sequence[str]) -> BlockModel:
    logs = _levels(design, fit)
    errors, degrees, halves = _of_pairs(design, fit)
    spreads = [math.sqrt(each) for each in fit.variances.tolist()]
    return BlockModel(
        cells=tuple(cells),
        adjusted=_adjusted(design, cells, logs, errors, halves),
        pairs=Pairs(
            logs=logs, joined=design.joined > 0, errors=errors, degrees=degrees, halves=halves
        ),
        error_spread=dict(zip(classes, spreads, strict=False)),
        block_spread=dict(zip(classes, spreads[len(classes) :], strict=False)),
        degrees=design.degrees,
    )


def _levels(design: Design, fit: Fit) -> Array:
    """The adjusted logarithms (p,): the mean of a component's values stays the same."""
    import numpy as np

    residuals = fit.values - fit.effects[design.cell]
    component = design.component[design.cell]
    means = np.bincount(component, residuals) / np.bincount(component)
    return np.asarray(fit.effects + means[design.component])


def _of_pairs(design: Design, fit: Fit) -> tuple[Array, Array, Array]:
    """Standard errors, degrees of freedom and half-widths of all pairs, (p, p); NaN if unknown."""
    import numpy as np
    from scipy.special import stdtrit

    diagonals = np.diagonal(fit.parts, axis1=1, axis2=2)
    parts = diagonals[:, :, None] + diagonals[:, None, :] - 2 * fit.parts
    blocks = np.unique(np.stack([design.cell, design.block]), axis=1)[0]
    enough = np.bincount(blocks) >= BLOCKS_FOR_INTERVAL
    known = np.outer(enough, enough) & (design.joined > 0) & ~np.eye(len(enough), dtype=bool)
    variance = np.where(known, parts.sum(axis=0), np.nan)
    spread = np.einsum("kij,kl,lij->ij", parts, fit.uncertainty, parts, optimize=True)
    degrees = np.maximum(fit.kept * 2 * variance**2 / spread, 1.0)
    growth = np.diagonal(fit.growth)
    errors = np.sqrt(variance + growth[:, None] + growth - 2 * fit.growth)
    return errors, degrees, stdtrit(degrees, TWO_SIDED) * errors


def _adjusted(
    design: Design, cells: Sequence[str], logs: Array, errors: Array, halves: Array
) -> dict[str, Adjusted]:
    connected = (design.joined.sum(axis=1) > 1).tolist()
    columns = [each.tolist() for each in (logs, quasi(errors), quasi(halves))]
    found = {}
    for cell, member, log, error, half in zip(cells, connected, *columns, strict=True):
        if member and math.isnan(half):
            found[cell] = Adjusted(rate=_exp(log))
        elif member:
            found[cell] = Adjusted(rate=_exp(log), error=error, interval=_limits(log, half))
    return found


def _limits(log: float, half: float) -> Interval:
    return _exp(log - half), _exp(log + half)


def _exp(log: float) -> float:
    """Finite and positive, even for rates that differ by hundreds of orders of magnitude."""
    return math.exp(min(max(log, -LARGEST), LARGEST))


def quasi(errors: Array) -> Array:
    """Return q (p,) with q_i² + q_j² close to e_ij² for the given errors of pairs e (p, p).

    The sum of the squares of log((q_i² + q_j²) / e_ij²) is the least possible (Firth and de
    Menezes, Biometrika 91, 2004), found by Gauss and Newton's method. NaN marks a pair without an
    error, and the result of a cell without any pair.
    """
    import numpy as np

    known = np.isfinite(errors)
    squares = np.where(known, np.nan_to_num(errors) ** 2, 1.0)
    pairs = known.sum(axis=1)
    logs = np.log((squares * known).sum(axis=1) / np.maximum(pairs, 1) / 2 + (pairs == 0))
    for _ in range(50):
        single = np.exp(logs)
        total = single[:, None] + single
        slopes = known * single[:, None] / total
        missing = known * np.log(squares / total)
        normal = slopes * slopes.T + np.diag((slopes**2).sum(axis=1) + 1e-9)
        step = np.linalg.solve(normal, (slopes * missing).sum(axis=1))
        logs += np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-6:
            break
    return np.where(pairs > 0, np.exp(logs / 2), np.nan)
