r"""A lower bound by prices: what must the sender and the taker of each key group pay for a move?

For a target distance d, a *column* of node i is a set D of its key groups to send and a set A of others to take that
bring it within d. An assignment within d that makes no more than ``maxMigrations`` moves is a choice of columns,

.. math::

    (P1) \quad & \min \sum_i \sum_{(D, A)} |D| \, x_{iDA} \\
    (P2) \quad & \sum_{(D, A)} x_{iDA} = 1 && \text{for every node } i \\
    (P3) \quad & \sum_i \sum_{A \ni k} x_{iDA} = \sum_{D \ni k} x_{current(k) DA} && \text{for every key group } k.

The pair counts of `keyshift.solvers.allocation.counting` keep only the sum of (P3) over all k. Here every k has its own
multiplier :math:`q_k`: of a move's price 1 the taker pays :math:`q_k` and the sender :math:`1 - q_k`. For ANY prices

.. math:: (P4) \quad L(q) = \sum_i \min_{(D, A)} \Bigl( \sum_{k \in D} (1 - q_k) + \sum_{k \in A} q_k \Bigr)

is a lower bound on (P1); where it exceeds ``maxMigrations``, the distance d is impossible. A key group that many nodes
want to take becomes expensive to take, and one that many want to send expensive to send.

Where migrations have a cost limit, a move's price is not 1 but its :math:`effort_k`: what it takes of the limits, in units
of which there are ``maxMigrations`` (`keyshift.solvers.allocation.arrays.Instance.effort`).

Prices, as shares of the effort, follow a curve over the load, piecewise linear, since neighbours in load can stand in
for each other: some twenty numbers instead of p. Column generation finds them: a linear program over the columns met
proposes a curve, the cheapest column of each node answers it, until L(q) exceeds the limit or the program says that it
never will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from math import comb
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.pricing import kernels
from keyshift.solvers.set_partitioning import ColumnProgram
from keyshift.solvers.tuning import AllocationSettings

LEAST_PRICE, LARGEST_PRICE = -2.0, 3.0
"""Arrival prices are sought in this range; any range gives a bound."""


class Column(NamedTuple):
    """Departures and arrivals of one node."""

    node: int
    departures: int
    arrivals: int
    cost: float
    """The departures; another sum when the column's load window has a price of its own."""
    balance: FloatArray
    """Arrivals less departures under each hat of the price curve."""
    distance: float
    """Least distance from which on the column may be used, in units of the mean."""
    key: tuple[object, ...]
    """Tells columns apart."""


class NodeUse(NamedTuple):
    """Departures (column 0) and arrivals (column 1) of every node in the master's solution, shapes (n, 2)."""

    mean: FloatArray
    least: IntArray
    most: IntArray
    balanced: bool
    """Whether (P2) and (P3) hold; otherwise the numbers mean little."""


class Master(ColumnProgram):
    """(P1) to (P3) over the columns met so far, (P3) summed up by the hat functions of the price curve.

    Parameters
    ----------
    nodes, knots : int
    artificial : float
        Price of leaving a node without a column, in moves.
    """

    def __init__(self, nodes: int, knots: int, artificial: float) -> None:
        self.nodes = nodes
        self.value = np.inf
        self.columns: list[Column] = []
        self.keys: set[tuple[object, ...]] = set()
        right = np.concatenate([np.ones(nodes), np.zeros(knots)])  # (P2), then (P3) under each hat
        costs = np.repeat([artificial, LARGEST_PRICE, -LEAST_PRICE], [nodes, knots, knots])
        place, balance = sp.eye_array(nodes, right.size), sp.eye_array(knots, right.size, k=nodes)
        super().__init__(right, right, costs, sp.csr_array(sp.vstack([place, -balance, balance])))

    def add(self, columns: Iterable[Column]) -> list[Column]:
        """Take columns in; returns those that were not there already."""
        fresh = list({column.key: column for column in columns if column.key not in self.keys}.values())
        if fresh:
            self.keys.update(column.key for column in fresh)
            self.columns += fresh
            balance = np.array([column.balance for column in fresh])
            at = np.arange(len(fresh)), np.array([column.node for column in fresh])
            place = sp.csr_array((np.ones(len(fresh)), at), shape=(len(fresh), self.nodes))
            rows = sp.hstack([place, sp.csr_array(np.where(np.abs(balance) > 1e-12, balance, 0.0))])
            self.add_columns(np.array([column.cost for column in fresh]), sp.csr_array(rows))
        return fresh

    def solve(self) -> FloatArray:
        """The price curve that the multipliers of (P3) give, and the program's `value` in moves."""
        duals = self.run()
        self.value = float(self.highs.getInfo().objective_function_value)
        return -duals[self.nodes :]

    def used(self) -> list[Column]:
        """Columns that the solution has a share of."""
        return [self.columns[at] for at in np.flatnonzero(self.shares[self.spare :] > 1e-7)]

    def use(self) -> NodeUse:
        """Departures and arrivals of each node in the solution."""
        shares, spare = self.shares, self.spare
        mean, most = np.zeros((self.nodes, 2)), np.zeros((self.nodes, 2), np.int64)
        least = np.full((self.nodes, 2), np.iinfo(np.int64).max)
        for at in np.flatnonzero(shares[spare:] > 1e-7):
            column = self.columns[at]
            counts = np.array([column.departures, column.arrivals])
            mean[column.node] += shares[spare + at] * counts
            least[column.node] = np.minimum(least[column.node], counts)
            most[column.node] = np.maximum(most[column.node], counts)
        return NodeUse(mean, least, most, bool(shares[:spare].sum() < 1e-6))


