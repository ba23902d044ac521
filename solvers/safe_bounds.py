"""Linear programs: bounds that rounding cannot put on the wrong side, and units that suit a solver's tolerances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
    error_bound = EPSILON * (terms_per_column + 1) * (np.abs(program.cost) + abs(transposed) @ np.abs(y))
    open_above = np.isinf(program.column_upper) & (program.cost > 0)
    short = open_above & (reduced < error_bound)
    if short.any():
        cost, error_bounds, signs = program.cost[short], error_bound[short], reduced[short]
        y = max(0.0, 1 - float(((2 * error_bounds - signs) / np.maximum(cost - signs, error_bounds)).max())) * y
        reduced = program.cost - transposed @ y

    rows = _times_best(y, program.row_lower, program.row_upper)
    columns = _times_best(reduced, program.column_lower, program.column_upper)
    upper = np.where(open_above & (reduced >= error_bound), program.column_lower, program.column_upper)
    reach = np.maximum(np.abs(program.column_lower), np.abs(upper))
    with np.errstate(invalid="ignore"):  # an error of 0 on an unbounded column is none
        lost = np.where(error_bound == 0, 0.0, error_bound * reach)
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


# Units for a solver with absolute tolerances: rows, columns and objective of a program, scaled by powers of two -------


COMFORT = 7
"""Largest coefficients of rows and columns between 2**-COMFORT and 2**COMFORT need no scaling."""


@dataclass(frozen=True)
class Units:
    """The worth of one scaled unit: powers of two, all 1 where nothing was scaled.

    Attributes
    ----------
    objective : float
    rows : ndarray, shape (rows,)
        Factors that the rows were multiplied by.
    columns : ndarray, shape (columns,)
        What one unit of each scaled column is worth; integer columns keep their unit.
    """

    objective: float
    rows: np.ndarray
    columns: np.ndarray

    def values(self, scaled: np.ndarray) -> np.ndarray:
        """Column values of the program from those of the scaled one."""
        return np.asarray(scaled * self.columns)

    def start(self, values: np.ndarray) -> np.ndarray:
        """Column values of the scaled program from those of the program."""
        return np.asarray(values / self.columns)

    def row_duals(self, scaled: np.ndarray) -> np.ndarray:
        """Row multipliers of the program from those of the scaled one."""
        return np.asarray(scaled * self.rows * self.objective)


def in_units(program: LinearProgram) -> tuple[LinearProgram, Units]:
    """The same program with the largest coefficient of every row near 1, and of the objective near 2**COMFORT.

    HiGHS calls a row kept, a reduced cost zero and two objectives equal within fixed amounts such as 1e-7. State in bytes or in
    fractions of a tuple would make these amounts nonsense in one direction or the other. A power of two changes no digit of any
    number, so the scaled program is the same program; numbers near 1 already are left as they are.

    Rows with integer columns, whose unit is fixed, are measured by these, and by their sides where other columns may
    have to reach them; then continuous columns by such rows, in no unit larger than they can be themselves; rows of
    continuous columns alone by those of known unit, columns of no known unit - a sum of others - by these rows, and the
    objective by its own. A number that ended far below 1 in a row of others near 1 would be taken for nothing: HiGHS
    drops what is below 1e-9. An objective as large as is comfortable makes the least of what HiGHS leaves unexplored, all
    that is a fixed amount below its incumbent.
    """
    matrix = sp.csr_array(program.matrix, dtype=np.float64)
    row, column = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices
    rows, columns = _row_and_column_units(program, matrix, row)
    scaled = sp.csr_array((matrix.data * rows[row] * columns[column], column, matrix.indptr), shape=matrix.shape)
    cost = program.cost * columns
    largest = float(np.abs(cost).max(initial=0.0))
    objective = math.ldexp(1.0, COMFORT - math.frexp(largest)[1]) if largest > 0 else 1.0
    made = replace(
        program,
        cost=cost * objective,
        offset=program.offset * objective,
        matrix=scaled,
        row_lower=program.row_lower * rows,
        row_upper=program.row_upper * rows,
        column_lower=program.column_lower / columns,
        column_upper=program.column_upper / columns,
    )
    return made, Units(1.0 / objective, rows, columns)


def _row_and_column_units(
    program: LinearProgram, matrix: sp.csr_array, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of the rows, and the worth of a unit of each scaled column."""
    (n_rows, n_columns), column, size = matrix.shape, matrix.indices, np.abs(matrix.data)
    whole = program.integer.astype(bool)
    if whole.all():
        return _factor(_largest(size, row, n_rows)), np.ones(n_columns)
    of_integers = _largest(np.where(whole[column], size, 0.0), row, n_rows)
    mixed = (of_integers > 0) & (_largest(np.where(whole[column], 0.0, size), row, n_rows) > 0)
    of_integers = np.where(mixed, np.maximum(of_integers, _sides(program)), of_integers)
    some = bool(of_integers.any())
    anchored, unit = (of_integers > 0, _least) if some else (np.ones(n_rows, dtype=bool), _largest)
    rows = _factor(np.where(of_integers > 0, of_integers, np.where(anchored, _largest(size, row, n_rows), 0.0)))
    of_rows = np.where(whole, 1.0, unit(np.where(anchored[row], rows[row] * size, 0.0), column, n_columns))
    known, least = of_rows > 0, _of_ranges(program) if some else 0.0
    columns = np.where(whole, 1.0, _factor(np.where(known, np.maximum(of_rows, least), 0.0)))
    size = size * rows[row] * columns[column]
    by_known = _largest(np.where(known[column], size, 0.0), row, n_rows)
    last = np.where(anchored, 1.0, _factor(np.where(by_known > 0, by_known, _largest(size, row, n_rows))))
    rest = np.where(known, 1.0, _factor(np.maximum(unit(size * last[row], column, n_columns), least)))
    largest = _largest(size * last[row] * rest[column], row, n_rows)
    return rows * last * np.where(some & (largest > 1), _factor(largest), 1.0), columns * rest


