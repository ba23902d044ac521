"""Bounds by semidefinite programs: any multipliers give a bound, and an ascent raises it."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from keyshift.models.answer import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.safe_bounds import EPSILON, least_eigenvalue

RESCALE, FACTOR, WORTH = 10, 1.25, 5.0
"""Every so many steps the step length is adjusted by a factor, so that `WORTH` times the change of X balances the
violation of the rows."""


class Rows(NamedTuple):
    """Rows <A_j, X> >= right[j], or = where `free`; row j has the entries first[j] .. first[j + 1] - 1.

    Each entry names one place (row, column) of the symmetric X, and counts it once; `norm` is |A_j|^2, where a place
    off the diagonal stands for two halves.
    """

    first: IntArray
    row: IntArray
    column: IntArray
    coefficient: FloatArray
    right: FloatArray
    free: BoolArray
    norm: FloatArray

    @classmethod
    def of(
        cls,
        first: IntArray,
        row: IntArray,
        column: IntArray,
        coefficient: FloatArray,
        right: FloatArray,
        free: BoolArray,
    ) -> Self:
        """Rows, with their norms computed."""
        squares = np.where(row == column, 1.0, 0.5) * np.square(coefficient)
        return cls(first, row, column, coefficient, right, free, np.add.reduceat(squares, first[:-1]))


class SemidefiniteAscent:
    """min <C, X> over all X without negative eigenvalues, of a known trace, within rows: an ascent over the multipliers v.

    Each step is one of the alternating direction method of multipliers on the dual [Wiegele2022]: with a step length t, the
    matrix X - t M is split into its part without negative eigenvalues, the next X, and the rest, t times the dual matrix; then
    `sweep` lets the multipliers bring the sum towards keeping the rows. Any multipliers bound the program (`least`).
    """

    cost: FloatArray
    trace: float
    rows: Rows
    v: FloatArray
    X: FloatArray
    step: float

    @classmethod
    def of(cls, cost: FloatArray, trace: float, rows: Rows) -> Self:
        """An ascent whose multipliers begin at 0."""
        made = cls()
        made.cost, made.trace, made.rows = cost, trace, rows
        made.v, made.X, made.step = np.zeros(rows.right.size), np.zeros_like(cost), 1.0
        return made

    @property
    def work(self) -> float:
        """Steps of effort, of some ten operations each, in a step of the ascent."""
        return self.cost.shape[0] ** 3 / CUBE + self.rows.row.size / ENTRIES

    def matrix(self) -> FloatArray:
        """M = C - A*(v)."""
        return np.asarray(take_off(self.cost, self.rows, self.v))

    def iterate(self, steps: int, budget: Budget) -> None:
        """Raise the multipliers; the step length balances how much the rows are violated with how much X still changes."""
        sweeps = 2
        for number in range(1, steps + 1):
            if budget.expired:
                break
            values, vectors = np.linalg.eigh(self.X - self.step * self.matrix())
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            positive = root @ root.T
            projected = positive.copy()
            sweep(projected, self.rows, self.v, self.step, sweeps)
            if number % RESCALE == 0:
                broken = WORTH * float(np.linalg.norm(projected - positive)) / (float(np.linalg.norm(projected)) or 1.0)
                changed = float(np.linalg.norm(projected - self.X)) / self.step
                if max(broken, changed) > 2 * min(broken, changed):
                    longer = self.step * (FACTOR if changed > broken else 1 / FACTOR)
                    self.step = min(max(longer, 1 / FARTHEST), FARTHEST)
            # Over-relaxation: the factor by which each step is lengthened; from 2 on there is no convergence.
            self.X = self.X + 1.6 * (projected - self.X)
            budget.spend(self.work)

    def least(self, terms: int, summands: int, lost: float = 0.0) -> float:
        """A number that no <C, X> is below, where no entry of X exceeds 1.

        <C, X> = <A*(v), X> + <M, X> >= b'v + trace(X) min(0, lambda_min(M)) [Jansson2007]. Taken off: what rounding can have
        added to C, in so many terms an entry, to M, in so many summands, and to b'v; `lost` is a further magnitude in the latter.
        """
        made, rows, size = self.matrix(), self.rows, np.abs(self.v)
        reach = float(size @ (np.add.reduceat(np.abs(rows.coefficient), rows.first[:-1]) + np.abs(rows.right))) + lost
        error_bound = EPSILON * (terms * float(np.abs(self.cost).sum()) + summands * reach)
        linear = math.fsum((self.v * rows.right).tolist())
        return linear + self.trace * min(0.0, least_eigenvalue(made)) - error_bound


FARTHEST = 1e30
"""Where no X keeps the rows the step length would go to 0: it stays within this factor of 1."""
CUBE, ENTRIES = 150.0, 5.0
"""By what the third power of the matrix' size, and the entries of its rows, are divided for `work`: measured."""


@njit(cache=True, nogil=True)
def sweep(W: FloatArray, rows: Rows, v: FloatArray, step: float, times: int) -> None:
    """Move W towards every row, one row after another [Hildreth1957]; v are the multipliers, W and v change."""
    for _ in range(times):
        for j in range(rows.right.size):
            here = 0.0
            for e in range(rows.first[j], rows.first[j + 1]):
                here += rows.coefficient[e] * W[rows.row[e], rows.column[e]]
            rise = (rows.right[j] - here) / (step * rows.norm[j])
            if not rows.free[j] and v[j] + rise < 0.0:
                rise = -v[j]
            if rise == 0.0:
                continue
            v[j] += rise
            for e in range(rows.first[j], rows.first[j + 1]):
                k, q = rows.row[e], rows.column[e]
                added = step * rise * rows.coefficient[e]
                W[k, q] += added if k == q else 0.5 * added
                W[q, k] = W[k, q]


@njit(cache=True, nogil=True)
def take_off(cost: FloatArray, rows: Rows, v: FloatArray) -> FloatArray:
    """M = C - sum_j v_j A_j."""
    made = cost.copy()
    for j in range(v.size):
        if v[j] != 0.0:
            for e in range(rows.first[j], rows.first[j + 1]):
                k, q = rows.row[e], rows.column[e]
                taken = v[j] * rows.coefficient[e]
                made[k, q] -= taken if k == q else 0.5 * taken
                made[q, k] = made[k, q]
    return made
