r"""Plan counts, then realise them: how "milp" finds most of its answers.

The pair counts of `keyshift.solvers.allocation.counts` are not only a bound. For a target distance d, let
:math:`P_i(a, b)` be the share of random departures and arrivals, a and b of them, that bring node i within d. The
plan with the largest :math:`\prod_i P_i(a_i, b_i)` within the migration limit leaves the most ways to choose
the key groups; a dynamic program finds it. An annealing that never changes the counts then chooses them. No guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.workload import IntArray
from keyshift.solvers.allocation import plan_kernels as kernels
from keyshift.solvers.allocation.counts import CountBound
from keyshift.solvers.allocation.instance import Instance
from keyshift.solvers.allocation.search import generator

SAMPLES = 400
MOST_SAMPLES = 30_000_000
"""Samples in all; a larger instance gets fewer pairs, or no plan at all."""
MOST_STATES = 400_000_000
"""Steps of the dynamic program at most."""
RAREST = 1e-4
"""A pair that no sample of reached but that the bound allows counts as this likely."""


@dataclass
class Planner:
    """Plans for one instance at any target distance.

    Parameters
    ----------
    instance : Instance
    counts : CountBound
    seed : int
    """

    instance: Instance
    counts: CountBound
    seed: int

    def __post_init__(self) -> None:
        it = self.instance
        largest = max(2, int((MOST_SAMPLES / (SAMPLES * it.nodes)) ** 0.5))
        self.size = min(self.counts.table.shape[1], self._needed() + 4, largest)
        self.excess = it.deviations(it.home) / it.weight
        order, starts = it.by_node
        self.samples = np.empty((it.nodes, self.size, self.size, SAMPLES))
        kernels.sample_distances(
            generator(self.seed, 0), it.load, order, starts, self.excess, it.weight, it.draining, self.samples
        )
        self.most = min(it.max_moves, it.nodes * (self.size - 1))
        self.widest = min(self.most, 4 * self.size)
        per_move = it.nodes * self.size**2 * (2 * self.widest + 1)
        self.most = min(self.most, MOST_STATES // per_move)
        self.rank = self._alternating()

    @property
    def useful(self) -> bool:
        """Whether there is anything to plan."""
        return self.most > 0 and self.instance.nodes > 1

    def _needed(self) -> int:
        """Departures or arrivals that the furthest node needs with typical key groups."""
        it = self.instance
        typical = float(it.load.mean()) or 1.0
        return int(np.ceil(np.abs(it.deviations(it.home) / it.weight).max() / typical))

    def _alternating(self) -> IntArray:
        """Nodes in an order that keeps the running difference of departures and arrivals small."""
        ascending = np.argsort(self.excess, kind="stable")
        order = np.empty_like(ascending)
        order[0::2] = ascending[: (ascending.size + 1) // 2]
        order[1::2] = ascending[::-1][: ascending.size // 2]
        return order

    def pairs(self, distance: float, rng: np.random.Generator, most: int | None = None) -> IntArray | None:
        """Departures and arrivals of each node for a target distance, shape (n, 2); None when there is no plan."""
        share = (self.samples <= distance).mean(axis=3)
        penalty = -np.log(np.maximum(share, RAREST))
        penalty += 0.5 * rng.random(penalty.shape) * (penalty > 0)  # another plan each time
        table = self.counts.table[:, : self.size, : self.size]
        penalty[table > distance] = kernels.NEVER
        quiet = self.instance.deviations(self.instance.home)
        quiet = np.where(self.instance.draining, np.maximum(quiet, 0.0), np.abs(quiet)) <= distance
        penalty[:, 0, 0] = np.where(quiet & (table[:, 0, 0] <= distance), 0.0, kernels.NEVER)
        limit = self.most if most is None else min(most, self.most)
        total, chosen = kernels.plan(penalty[self.rank], limit, self.widest)
        if not np.isfinite(total):
            return None
        pairs = np.empty_like(chosen)
        pairs[self.rank] = chosen
        return pairs

    def realise(self, pairs: IntArray, distance: float, iterations: int, stream: int) -> IntArray | None:
        """An assignment with these counts, as even as annealing gets it."""
        it = self.instance
        order, starts = it.by_node
        rng = generator(self.seed, stream)
        moves = int(pairs[:, 0].sum())
        keys, targets = np.empty(moves, np.int64), np.empty(moves, np.int64)
        if not kernels.deal(rng, pairs, order, starts, it.home, keys, targets) or moves == 0:
            return None
        best_keys, best_targets = keys.copy(), targets.copy()
        kernels.realise(
            rng, iterations, 3, 1.0, 0.01, max(distance, 1e-9), 1.0 + it.distance(it.home), keys, targets, order, starts,
            it.load, it.weight, it.draining, it.home, it.use, it.room, it.cost, it.max_cost,
            it.deviations(it.home), it.used(it.home), best_keys, best_targets,
        )  # fmt: skip
        assignment = it.home.copy()
        assignment[best_keys] = best_targets
        return assignment
