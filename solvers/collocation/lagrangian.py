"""A bound on the traffic that can be collocated, by Lagrangian relaxation and dynamic programs over trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from keyshift.models import Budget
from keyshift.models.base.compiling import njit, overwrite
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.collocation.arrays import Arrays


@dataclass(frozen=True)
class Forest:
    """A heaviest spanning forest of the pairs: `order` has children before parents; a root's parent is -1."""

    order: IntArray
    parent: IntArray
    weight: FloatArray
    """Of the edge to the parent, by each row of traffic, shape (p, t)."""
    weak: tuple[sp.csr_array, ...]
    """The pairs outside the forest, symmetric, by each row of traffic."""


def forest_of(data: Arrays) -> Forest:
    """The heaviest spanning forest of the mean traffic, by SciPy."""
    p = data.key_groups
    shape = (p, p)
    one_way = sp.csr_array((data.mean_traffic, (data.first, data.second)), shape=shape)
    tree = sp.csr_array(-minimum_spanning_tree(-one_way))
    both = sp.csr_array(tree + tree.T)
    parent, weight, order = np.full(p, -1), np.zeros((p, len(data.traffic))), []
    seen = np.zeros(p, dtype=bool)
    for root in range(p):
        if seen[root]:
            continue
        visited, predecessor = breadth_first_order(both, root, directed=False)
        seen[visited] = True
        order.extend(visited.tolist())
        inner = visited[1:]
        parent[inner] = predecessor[inner]
    row = np.repeat(np.arange(p), np.diff(data.indptr))
    up = parent[row] == data.neighbour
    weight[row[up]] = data.weight[:, up].T
    inside, weak = up | (parent[data.neighbour] == row), []
    for traffic in data.weight:
        rest = sp.csr_array((np.where(inside, 0.0, traffic), data.neighbour.copy(), data.indptr.copy()), shape=shape)
        rest.eliminate_zeros()
        weak.append(rest)
    return Forest(np.array(order[::-1], dtype=np.int64), parent.astype(np.int64), weight, tuple(weak))


class Multipliers(NamedTuple):
    """Prices of the rows that are relaxed, all >= 0: moves (2), their cost (2), loads (8), (9), resources (7)."""

    moves: float
    cost: float
    upper: FloatArray
    lower: FloatArray
    use: FloatArray

    def stepped(self, slack: Multipliers, step: float) -> Multipliers:
        """A step against the slack of every row, cut off at 0."""
        return self._by_row(lambda price, more: np.maximum(0.0, price - step * more), slack)

    def pushing(self, prices: Multipliers) -> Multipliers:
        """The slack without that of loads which cost nothing and are kept: over many windows it would drown the rest."""
        upper, lower = (
            np.where((price <= 0) & (slack > 0), 0.0, slack)
            for price, slack in ((prices.upper, self.upper), (prices.lower, self.lower))
        )
        return self._replace(upper=upper, lower=lower)

    def mixed(self, other: Multipliers, share: float) -> Multipliers:
        """``share * self + (1 - share) * other``, row by row."""
        return self._by_row(lambda mine, its: share * mine + (1 - share) * its, other)

    def _by_row(self, rule: Callable[[Any, Any], Any], other: Multipliers) -> Multipliers:
        return Multipliers(*map(rule, self, other))

    @property
    def square(self) -> float:
        """Squared length."""
        return float(sum(np.square(part).sum() for part in self))


