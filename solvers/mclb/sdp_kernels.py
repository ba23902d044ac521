"""Compiled inner loops of the semidefinite bound: sweeps over its rows, and the search for rows that are broken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray

F = FloatArray
Z = IntArray


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


@njit(cache=True, nogil=True)
def sweep(W: F, rows: Rows, v: F, step: float, times: int) -> None:
    """Bring W towards keeping every row, one row after another [Hildreth1957]; v are the multipliers, W and v change."""
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
def take_off(cost: F, rows: Rows, v: F) -> F:
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


@njit(cache=True, nogil=True)
def broken_triangles(X: F, right: float, least: float) -> tuple[Z, F]:
    """For each pair j < k the i of the most violated X_ij + X_ik - X_jk <= right, if by more than `least`; by how much."""
    size = X.shape[0]
    found, excess, count = np.empty((size * size // 2, 3), dtype=np.int64), np.empty(size * size // 2), 0
    for j in range(size):
        for k in range(j + 1, size):
            best, most = -1, least
            for i in range(size):
                over = X[i, j] + X[i, k] - X[j, k] - right
                if over > most and i != j and i != k:
                    best, most = i, over
            if best >= 0:
                found[count] = best, j, k
                excess[count] = most
                count += 1
    return found[:count], excess[:count]


@njit(cache=True, nogil=True)
def depth(total: int, square: float, length: float, nodes: int) -> float:
    """By how far b'Xb >= r (n - r) / n is broken, in units of |b|^2; r is the sum of b modulo n."""
    if length < 0.5:  # no vector at all
        return -np.inf
    rest = total % nodes
    return (rest * (nodes - rest) / nodes - square) / length


@njit(cache=True, nogil=True)
def deepen(X: F, b: Z, nodes: int, most: int) -> float:
    """Change whole numbers of b, one or two by one each, while the row of b is broken more deeply; changes b."""
    size = b.size
    y = X @ b.astype(np.float64)
    square, total, length = float((y * b).sum()), int(b.sum()), float((b * b).sum())
    best = depth(total, square, length, nodes)
    for _ in range(4 * size):  # rounding could make it go round
        at, also, up, by = -1, -1, 0, 0
        for k in range(size):  # one entry
            for d in (-1, 1):
                if abs(b[k] + d) <= most:
                    now = depth(total + d, square + 2 * d * y[k] + X[k, k], length + 2 * d * b[k] + 1, nodes)
                    if now > best + 1e-9:
                        best, at, up = now, k, d
        if at < 0:  # one unit from k to another
            for k in range(size):
                if b[k] == 0 or at >= 0:
                    continue
                d = -1 if b[k] > 0 else 1
                for q in range(size):
                    for e in (-1, 1):
                        if q == k or abs(b[q] + e) > most:
                            continue
                        changed = square + 2 * d * y[k] + X[k, k] + 2 * e * y[q] + X[q, q] + 2 * d * e * X[k, q]
                        longer = length + 2 * d * b[k] + 2 * e * b[q] + 2
                        now = depth(total + d + e, changed, longer, nodes)
                        if now > best + 1e-9:
                            best, at, up, also, by = now, k, d, q, e
        if at < 0:
            return best
        for k, d in ((at, up), (also, by)):
            if k >= 0:
                square += 2 * d * y[k] + X[k, k]
                length += 2 * d * b[k] + 1
                total += d
                b[k] += d
                for q in range(size):
                    y[q] += d * X[k, q]
    return best


@njit(cache=True, nogil=True)
def broken_vectors(
    X: F, nodes: int, starts: int, least: float, most: int, rng: np.random.Generator
) -> tuple[Z, F]:  # fmt: skip
    """Whole vectors whose row is broken by more than `least`, from random ones of few entries, and how deeply."""
    size = X.shape[0]
    found, by, count = np.zeros((starts, size), dtype=np.int64), np.empty(starts), 0
    for start in range(starts):
        b = found[count]
        b[:] = 0
        for _ in range(2 + int(rng.random() * (nodes + 1))):
            b[int(rng.random() * size)] = -1 if start % 2 == 1 and rng.random() < 0.5 else 1
        by[count] = deepen(X, b, nodes, most)
        if by[count] > least:
            count += 1
    return found[:count], by[:count]
