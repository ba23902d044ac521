r"""A lower bound over several windows: the joint linear relaxation, by rows and columns as they are needed.

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

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.workload import FloatArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.windows.arrays import WindowInstance
from keyshift.solvers.allocation.windows.master import MoveMaster, Weights

ROUNDS = 60
TARGETS = 3
"""Targets of a key group that are added at once, the cheapest first."""
MOST_MOVES = 150
"""Key groups of which moves are added at once."""
PAYS = 1e-9
"""A move whose reduced cost is not below this is left out."""


class PricedMoves(NamedTuple):
    """The moves under some weights."""

    value: float
    """L, in units of the mean."""
    cost: FloatArray
    """The cost of each move, shape (p, n); infinite where it is not allowed."""


class MoveBound:
    """The best bound so far, in units of the mean.

    Parameters
    ----------
    instance : WindowInstance
    """

    def __init__(self, instance: WindowInstance) -> None:
        it = self.instance = instance
        self.best = 0.0
        self.ended = it.max_moves == 0
        self.rest = it.window_deviations(it.current)
        self.closed = ~it.problem.open_pairs
        self.closed[np.arange(it.key_groups), it.current] = True
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
        self.best = max(self.best, priced.value)
        self.master.add_rows(signed)
        self._add_paying(priced.cost, PAYS)
        return self.best

    def improve(self, expired: Callable[[], bool], rounds: int = ROUNDS) -> float:
        """Some rounds more; returns the best bound."""
        for _ in range(rounds):
            if self.ended or expired():
                break
            broken = self.master.add_broken_rows()
            if not self.master.solve():
                break
            paying = self._add_moves()
            if paying and not self.master.solve():
                break
            self.ended = broken + paying == 0
        return self.best

    def priced(self, weights: Weights) -> PricedMoves:
        """L for some weights."""
        it = self.instance
        scaled = weights.signed * it.weight[:, None]
        here = scaled[it.current]
        cost = it.loads @ scaled.T - np.einsum("pk,pk->p", it.loads, here)[:, None] + weights.cost * it.cost[:, None]
        cost[self.closed] = np.inf
        cheapest = np.sort(np.minimum(cost.min(axis=1), 0.0))[: it.max_moves]
        spent = weights.cost * it.max_cost if weights.cost > 0 else 0.0
        value = float((weights.signed * self.rest).sum() + cheapest.sum()) - spent
        doubt = 4 * it.doubt * float(np.abs(weights.signed).sum()) + 1e-12 * spent
        return PricedMoves(value - doubt, cost)

    def _add_moves(self) -> int:
        """Add the moves that would pay at the master's weights; how many."""
        weights = self.master.weights()
        priced = self.priced(weights)
        self.best = max(self.best, priced.value)
        return self._add_paying(priced.cost + weights.move + weights.once[:, None], PAYS)

    def _add_paying(self, cost: FloatArray, pays: float) -> int:
        """Add moves that cost less than nothing; how many."""
        added = 0
        for k in np.argsort(cost.min(axis=1))[:MOST_MOVES].tolist():
            for j in np.argsort(cost[k])[:TARGETS].tolist():
                if cost[k, j] < -pays:
                    added += self.master.add_move(k, j)
        return added


def window_bound(problem: KeyGroupAllocation, budget: Budget) -> Answer:
    """The better of the joint linear relaxation and the windows' own counts; no assignment."""
    instance = WindowInstance(problem)
    bound = MoveBound(instance)
    counted = counted_bound(problem, lambda: budget.expired)
    low = stay_value(instance)
    if instance.max_moves > 0:
        bound.begin()
        low = bound.improve(lambda: budget.expired)
    return Answer(None, max(counted, low * problem.scale), budget.why if budget.expired else "completed")


def counted_bound(problem: KeyGroupAllocation, expired: Callable[[], bool]) -> float:
    """The bound (8) of each window's own bound by counts of moves: higher than the joint one where few may move."""
    lows = np.zeros(problem.planned.count)
    for s, window in enumerate(problem.by_window):
        if expired():
            break
        low = CountBound(Instance(window), expired).bound() * window.scale
        lows[s] = low if np.isfinite(low) else 0.0
    return problem.planned.combined(lows) * (1 - 1e-12)


def stay_value(instance: WindowInstance) -> float:
    """The objective of the current assignment, the only one where nothing may move."""
    return max(0.0, instance.distance(instance.current) - 4 * instance.doubt)
