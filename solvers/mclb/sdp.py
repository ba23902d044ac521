r"""The Frieze-Jerrum semidefinite relaxation of MCLB, with anchors for the budget, by a dual first-order method.

Let Z[k, l] = 1 iff k and l share a node, and X = Z - J/n. Then n h = <C, X> with C = Y'Y, and every placement has

.. math::

    (1) \quad X_{kk} = 1 - 1/n, \qquad
    (2) \quad X_{kl} \ge -1/n, \qquad
    (3) \quad X \succeq 0, \qquad
    (4) \quad X_{ij} + X_{ik} - X_{jk} \le 1 - 1/n.

With a budget B, one anchor a_i without load stands for each node that holds state; it cannot leave:

.. math::

    (5) \quad X_{a_i a_j} = -1/n, \qquad
    (6) \quad \sum_k s_k X_{k a(q_k)} \ge (1 - 1/n) \sum_k s_k - B.

The dual multipliers of (1), (2), (4)-(6) make up a matrix M = C - A*(v). As the trace of X is the same for every
placement, any multipliers give the bound b'v + trace(X) min(0, lambda_min(M)): exact arithmetic on whatever the
iteration ends with, not its convergence, is what makes it one.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg as sl
from scipy.optimize import fmin_l_bfgs_b

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.mclb.problem import MCLB, Core
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.mclb import local_search_kernels as search_kernels
from keyshift.solvers.mclb.bounds import window_bound
from keyshift.solvers.safe_bounds import EPSILON
from keyshift.solvers.threads import one_blas_thread


@dataclass(frozen=True)
class SemidefiniteSettings:
    """Tuning numbers of the semidefinite bound.

    Attributes
    ----------
    smoothings : tuple of float
        Widths of the smoothed dual, from coarse to fine, in units of the reference value per key group.
    steps : int
        Steps of L-BFGS at each width.
    cuts : int
        Triangle inequalities added at a time.
    largest : int
        Up to this many rows the matrix is worth its eigenvalues, which `branch_and_bound` asks for.
    """

    smoothings: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4)
    steps: int = 400
    cuts: int = 2_000
    largest: int = 700


DEFAULTS = SemidefiniteSettings()
"""The settings of every bound that is not handed others."""


def sdp_bound(problem: MCLB, *, budget: Budget, seed: int = 0, triangles: bool = True) -> Answer:
    """The semidefinite bound, made safe: a bound, no assignment.

    Each step takes an eigendecomposition, O((p + n)^3). At a limit the best bound so far comes back.

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Unused: no random numbers.
    triangles : bool, default True
        Add violated triangle inequalities (4); False is plain Frieze-Jerrum.

    Notes
    -----
    Sources: [Frieze1997]; the smoothed dual
    of Malick, Povh, Rendl, Wiegele, *Regularization methods for semidefinite programming*, 2009, and Krislock, Malick,
    Roupin, *BiqCrunch*, 2017; the safe shift of Jansson, Chaykin, Keil, *Rigorous error bounds for the optimal value in
    semidefinite programming*, 2007. The anchors (5), (6) are ours.
    """
    core = problem.core
    windows = window_bound(core.load.T, core.nodes)
    if core.nodes == 1:
        return Answer(None, 0.0)
    squares = semidefinite_squares(core, budget, triangles=triangles)
    return Answer(None, max(squares, windows) / core.nodes, budget.why if budget.expired else "completed")


def semidefinite_squares(
    core: Core, budget: Budget, *, reference: float | None = None, triangles: bool = True, enough: float = math.inf
) -> float:
    """A safe lower bound on n times the imbalance.

    Parameters
    ----------
    core : Core
    budget : Budget
    reference : float, optional
        The sum of squares of some placement, which sets the scale.
    triangles : bool
    enough : float
        Stop once the bound is as high as that.
    """
    with one_blas_thread():
        dual = SemidefiniteDual(core, reference if reference is not None else _quick_value(core))
        return _climb(dual, budget, triangles, enough)


def semidefinite_multipliers(core: Core, budget: Budget, reference: float) -> SemidefiniteDual:
    """The dual where it ends: its multipliers, its triangles and its matrix prove a bound."""
    with one_blas_thread():
        dual = SemidefiniteDual(core, reference)
        _climb(dual, budget, True, math.inf)
        return dual


def _climb(dual: SemidefiniteDual, budget: Budget, triangles: bool, enough: float) -> float:
    """Lead the dual up, finer and finer, with more and more triangles; the best safe value on the way."""
    best = 0.0
    for stage, smoothing in enumerate(dual.settings.smoothings):
        for _ in range(6):
            if budget.expired:
                return best
            dual.ascend(smoothing, dual.settings.steps, budget)
            best = max(best, dual.safe_value())
            if budget.expired or best >= enough:
                return best
            if not triangles or stage == 0 or dual.add_triangles(smoothing, budget) == 0:
                break
    return best


def _quick_value(core: Core) -> float:
    order = np.argsort(-np.square(core.load).sum(axis=1), kind="stable")
    placed = search_kernels.place_greedily(core.load, order, core.nodes, core.state, core.current, core.budget)
    return core.squares(placed)


@dataclass
class SemidefiniteDual:
    """The multipliers, and the smoothed dual function that they are led up on."""

    core: Core
    reference: float
    triangles: IntArray = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    settings: SemidefiniteSettings = DEFAULTS

    def __post_init__(self) -> None:
        core = self.core
        n = core.nodes
        self.anchors = np.flatnonzero(~core.interchangeable) if core.limited else np.zeros(0, dtype=np.int64)
        p, extra = core.load.shape[0], self.anchors.size
        self.size = size = p + extra
        moment = np.zeros((size, size))
        moment[:p, :p] = core.load @ core.load.T
        total = float(np.trace(moment))
        # Any positive number is a valid unit; a reference of nothing must not make it one.
        self.unit = max(self.reference / size, 1e-9 * total / size) or 1.0
        self.cost = moment / self.unit
        self.diagonal = 1.0 - 1.0 / n
        self.trace = size * self.diagonal
        self.upper = np.triu_indices(size, 1)
        self.pairs = self.upper[0].size
        self.pair = np.zeros((size, size), dtype=np.int64)
        self.pair[self.upper] = np.arange(self.pairs)
        self.pair += self.pair.T
        self._set_up_budget(p)
        self.v = np.zeros(size + self.pairs + 1)

    def _set_up_budget(self, p: int) -> None:
        """Row (6): its pairs, their weights and right-hand side, in units of the mean state; (5) frees multipliers."""
        core = self.core
        self.held = np.zeros(0, dtype=np.int64)
        self.weight, self.least = np.zeros(0), 0.0
        self.fixed = np.zeros(self.pairs, dtype=bool)
        if self.anchors.size:
            where = np.full(core.nodes, -1)
            where[self.anchors] = p + np.arange(self.anchors.size)
            costly = np.flatnonzero((core.state > 0) & (core.current >= 0))
            self.held = self.pair[costly, where[core.current[costly]]]
            mean = float(core.state[costly].mean())
            self.weight = core.state[costly] / mean
            self.least = self.diagonal * float(self.weight.sum()) - core.budget / mean
            a, b = np.triu_indices(self.anchors.size, 1)
            self.fixed[self.pair[p + a, p + b]] = True

    def split(self, v: FloatArray) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        """The multipliers of the diagonal, the pairs, the budget and the triangles."""
        size, pairs = self.size, self.pairs
        return v[:size], v[size : size + pairs], float(v[size + pairs]), v[size + pairs + 1 :]

    def on_pairs(self, v: FloatArray) -> FloatArray:
        """What A*(v) puts on each pair k < l."""
        _, of_pair, of_budget, of_triangle = self.split(v)
        total = of_pair.copy()
        if self.held.size:
            np.add.at(total, self.held, of_budget * self.weight)
        if of_triangle.size:
            ij, ik, jk = self.cut_pairs
            total -= np.bincount(ij, of_triangle, self.pairs) + np.bincount(ik, of_triangle, self.pairs)
            total += np.bincount(jk, of_triangle, self.pairs)
        return total

    def matrix(self, v: FloatArray) -> FloatArray:
        """M = C - A*(v)."""
        half = self.on_pairs(v) / 2
        made = self.cost.copy()
        made[self.upper] -= half
        made.T[self.upper] -= half
        made[np.diag_indices(self.size)] -= v[: self.size]
        return made

    def linear(self, v: FloatArray) -> float:
        """Evaluate b'v."""
        diagonal, of_pair, of_budget, of_triangle = self.split(v)
        parts = [self.diagonal * diagonal, -of_pair / self.core.nodes, -self.diagonal * of_triangle]
        return math.fsum([*np.concatenate(parts).tolist(), of_budget * self.least])

    def smoothed(self, v: FloatArray, smoothing: float) -> tuple[float, FloatArray]:
        """Minus the smoothed dual, b'v - |M_-|^2 / (2 smoothing), and minus its gradient; X = -M_- / smoothing."""
        values, vectors = sl.eigh(self.matrix(v), driver="evd", check_finite=False)
        count = int(np.searchsorted(values, 0.0))
        root = vectors[:, :count] * np.sqrt(-values[:count] / smoothing)
        self.X = X = root @ root.T
        on_pair = X[self.upper]
        slope = [self.diagonal - np.diag(X), -1.0 / self.core.nodes - on_pair]
        slope.append(np.array([self.least - float(self.weight @ on_pair[self.held])]))
        if self.triangles.size:
            ij, ik, jk = self.cut_pairs
            slope.append(on_pair[ij] + on_pair[ik] - on_pair[jk] - self.diagonal)
        value = self.linear(v) - float(np.square(values[:count]).sum()) / (2 * smoothing)
        return -value, -np.concatenate(slope)

    @property
    def cut_pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        """Pairs (i, j), (i, k), (j, k) of the triangles."""
        i, j, k = self.triangles.T
        return self.pair[i, j], self.pair[i, k], self.pair[j, k]

    def ascend(self, smoothing: float, steps: int, budget: Budget) -> None:
        """Lead the multipliers up the smoothed dual."""

        def evaluated(v: FloatArray) -> tuple[float, FloatArray]:
            budget.tick()  # one line search may take many of these
            return self.smoothed(v, smoothing)

        def keep(v: FloatArray) -> None:
            self.v = v.copy()

        free: tuple[float | None, None] = (None, None)
        bounds = [free] * self.size + [(0.0, None)] * (self.v.size - self.size)
        for pair in np.flatnonzero(self.fixed).tolist():
            bounds[self.size + pair] = free
        # `minimize` would turn the bounds into arrays and back four times: seconds, at 400 key groups. Wherever the limit
        # comes, there is a bound: any multipliers give one.
        with contextlib.suppress(LimitReached):
            fmin_l_bfgs_b(
                evaluated, self.v, bounds=bounds, callback=keep,
                m=20, factr=1e-7 / np.finfo(float).eps, maxiter=steps, maxfun=2 * steps,
            )  # fmt: skip

    def add_triangles(self, smoothing: float, budget: Budget) -> int:
        """Take up the most violated of (4), let go of those that have come to weigh nothing; how many are new."""
        self.smoothed(self.v, smoothing)
        weighs = self.split(self.v)[3] > 1e-9
        found = violated_triangles(self.X, self.diagonal, self.settings.cuts, 20 * smoothing, budget)
        known = set(map(tuple, self.triangles.tolist()))
        new = np.array([t for t in found.tolist() if tuple(t) not in known], dtype=np.int64).reshape(-1, 3)
        kept = self.split(self.v)[3][weighs]
        self.v = np.concatenate([self.v[: self.size + self.pairs + 1], kept, np.zeros(len(new))])
        self.triangles = np.concatenate([self.triangles[weighs], new])
        return len(new)

    def safe_value(self) -> float:
        """The bound that the present multipliers prove, in units of the sum of squares.

        For every placement <C, X> = <A*(v), X> + <M, X> >= b'v + trace(X) min(0, lambda_min(M)). Taken off: what rounding
        can have added to C and to M, entry by entry, as no entry of X exceeds 1; and to b'v.
        """
        made = self.matrix(self.v)
        diagonal, of_pair, of_budget, of_triangle = self.split(self.v)
        multipliers = float(np.abs(diagonal).sum() + np.abs(of_pair).sum() + 3 * np.abs(of_triangle).sum())
        multipliers += abs(of_budget) * (float(self.weight.sum()) + abs(self.least))
        entries = float(np.abs(self.cost).sum())
        terms = self.core.load.shape[1] + 16
        doubt = EPSILON * (terms * entries + (terms + self.triangles.shape[0]) * multipliers)
        value = self.linear(self.v) + self.trace * min(0.0, least_eigenvalue(made)) - doubt
        return max(0.0, value * self.unit * (1 - 8 * EPSILON))