def without_small(program: LinearProgram, least: float = 1e-9) -> LinearProgram:
    """The program without coefficients up to `least`, which a solver drops, and its rows as much wider as these can help.

    What keeps the rows of the program keeps these: a bound, or a proof that nothing does, holds for both.
    """
    matrix = sp.csr_array(program.matrix)
    small = (np.abs(matrix.data) <= least) & (matrix.data != 0)
    if not small.any():
        return program
    row, column = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[small], matrix.indices[small]
    ends = matrix.data[small] * np.array([program.column_lower[column], program.column_upper[column]])
    most, fewest = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[0])
    np.add.at(most, row, ends.max(axis=0))
    np.add.at(fewest, row, ends.min(axis=0))
    kept = matrix.copy()
    kept.data[small] = 0.0
    kept.eliminate_zeros()
    return replace(program, matrix=kept, row_lower=program.row_lower - most, row_upper=program.row_upper - fewest)


def _largest(sizes: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """The largest of the sizes at each of `count` places; 0 where there is none."""
    largest = np.zeros(count)
    np.maximum.at(largest, places, sizes)
    return largest


def _least(sizes: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """The least of the sizes above 0 at each of `count` places; 0 where there is none."""
    least = np.full(count, np.inf)
    np.minimum.at(least, places[sizes > 0], sizes[sizes > 0])
    return np.where(np.isinf(least), 0.0, least)


def _of_ranges(program: LinearProgram) -> np.ndarray:
    """One over the largest value of every column, 0 without limits: in a larger unit its range would lie within tolerances."""
    most = np.abs(np.array([program.column_lower, program.column_upper], dtype=np.float64)).max(axis=0)
    return np.asarray(np.divide(1.0, most, out=np.zeros_like(most), where=most > 0))


def _sides(program: LinearProgram) -> np.ndarray:
    """The larger finite side of every row."""
    both = np.abs(np.array([program.row_lower, program.row_upper], dtype=np.float64))
    return np.asarray(np.where(np.isfinite(both), both, 0.0).max(axis=0))


def _factor(largest: np.ndarray) -> np.ndarray:
    """The power of two that brings each number near 1; 1 where it is near enough, or zero."""
    _, exponent = np.frexp(largest)
    near = (largest == 0) | (np.abs(exponent) <= COMFORT)
    return np.where(near, 1.0, np.ldexp(1.0, np.where(near, 0, 1 - exponent)))
