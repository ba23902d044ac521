r"""A lower bound over k windows: their joint linear relaxation, by row and column generation.

For signed weights :math:`\lambda_{is}` whose sizes, summed over the nodes, are weights that (8) of `KeyGroupAllocation` allows,

.. math:: L(\lambda, \kappa) = \sum_{i,s} \lambda_{is} \, dev_{is}(current)
          + \min_{moves} \sum_{(k, j)} \Bigl( \sum_s y_{ks} \bigl( \tfrac{\lambda_{js}}{c_j} - \tfrac{\lambda_{is}}{c_i} \bigr)
          + \kappa \, mc_k \Bigr) - \kappa \, maxMigrCost

is a lower bound: of a sum of signed deviations, which no combined distance is below. i is the current node of k, and the
minimum is over at most `maxMigrations` moves of different key groups, which are the cheapest ones - so L takes O(p n k),
and holds for any weights, however they were found. On draining nodes :math:`\lambda \ge 0`; (5) and (7) are left out.

The weights come from a linear program with few of the rows (3) and (4) and few of the moves, at first those of each window's
worst node, to which each round adds what is broken and what would pay. It converges to the value of the linear relaxation of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import highspy
import numpy as np

from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.highs import without_callbacks

PAYS, NEAR = 1e-9, 1e-8
"""A move whose reduced cost is not below the first is left out; a row that is broken by less than the other, in units of the
mean, too."""


class Weights(NamedTuple):
    """Weights of signed deviations (n, k), and prices: of a unit of migration cost, of a move, of each key group's move."""

    signed: FloatArray
    cost: float
    move: float
    once: FloatArray