SLOPES = -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0
"""Prices for the spread of the loads, tried for columns with more departures and arrivals than are priced one by one."""
MOST_STEPS = 20_000
"""Steps of the sums of three arrivals and more to the spread of the loads, at most."""
LOOKED, MIXED, LEAST = 0.06, 0.003, 0.07
"""Steps of search that take as long as one look of `kernels.cheapest_column`, `arrival_costs` and `window_minima`."""
PROGRAM, ADDED = 8_000, 200
"""Likewise the master program, solved again, and a column more of it."""


class PriceBound:
    """Tells which distances prices rule out.

    Parameters
    ----------
    instance : Instance
    settings : AllocationSettings, optional
    effort : ndarray, shape (p,), optional
        Of every key group's move; 1 by default.
    spend : callable, optional
        Told the steps taken, where work is counted.

    Attributes
    ----------
    knots : ndarray
        Loads at which the price curve bends.
    prices : ndarray, shape (p,)
        The arrival prices :math:`q_k` that say most about the last distance tried.
    value : float
        L(q) for them, in moves.
    worked : float
        Elementary steps so far, roughly.
    """

    def __init__(
        self,
        instance: Instance,
        settings: AllocationSettings | None = None,
        effort: FloatArray | None = None,
        spend: Callable[[float], None] = lambda steps: None,
    ) -> None:
        it = self.instance = instance
        self.spend = spend
        self.settings = settings or AllocationSettings()
        self.effort = np.ones(it.key_groups) if effort is None else effort
        self.ascending = it.space.movers[np.argsort(it.load[it.space.movers], kind="stable")]
        self.load = np.ascontiguousarray(it.load[self.ascending])
        order, starts = it.space.by_node
        self.own = [order[starts[i] : starts[i + 1]] for i in range(it.nodes)]
        self.excess = it.deviations(it.current) / it.weight
        self.knots = np.unique(np.quantile(self.load, np.linspace(0, 1, self.settings.knots)))
        self.spread = float(self.load[-1] - self.load[0])
        self.slopes = np.array(SLOPES) / self.spread if self.spread > 0 else np.zeros(1)
        self.curve = np.full(self.knots.size, 0.5)
        self.value = self.worked = 0.0
        self.counts = np.tile(np.array([0, it.max_moves]), (it.nodes, 2))
        self.met: dict[tuple[object, ...], Column] = {}
        out, into = self.settings.most_out, self.settings.most_in
        self.subset = kernels.SubsetScratch(
            np.zeros(out + 1, np.int64), np.zeros(out + 1), np.zeros(out + 1), np.zeros(into + 1, np.int64),
            np.zeros(1, np.int64),
        )  # fmt: skip

    @cached_property
    def basis(self) -> FloatArray:
        """The hat function of each knot at each key group, times its effort, shape (p, knots)."""
        shares = [np.interp(self.instance.load, self.knots, row) for row in np.eye(self.knots.size)]
        return np.array(shares).T * self.effort[:, None]

    @cached_property
    def foreign(self) -> list[BoolArray]:
        """Which movers, by ascending load, may come to each node."""
        return [self.instance.space.may_enter(self.ascending, i) for i in range(self.instance.nodes)]

    @property
    def prices(self) -> FloatArray:
        """Arrival prices, shape (p,)."""
        return self.basis @ self.curve

    @cached_property
    def work(self) -> float:
        """Elementary steps to answer one curve, roughly."""
        it, settings = self.instance, self.settings
        sums = min(it.key_groups, MOST_STEPS) * MOST_STEPS * settings.most_in**2 / 20
        subsets = sum(comb(own.size, self._most_out(own)) for own in self.own) * settings.most_in
        others = it.nodes * len(SLOPES) * min(it.max_moves, max(own.size for own in self.own)) * it.max_moves
        return float(sums + subsets + others)

    @property
    def affordable(self) -> bool:
        """Whether a curve is answered with `most_work` at most, for nodes not too far apart in capacity."""
        weight = self.instance.weight
        return self.work <= self.settings.most_work and float(weight.max() / weight.min()) <= 1_000.0

    @cached_property
    def lists(self) -> bool:
        """Whether key groups and moves are so few that columns may be listed."""
        it = self.instance
        few = it.key_groups * it.nodes <= self.settings.asked and it.max_moves < it.space.movers.size
        return few and not it.draining.any()

    def excludes(self, distance: float, expired: Callable[[], bool] = lambda: False) -> bool:
        """Whether no assignment of the allowed number of moves lies within a distance, in units of the mean."""
        priced = self.price(distance, self.counts, self.curve, expired)
        self.curve, self.value = priced.curve, priced.value
        return self.enough(priced.value)

    def enough(self, value: float) -> bool:
        """Whether this many moves are too many."""
        # L(q) must exceed the limit by this much: a thousand times the rounding error of a sum of all columns.
        return value > self.instance.max_moves + 1e-6

    def price(self, distance: float, counts: IntArray, curve: FloatArray, expired: Callable[[], bool]) -> Priced:
        """Look for the curve of the largest L(q).

        Parameters
        ----------
        distance : float
            In units of the mean.
        counts : ndarray of int, shape (n, 4)
            Least and most departures, least and most arrivals of each node.
        curve : ndarray
            To begin with.
        expired : callable
            Asked between two curves; ends the search.
        """
        it = self.instance
        master = Master(it.nodes, curve.size, it.max_moves + 1.0)
        master.add(column for column in self.met.values() if column.distance <= distance and _within(column, counts))
        best, center, trust = -np.inf, curve, 0.5
        for turn in range(60):
            proposed = center
            if turn:
                proposed = trust * center + (1 - trust) * master.solve()
                self.spend(PROGRAM)
                listed = self.lists and best < master.value - 1e-6  # the higher L(q), the fewer columns
                if (master.value <= it.max_moves and not listed) or expired():
                    break
            value, columns = self._answer(proposed, distance, counts, expired)
            if value > best:
                best, center = value, proposed
            fresh = master.add(columns)
            self.met |= {column.key: column for column in fresh}
            if self.enough(best) or (not fresh and trust == 0):
                break
            if not fresh:
                trust = trust / 2 if trust > 0.1 else 0.0
        self.spend(ADDED * len(master.columns))
        self._forget(master)
        return Priced(best, center, master)

    def _forget(self, master: Master) -> None:
        """Keep the columns of late use when there are too many."""
        most = self.settings.most_columns
        if len(self.met) > most:
            for column in master.used():
                self.met[column.key] = self.met.pop(column.key, column)
            for key in list(self.met)[: len(self.met) - most // 2]:
                del self.met[key]

    def _answer(
        self, curve: FloatArray, distance: float, counts: IntArray, expired: Callable[[], bool] = lambda: False
    ) -> tuple[float, list[Column]]:
        """L(q) of (P4) within the counts, and the cheapest column of each node that has any; no value without the time."""
        it = self.instance
        self.worked += self.work
        reach = (distance + it.error_bound) / it.weight
        dual = _DualPrices(self, curve, float(reach.min()))
        total = 0.0
        columns: list[Column] = []
        for i in range(it.nodes):
            if expired():
                return -np.inf, columns
            value, column = self._cheapest(i, float(reach[i]), dual, counts[i])
            if column is None:
                return np.inf, columns
            total += value
            columns.append(column)
        self.spend(dual.steps + LOOKED * self.subset.looked[0])
        self.subset.looked[0] = 0
        return total, columns

    def _cheapest(self, i: int, reach: float, dual: _DualPrices, counts: IntArray) -> tuple[float, Column | None]:
        """The least term of node i in (P4), and a column that costs as much; None when it has none."""
        own = self.own[i]
        node, tried, other, pick = self._terms(i, reach, dual, counts)
        value, column = kernels.NEVER, None
        if tried[1] >= 0:
            found = np.zeros(2 + self.settings.most_out + self.settings.most_in, np.int64)
            value = kernels.cheapest_column(node, tried, dual.arrivals(reach), self.subset, found)
            if value < kernels.NEVER:
                a, b = found[:2]
                column = self._column(i, own[found[2 : 2 + a]], self.ascending[found[2 + a : 2 + a + b]])
        if other < value:
            return other, self._relaxed(i, reach, dual, pick)
        return value, column

    def _terms(
        self, i: int, reach: float, dual: _DualPrices, counts: IntArray
    ) -> tuple[kernels.NodeTerms, IntArray, float, IntArray]:
        """A node's terms, the counts that are tried one by one, and the least price of all others, with what makes it."""
        it, own = self.instance, self.own[i]
        node = kernels.NodeTerms(
            it.load[own], self.effort[own] - dual.price[own], self.foreign[i], self.excess[i], reach, bool(it.draining[i])
        )  # fmt: skip
        tried, within, pick = np.array([counts[0], -1, counts[2], -1]), counts.copy(), np.zeros(3, np.int64)
        if it.space.open[i] and not it.draining[i]:
            tried[1], tried[3] = min(int(counts[1]), self._most_out(own)), min(int(counts[3]), dual.most_in)
        within[3] = within[3] if it.space.open[i] else 0
        other = kernels.beyond(node, within, tried[1], tried[3], self.load, dual.ascending, self.slopes, pick)
        return node, tried, other, pick

    def columns(self, curve: FloatArray, distance: float, counts: IntArray) -> ListedColumns | None:
        """Every column that an assignment within a distance and all limits can have; None where they are many.

        At the prices of a curve each costs no more than what the other nodes' cheapest leave of the limit [Baldacci2008]. A
        key group that no node sends is not taken, and the other way round.
        """
        it, most = self.instance, self.settings.listed
        reach = (distance + it.error_bound) / it.weight
        dual = _DualPrices(self, curve, float(reach.min()))
        least = [self._cheapest(i, float(reach[i]), dual, counts[i])[0] for i in range(it.nodes)]
        slack = it.max_moves + 2e-6 - sum(least)
        made = []
        for i, own in enumerate(self.own):
            node, tried, other, _ = self._terms(i, float(reach[i]), dual, counts[i])
            if other <= least[i] + slack:
                return None
            found = np.zeros((most, 2 + self.settings.most_out + self.settings.most_in), np.int64)
            arrivals = dual.arrivals(float(reach[i]))
            count = kernels.columns_within(least[i] + slack, node, tried, arrivals, self.subset, found)
            if count < 0:
                return None
            most -= count
            sent, taken, who = *found[:count, :2].T, found[:count, 2:]
            place = np.arange(who.shape[1])
            first, last = place < sent[:, None], place < (sent + taken)[:, None]
            made.append(
                (
                    _rows(own[who[first]], sent, it.key_groups),
                    _rows(self.ascending[who[last & ~first]], taken, it.key_groups),
                )
            )
        self.spend(dual.steps + LOOKED * self.subset.looked[0])
        self.subset.looked[0] = 0
        kind = np.repeat(np.arange(it.nodes), [some.shape[0] for some, _ in made])
        leaving, arriving = (sp.csr_array(sp.vstack(some)) for some in zip(*made, strict=True))
        return ListedColumns(leaving, arriving, kind).matched()

    def _most_out(self, own: IntArray) -> int:
        """How many departures of a node are tried one by one."""
        most = max(a for a in range(self.settings.most_out + 1) if comb(own.size, a) <= 30_000)
        return min(most, self.instance.max_moves, own.size)

    def _column(self, i: int, departures: IntArray, arrivals: IntArray) -> Column:
        """A column of (P1) to (P3)."""
        it = self.instance
        change = it.load[arrivals].sum() - it.load[departures].sum()
        distance = abs(self.excess[i] + change) * it.weight[i]
        balance = self.basis[arrivals].sum(axis=0) - self.basis[departures].sum(axis=0)
        key = (i, *sorted(departures), -1, *sorted(arrivals))
        out, into = departures.size, arrivals.size
        return Column(i, out, into, float(self.effort[departures].sum()), balance, float(distance), key)

    def _relaxed(self, i: int, reach: float, dual: _DualPrices, pick: IntArray) -> Column:
        """The column that `kernels.beyond` stands for; pricing its window changes what it costs."""
        it, own, excess = self.instance, self.own[i], self.excess[i]
        a, b, slope = int(pick[0]), int(pick[1]), float(self.slopes[pick[2]])
        departures = own[np.argsort(self.effort[own] - dual.price[own] + slope * it.load[own], kind="stable")[:a]]
        movers = it.space.movers
        arrival = int(movers[np.argmin((dual.price - slope * it.load)[movers])])
        ends = (reach - excess,) if it.draining[i] else (-reach - excess, reach - excess)
        window = min(slope * end for end in ends)
        cost = self.effort[departures].sum() + slope * (it.load[departures].sum() - b * it.load[arrival]) + window
        balance = b * self.basis[arrival] - self.basis[departures].sum(axis=0)
        key = (i, *sorted(departures), -1, b, arrival, slope, reach)
        return Column(i, a, b, float(cost), balance, float(reach * it.weight[i]), key)


class ListedColumns(NamedTuple):
    """Columns in full."""

    leaving: sp.csr_array
    """Shape (columns, p)."""
    arriving: sp.csr_array
    kind: IntArray
    """The node of each."""

    def matched(self) -> ListedColumns:
        """Without sets that send a key group which no set takes, or take one which no set sends."""
        sent, taken = (np.asarray(moves.sum(axis=0)) > 0 for moves in self[:2])
        kept = (self.leaving @ ~taken + self.arriving @ ~sent) == 0
        if kept.all():
            return self
        return ListedColumns(self.leaving[kept], self.arriving[kept], self.kind[kept]).matched()


def _rows(members: IntArray, sizes: IntArray, key_groups: int) -> sp.csr_array:
    """Sets as rows of 0 and 1."""
    return sp.csr_array((np.ones(members.size), members, np.append(0, sizes.cumsum())), shape=(sizes.size, key_groups))


def _within(column: Column, counts: IntArray) -> bool:
    """Whether a column keeps the counts of its node."""
    least_out, most_out, least_in, most_in = counts[column.node]
    return bool(least_out <= column.departures <= most_out and least_in <= column.arrivals <= most_in)


class Priced(NamedTuple):
    """The best curve found for one distance."""

    value: float
    """L(q), in moves; infinite when some node has no column at all."""
    curve: FloatArray
    master: Master


class _DualPrices:
    """The prices of one curve, and what sums of arrivals cost under them."""

    def __init__(self, bound: PriceBound, curve: FloatArray, reach: float) -> None:
        settings = bound.settings
        self.price = bound.basis @ curve
        self.load, self.ascending = bound.load, self.price[bound.ascending]
        self.most_in = min(settings.most_in, bound.instance.max_moves)
        self.step = max(2 * reach / 100, bound.spread / MOST_STEPS) or 1.0
        self.sums, self.who = kernels.arrival_costs(bound.load, self.ascending, bound.load[0], self.step, self.most_in)
        self._by_width: dict[int, kernels.ArrivalPrices] = {}

    @property
    def steps(self) -> float:
        """The work of its tables, in steps of search."""
        most, top = self.sums.shape[0] - 1, self.who.size - 1
        mixed = np.count_nonzero(self.who >= 0) * (top * most * (most - 1) / 2 + most)
        return MIXED * mixed + LEAST * sum(prices.minima.size for prices in self._by_width.values())

    def arrivals(self, reach: float) -> kernels.ArrivalPrices:
        """The prices with `kernels.window_minima` for windows of 2 `reach`, by number of arrivals."""
        width = int(np.ceil(2 * reach / self.step))
        if width not in self._by_width:
            widths = width + np.arange(self.most_in + 1) + 3
            self._by_width[width] = kernels.ArrivalPrices(
                self.load, self.ascending, self.load[0], float(self.ascending.min()), self.step, self.sums, self.who,
                kernels.window_minima(self.sums, widths), widths,
            )  # fmt: skip
        return self._by_width[width]