@dataclass
class LagrangianBound:
    r"""Upper bounds on the share of traffic that any feasible assignment collocates.

    For prices >= 0 of the rows (2), (7), (8), (9), every feasible assignment a has

    .. math::

        \sum_e t_e [a_k = a_l] \;\le\; \max_a \; \sum_e t_e \,\omega_{a} [a_k = a_l] + \sum_k \theta_k(a_k) + const,

    where :math:`\theta` charges each key group its share of the rows and :math:`\omega_i` corrects the worth of
    collocation on node i for the load that it saves there. Over a forest the maximum is a dynamic program in
    O(p n); pairs outside the heaviest spanning forest are bounded by key group: at most m key groups move, so a mover
    can meet at most m - 1 others on the move, each shared half and half between the two.

    Over k windows (8) and (9) have prices for each, and a pair's traffic is weighed by `row_share` where it differs.

    Min-marginals of the same dynamic program bound every assignment that puts k on i: a (k, i) whose bound does not
    exceed an incumbent is closed for good. `open_to` keeps what is left.

    Complexity: one evaluation O(p n + pairs outside the forest when it is built). On forests the best bound equals
    the linear relaxation's; closing nodes then goes beyond it.
    """

    data: Arrays
    forest: Forest = field(init=False)
    open_to: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        data = self.data
        self.forest = forest_of(data)
        self.open_to = data.allowed.copy()
        p, n = data.key_groups, data.nodes
        self.weak, self.row_share = self._weak(self.forest.weak), data.row_share
        self.up, self.theta, self.marginal = np.empty((p, n)), np.empty((p, n)), np.empty((p, n))
        self.labels = np.zeros(p, dtype=np.int64)
        self.prices = self.first_prices()  # the best so far: where the next `tighten` begins

    def _slack(self, weak: sp.csr_array) -> FloatArray:
        """The most that other movers may add to a mover over the weak pairs.

        Half of a pair that both leave together with the same node (of the m - 1 weightiest), and half of a pair that
        meets on the new node (of as many as can arrive there).
        """
        data = self.data
        leaving, meeting = max(data.max_moves - 1, 0), max(most_arrivals(data) - 1, 0)
        slack = np.zeros(data.key_groups)
        for k in range(data.key_groups):
            lo, hi = weak.indptr[k], weak.indptr[k + 1]
            same = data.current[weak.indices[lo:hi]] == data.current[k]
            slack[k] = (largest(weak.data[lo:hi][same], leaving) + largest(weak.data[lo:hi], meeting)) / 2
        return slack

    def beyond(self, explicit: BoolArray) -> FloatArray:
        """Share of traffic by which moving k to i may raise what the pairs not `explicit` collocate, shape (p, n)."""
        data = self.data
        p, out = data.key_groups, ~explicit
        one_way = sp.csr_array((data.mean_traffic[out], (data.first[out], data.second[out])), shape=(p, p))
        weak = self._weak((sp.csr_array(one_way + one_way.T),))
        gain = weak.on[0] - weak.here[0][:, None] + weak.slack[0][:, None]
        gain[np.arange(p), data.current] = 0.0
        return np.where(gain != 0, gain * (1 + 1e-9 * np.sign(gain)) + 1e-15, 0.0)

    def _weak(self, weak: Sequence[sp.csr_array]) -> WeakPairs:
        """The weak pairs of rows of traffic, by key group and node."""
        p, n = self.data.key_groups, self.data.nodes
        place = sp.csr_array((np.ones(p), (np.arange(p), self.data.current)), shape=(p, n))
        on = np.array([(row @ place).toarray() for row in weak])
        return WeakPairs(on, on[:, np.arange(p), self.data.current], np.array([self._slack(row) for row in weak]))

    def first_prices(self) -> Multipliers:
        """Prices at which only a move costs anything."""
        data = self.data
        move = float(np.median(data.mean_traffic)) if data.traffic.size and data.max_moves < data.key_groups else 0.0
        rows = (data.windows, data.nodes)
        return Multipliers(move, 0.0, np.zeros(rows), np.zeros(rows), np.zeros_like(data.room))

    def evaluate(self, prices: Multipliers) -> tuple[float, Multipliers]:
        """The bound at some prices, and the slack of every row at the assignment that attains it."""
        data, forest = self.data, self.forest
        kappa = prices.upper @ data.bands[0, 0] - prices.lower @ data.bands[2, 0]
        price = prices.upper - prices.lower
        saved = data.serialisation[:, None] * (
            price - kappa[:, None]
        )  # what a unit of collocated traffic saves of the rows
        omega = self.row_share[:, None] + (saved if self.row_share.size > 1 else saved.sum(axis=0))
        factor = np.abs(omega).max(axis=1) * np.where(omega.min(axis=1) >= 0, 1.0, 2.0)
        move_price = prices.moves + prices.cost * data.cost_share
        weak = self.weak
        left = (omega[:, data.current] * weak.here - factor[:, None] * weak.slack).sum(axis=0)
        met = np.einsum("tn,tpn->pn", omega, weak.on)
        priced = RowPrices(move_price, data.remote_load.T @ price, prices.use, met, left)
        potentials(LoadTerms(data.use, data.current, self.open_to), priced, self.theta)
        self.worth = forest.weight @ omega
        self.tree_value = best_labels(forest.order, forest.parent, self.worth, self.theta, self.up, self.labels)
        constant = self._constant(prices, omega)
        self.constant = constant
        magnitude = (
            abs(constant) + 1.0 + float(np.abs(price).max(axis=1) @ data.total_remote)
            + float(np.abs(prices.use).sum() * data.total_remote.max() + move_price.sum() + np.abs(omega).max(axis=1).sum())
        )  # fmt: skip
        # Added to every bound, as a share of the magnitudes that were summed: far above what rounding can lose.
        self.error_bound = 1e-9 * magnitude
        return self.tree_value + constant + self.error_bound, self._row_slack()

    def _constant(self, prices: Multipliers, omega: FloatArray) -> float:
        """The constant of the relaxation: prices times right-hand sides, and the weak pairs that are together today."""
        data = self.data
        rows = (
            prices.moves * data.max_moves + prices.cost * (1 + 1e-8) + float((prices.upper * data.upper).sum())
            - float((prices.lower * data.lower).sum())
            + float((prices.use * data.room * (1 + 1e-8)).sum())
        )  # fmt: skip
        return rows + float((omega[:, data.current] * self.weak.here).sum()) / 2

    def _row_slack(self) -> Multipliers:
        """Right-hand side less left-hand side of every relaxed row at the maximiser (weak pairs as they are today)."""
        data, a, forest = self.data, self.labels, self.forest
        moved = a != data.current
        linked = forest.parent >= 0
        whole = linked & (a == a[np.where(linked, forest.parent, 0)])
        kept = [
            np.bincount(a[whole], weight[whole], data.nodes) + np.bincount(data.current, here / 2, data.nodes)
            for weight, here in zip(forest.weight.T, self.weak.here, strict=True)
        ]
        saved = data.serialisation[:, None] * np.array(kept)
        load = np.array([np.bincount(a, row, data.nodes) for row in data.remote_load]) - saved
        total = data.total_remote - saved.sum(axis=1)
        most, least = data.limits(total)
        upper, lower = np.minimum(most - load, 1e3), np.minimum(load - least, 1e3)
        cost = 1.0 - float(data.cost_share[moved].sum())
        return Multipliers(float(data.max_moves - moved.sum()), cost, upper, lower, data.room - data.used(a))

    def close(self, incumbent: float) -> int:
        """Close every (key group, node) whose bound does not exceed an incumbent's collocated share; how many.

        Call right after `evaluate`. Whatever is closed then collocates no more than ``incumbent``.
        """
        forest = self.forest
        by_label(forest.order, forest.parent, self.worth, self.up, self.tree_value, self.marginal)
        worse = self.open_to & (self.marginal + self.constant + self.error_bound <= incumbent)
        self.open_to &= ~worse
        return int(worse.sum())


