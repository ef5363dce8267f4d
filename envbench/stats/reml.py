"""The block model's arithmetic: variances by restricted maximum likelihood (REML). Pure.

``block_model.py`` explains the model: value = cell + block + block×class + error. Values are
logarithms of rates, so standard deviations are shares. Blocks are fixed effects. Block×class and
error are random, with one variance per class each. Shapes: n values, p cells, G groups (the values
of one class in one block), C classes, and K variances: C of errors, then C of block×class (none
for a single class, whose block×class is part of the block).

Variances are fitted on the logarithmic scale by Fisher scoring (Searle, Casella and McCulloch,
Variance Components, 1992, section 8.3). A weak normal prior keeps them off zero, where a fit
would claim to know that classes react alike (Chung et al., Psychometrika 78, 2013). It
concerns only how variances relate to each other. So a common factor changes nothing, and with a
single class the result is the ordinary analysis of variance.

Robustness is Huber's. A value whose residual exceeds ``WINSOR`` standard errors is moved until it
equals them. This is the same as minimising Huber's loss (Huber and Ronchetti, Robust Statistics,
2009, sections 7.7 and 7.8). With m of n values moved, variances are divided by (1 - m/n)², and
degrees of freedom are multiplied by 1 - m/n. Nothing is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

WINSOR = 2.5  # standard errors
# Standard deviations of the prior, in units of the logarithm of a variance.
CLASSES_DIFFER = 1.4  # the error of a class from that of all classes: a factor of 2 in the spread
PARTS_DIFFER = 3.0  # block×class from error, in the same class: a factor of 4.5 in the spread
LEAST = -32.0  # the logarithm of the smallest variance: rates are never known to 1 in 10⁷
STEADY, MOST_STEPS = 1e-6, 60  # the last step is under 0.001 standard errors


@dataclass(frozen=True, kw_only=True)
class Design:
    """Which cell, block and class each value belongs to: numbers from 0, each of shape (n,).

    The values are sorted by block, then by class.
    """

    cell: Index
    block: Index
    kind: Index

    @cached_property
    def of_cell(self) -> Array:
        """One-hot, (n, p)."""
        return _one_hot(self.cell)

    @cached_property
    def of_kind(self) -> Array:
        """One-hot, (n, C)."""
        return _one_hot(self.kind)

    @cached_property
    def group(self) -> Index:
        new = (np.diff(self.block) != 0) | (np.diff(self.kind) != 0)
        return np.concatenate([[0], np.cumsum(new)])

    @cached_property
    def firsts(self) -> Index:
        """The first value of each group, (G,)."""
        return np.unique(self.group, return_index=True)[1]

    @cached_property
    def same_block(self) -> Array:
        return np.equal.outer(self.block, self.block).astype(float)

    @cached_property
    def same_group(self) -> Array:
        return np.equal.outer(self.group, self.group).astype(float)

    @cached_property
    def component(self) -> Index:
        """The connected component of each cell, (p,): cells of one block are connected."""
        meets = self.of_cell.T @ self.same_block @ self.of_cell > 0
        labels, before = np.arange(len(meets)), None
        while before is None or (labels != before).any():
            before, labels = labels, np.where(meets, labels, len(meets)).min(axis=1)
        return np.unique(labels, return_inverse=True)[1]

    @cached_property
    def joined(self) -> Array:
        """1 for two cells of one component, (p, p)."""
        return np.equal.outer(self.component, self.component).astype(float)

    @cached_property
    def degrees(self) -> int:
        """Degrees of freedom that are left when cells and blocks are fitted."""
        parts = len(set(self.component.tolist()))
        return len(self.cell) - int(self.cell.max() + 1) - int(self.block.max() + 1) + parts


@dataclass(frozen=True, kw_only=True)
class Fit:
    """``effects`` of cells (p,), with mean zero in each component; ``values`` as moved (n,).

    ``variances`` (K,); ``uncertainty`` (K, K), the covariance of their logarithms. ``parts``
    (K, p, p) is each variance's part of the covariance of ``effects``. ``growth`` (p, p) is added
    to their sum because the variances are estimates. Both are valid for differences within a
    component. ``kept`` is the share of values that were not moved.
    """

    effects: Array
    values: Array
    variances: Array
    uncertainty: Array
    parts: Array
    growth: Array
    kept: float


def fit(design: Design, values: Array) -> Fit:
    """Fit the model. ``design.degrees`` is at least 1."""
    classes = design.of_kind.shape[1]
    logs = _start(design, values, classes)
    prior = _prior(classes)
    moved = np.zeros_like(values)
    for _ in range(MOST_STEPS):
        solved = _Solved(design, np.exp(logs))
        moved = solved.outliers(values, moved)
        score, information = solved.derivatives(values - moved)
        # Below its peak the logarithmic scale is more curved than the information says.
        curvature = information + np.diag(np.maximum(-score, 0)) + prior
        uphill = score - prior @ logs
        step = np.linalg.solve(curvature, uphill)
        before, logs = logs, np.maximum(logs + np.clip(step, -2.0, 2.0), LEAST)
        if (logs - before) @ uphill < STEADY:  # also where all rates are equal
            break
    solved = _Solved(design, np.exp(logs))
    moved = solved.outliers(values, moved)
    information = solved.derivatives(values - moved)[1]
    share = float(np.mean(np.abs(moved) > 1e-6 * np.sqrt(solved.error)))
    kept = 1.0 - min(share, 0.5)  # more than half are never outliers
    uncertainty = np.asarray(np.linalg.inv(information + prior), dtype=np.float64)
    parts, growth = solved.covariance(uncertainty)
    return Fit(
        effects=solved.estimator @ (values - moved),
        values=values - moved,
        variances=np.exp(logs) / kept**2,
        uncertainty=uncertainty,
        parts=parts / kept**2,
        growth=growth / kept**2,
        kept=kept,
    )


def least_squares(design: Design, values: Array) -> Fit:
    """Fit cells and blocks where no degree of freedom is left: no variance can be estimated."""
    solved = _Solved(design, np.ones(1))
    cells = len(solved.estimator)
    return Fit(
        effects=solved.estimator @ values,
        values=values,
        variances=np.empty(0),
        uncertainty=np.eye(1),
        parts=np.full((1, cells, cells), np.nan),
        growth=np.zeros((cells, cells)),
        kept=1.0,
    )


def _start(design: Design, values: Array, classes: int) -> Array:
    """The same variance for all, from the median residual: outliers hardly affect it."""
    solved = _Solved(design, np.ones(1))
    free = np.diag(solved.projection)
    seen = free > 1e-9
    residuals = np.abs(solved.projection @ values)[seen] / np.sqrt(free[seen])
    scale = np.log(max((1.4826 * float(np.median(residuals))) ** 2, np.exp(LEAST)))
    return np.full(classes if classes == 1 else 2 * classes, scale)


def _prior(classes: int) -> Array:
    """The prior's precision: a matrix (K, K) whose rows add up to zero."""
    if classes == 1:
        return np.zeros((1, 1))
    between = (np.eye(classes) - 1 / classes) / CLASSES_DIFFER**2
    link = np.eye(classes) / PARTS_DIFFER**2
    return np.block([[between + link, -link], [-link, link]])