def least_eigenvalue(matrix: FloatArray) -> float:
    """A number that the least eigenvalue of a symmetric matrix is certainly not below.

    The computed eigenvalue, lowered until a Cholesky factorisation of the shifted matrix runs through; what rounding can
    hide from the factorisation, some (size + 2) units in the last place of the trace, is taken off.

    Notes
    -----
    Source: [Rump2006].
    """
    size = matrix.shape[0]
    computed = float(sl.eigvalsh(matrix, check_finite=False)[0])
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


def violated_triangles(X: FloatArray, right: float, count: int, least: float, budget: Budget) -> IntArray:
    """The most violated X_ij + X_ik - X_jk <= right, as rows (i, j, k) with j < k; ties by index.

    When the budget ends, of those i that were looked at.
    """
    size = X.shape[0]
    rows, excess = [], []
    above = np.triu(np.ones((size, size), dtype=bool), 1)
    for i in range(size):
        if i and budget.expired:
            break
        over = X[i][:, None] + X[i][None, :] - X - right
        wanted = above & (over > least)
        wanted[i, :] = wanted[:, i] = False
        j, k = np.nonzero(wanted)
        rows.append(np.stack([np.full(j.size, i), j, k], axis=1))
        excess.append(over[j, k])
    every, by = np.concatenate(rows), np.concatenate(excess)
    return every[np.argsort(-by, kind="stable")[:count]]