def tighten(
    bound: LagrangianBound, budget: Budget, incumbent: float | None, steps: int = 1500, unit: float | None = None
) -> float:
    """Lower the bound by deflected subgradient steps (Polyak lengths), closing nodes on the way.

    Parameters
    ----------
    bound : LagrangianBound
    budget : Budget
    incumbent : float, optional
        Share of traffic that a feasible assignment collocates.
    steps : int
    unit : float, optional
        Share of traffic of one tuple where traffic is whole: a better assignment collocates one tuple more.

    Returns
    -------
    float
        An upper bound on what any feasible assignment collocates, the incumbent's own share included.
    """
    floor = -np.inf if incumbent is None else incumbent + (unit * (1 - 1e-6) if unit else 0.0) * 0.999
    prices = best_prices = bound.prices
    best, agility, since = np.inf, 1.0, 0
    direction: Multipliers | None = None
    for step in range(steps):
        if budget.expired:
            break
        value, slack = bound.evaluate(prices)
        budget.spend(0.1 * (bound.open_to.size + bound.data.first.size))  # whole arrays at once
        if bound.data.windows > 1:
            slack = slack.pushing(prices)
        if value < best - 1e-9:
            since = 0
        else:
            since += 1
        if value < best:
            best, best_prices = value, prices
            if np.isfinite(floor) and (step % 10 == 0 or value < floor):
                bound.close(floor)
        if best <= floor or not bound.open_to.any(axis=1).all():
            break
        if since >= 25:
            agility, since, prices, direction = agility / 2, 0, best_prices, None
            value, slack = bound.evaluate(prices)
            if agility < 1e-4:
                break
        direction = slack if direction is None else slack.mixed(direction, 0.4)
        length = direction.square
        if length < 1e-24:
            break
        target = max(incumbent if incumbent is not None else best * 0.9, best - 0.5 * abs(best))
        prices = prices.stepped(direction, agility * max(value - target, 1e-7) / length)
    bound.prices = best_prices
    if np.isfinite(floor):
        bound.evaluate(best_prices)
        bound.close(floor)
    return best if incumbent is None else max(best, incumbent)