class _Solved:
    """The model solved for given variances (K,), or for one variance of all errors.

    With V the covariance of the values and X the design of blocks and cells, ``projection`` is
    P = V⁻¹ - V⁻¹X(X'V⁻¹X)⁻X'V⁻¹, (n, n), and ``estimator`` gives the effects of cells, (p, n).
    """

    def __init__(self, design: Design, variances: Array) -> None:
        self.design = design
        self.variances = variances
        classes = design.of_kind.shape[1]
        if len(variances) == 1:
            self.error, shared = np.full(len(design.cell), variances[0]), 0.0
        else:
            self.error, shared = variances[design.kind], variances[classes + design.kind]
        cells = design.of_cell
        precision = self._within_blocks(shared)
        crossed = precision @ cells
        normal = cells.T @ crossed
        joined = np.mean(1 / self.error) * design.joined  # invertible with it; same differences
        self.estimator = np.linalg.solve(normal + joined, crossed.T)
        precision -= crossed @ self.estimator
        self.projection = precision

    def _within_blocks(self, shared: Array | float) -> Array:
        """V⁻¹ with the blocks' effects removed. V is (error on the diagonal) + (shared within each
        group), so the formula of Sherman and Morrison inverts it."""
        design = self.design
        size = design.same_group.sum(axis=0)
        row_sums: Array = 1 / (self.error + size * shared)
        precision: Array = design.same_group * (-shared * row_sums / self.error)
        precision[np.diag_indices_from(precision)] += 1 / self.error
        totals = design.same_block @ row_sums
        removed = np.outer(row_sums, row_sums / totals)
        removed *= design.same_block
        precision -= removed
        return precision

    def outliers(self, values: Array, moved: Array) -> Array:
        """How far each value is moved (n,), from a first guess. Ten steps of Huber's algorithm."""
        free = np.clip(np.diag(self.projection), 0, None)
        most = WINSOR * self.error * np.sqrt(free)
        for _ in range(10):
            residuals = moved + self.error * (self.projection @ (values - moved))
            moved = residuals - np.clip(residuals, -most, most)
        return moved

    def derivatives(self, values: Array) -> tuple[Array, Array]:
        """The score (K,) and information (K, K) of the logarithms of the variances."""
        design, kinds = self.design, self.design.of_kind
        weighted = self.projection @ values
        change = kinds.T @ (weighted**2 - np.diag(self.projection))
        information = kinds.T @ self.projection**2 @ kinds
        if len(self.variances) > 1:
            of_group = kinds[design.firsts]
            columns = np.add.reduceat(self.projection, design.firsts, axis=1)
            groups = np.add.reduceat(columns, design.firsts, axis=0)
            sums = np.add.reduceat(weighted, design.firsts)
            change = np.concatenate([change, of_group.T @ (sums**2 - np.diag(groups))])
            mixed = kinds.T @ columns**2 @ of_group
            alike = of_group.T @ groups**2 @ of_group
            information = np.block([[information, mixed], [mixed.T, alike]])
        half = self.variances / 2
        return half * change, information * np.outer(half, self.variances)

    def covariance(self, uncertainty: Array) -> tuple[Array, Array]:
        """Each variance's part of the covariance of the effects, (K, p, p), and how much that
        covariance grows because the variances are estimates, (p, p): Kenward and Roger, Biometrics
        53, 1997."""
        kinds = self.design.of_kind.T[:, None, :]
        changes = self.estimator * kinds  # of the estimator with each variance, (K, p, n)
        if len(self.variances) > 1:
            sums = np.add.reduceat(self.estimator, self.design.firsts, axis=1)
            changes = np.concatenate([changes, sums[:, self.design.group] * kinds])
        changes *= self.variances[:, None, None]
        mixed = np.tensordot(uncertainty, changes @ self.projection, axes=1)
        growth = 2 * np.tensordot(changes, mixed, axes=([0, 2], [0, 2]))
        return changes @ self.estimator.T, growth


def _one_hot(index: Index) -> Array:
    return np.eye(int(index.max()) + 1)[index]