class MoveMaster:
    """Minimise (8) over shares of moves.

    Columns: d[s]; for the worst window and CVaR t, and for CVaR what d[s] is above it; then the moves. Rows: their number,
    their cost, at most one of each key group, and d[s] no less than the signed deviation of a node in window s.

    Parameters
    ----------
    instance : Instance
    rest : ndarray, shape (n, k)
        Deviations where nothing moves.
    """

    def __init__(self, instance: Instance, rest: FloatArray) -> None:
        it = self.instance = instance
        self.rest, self.infinity = rest, highspy.kHighsInf
        self.highs = without_callbacks(highspy.Highs())
        for option, value in {"output_flag": False, "threads": 1}.items():
            self.highs.setOptionValue(option, value)
        self.moves: dict[tuple[int, int], int] = {}
        self.of_node: list[list[tuple[int, int, float]]] = [[] for _ in range(it.nodes)]
        self.rows: dict[tuple[int, int, int], int] = {}
        self.once: dict[int, int] = {}
        self._objective()
        self.limits = self._row(-self.infinity, float(it.max_moves), [], [])
        self.cost_unit = float(it.cost.max()) or 1.0  # HiGHS takes no coefficient above 1e15
        self._row(-self.infinity, min(float(it.max_cost) / self.cost_unit, self.infinity), [], [])
        self.values, self.steps = np.zeros(self.highs.getNumCol()), 0.0

    def _objective(self) -> None:
        """d, and what (8) needs besides."""
        planned, windows, inf = self.instance.problem.planned, range(self.instance.windows), self.infinity
        most = planned.most.tolist()
        for s in windows:
            self.highs.addCol(most[s] if planned.over == "mean" else 0.0, 0.0, inf, 0, [], [])
        if planned.over == "mean":
            return
        t = len(windows)
        self.highs.addCol(1.0, 0.0, inf, 0, [], [])
        for s in windows:
            above = [t]
            if planned.over == "cvar":
                self.highs.addCol(most[s], 0.0, inf, 0, [], [])
                above.append(t + 1 + s)
            self._row(0.0, inf, [s, *above], [-1.0, *[1.0] * len(above)])

    def _row(self, low: float, high: float, places: list[int], values: list[float]) -> int:
        self.highs.addRow(low, high, len(places), np.array(places, np.int32), np.array(values))
        return int(self.highs.getNumRow()) - 1

    def solve(self) -> bool:
        """Solve it again; whether that went well."""
        self.highs.run()
        # Steps of a search that take about as long.
        self.steps = 0.1 * self.highs.getInfo().simplex_iteration_count * self.highs.getNumNz()
        self.values = np.maximum(self.highs.getSolution().col_value, 0.0)  # none is below
        return bool(self.highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def deviations(self) -> FloatArray:
        """Of the mixture of moves, shape (n, k)."""
        it, dev = self.instance, self.rest.copy()
        for (k, j), column in self.moves.items():
            if self.values[column] > 0:
                i = it.current[k]
                dev[j] += self.values[column] * it.loads[k] * it.weight[j]
                dev[i] -= self.values[column] * it.loads[k] * it.weight[i]
        return dev

    def add_broken_rows(self) -> int:
        """Add rows that the mixture breaks, a few for each window; how many."""
        it, dev = self.instance, self.deviations()
        excess, added = it.sizes(dev) - self.values[: it.windows], 0
        for s in range(it.windows):
            for i in np.argsort(-excess[:, s])[:4].tolist():
                if excess[i, s] > NEAR:
                    added += self._add_row(i, s, 1 if dev[i, s] > 0 else -1)
        return added

    def add_rows(self, signed: FloatArray) -> None:
        """Add the rows that weights of signed deviations name."""
        for i, s in np.argwhere(np.abs(signed) > 1e-3 * self.instance.problem.planned.most).tolist():
            self._add_row(i, s, 1 if signed[i, s] > 0 else -1)

    def _add_row(self, i: int, s: int, sign: int) -> bool:
        """Add d[s] >= sign * deviation of node i; whether it is new."""
        it = self.instance
        if (i, s, sign) in self.rows:
            return False
        places = [s, *(column for _, column, _ in self.of_node[i])]
        values = [1.0, *(-sign * side * it.loads[k, s] * it.weight[i] for k, _, side in self.of_node[i])]
        self.rows[i, s, sign] = self._row(sign * self.rest[i, s], self.infinity, places, values)
        return True

    def add_move(self, k: int, j: int) -> bool:
        """Add the move of a key group to a node; whether it is new, and in numbers that HiGHS takes."""
        if (k, j) in self.moves:
            return False
        it, i = self.instance, int(self.instance.current[k])
        if k not in self.once:
            self.once[k] = self._row(-self.infinity, 1.0, [], [])
        entries = [(self.limits, 1.0), (self.limits + 1, float(it.cost[k]) / self.cost_unit), (self.once[k], 1.0)]
        for (node, s, sign), row in self.rows.items():
            if node in (i, j):
                entries.append((row, (-sign if node == j else sign) * it.loads[k, s] * it.weight[node]))
        entries = [(row, value) for row, value in entries if value != 0.0]
        column = self.highs.getNumCol()
        added = self.highs.addCol(
            0.0, 0.0, self.infinity, len(entries), np.array([row for row, _ in entries], np.int32),
            np.array([value for _, value in entries]),
        )  # fmt: skip
        if added == highspy.HighsStatus.kError:
            return False
        self.moves[k, j] = column
        self.values = np.append(self.values, 0.0)
        self.of_node[j].append((k, column, 1.0))
        self.of_node[i].append((k, column, -1.0))
        return True

    def weights(self) -> Weights:
        """The duals as weights that the bound may take: (8) allows their sums, and draining nodes count upwards only."""
        it = self.instance
        planned, duals = it.problem.planned, np.array(self.highs.getSolution().row_dual)
        signed = np.zeros((it.nodes, it.windows))
        for (i, s, sign), row in self.rows.items():
            signed[i, s] += sign * max(0.0, duals[row])
        sums = np.abs(signed).sum(axis=0)
        over = float((sums / planned.most).max(initial=1.0))
        signed /= max(1.0, over, 1.0 if planned.over == "mean" else float(sums.sum())) * (1 + 1e-12)
        once = np.zeros(it.key_groups)
        for k, row in self.once.items():
            once[k] = max(0.0, -duals[row])
        cost = max(0.0, -float(duals[self.limits + 1])) / self.cost_unit if np.isfinite(it.max_cost) else 0.0
        return Weights(signed, cost, max(0.0, -float(duals[self.limits])), once)


class PricedMoves(NamedTuple):
    """The moves under some weights."""

    value: float
    """L, in units of the mean."""
    least: FloatArray
    """The cost of the cheapest move of each key group, shape (p,)."""
    cost: Callable[[IntArray], FloatArray]
    """The cost of each move of some key groups, shape (key groups, n); infinite where it is not allowed."""


AT_ONCE = 8_000_000
"""Costs of moves that are in memory at once."""


class JointRelaxation:
    """The best bound so far, in units of the mean.

    Parameters
    ----------
    instance : Instance
    expired : callable, optional
        Ends it, also within a pass over a large instance.
    """

    def __init__(self, instance: Instance, expired: Callable[[], bool] = lambda: False) -> None:
        it = self.instance = instance
        self.best, self.expired = 0.0, expired
        self.ended = it.max_moves == 0
        self.rest = it.window_deviations(it.current)
        limited = it.problem.cost_limit is not None or bool(it.problem.resource_capacity)
        self.open = it.problem.open_pairs if limited else None
        self.master, self.free = MoveMaster(it, self.rest), np.zeros(it.key_groups)

    def begin(self) -> float:
        """The rows and moves of each window's worst node, for the linear program; returns what they prove."""
        it, windows = self.instance, np.arange(self.instance.windows)
        size = it.sizes(self.rest)
        worst = size.argmax(axis=0), windows
        signed = np.zeros_like(self.rest)
        weight = it.problem.planned.weights(size.max(axis=0)) * (size.max(axis=0) > 0) * (1 - 1e-12)
        signed[worst] = np.sign(self.rest[worst]) * weight
        priced = self.priced(Weights(signed, 0.0, 0.0, self.free))
        if priced is not None:
            self.best = max(self.best, priced.value)
            self.master.add_rows(signed)
            self._add_paying(priced, 0.0, self.free)
        return self.best

    def improve(self, rounds: int | None = None) -> float:
        """Some rounds more, the first after the rows and moves that it begins with; returns the best bound."""
        if not (self.ended or self.master.rows):
            self.begin()
        for _ in range(60 if rounds is None else rounds):
            if self.ended or self.expired():
                break
            broken = self.master.add_broken_rows()
            solved = self.master.solve()
            paying = self._add_moves() if solved else 0
            self.ended = self.ended or broken + paying == 0 or not solved or bool(paying and not self.master.solve())
        return self.best

    def priced(self, weights: Weights) -> PricedMoves | None:
        """L for some weights; None where the time is over before."""
        it = self.instance
        scaled = weights.signed * it.weight[:, None]

        def costs(some: IntArray) -> FloatArray:
            at, loads, open_to = it.current[some], it.loads[some], self.open_to(some)
            cost = loads @ scaled.T - np.einsum("pk,pk->p", loads, scaled[at])[:, None]
            cost += weights.cost * it.cost[some, None]
            cost[~open_to] = np.inf
            cost[np.arange(at.size), at] = np.inf
            return cost

        least = np.empty(it.key_groups)
        for some in np.array_split(np.arange(it.key_groups), -(-it.key_groups * it.nodes // AT_ONCE)):
            if some[0] > 0 and self.expired():
                self.ended = True
                return None
            cost = costs(some)
            least[some] = cost.min(axis=1)
        one = some.size == it.key_groups
        cheapest = np.sort(np.minimum(least, 0.0))[: it.max_moves]
        spent = weights.cost * it.max_cost if weights.cost > 0 else 0.0
        value = float((weights.signed * self.rest).sum() + cheapest.sum()) - spent
        error_bound = 4 * it.error_bound * float(np.abs(weights.signed).sum()) + 1e-12 * spent
        return PricedMoves(value - error_bound, least, (lambda some: cost[some]) if one else costs)

    def open_to(self, some: IntArray) -> BoolArray:
        """The nodes that some key groups may run on."""
        space = self.instance.space
        return space.enter[space.kind[some]] if self.open is None else self.open[some]

    def _add_moves(self) -> int:
        """Add the moves that would pay at the master's weights; how many."""
        weights = self.master.weights()
        priced = self.priced(weights)
        if priced is None:
            return 0
        self.best = max(self.best, priced.value)
        return self._add_paying(priced, weights.move, weights.once)

    def _add_paying(self, priced: PricedMoves, move: float, once: FloatArray) -> int:
        """Add moves that cost less than nothing, with the price of a move and of each key group's; how many."""
        added = 0
        some = np.argsort(priced.least + move + once)[:150]
        for k, cost in zip(some.tolist(), priced.cost(some) + move + once[some, None], strict=True):
            for j in np.argsort(cost)[:3].tolist():
                if cost[j] < -PAYS:
                    added += self.master.add_move(k, j)
        return added