def largest(values: FloatArray, count: int) -> float:
    """The sum of the `count` largest values."""
    if count >= values.size:
        return float(values.sum())
    return float(np.partition(values, values.size - count)[values.size - count :].sum()) if count > 0 else 0.0


def most_arrivals(data: Arrays) -> int:
    """How many key groups can move to one node at most, by number of moves and by load.

    With j arrivals, at most m - j key groups leave: the j lightest from elsewhere must fit beside what is left when
    the heaviest leave. Where collocation changes loads, only the number counts.
    """
    if data.serialisation.max() > 0:
        return data.max_moves
    return min(_most_arrivals_in(s, data) for s in range(data.windows))


def _most_arrivals_in(window: int, data: Arrays) -> int:
    """`most_arrivals` by the loads of one window."""
    most, arrivals, loads, limit = data.max_moves, 0, data.remote_load[window], data.upper[window]
    load = np.bincount(data.current, loads, data.nodes)
    for i in range(data.nodes):
        here = data.current == i
        lightest = np.r_[0.0, np.cumsum(np.sort(loads[~here]))]
        heaviest = np.r_[0.0, np.cumsum(-np.sort(-loads[here]))]
        j = np.arange(min(most, lightest.size - 1) + 1)
        left = heaviest[np.minimum(most - j, heaviest.size - 1)]
        arrivals = max(arrivals, int(j[load[i] - left + lightest[j] <= limit[i] + 1e-9].max(initial=0)))
    return arrivals


# The compiled loops --------------------------------------------------------------------------------------------------


class WeakPairs(NamedTuple):
    """Traffic of each key group with others outside the forest, for each of t rows of traffic."""

    on: FloatArray
    """Traffic with each node today, shape (t, p, n), and with the own one, (t, p)."""
    here: FloatArray
    slack: FloatArray
    """The most that others which move may add to a mover, (t, p)."""


