"""The Lagrangian relaxation of mixed routing over several windows: every window has prices of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyshift.models import metrics
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.choices import Choices
from keyshift.models.routing.compact import CompactKeys
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.routing import lagrangian_kernels as kernels
from keyshift.solvers.routing.lagrangian import Prices, Relaxation
from keyshift.solvers.safe_bounds import EPSILON


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
