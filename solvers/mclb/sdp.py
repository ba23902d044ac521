r"""A semidefinite relaxation of MCLB, with anchors for the budget and whole vectors as cuts, by a dual method.

Let Z[k, l] = 1 iff k and l share a node, and X = Z - J/n. Then n h = <C, X> with C = Y'Y, and every placement has

.. math::

    (1) \quad X_{kk} = 1 - 1/n, \qquad
    (2) \quad X_{kl} \ge -1/n, \qquad
    (3) \quad X \succeq 0.

With a budget B, one anchor a_i stands for each node that holds state; it cannot leave. What has more state than B cannot
leave either: its load becomes its anchor's. For the others

.. math::

    (4) \quad X_{a_i a_j} = -1/n, \qquad
    (5) \quad \sum_k s_k X_{k a(q_k)} \ge (1 - 1/n) \sum_k s_k - B.

Give each row a whole number :math:`b_k`: the sums of b over the nodes are n whole numbers, and vary least where r of them
are one more than the others, so that

.. math::

    (6) \quad \sum_{k, l} b_k b_l X_{kl} \ge r (n - r) / n, \qquad r = \Big( \sum_k b_k \Big) \bmod n.

A vector of 1, -1, -1 is the triangle inequality :math:`X_{ij} + X_{ik} - X_{jk} \le 1 - 1/n`, ones for n + 1 key groups say
that two of them share a node. Where the relaxation has a key group half here and half there, longer vectors are what
cuts it off: without a budget they are worth little more than the triangles are, with anchors many times as much.

The dual multipliers v of (1), (2), (4)-(6) make up a matrix M = C - A*(v). As the trace of X is the same for every
placement, any multipliers give the bound b'v + trace(X) min(0, lambda_min(M)): exact arithmetic on whatever the
iteration ends with, not its convergence, is what makes it one.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import njit
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.mclb.bounds import window_bound
from keyshift.solvers.mclb.local_search import greedy_placement
from keyshift.solvers.safe_bounds import EPSILON
from keyshift.solvers.semidefinite import RESCALE, Rows, SemidefiniteAscent
from keyshift.solvers.threads import one_blas_thread

ROWS_SECONDS, STEP_SECONDS, SHORT_SECONDS = 1.5e-7, 2.5e-10, 0.2
"""Seconds of setting up for each pair of key groups and nodes, and of a step for each three; what is begun all the same."""


FIRST, STEPS = 3, 30
"""Rounds before the first with cuts; steps of a round."""
TRIANGLES, STARTS, ENTRY = 1_000, 1_200, 2
"""The most triangle inequalities added in a round; random vectors that a round begins from at most; their largest entry."""
PATIENCE, RISE = 40, 0.1
"""The bound ends when so many rounds together close less than this share of the gap."""


def sdp_bound(problem: MCLB, *, budget: Budget, seed: int = 0, triangles: bool = True) -> Answer:
    """The semidefinite bound, made safe: a bound, no assignment.

    Each step takes an eigendecomposition, O((p + n)^3). At a limit the best bound so far comes back.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Of the vectors that cuts are sought from.
    triangles : bool, default True
        Add violated triangle inequalities and their like (6); False is plain Frieze-Jerrum, with anchors.

    Notes
    -----
    Sources: [Frieze1997]; the alternating projections of [Wiegele2022] and, for the rows, [Hildreth1957]; the safe shift of
    [Jansson2007]. Among (6) are the cliques of [Chopra1993]. The anchors (4), (5) and the search for (6) are ours.
    """
    core = problem.core
    windows = window_bound(core.load.T, core.nodes)
    if core.nodes == 1:
        return Answer(None, 0.0)
    size = core.load.shape[0] + core.nodes
    if ROWS_SECONDS * size**2 + STEP_SECONDS * size**3 > budget.remaining + SHORT_SECONDS:
        said = f"{core.load.shape[0]} key groups and {core.nodes} nodes are too many for a step within the time"
        said = f"{said}: the bound is that of `combinatorial`"
        return Answer(None, windows / core.nodes, budget.ended("completed"), said)
    rise = RISE * (1.0 if math.isinf(budget.remaining) else 0.02)  # a limit is there to be used
    squares = deque(climb(semidefinite_dual(core), budget, triangles, seed, rise), maxlen=1)
    return Answer(None, max([windows, *squares]) / core.nodes, budget.why if budget.expired else "completed")


def semidefinite_dual(core: Core, reference: float | None = None, merged: bool = True) -> SemidefiniteDual:
    """The dual, in units of the sum of squares of some placement; unless `merged`, every key group has a row of its own."""
    order = np.argsort(-np.square(core.load).sum(axis=1), kind="stable")
    with one_blas_thread():
        known = core.squares(greedy_placement(core, order)) if reference is None else reference
        return SemidefiniteDual(core, known, merged)


def climb(
    dual: SemidefiniteDual, budget: Budget, cuts: bool = True, seed: int = 0, rise: float = RISE
) -> Iterator[float]:
    """Lead the dual up, with more and more cuts; after every few steps a safe lower bound on n times the imbalance.

    The best of them is what the dual keeps where it ends: once `PATIENCE` rounds close less than `rise` of the gap.
    """
    rng = np.random.default_rng(seed)
    best, kept, values = 0.0, (dual.v, dual.cuts), [-math.inf] * PATIENCE
    while not budget.expired:
        for done in range(0, STEPS, RESCALE):
            with one_blas_thread():
                dual.iterate(min(RESCALE, STEPS - done), budget)
            yield best
        with one_blas_thread():
            value = dual.safe_value()
        if value > best:
            best, kept = value, (dual.v.copy(), list(dual.cuts))
        values.append(best)
        # A reference that is not above the bound says nothing of what is open.
        unclosed = max(dual.reference - best, 1e-4 * best) if dual.reference > best else 0.1 * best
        if best - values[-1 - PATIENCE] <= rise * unclosed:
            break
        if cuts and len(values) > PATIENCE + FIRST and not budget.expired:
            dual.add_cuts(rng)
    dual.take(*kept)
    yield best


_pairs = functools.cache(np.triu_indices)  # cuts are many, and of few sizes


class Cut(NamedTuple):
    """One row (6): the rows of X that it counts, by how much each, and its entries."""

    members: IntArray
    counts: IntArray
    row: IntArray
    column: IntArray
    coefficient: FloatArray
    right: float

    @classmethod
    def of(cls, members: IntArray, counts: IntArray, nodes: int) -> Cut:
        a, b = _pairs(members.size)
        rest = int(counts.sum()) % nodes
        coefficient = counts[a] * counts[b] * np.where(a == b, 1.0, 2.0)
        return cls(members, counts, members[a], members[b], coefficient, rest * (nodes - rest) / nodes)

    @property
    def key(self) -> tuple[bytes, bytes]:
        """A key that tells two cuts apart: b and -b are the same cut."""
        return self.members.tobytes(), (self.counts * np.sign(self.counts[0])).tobytes()


@dataclass
class SemidefiniteDual(SemidefiniteAscent):
    """The multipliers, the rows they belong to, and the matrix X that both are led up by; see `SemidefiniteAscent`."""

    core: Core
    reference: float
    merged: bool = True
    cuts: list[Cut] = field(default_factory=list)

    def __post_init__(self) -> None:
        core, n = self.core, self.core.nodes
        self.anchors = np.flatnonzero(~core.interchangeable) if core.limited else np.zeros(0, dtype=np.int64)
        anchor = np.full(n + 1, -1, dtype=np.int64)
        anchor[self.anchors] = np.arange(self.anchors.size)
        of_key_group = anchor[core.current]  # -1: nothing to leave
        self.rounding = 1e-9 * (core.budget + core.forced if core.limited else 0.0)
        stuck = (of_key_group >= 0) & (core.state > core.budget + self.rounding) & self.merged
        free = np.flatnonzero(~stuck)
        p, self.size = free.size, free.size + self.anchors.size
        load = np.zeros((self.size, core.load.shape[1]))
        load[:p] = core.load[free]
        np.add.at(load, p + of_key_group[stuck], core.load[stuck])
        moment = load @ load.T
        total = float(np.trace(moment))
        # Any positive number is a valid unit; a reference of nothing must not make it one.
        self.unit = max(self.reference / self.size, 1e-9 * total / self.size) or 1.0
        self.cost = moment / self.unit
        self.diagonal = 1.0 - 1.0 / n
        self.trace = self.size * self.diagonal
        held = np.flatnonzero((core.state[free] > 0) & (of_key_group[free] >= 0))
        self._set_up_rows(p, held, core.state[free][held], p + of_key_group[free][held])
        self.X, self.step = np.zeros_like(moment), 1.0

    def _set_up_rows(self, p: int, held: IntArray, state: FloatArray, anchor: IntArray) -> None:
        """Rows (1), (2) and (4), place by place, and (5), in units of the mean state; no cut yet."""
        row, column = np.triu_indices(self.size)
        on_diagonal = row == column
        right = np.where(on_diagonal, self.diagonal, -1.0 / self.core.nodes)
        self.mean_state = float(state.mean()) if held.size else 1.0
        weight = state / self.mean_state
        first = np.arange(row.size + 1)
        self.budget_row = -1
        if held.size:
            self.budget_row = row.size
            least = self.diagonal * float(weight.sum()) - self.core.budget / self.mean_state
            row, column = np.append(row, held), np.append(column, anchor)
            right, first = np.append(right, least), np.append(first, row.size)
        coefficient = np.append(np.ones(on_diagonal.size), weight if held.size else [])
        free = np.append(on_diagonal | (row[: on_diagonal.size] >= p), [False] * (right.size - on_diagonal.size))
        self.base = (row, column, coefficient, np.diff(first), right, free)
        self.take(np.zeros(right.size), [])

    def take(self, v: FloatArray, cuts: list[Cut]) -> None:
        """Go on with these multipliers, those of the cuts last."""
        row, column, coefficient, lengths, right, free = self.base
        row = np.concatenate([row, *(c.row for c in cuts)])
        column = np.concatenate([column, *(c.column for c in cuts)])
        coefficient = np.concatenate([coefficient, *(c.coefficient for c in cuts)])
        first = np.concatenate([[0], np.cumsum(np.append(lengths, [c.row.size for c in cuts]).astype(np.int64))])
        right = np.append(right, [c.right for c in cuts])
        self.rows = Rows.of(first, row, column, coefficient, right, np.append(free, np.zeros(len(cuts), dtype=bool)))
        self.v, self.cuts = v, cuts

    @property
    def of_cuts(self) -> FloatArray:
        """The multipliers of the cuts."""
        return self.v[self.v.size - len(self.cuts) :]

    @property
    def price(self) -> float:
        """The multiplier of the budget."""
        return float(self.v[self.budget_row]) if self.budget_row >= 0 else 0.0

    def add_cuts(self, rng: np.random.Generator) -> None:
        """Take up the most broken of (6), let go of those that have come to weigh nothing."""
        n, least = self.core.nodes, 3e-3  # cuts that are violated by less are not added
        corners, by = broken_triangles(self.X, self.diagonal, 3 * least)
        corners = corners[np.argsort(-by, kind="stable")[:TRIANGLES]]
        found = [Cut.of(c, np.array([1, -1, -1]), n) for c in corners]
        vectors, _ = broken_vectors(self.X, n, min(12 * self.size, STARTS), least, ENTRY, rng)
        found += [Cut.of(np.flatnonzero(b), b[b != 0], n) for b in vectors]
        weighs = self.of_cuts > 1e-7
        cuts = {c.key: c for c, kept in zip(self.cuts, weighs, strict=True) if kept}
        new = {c.key: c for c in found if c.key not in cuts}
        others = self.v[: self.v.size - len(self.cuts)]
        self.take(np.concatenate([others, self.of_cuts[weighs], np.zeros(len(new))]), [*cuts.values(), *new.values()])

    def safe_value(self) -> float:
        """The bound that the present multipliers prove, in units of the sum of squares.

        For every placement <C, X> = <A*(v), X> + <M, X> >= b'v + trace(X) min(0, lambda_min(M)). Taken off: what rounding
        can have added to C and to M, entry by entry, as no entry of X exceeds 1; and to b'v.
        """
        lost = 0.0
        if self.budget_row >= 0:  # its right-hand side is a difference of larger numbers
            lost = abs(self.v[self.budget_row]) * (self.core.budget + self.core.forced) / self.mean_state
        terms = self.core.load.shape[1] + self.core.load.shape[0] + 16
        return max(0.0, self.least(terms, terms + len(self.cuts), lost) * self.unit * (1 - 8 * EPSILON))


# The compiled loops --------------------------------------------------------------------------------------------------


F = FloatArray
Z = IntArray


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
def deepen(X: F, b: Z, nodes: int, most: int) -> float:  # noqa: C901  # a compiled loop is one function
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
