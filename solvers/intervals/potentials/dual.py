r"""Interval potentials: the approximate linear program of a `MigrationPolicy`, solved by its smoothed dual.

(1) of `MigrationPolicy` needs a value for every partition. Here a value is a sum over the intervals of the partition,
one table for each pair of counts. With the present count taken out (staying is optimal when the count stays)

.. math::

    (4) \quad & M'_{nk} = M_{nk} / (1 - \gamma M_{nn}), \quad k \ne n \\
    (5) \quad & \hat V(n, P) = \kappa_n + \sum_{I \in P} A_n(I), \quad A_n(I) \le \sum_{k \ne n} M'_{nk} \, B_{nk}(I) \\
    (6) \quad & d_{nk} = \min_{P, P'} \; c(P, P') + \gamma \sum_{I \in P'} A_k(I) - \sum_{I \in P} B_{nk}(I) \\
    (7) \quad & \kappa_n \le \sum_{k \ne n} M'_{nk} \, (d_{nk} + \gamma \, \kappa_k)

By (6) and (7) no step improves on :math:`\hat V`, so :math:`\hat V \le V` for ANY tables B: what is found is a lower bound on the
values of all partitions, and with the first step out of the present on the objective,

.. math::

    (8) \quad \sum_k p_k \min_{P'} \left( c(\text{now}, P') + \gamma \hat V(k, P') \right)
        = \sum_k p_k d_{0k} + \sum_{n, k} \omega_{nk} d_{nk}

with :math:`p` the first row and :math:`\omega_{nk}` the discounted number of changes from n to k that are still to come after the
first step. (6) is a shortest path over both partitions at once (`two_partitions_kernels`); it is relaxed in one point: that
there are at most n and k intervals is kept by prices >= 0 on one more. (8) is concave in the tables and the prices. It
is maximised with (6) replaced by the free energy :math:`-T \log \sum \exp(-\text{cost} / T)`, whose gradient is how often each
interval is met, for falling temperatures T, by L-BFGS. Its dual asks for frequencies of PAIRS of partitions that agree on
how often each INTERVAL comes and goes: what is lost is all that depends on two intervals at once.

The bound is computed anew from the tables, rounded to whole numbers: states rounded down, A and gamma A rounded
down, (6) exactly, (7) in floats with room for their rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from scipy.optimize import Bounds, minimize

from keyshift.models import Budget
from keyshift.models.answer import LimitReached
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import FloatArray
from keyshift.solvers.intervals.band_kernels import weights
from keyshift.solvers.intervals.potentials.two_partitions_kernels import FAR, NEVER, Cells, Couple, least, shares, soft
from keyshift.solvers.threads import one_blas_thread

Pair = tuple[int, int]
"""Two different counts; the first is `NOW` for the first step."""
NOW = 0
Made = TypeVar("Made")


@dataclass(frozen=True)
class Certified:
    """A certified lower bound, and the values that it rests on, in units of state.

    Attributes
    ----------
    bound : float
        (8).
    tables : dict of int to ndarray, shape (m + 1, m + 1)
        A_n, by start and end of an interval; infinite where it is too heavy.
    constants : dict of int to float
        kappa_n.
    """

    bound: float
    tables: dict[int, FloatArray]
    constants: dict[int, float]

    def below(self, n: int, rows: np.ndarray, tasks: int) -> FloatArray:
        """The lower bound (5) on the value of every partition of a table like `PartitionClass.rows`."""
        table, end = self.tables[n], np.full(rows.shape[0], tasks)
        value = np.full(rows.shape[0], self.constants[n])
        for column in range(rows.shape[1] + 1):
            start = rows[:, column].astype(np.int64) if column < rows.shape[1] else np.zeros_like(end)
            value += np.where(end > 0, table[start, end], 0.0)
            end = start
        return value


class PotentialsDual:
    """The function (8) of the tables B and the prices of an interval more, all of them in one vector.

    Parameters
    ----------
    problem : MigrationPolicy
    threads : int
        Pairs of counts worked on at the same time; changes no result.
    temperatures : tuple of float
        In units of all the state over the largest count.
    steps : int
        Steps of L-BFGS at each temperature.
    """

    def __init__(
        self,
        problem: MigrationPolicy,
        threads: int = 1,
        temperatures: tuple[float, ...] = (0.1, 0.02, 0.005, 0.0015),
        steps: int = 120,
    ) -> None:
        w = problem.workload
        self.problem, self.threads, self.temperatures, self.climb = problem, threads, temperatures, steps
        self.tasks, self.gamma, self.total = w.key_groups, problem.discount, float(w.state.sum()) or 1.0
        self.starts = {n: problem.starts(n) for n in problem.reachable}
        ends = np.arange(self.tasks + 1)
        self.intervals = {
            n: (np.concatenate([np.arange(s, t) for s, t in zip(first, ends, strict=True)]), np.repeat(ends, ends - first))
            for n, first in self.starts.items()
        }  # fmt: skip
        self._count_changes()
        whole = weights(w.state, 44).finer(44)
        self.unit, self.moved = whole.unit, whole.prefix
        self.must = np.concatenate(([0], np.cumsum(np.where(w.draining[w.current], whole.values, 0))))
        self._open_now()
        self.x = np.zeros(self.size)
        self.best: Certified | None = None

    def _count_changes(self) -> None:
        """M' of (4), omega of (8), and where each table and its two prices stand in the vector."""
        p, gamma, counts = self.problem, self.gamma, list(self.problem.reachable)
        at = {n: i for i, n in enumerate(counts)}
        self.chance = {
            (n, k): c / (1 - gamma * row.get(n, 0.0))
            for n, row in p.reachable.items()
            for k, c in row.items()
            if k != n
        }
        self.step = np.zeros((len(counts), len(counts)))
        for (n, k), c in self.chance.items():
            self.step[at[n], at[k]] = c
        first = np.array([p.first_row.get(n, 0.0) for n in counts])
        visits = np.linalg.solve((np.eye(len(counts)) - gamma * self.step).T, first)
        self.omega = {(n, k): gamma * visits[at[n]] * c for (n, k), c in self.chance.items()}
        self.pairs = list(self.omega)
        ends = np.cumsum([0, *(self.intervals[n][0].size + 2 for n, _ in self.pairs)])
        self.place = {pair: slice(a, b) for pair, a, b in zip(self.pairs, ends[:-1], ends[1:], strict=True)}
        self.size = int(ends[-1])
        self.omega |= {(NOW, k): c for k, c in p.first_row.items()}

    def _open_now(self) -> None:
        """The intervals of now, which are given, whatever their load."""
        cuts, m = cuts_of(self.problem.workload.current), self.tasks
        self.starts_now = np.zeros(m + 1, dtype=np.int64)
        self.given = np.zeros((m + 1, m + 1), dtype=bool)
        for a, b in pairwise(cuts):
            self.starts_now[a + 1 : b + 1] = a
            self.given[a, b] = True

    def _all_pairs(self) -> list[Pair]:
        return [*self.pairs, *((NOW, k) for k in self.problem.first_row)]

    def _spread(self, n: int, values: np.ndarray, filled: float) -> np.ndarray:
        table = np.full((self.tasks + 1, self.tasks + 1), filled, dtype=values.dtype)
        table[self.intervals[n]] = values
        return table

    def _sums(self, x: FloatArray) -> dict[int, FloatArray]:
        """The right-hand side of (5) for every interval."""
        made = {n: np.zeros(first.size) for n, (first, _) in self.intervals.items()}
        for pair in self.pairs:
            made[pair[0]] += self.chance[pair] * x[self.place[pair]][:-2]
        return made

    # Ascent -----------------------------------------------------------------------------------------------------

    def ascend(self, budget: Budget) -> Certified:
        """Maximise (8) temperature by temperature, as long as the budget lasts; the best certified bound on the way."""
        self.best = best = self.certified()
        unit, lowest = np.ones(self.size), np.full(self.size, -np.inf)
        for pair in self.pairs:
            unit[self.place[pair]] = (
                max(self.omega[pair], 1e-9) ** -0.5
            )  # the rarest changes are scaled as if they came so often
            lowest[self.place[pair]][-2:] = 0.0
        for warmth in self.temperatures if self.size and self.gamma else ():
            if budget.expired:
                break
            self._climb(warmth / max(self.starts), unit, lowest, budget)
            found = self.certified()
            self.best = best = max(best, found, key=lambda c: c.bound)
            budget.report(bound=best.bound, note=f"interval potentials: at least {best.bound:.6g}")
        return best

    def _climb(self, warmth: float, unit: FloatArray, lowest: FloatArray, budget: Budget) -> None:
        with one_blas_thread(), ThreadPoolExecutor(self.threads) if self.threads > 1 else nullcontext() as pool:

            def loss(y: FloatArray) -> tuple[float, FloatArray]:
                budget.tick()
                value, slope = self.smoothed(y * unit, warmth, pool)
                return -value, -slope * unit

            def keep(y: FloatArray) -> None:
                self.x = y * unit

            options = {"maxiter": self.climb, "maxcor": 20, "ftol": 1e-6}
            try:
                done = minimize(
                    loss, self.x / unit, jac=True, method="L-BFGS-B", bounds=Bounds(lowest, np.inf), callback=keep,
                    options=options,
                )  # fmt: skip
            except LimitReached:
                return
            self.x = done.x * unit

    def smoothed(
        self, x: FloatArray, warmth: float, pool: ThreadPoolExecutor | None = None
    ) -> tuple[float, FloatArray]:
        """(8) at a temperature, in units of all the state, and its gradient."""
        sums = self._sums(x)
        moved, must = (np.asarray(v) * (self.unit / self.total / warmth) for v in (self.moved, self.must))
        nothing = np.zeros_like(moved)

        def one(pair: Pair, cells: Cells, mass: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            n, k = pair
            own = x[self.place[pair]] if n != NOW else np.zeros(2)
            old = np.where(self.given, 0.0, NEVER)
            if n != NOW:
                old = self._spread(n, (own[:-2] - own[-2]) / warmth, NEVER)
            new = self._spread(k, -(self.gamma * sums[k] + own[-1]) / warmth, NEVER)
            starts = self.starts[n] if n != NOW else self.starts_now
            couple = Couple(starts, self.starts[k], old, new, moved, nothing if n != NOW else must)
            total = soft(couple, cells)
            shares(couple, cells, total, mass)
            comes = mass[4][self.intervals[k]]
            value = self.omega[pair] * (-warmth * total - own[-2] * n - own[-1] * k)
            if n == NOW:
                return value, np.zeros(0), comes
            goes = mass[3][self.intervals[n]]
            return value, np.concatenate((-goes, [goes.sum() - n, comes.sum() - k])), comes

        pairs = self._all_pairs()
        found = self._each(pairs, one, pool)
        slope, arrivals = np.zeros(self.size), {n: np.zeros(v.size) for n, v in sums.items()}
        for pair, (_, own, comes) in zip(pairs, found, strict=True):
            arrivals[pair[1]] += self.omega[pair] * self.gamma * comes
            if pair[0] != NOW:
                slope[self.place[pair]] += self.omega[pair] * own
        for pair in self.pairs:
            slope[self.place[pair]][:-2] += self.chance[pair] * arrivals[pair[0]]
        return float(sum(value for value, _, _ in found)), slope

    def _each(
        self, pairs: Sequence[Pair], work: Callable[[Pair, Cells, FloatArray], Made], pool: ThreadPoolExecutor | None
    ) -> list[Made]:
        """Work on every pair, the threads taking turns; results in the pairs' order."""
        size = self.tasks + 1

        def some(i: int) -> list[Made]:
            cells, mass = Cells(*np.empty((3, size, size))), np.empty((5, size, size))
            return [work(pair, cells, mass) for pair in pairs[i :: self.threads]]

        made = list(map(some, range(self.threads)) if pool is None else pool.map(some, range(self.threads)))
        return [made[i % self.threads][i // self.threads] for i in range(len(pairs))]

    # Certificate ------------------------------------------------------------------------------------------------

    def certified(self) -> Certified:
        """The bound (8) from the tables as they stand, in whole numbers."""
        size, units = self.tasks + 1, self.total / self.unit
        whole = np.clip(np.floor(self.x * units), -(1 << 46), 1 << 46)
        lost = 1 + len(self.starts) / 50  # what adding floats can have lost
        tables = {n: np.floor(v - lost) for n, v in self._sums(whole).items()}
        ahead = {n: (np.floor(self.gamma * v) - 1).astype(np.int64) for n, v in tables.items()}
        cells = Cells(*np.empty((3, size, size), dtype=np.int64))
        nothing = np.zeros_like(self.moved)
        found: dict[Pair, float] = {}
        for pair in self._all_pairs():
            n, k = pair
            own = whole[self.place[pair]].astype(np.int64) if n != NOW else np.zeros(2, dtype=np.int64)
            more, most = np.maximum(own[-2:], 0)
            old = self._spread(n, more - own[:-2], FAR) if n != NOW else np.where(self.given, 0, FAR)
            new = self._spread(k, ahead[k] + most, FAR)
            starts = self.starts[n] if n != NOW else self.starts_now
            couple = Couple(starts, self.starts[k], old, new, self.moved, nothing if n != NOW else self.must)
            found[pair] = float(int(least(couple, cells)) - int(more) * n - int(most) * k)
        constants = self._constants(found, units)
        bound = sum(c * (found[NOW, k] + self.gamma * constants[k]) for k, c in self.problem.first_row.items())
        return Certified(
            max(0.0, (bound - 1e-12 * max(units, abs(bound))) * self.unit),
            {n: self._spread(n, v * self.unit, np.inf) for n, v in tables.items()},
            {n: v * self.unit for n, v in constants.items()},
        )

    def _constants(self, found: dict[Pair, float], units: float) -> dict[int, float]:
        """(7): the linear system, and less of its solution by what rounding may have left of it."""
        counts = list(self.starts)
        at = {n: i for i, n in enumerate(counts)}
        gained = np.zeros(len(counts))
        for pair in self.pairs:
            gained[at[pair[0]]] += self.chance[pair] * found[pair]
        value = np.linalg.solve(np.eye(len(counts)) - self.gamma * self.step, gained)
        left = gained + self.gamma * (self.step @ value) - value
        large = max(units, float(np.abs(value).max()), float(np.abs(gained).max()))
        value -= (max(0.0, -float(left.min())) + 1e-12 * large) / (1 - self.gamma)
        return dict(zip(counts, value.tolist(), strict=True))