class RowPrices(NamedTuple):
    """Multipliers of the relaxed rows."""

    move: FloatArray
    """For moving each key group."""
    load: FloatArray
    """For the load of each key group on each node, in all windows together, shape (p, n)."""
    use: FloatArray
    """For a unit of each resource on each node, shape (r, n)."""
    weak: FloatArray
    """The worth of the weak pairs of each key group with each node, shape (p, n)."""
    left: FloatArray
    """The worth of its weak pairs with its current node, less the most that others which move may make up for, shape (p,)."""


class LoadTerms(NamedTuple):
    """Use of resources by each key group, where it is and where it may go."""

    use: FloatArray
    current: IntArray
    open_to: BoolArray


@njit(cache=True)
def best_labels(order, parent, worth, theta, up, labels):
    """Nodes that maximise ``sum theta[k, a[k]] + sum over forest edges worth[k, i] where both ends are on i``.

    Parameters
    ----------
    order : children before parents
    parent : each key group's parent (-1 for roots)
    worth : (p, n), what the edge to the parent is worth on each node
    theta : (p, n)
    up : (p, n), out: the best of each subtree by the label of its root
    labels : (p,), out

    Returns
    -------
    The maximum.
    """
    p, n = theta.shape
    for k in range(p):
        overwrite(up[k], theta[k])
    for k in order:
        j = parent[k]
        if j >= 0:
            first, second, where = top_two(up[k])
            for i in range(n):
                other = second if i == where else first
                up[j, i] += max(other, up[k, i] + worth[k, i])
    total = 0.0
    for s in range(p - 1, -1, -1):
        k = order[s]
        first, second, where = top_two(up[k])
        j = parent[k]
        if j < 0:
            total += first
            labels[k] = where
        else:
            i = labels[j]
            together = up[k, i] + worth[k, i]
            if i == where:
                labels[k] = i if together >= second else second_label(up[k], where)
            else:
                labels[k] = i if together >= first else where
    return total


@njit(cache=True)
def top_two(values):
    """The largest value, the largest elsewhere, and where the first is."""
    first, second, where = -np.inf, -np.inf, 0
    for i in range(values.size):
        if values[i] > first:
            second, first, where = first, values[i], i
        elif values[i] > second:
            second = values[i]
    return first, second, where


@njit(cache=True)
def second_label(values, where):
    """The label of the largest value but one."""
    best = -1
    for i in range(values.size):
        if i != where and (best < 0 or values[i] > values[best]):
            best = i
    return best


@njit(cache=True)
def by_label(order, parent, worth, up, total, out):
    """For every key group and node, the maximum given that the one is on the other, (p, n) in `out`.

    `up` and `total` are what `best_labels` left.
    """
    p, n = up.shape
    message = np.empty(n)
    rest = np.empty(n)
    for s in range(p - 1, -1, -1):  # parents before children
        k = order[s]
        j = parent[k]
        if j < 0:
            first, _, _ = top_two(up[k])
            for i in range(n):
                out[k, i] = total - first + up[k, i]
            continue
        first, second, where = top_two(up[k])
        for i in range(n):
            message[i] = max(second if i == where else first, up[k, i] + worth[k, i])
            rest[i] = out[j, i] - message[i]
        first, second, where = top_two(rest)
        for i in range(n):
            other = second if i == where else first
            out[k, i] = up[k, i] + max(other, rest[i] + worth[k, i])


@njit(cache=True)
def potentials(terms, prices, theta):
    """theta[k, i]: what key group k on node i earns, without its forest edges.

    A mover pays for the move; its weak pairs earn what they are worth on the new node and lose what they are on the current
    one, less what they may earn with others that move.
    """
    p, n = theta.shape
    use, current, open_to = terms
    for k in range(p):
        here = current[k]
        for i in range(n):
            if not open_to[k, i]:
                theta[k, i] = -1e9
                continue
            value = -prices.load[k, i]
            for r in range(use.shape[0]):
                value -= prices.use[r, i] * use[r, k]
            if i != here:
                value += prices.weak[k, i] - prices.left[k] - prices.move[k]
            theta[k, i] = value
