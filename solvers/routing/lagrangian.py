"""A bound that scales to a million keys: the Lagrangian dual of mixed routing, by cutting planes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import Choices, CompactKeys
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.safe_bounds import EPSILON, LinearProgram

CONVERGED = 1e-7
"""The dual ends when its cuts allow an improvement of at most this share of the total state."""


NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Prices:
    """Multipliers, in shares of the total state: of each node's load limits in each window, shape (k, n), and of a table entry.

    Loads are in units of each window's mean node load; `entry` is the price of as many entries as there are keys.
    """

    upper: FloatArray
    lower: FloatArray
    entry: float


class Relaxation:
    r"""The Lagrangian relaxation of (2), (3), (4) over k windows: each record by itself, in O(r) for one window, else O(r n k).

    .. math:: g(\lambda, \nu, \mu) = \sum_t m_t \min_d
              \bigl( S_t [d \ne F_t] + \sum_s (\lambda_{sd} - \nu_{sd}) c_{st} + \mu [d \ne h_t] \bigr)
              - \lambda^T U + \nu^T B - \mu A_{max}

    is a lower bound for every :math:`\lambda, \nu, \mu \ge 0`, with U and B the right sides of (2) and (3). Its
    maximum is the value of the linear relaxation, because what remains is (1) alone, whose corners are whole.
    In one window only three nodes can be cheapest for a record: its current one, its hash, and the other one of cheapest load.

    Parameters
    ----------
    problem : MixedRouting
    keys : CompactKeys
        Records, grouped without discretisation.

    Attributes
    ----------
    load, upper, lower : ndarray
        Each record's load and each node's limits on average over the windows, in units of the mean.
    loads, uppers, lowers : ndarray, shape (k, r) or (k, n)
        The same window by window.
    """

    def __init__(self, problem: MixedRouting, keys: CompactKeys) -> None:
        w, typical = problem.workload, problem.averaged()
        self.problem, self.keys = problem, keys
        self.mean = typical.workload.mean_load or 1.0
        self.load, self.state = keys.load / self.mean, keys.state / problem.scale
        self.entries = float(w.key_groups)
        self.upper, self.lower = self._limits(typical)
        each = problem.by_window
        self.uppers, self.lowers = np.array([self._limits(window) for window in each]).swapaxes(0, 1)
        means = [window.workload.mean_load or 1.0 for window in each]
        self.loads = np.array(
            [window.workload.last_load[keys.heads] / mean for window, mean in zip(each, means, strict=True)]
        )
        self.limit = problem.table_limit / self.entries
        self.kept, self.current, self.home = w.kept, keys.current, keys.home

    @staticmethod
    def _limits(window: MixedRouting) -> tuple[FloatArray, FloatArray]:
        """Right sides of (2) and (3) in one window. Twice the slack of the check: its own sums are rounded too."""
        mean = window.workload.mean_load or 1.0
        upper = (window.upper + 2 * window.slack) / mean
        return upper, np.maximum(window.lower - 2 * window.slack, 0.0) / mean

    def node_prices(self, prices: Prices) -> tuple[FloatArray, float, IntArray]:
        """Price of a unit of load on each node and in each window, of an entry, and the kept nodes by ascending price of load."""
        price = prices.upper - prices.lower
        order = np.argsort(price.sum(axis=0), kind="stable")
        return price, prices.entry / self.entries, order[self.kept[order]]

    def _records(self) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        return self.loads, self.state, self.current, self.home

    def cuts(self, prices: Prices) -> tuple[FloatArray, FloatArray, FloatArray]:
        """State moved, load put on each node and entries used, by the keys now on each node, at some prices."""
        price, entry, order = self.node_prices(prices)
        loads, state, current, home = self._records()
        moved, onto, entries = relax(loads, state, self.keys.count, current, home, price, entry, self.kept, order)
        return moved, onto.reshape(self.kept.size, -1), entries / self.entries

    def value(self, prices: Prices, cuts: tuple[FloatArray, FloatArray, FloatArray] | None = None) -> float:
        """g, as floats give it."""
        moved, onto, entries = self.cuts(prices) if cuts is None else cuts
        keys = moved.sum() + (onto @ (prices.upper - prices.lower).ravel()).sum() + prices.entry * entries.sum()
        rows = prices.lower.ravel() @ self.lowers.ravel() - prices.upper.ravel() @ self.uppers.ravel()
        return float(keys) + float(rows - prices.entry * self.limit)

    def least(self, prices: Prices) -> FloatArray:
        """The least cost of each record, on whichever node."""
        price, entry, order = self.node_prices(prices)
        return cheapest(*self._records(), price, entry, self.kept, order)

    def safe_value(self, prices: Prices) -> float:
        """g in units of state, less what rounding can have added: an exact sum, four roundings a term."""
        terms = self.least(prices) * self.keys.count
        parts = np.concatenate([
            terms, (prices.lower * self.lowers).ravel(), -(prices.upper * self.uppers).ravel(), [-prices.entry * self.limit]
        ])  # fmt: skip
        magnitude = self.magnitude(prices) + float(np.abs(parts[terms.size :]).sum())
        return (math.fsum(parts) - 16 * EPSILON * magnitude) * self.problem.scale

    def magnitude(self, prices: Prices) -> float:
        """A term is the least of some sums of state, load * price and entry price: their magnitudes bound the rounding."""
        price, entry, _ = self.node_prices(prices)
        charged = np.abs(price).max(axis=1) @ self.loads * len(price)
        return float((self.keys.count * (self.state + charged + entry)).sum())

    def open_choices(self, prices: Prices, allowance: float) -> Choices:
        """Pairs that cost at most `allowance` more than their record's cheapest.

        Every assignment that uses another pair is worse than g by more than the allowance: the reduced-cost argument.
        """
        args = self._open(prices, allowance)
        record, node = np.empty((2, list_open(*args, NONE, NONE)), dtype=np.int64)
        list_open(*args, record, node)
        return Choices.of(self.problem, self.keys, record, node)

    def count_open(self, prices: Prices, allowance: float) -> int:
        """How many pairs `open_choices` would list."""
        return int(list_open(*self._open(prices, allowance), NONE, NONE))

    def _open(self, prices: Prices, allowance: float) -> tuple[Any, ...]:
        """What `list_open` reads."""
        price, entry, _ = self.node_prices(prices)
        every, least = np.arange(self.keys.size), self.least(prices)
        return (every, *self._records(), price, entry, self.kept, least, allowance)


@dataclass(frozen=True)
class Dual:
    """The best prices found, the safe bound they prove (units of state), and how it ended."""

    prices: Prices
    bound: float
    rounds: int
    converged: bool

    def excludes_everything(self, problem: MixedRouting) -> bool:
        """Whether the bound exceeds all the state there is: then no assignment is feasible."""
        return self.bound > float(problem.workload.state.sum()) * (1 + 1e-9) + 1e-9 * problem.scale


def first_prices(relaxation: Relaxation) -> Prices:
    """Prices at which each overloaded node alone sheds its excess: the critical ratio of a fractional knapsack.

    Of k windows each asks for its own, and the mean of these is no worse than they are on average: g is concave.
    """
    r, windows = relaxation, len(relaxation.loads)
    upper = np.zeros_like(r.uppers)
    for s, (load, limit) in enumerate(zip(r.loads, r.uppers, strict=True)):
        used = np.bincount(r.current, weights=load * r.keys.count, minlength=limit.size)
        for d in np.flatnonzero(r.kept & (used > limit)):
            on = np.flatnonzero((r.current == d) & (load > 0))
            ratio = r.state[on] / load[on]
            order = np.argsort(ratio, kind="stable")
            enough = int(np.searchsorted(np.cumsum((load * r.keys.count)[on[order]]), used[d] - limit[d]))
            upper[s, d] = ratio[order[min(enough, order.size - 1)]] / windows
    return Prices(upper, np.zeros_like(upper), 0.0)


def maximise(relaxation: Relaxation, budget: Budget, seed: int = 0, rounds: int = 200) -> Dual:
    """Climb the dual by cutting planes in a box around the best prices, which grows and shrinks [Marsten1975].

    Every round costs O(r) and a small linear program. Any end, early or not, leaves a valid bound.
    """
    climb = _Climb(relaxation, seed)
    done = 0
    while done < rounds and not climb.converged and not budget.expired:
        if climb.best > 1.0 + CONVERGED:  # more than all state: nothing is feasible
            break
        climb.step(budget)
        budget.spend(10 * relaxation.keys.size)
        done += 1
        budget.report(bound=max(0.0, climb.best) * relaxation.problem.scale, note="bound")
    return Dual(climb.centre, relaxation.safe_value(climb.centre), done, climb.converged)


class _Climb:
    """The cuts so far, the best prices, and the box around them. Vectors are (upper, lower if any, entry)."""

    def __init__(self, relaxation: Relaxation, seed: int) -> None:
        self.relaxation, self.seed = relaxation, seed
        self.shape, self.n = relaxation.uppers.shape, relaxation.kept.size
        self.two_sided = bool((relaxation.lowers > 0).any())
        self.limited = relaxation.limit < 1.0
        self.rows: list[sp.csr_array] = []
        self.offsets: list[FloatArray] = []
        self.centre = first_prices(relaxation)
        self.best = self._cut(self.centre)
        self.radius = max(0.05, float(self.centre.upper.max(initial=0.0)))
        self.converged = False

    def _vector(self, prices: Prices) -> FloatArray:
        return np.concatenate([prices.upper.ravel(), prices.lower.ravel() if self.two_sided else [], [prices.entry]])

    def _prices(self, vector: FloatArray) -> Prices:
        rows = math.prod(self.shape)
        lower = vector[rows : 2 * rows] if self.two_sided else np.zeros(rows)
        return Prices(vector[:rows].reshape(self.shape), lower.reshape(self.shape), float(vector[-1]))

    def _cut(self, prices: Prices) -> float:
        """Add, for the keys now on each node, what their least cost is at most; returns g."""
        moved, onto, entries = cuts = self.relaxation.cuts(prices)
        columns = [onto, -onto] if self.two_sided else [onto]
        self.rows.append(sp.csr_array(np.hstack([*columns, entries[:, None]])))
        self.offsets.append(moved)
        return self.relaxation.value(prices, cuts)

    def step(self, budget: Budget) -> None:
        """Solve the master, evaluate its prices, and move or shrink."""
        centre = self._vector(self.centre)
        result = highs.minimise(self._master(centre), budget, seed=self.seed, relax=True)
        if result.values is None:
            self.converged = result.termination not in ("time_limit", "interrupted")
            return
        proposal = result.values[: centre.size]
        slope = self._constant_row()
        promised = float(result.values[centre.size :].sum() + slope @ proposal) - self.best
        if promised <= CONVERGED:
            inside = np.abs(proposal - centre).max() < self.radius * (1 - 1e-9)
            self.converged = inside or self.radius > 1e6
            self.radius *= 10
            return
        prices = self._prices(np.maximum(proposal, 0.0))
        gained = self._cut(prices) - self.best
        if gained > 0:
            self.centre, self.best = prices, self.best + gained
        if gained > 0.5 * promised:
            self.radius *= 2
        elif gained < 0.1 * promised:
            self.radius *= 0.5

    def _constant_row(self) -> FloatArray:
        """Slope of the part of g without keys."""
        r = self.relaxation
        return np.concatenate([-r.uppers.ravel(), r.lowers.ravel() if self.two_sided else [], [-r.limit]])

    def _master(self, centre: FloatArray) -> LinearProgram:
        """max sum z_i + slope @ y, z_i <= every cut at y, y in the box."""
        cuts = len(self.rows)
        y = sp.vstack(self.rows)
        z = sp.vstack([sp.eye_array(self.n)] * cuts)
        slope = self._constant_row()
        top = np.where(np.arange(centre.size) < centre.size - 1 + self.limited, centre + self.radius, 0.0)
        return LinearProgram(
            cost=np.concatenate([-slope, -np.ones(self.n)]),
            offset=0.0,
            matrix=sp.csr_array(sp.hstack([-y, z])),
            row_lower=np.full(cuts * self.n, -np.inf),
            row_upper=np.concatenate(self.offsets),
            column_lower=np.concatenate([np.maximum(centre - self.radius, 0.0), np.full(self.n, -np.inf)]),
            column_upper=np.concatenate([top, np.full(self.n, np.inf)]),
            integer=np.zeros(centre.size + self.n, dtype=bool),
        )


# The compiled loops: r records of keys alike, n nodes, k windows; loads (k, r), prices (k, n) ------------------------


@njit(**LEAF)
def _cost(load, state, current, home, r, d, price, entry):
    """Cost of one key of record r on node d, at the prices of load and of a table entry."""
    cost = price[0, d] * load[0, r]
    for s in range(1, price.shape[0]):
        cost += price[s, d] * load[s, r]
    if d != current[r]:
        cost += state[r]
    if d != home[r]:
        cost += entry
    return cost


@njit(**LEAF)
def _cheapest(load, state, current, home, r, price, entry, kept, by_price):
    """Cheapest node of a record and its cost; staying wins ties, then the hash, then the cheaper load."""
    best, least = -1, np.inf
    i, h = current[r], home[r]
    if kept[i]:
        best, least = i, _cost(load, state, current, home, r, i, price, entry)
    if h != i and kept[h]:
        cost = _cost(load, state, current, home, r, h, price, entry)
        if cost < least:
            best, least = h, cost
    for d in by_price:  # of the nodes that are neither, the first is the cheapest in one window
        if d != i and d != h:
            cost = _cost(load, state, current, home, r, d, price, entry)
            if cost < least:
                best, least = d, cost
            if price.shape[0] == 1:
                break
    return best, least


@njit(cache=True)
def relax(load, state, count, current, home, price, entry, kept, by_price):
    """Minimise the Lagrangian record by record, and sum what a cut needs for each current node.

    Returns (state moved (n,), load on each node in each window (n, k, n), entries (n,)) of the records now on each node.
    """
    k, n = price.shape
    moved, onto, entries = np.zeros(n), np.zeros((n, k, n)), np.zeros(n)
    for r in range(load.shape[1]):
        i = current[r]
        d, _ = _cheapest(load, state, current, home, r, price, entry, kept, by_price)
        for s in range(k):
            onto[i, s, d] += load[s, r] * count[r]
        if d != i:
            moved[i] += state[r] * count[r]
        if d != home[r]:
            entries[i] += count[r]
    return moved, onto, entries


@njit(cache=True)
def cheapest(load, state, current, home, price, entry, kept, by_price):
    """The least cost of each record."""
    least = np.empty(load.shape[1])
    for r in range(least.size):
        _, least[r] = _cheapest(load, state, current, home, r, price, entry, kept, by_price)
    return least


@njit(cache=True)
def list_open(records, load, state, current, home, price, entry, kept, least, allowance, record, node):
    """Write the (record, node) pairs that cost at most `allowance` more than the record's cheapest, as far as there is room.

    Returns how many there are.
    """
    at = 0
    for r in records:
        for d in range(price.shape[1]):
            if kept[d] and _cost(load, state, current, home, r, d, price, entry) <= least[r] + allowance:
                if at < record.size:
                    record[at], node[at] = r, d
                at += 1
    return at
