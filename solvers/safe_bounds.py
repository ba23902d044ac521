"""Bounds that rounding cannot put on the wrong side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

EPSILON = np.finfo(np.float64).eps


@dataclass(frozen=True)
class LinearProgram:
    """min cost @ x + offset, row_lower <= matrix @ x <= row_upper, column_lower <= x <= column_upper."""

    cost: np.ndarray
    offset: float
    matrix: sp.csr_array
    row_lower: np.ndarray
    row_upper: np.ndarray
    column_lower: np.ndarray
    column_upper: np.ndarray
    integer: np.ndarray


class LinearRows:
    """Rows of a linear program, family by family."""

    def __init__(self, columns: int) -> None:
        self.columns, self.blocks = columns, list[sp.csr_array]()
        self.lower: list[np.ndarray] = []
        self.upper: list[np.ndarray] = []

    def add(self, row: np.ndarray, column: np.ndarray, value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Rows with these limits, counted from 0, and their entries."""
        kept = value != 0
        self.blocks.append(sp.csr_array((value[kept], (row[kept], column[kept])), shape=(lower.size, self.columns)))
        self.lower.append(lower)
        self.upper.append(upper)

    def matrix(self) -> sp.csr_array:
        """All of them."""
        return sp.csr_array(sp.vstack(self.blocks))


def dual_bound(program: LinearProgram, row_duals: np.ndarray) -> float:
    r"""Lower bound on a linear program from ANY row multipliers, however inexact.

    For every y and every feasible x,

    .. math:: c^T x = y^T A x + (c - A^T y)^T x \ge \sum_r \min_{b \in [l_r, u_r]} y_r b
              + \sum_j \min_{v \in [l_j, u_j]} (c - A^T y)_j v,

    so the bound needs no optimality of y, only finite limits where a multiplier is not zero. y is made a little smaller
    where that turns the sign of a column's :math:`c - A^T y` that has a cost and no upper limit. What floating-point
    summation can have lost - at most (terms + 2) units in the last place of the sum of magnitudes - is taken off.

    Notes
    -----
    Source: [Neumaier2004].
    """
    y = np.where((row_duals > 0) & np.isinf(program.row_lower), 0.0, row_duals)
    y = np.where((y < 0) & np.isinf(program.row_upper), 0.0, y)
    transposed = sp.csc_array(program.matrix).T
    reduced = program.cost - transposed @ y
    terms_per_column = np.diff(sp.csc_array(program.matrix).indptr) + 2
    doubt = EPSILON * (terms_per_column + 1) * (np.abs(program.cost) + abs(transposed) @ np.abs(y))
    open_above = np.isinf(program.column_upper) & (program.cost > 0)
    short = open_above & (reduced < doubt)
    if short.any():
        cost, doubts, signs = program.cost[short], doubt[short], reduced[short]
        y = max(0.0, 1 - float(((2 * doubts - signs) / np.maximum(cost - signs, doubts)).max())) * y
        reduced = program.cost - transposed @ y

    rows = _times_best(y, program.row_lower, program.row_upper)
    columns = _times_best(reduced, program.column_lower, program.column_upper)
    upper = np.where(open_above & (reduced >= doubt), program.column_lower, program.column_upper)
    reach = np.maximum(np.abs(program.column_lower), np.abs(upper))
    with np.errstate(invalid="ignore"):  # 0 doubt about an unbounded column is no doubt
        lost = np.where(doubt == 0, 0.0, doubt * reach)
    parts = np.concatenate([rows, columns, -lost, [program.offset]])
    total = float(parts.sum())
    return total - EPSILON * (parts.size + 2) * float(np.abs(parts).sum())


def _times_best(multiplier: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The least of multiplier * v over lower <= v <= upper, entry by entry."""
    with np.errstate(invalid="ignore"):
        product = np.where(multiplier > 0, multiplier * lower, multiplier * upper)
    return np.where(multiplier == 0, 0.0, product)


def least_eigenvalue(matrix: np.ndarray) -> float:
    """A number that the least eigenvalue of a symmetric matrix is certainly not below.

    The computed eigenvalue, lowered until a Cholesky factorisation of the shifted matrix runs through; what rounding can
    hide from the factorisation, some (size + 2) units in the last place of the trace, is taken off.

    Notes
    -----
    Source: [Rump2006].
    """
    size = matrix.shape[0]
    computed = float(np.linalg.eigvalsh(matrix)[0])
    margin = EPSILON * size * max(float(np.abs(matrix).sum(axis=1).max()), np.finfo(float).tiny)
    while True:
        shifted = matrix - (computed - margin) * np.eye(size)
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            margin *= 4
            continue
        hidden = 2 * EPSILON * (size + 2) * float(np.abs(np.diag(shifted)).sum())
        return computed - margin - hidden
