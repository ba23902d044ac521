"""A bound that scales to a million keys: the Lagrangian dual of mixed routing, by cutting planes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget, metrics
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.choices import Choices
from keyshift.models.routing.compact import CompactKeys
from keyshift.models.tuning import Settings
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.routing import lagrangian_kernels as kernels
from keyshift.solvers.safe_bounds import EPSILON, LinearProgram


@dataclass(frozen=True)
class DualSettings(Settings):
    """Tuning numbers of the Lagrangian dual, and of the restricted programs that its prices lead to.

    Attributes
    ----------
    converged : float
        Stop when the cuts promise no more than this share of the total state.
    rounds : int
        Rounds of cutting planes at most.
    indifferent : float
        Costs closer than this share of the total state are the same to the restricted programs.
    others : int
        Nodes, besides its current one and its hash, that a record may go to in a restricted program.
    """

    converged: float = 1e-7
    rounds: int = 200
    indifferent: float = 1e-9
    others: int = 4


PLACED = 10.0
"""The state of a record whose node is given, in shares of all the state there is."""


@dataclass(frozen=True)
class Prices:
    """Multipliers, in shares of the total state: of each node's upper and lower load limit, and of a table entry.

    Loads are in units of the mean node load; `entry` is the price of as many entries as there are keys.
    """

    upper: FloatArray
    lower: FloatArray
    entry: float


class Relaxation:
    r"""The Lagrangian relaxation of (2), (3), (4): each record by itself, in O(r) for n nodes.

    .. math:: g(\lambda, \nu, \mu) = \sum_t m_t \min_d
              \bigl( S_t [d \ne F_t] + (\lambda_d - \nu_d) c_t + \mu [d \ne h_t] \bigr)
              - \lambda^T U + \nu^T B - \mu A_{max}

    is a lower bound for every :math:`\lambda, \nu, \mu \ge 0`, with U and B the right sides of (2) and (3). Its
    maximum is the value of the linear relaxation, because what remains is (1) alone, whose corners are whole.
    Only three nodes can be cheapest for a record: its current one, its hash, and the other one of cheapest load.

    Parameters
    ----------
    problem : MixedRouting
    keys : CompactKeys
        Records, grouped without discretisation.
    placed : pair of ndarray of int, optional
        Records that go to given nodes, and these nodes: they are at home there, and moving them costs more than anything else.
        Then g bounds only what the others move.
    """

    def __init__(
        self,
        problem: MixedRouting,
        keys: CompactKeys,
        placed: tuple[IntArray, IntArray] | None = None,
    ) -> None:
        w = problem.workload
        self.settings = DualSettings.now()
        self.problem, self.keys = problem, keys
        self.mean = metrics.mean_load(w) or 1.0
        self.load, self.state = keys.load / self.mean, keys.state / problem.scale
        self.entries = float(w.key_groups)
        # Twice the slack of the check: its own sums are rounded too, and the bound has to hold for all it accepts.
        self.upper = (problem.upper + 2 * problem.slack) / self.mean
        self.lower = np.maximum(problem.lower - 2 * problem.slack, 0.0) / self.mean
        self.limit = problem.table_limit / self.entries
        self.kept = w.kept
        self.current, self.home = keys.current, keys.home
        if placed is not None:
            record, node = placed
            self.limit -= float(keys.count[record] @ (node != keys.home[record])) / self.entries
            self.current, self.home, self.state = self.current.copy(), self.home.copy(), self.state.copy()
            self.current[record] = self.home[record] = node
            self.state[record] = PLACED

    def node_prices(self, prices: Prices) -> tuple[FloatArray, float, IntArray]:
        """Price of a unit of load on each node, of an entry, and the kept nodes by ascending price of load."""
        price = prices.upper - prices.lower
        order = np.argsort(price, kind="stable")
        return price, prices.entry / self.entries, order[self.kept[order]]

    def _records(self) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        return self.load, self.state, self.current, self.home

    def cuts(self, prices: Prices) -> tuple[FloatArray, FloatArray, FloatArray]:
        """State moved, load put on each node and entries used, by the keys now on each node, at some prices."""
        price, entry, order = self.node_prices(prices)
        load, state, current, home = self._records()
        moved, onto, entries = kernels.relax(
            load, state, self.keys.count, current, home, price, entry, self.kept, order
        )
        return moved, onto, entries / self.entries

    def constant(self, prices: Prices) -> float:
        """The part of g without keys."""
        rows = prices.lower.ravel() @ self.lower.ravel() - prices.upper.ravel() @ self.upper.ravel()
        return float(rows - prices.entry * self.limit)

    def value(self, prices: Prices) -> float:
        """g, as floats give it."""
        moved, onto, entries = self.cuts(prices)
        price = (prices.upper - prices.lower).ravel()
        return float(moved.sum() + (onto @ price).sum() + prices.entry * entries.sum()) + self.constant(prices)

    def first_prices(self) -> Prices:
        """Where the climb begins."""
        return first_prices(self)

    def least(self, prices: Prices) -> tuple[IntArray, FloatArray, FloatArray]:
        """Cheapest node of each record, its cost, and by how much the second best costs more."""
        price, entry, order = self.node_prices(prices)
        best, least, regret = kernels.choices(*self._records(), price, entry, self.kept, order)
        return best, least, regret

    def safe_value(self, prices: Prices) -> float:
        """g in units of state, less what rounding can have added: an exact sum, four roundings a term."""
        _, least, _ = self.least(prices)
        terms = least * self.keys.count
        parts = np.concatenate([
            terms, (prices.lower * self.lower).ravel(), -(prices.upper * self.upper).ravel(), [-prices.entry * self.limit]
        ])  # fmt: skip
        magnitude = self.magnitude(prices) + float(np.abs(parts[terms.size :]).sum())
        return (math.fsum(parts) - 16 * EPSILON * magnitude) * self.problem.scale

    def magnitude(self, prices: Prices) -> float:
        """A term is the least of some sums of state, load * price and entry price: their magnitudes bound the rounding."""
        price, entry, _ = self.node_prices(prices)
        return float((self.keys.count * (self.state + self.load * np.abs(price).max() + entry)).sum())

    def open_choices(self, prices: Prices, allowance: float) -> Choices:
        """Pairs that cost at most `allowance` more than their record's cheapest.

        Every assignment that uses another pair is worse than g by more than the allowance: the reduced-cost argument.
        """
        price, entry, _ = self.node_prices(prices)
        _, least, _ = self.least(prices)
        args = (np.arange(self.keys.size), *self._records(), price, entry, self.kept, least, allowance)
        record = np.empty(kernels.count_open(*args), dtype=np.int64)
        node = np.empty_like(record)
        kernels.list_open(*args, record, node)
        return Choices.of(self.problem, self.keys, record, node)

    def core_choices(self, prices: Prices, pairs: int) -> Choices:
        """A program of about this many pairs: the records whose decision is least clear stay open, the others are fixed.

        A fixed record stays, or goes home, or elsewhere, as the prices want it (it stays where they are indifferent);
        among nodes of one price its keys go to the emptiest, the heaviest first. Among records of equal clarity,
        heavy keys (few entries) and light ones (they fit) stay open by turns.
        """
        keys = self.keys
        price, entry, order = self.node_prices(prices)
        best, least, regret = self.least(prices)
        current, home = self.current, self.home
        staying = price[current] * self.load + entry * (current != home)
        best = np.where(self.kept[current] & (staying <= least + self.settings.indifferent), current, best)
        options = min(order.size, self.settings.others + 2)
        from_top = np.argsort(np.argsort(-keys.load, kind="stable"), kind="stable")
        by_turns = np.minimum(from_top, keys.size - 1 - from_top)
        core = np.lexsort((by_turns, np.floor(regret / self.settings.indifferent)))[: max(1, pairs // options)]
        core = np.sort(core)
        fixed = np.ones(keys.size, dtype=bool)
        fixed[core] = False
        elsewhere = (best != current) & (best != home)
        plain = np.flatnonzero(fixed & ~elsewhere)
        used = np.bincount(best[~elsewhere], (self.load * keys.count)[~elsewhere], self.upper.size)
        movers = np.flatnonzero(fixed & elsewhere)
        movers = movers[np.argsort(-self.load[movers], kind="stable")]
        shares = tuple(np.empty(int(keys.count[movers].sum()), dtype=np.int64) for _ in range(3))
        written = kernels.spread(movers, self.load, keys.count, current, home, price, order, self.upper, used, shares)
        record, node = np.empty((2, core.size * options), dtype=np.int64)
        listed = kernels.list_few(core, current, home, price, self.kept, order, self.settings.others, record, node)
        opened = Choices.of(self.problem, keys, record[:listed], node[:listed])
        return replace(
            opened,
            fixed=np.concatenate([opened.fixed, plain, shares[0][:written]]),
            fixed_node=np.concatenate([opened.fixed_node, best[plain], shares[1][:written]]),
            fixed_units=np.concatenate([opened.fixed_units, keys.count[plain], shares[2][:written]]),
        )

    def count_open(self, prices: Prices, allowance: float) -> int:
        """How many pairs `open_choices` would list."""
        price, entry, _ = self.node_prices(prices)
        _, least, _ = self.least(prices)
        everything = np.arange(self.keys.size)
        return int(kernels.count_open(everything, *self._records(), price, entry, self.kept, least, allowance))


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
    """Prices at which each overloaded node alone sheds its excess: the critical ratio of a fractional knapsack."""
    keys, n = relaxation.keys, relaxation.upper.size
    load, state = relaxation.load * keys.count, relaxation.state
    used = np.bincount(relaxation.current, weights=load, minlength=n)
    upper = np.zeros(n)
    for d in np.flatnonzero(relaxation.kept & (used > relaxation.upper)):
        on = np.flatnonzero((relaxation.current == d) & (keys.load > 0))
        ratio = state[on] / relaxation.load[on]
        order = np.argsort(ratio, kind="stable")
        enough = int(np.searchsorted(np.cumsum(load[on[order]]), used[d] - relaxation.upper[d]))
        upper[d] = ratio[order[min(enough, order.size - 1)]]
    return Prices(upper, np.zeros(n), 0.0)


def maximise(relaxation: Relaxation, budget: Budget, seed: int = 0) -> Dual:
    """Climb the dual by cutting planes in a box around the best prices, which grows and shrinks [Marsten1975].

    Every round costs O(r) and a small linear program. Any end, early or not, leaves a valid bound.
    """
    climb = _Climb(relaxation, seed)
    settings, done = relaxation.settings, 0
    while done < settings.rounds and not climb.converged and not budget.expired:
        if climb.best > 1.0 + settings.converged:  # more than all state: nothing is feasible
            break
        climb.step(budget)
        done += 1
        budget.report(bound=max(0.0, climb.best) * relaxation.problem.scale, note="bound")
    return Dual(climb.centre, relaxation.safe_value(climb.centre), done, climb.converged)


class _Climb:
    """The cuts so far, the best prices, and the box around them. Vectors are (upper, lower if any, entry)."""

    def __init__(self, relaxation: Relaxation, seed: int) -> None:
        self.relaxation, self.seed = relaxation, seed
        self.shape, self.n = relaxation.upper.shape, relaxation.kept.size
        self.two_sided = bool((relaxation.lower > 0).any())
        self.limited = relaxation.limit < 1.0
        self.rows: list[sp.csr_array] = []
        self.offsets: list[FloatArray] = []
        self.centre = relaxation.first_prices()
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
        moved, onto, entries = self.relaxation.cuts(prices)
        columns = [onto, -onto] if self.two_sided else [onto]
        self.rows.append(sp.csr_array(np.hstack([*columns, entries[:, None]])))
        self.offsets.append(moved)
        price = (prices.upper - prices.lower).ravel()
        own = float(moved.sum() + (onto @ price).sum() + prices.entry * entries.sum())
        return own + self.relaxation.constant(prices)

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
        if promised <= self.relaxation.settings.converged:
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
        return np.concatenate([-r.upper.ravel(), r.lower.ravel() if self.two_sided else [], [-r.limit]])

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


# The Lagrangian relaxation of mixed routing over several windows: every window has prices of its own -------------------


class WindowRelaxation(Relaxation):
    r"""`Relaxation` over k windows: load costs :math:`\sum_s (\lambda_{sd} - \nu_{sd}) c_{ts}` on node d; all nodes are tried.

    O(r n k) for r records. Prices of load have the shape (k, n), in units of each window's mean.

    Parameters
    ----------
    problem : MixedRouting
    keys : CompactKeys
        A record for each key.
    """

    def __init__(self, problem: MixedRouting, keys: CompactKeys) -> None:
        super().__init__(problem.averaged(), keys)
        self.problem, each = problem, problem.by_window
        means = np.array([metrics.mean_load(window.workload) or 1.0 for window in each])[:, None]
        self.room = self.upper  # of the mean load, which fills nodes in `core_choices`
        self.loads = np.array([window.workload.last_load[keys.members] for window in each]) / means
        self.upper = np.array([window.upper + 2 * window.slack for window in each]) / means
        self.lower = np.array([np.maximum(window.lower - 2 * window.slack, 0.0) for window in each]) / means

    def costs(self, prices: Prices) -> FloatArray:
        """The cost of each record's keys on each node, shape (r, n)."""
        price, entry, _ = self.node_prices(prices)
        nodes = np.arange(self.kept.size)
        cost = self.loads.T @ price + self.state[:, None] * (nodes != self.keys.current[:, None])
        cost += entry * (nodes != self.keys.home[:, None])
        cost[:, ~self.kept] = np.inf
        return np.asarray(cost)

    def first_prices(self) -> Prices:
        """None: a node's own excess in one window says little of what another window leaves to shed."""
        return Prices(np.zeros_like(self.upper), np.zeros_like(self.upper), 0.0)

    def node_prices(self, prices: Prices) -> tuple[FloatArray, float, IntArray]:
        price = prices.upper - prices.lower
        order = np.argsort(price.sum(axis=0), kind="stable")
        return price, prices.entry / self.entries, order[self.kept[order]]

    def cuts(self, prices: Prices) -> tuple[FloatArray, FloatArray, FloatArray]:
        keys, n = self.keys, self.kept.size
        best = self.least(prices)[0]
        onto = np.zeros((n, len(self.loads), n))
        for s, load in enumerate(self.loads * keys.count):
            np.add.at(onto[:, s], (keys.current, best), load)
        moved = np.bincount(keys.current, self.state * keys.count * (best != keys.current), n)
        entries = np.bincount(keys.current, keys.count * (best != keys.home), n)
        return moved, onto.reshape(n, -1), entries / self.entries

    def least(self, prices: Prices) -> tuple[IntArray, FloatArray, FloatArray]:
        cost = self.costs(prices)
        best = np.argmin(cost, axis=1)
        least = cost.min(axis=1)
        cost[np.arange(best.size), best] = np.inf
        return best, least, cost.min(axis=1) - least

    def magnitude(self, prices: Prices) -> float:
        price, entry, _ = self.node_prices(prices)
        charged = np.abs(price).max(axis=1) @ self.loads * len(price)
        return float((self.keys.count * (self.state + charged + entry)).sum())

    def open_choices(self, prices: Prices, allowance: float) -> Choices:
        record, node = np.nonzero(self._open(prices, allowance))
        return Choices.of(self.problem, self.keys, record, node)

    def count_open(self, prices: Prices, allowance: float) -> int:
        return int(self._open(prices, allowance).sum())

    def _open(self, prices: Prices, allowance: float) -> np.ndarray:
        cost = self.costs(prices)
        return np.isfinite(cost) & (
            cost <= cost.min(axis=1)[:, None] + allowance + 64 * EPSILON * self.magnitude(prices)
        )

    def core_choices(self, prices: Prices, pairs: int) -> Choices:
        keys, cost = self.keys, self.costs(prices)
        price, _, order = self.node_prices(prices)
        best, least, regret = self.least(prices)
        rows = np.arange(keys.size)
        best = np.where(cost[rows, keys.current] <= least + self.settings.indifferent, keys.current, best)
        options = min(order.size, self.settings.others + 2)
        core = np.sort(np.argsort(regret, kind="stable")[: max(1, pairs // options)])
        cheapest = np.argsort(cost[core], axis=1, kind="stable")[:, :options]
        opened = np.zeros((keys.size, self.kept.size), dtype=bool)
        opened[core[:, None], cheapest] = True
        opened[core, keys.current[core]] = opened[core, keys.home[core]] = True
        opened &= self.kept
        fixed = np.ones(keys.size, dtype=bool)
        fixed[core] = False
        elsewhere = fixed & (best != keys.current) & (best != keys.home)
        plain = np.flatnonzero(fixed & ~elsewhere)
        used = np.bincount(best[~elsewhere], (self.load * keys.count)[~elsewhere], self.room.size)
        movers = np.flatnonzero(elsewhere)
        movers = movers[np.argsort(-self.load[movers], kind="stable")]
        shares = tuple(np.empty(int(keys.count[movers].sum()), dtype=np.int64) for _ in range(3))
        written = kernels.spread(
            movers, self.load, keys.count, keys.current, keys.home, price.sum(axis=0), order, self.room, used, shares
        )
        made = Choices.of(self.problem, keys, *np.nonzero(opened))
        return replace(
            made,
            fixed=np.concatenate([made.fixed, plain, shares[0][:written]]),
            fixed_node=np.concatenate([made.fixed_node, best[plain], shares[1][:written]]),
            fixed_units=np.concatenate([made.fixed_units, keys.count[plain], shares[2][:written]]),
        )


def relaxation_of(problem: MixedRouting, keys: CompactKeys) -> Relaxation:
    """The relaxation that a problem needs, over one window or several."""
    return WindowRelaxation(problem, keys) if problem.several else Relaxation(problem, keys)
