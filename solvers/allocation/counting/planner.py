r"""Plan counts: how "milp" finds answers where few counts are possible, as where nodes drain.

The pair counts of `keyshift.solvers.allocation.counting.bound` are not only a bound. For a target distance d, let
:math:`P_i(a, b)` be the share of random departures and arrivals, a and b of them, that bring node i within d. The plan with
the largest :math:`\prod_i P_i(a_i, b_i)` within the migration limit leaves the most ways to choose the key groups; a dynamic
program finds it. The search then chooses them by moves that keep the counts. No guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.base.compiling import njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import TINY, Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.kernels import generator
from keyshift.solvers.kernels import uniform as draw

SAMPLES, NEAREST = 400, 10
"""Samples for every node and pair of counts; of the nearest so many where fewer are within the distance."""


@dataclass
class CountPlanner:
    """Plans for one instance at any target distance.

    Parameters
    ----------
    instance : Instance
    counts : CountBound
    seed : int

    Attributes
    ----------
    useful : bool
        Whether there is anything to plan, and not too much.
    """

    instance: Instance
    counts: CountBound
    seed: int

    def __post_init__(self) -> None:
        it = self.instance
        self.size = min(self.counts.table.shape[1], self._needed() + 4)
        self.most = min(it.max_moves, it.nodes * (self.size - 1))
        self.widest = min(self.most, 4 * self.size)
        states = it.nodes * self.size**2 * (2 * self.widest + 1) * (self.most + 1)
        self.useful = self.most > 0 and it.nodes > 1 and states <= 50_000_000
        if not self.useful:
            return
        self.excess = it.deviations(it.current) / it.weight
        self.samples = np.empty((it.nodes, self.size, self.size, SAMPLES), np.float32)
        order, starts = it.space.by_node
        sample_distances(
            generator(self.seed, 0),
            it.load,
            it.space.movers,
            order,
            starts,
            self.excess,
            it.weight,
            it.draining,
            self.samples,
        )
        self.rank = self._alternating()

    def _needed(self) -> int:
        """Departures or arrivals that the furthest node needs with typical key groups."""
        it = self.instance
        typical = float(it.load.mean()) or 1.0
        return int(np.ceil(np.abs(it.deviations(it.current) / it.weight).max() / typical))

    def _alternating(self) -> IntArray:
        """Nodes in an order that keeps the running difference of departures and arrivals small."""
        ascending = np.argsort(self.excess, kind="stable")
        order = np.empty_like(ascending)
        order[0::2] = ascending[: (ascending.size + 1) // 2]
        order[1::2] = ascending[::-1][: ascending.size // 2]
        return order

    def pairs(self, distance: float, rng: np.random.Generator) -> IntArray | None:
        """Departures and arrivals of each node for a target distance, shape (n, 2); None when there is no plan."""
        penalty = -np.log(self._shares(distance))
        penalty += 0.5 * rng.random(penalty.shape) * (penalty > 0)  # another plan each time
        table = self.counts.table[:, : self.size, : self.size]
        penalty[table > distance] = NEVER
        quiet = self.instance.deviations(self.instance.current)
        quiet = np.where(self.instance.draining, np.maximum(quiet, 0.0), np.abs(quiet)) <= distance
        penalty[:, 0, 0] = np.where(quiet & (table[:, 0, 0] <= distance), 0.0, NEVER)
        total, chosen = plan(penalty[self.rank], self.most, self.widest)
        if not np.isfinite(total):
            return None
        pairs = np.empty_like(chosen)
        pairs[self.rank] = chosen
        return pairs

    def _shares(self, distance: float) -> FloatArray:
        """P: a share of the samples; where moves are many and few come so near, that of the nearest, thinned out."""
        share = (self.samples <= distance).mean(axis=3)
        if self.instance.max_moves < self.instance.nodes:
            return np.maximum(share, 1e-4)
        near = np.partition(self.samples, NEAREST - 1, axis=3)[..., NEAREST - 1].astype(np.float64)
        thinned = NEAREST / SAMPLES * distance / np.maximum(near, max(distance, TINY))
        return np.maximum(np.where(near <= distance, share, thinned), TINY)


# The compiled loops --------------------------------------------------------------------------------------------------


NEVER = 1e9


@njit(cache=True, error_model="numpy")
def sample_distances(rng, load, pool, order, starts, excess, weight, upward_only, table):
    """table[i, a, b] = deviations of node i after a random departures, and b random arrivals from the pool."""
    samples = table.shape[3]
    for i in range(table.shape[0]):
        own = order[starts[i] : starts[i + 1]].copy()
        for s in range(samples):
            left = excess[i]
            for a in range(table.shape[1]):
                if a > own.size:
                    table[i, a, :, s] = NEVER
                    continue
                if a > 0:
                    pick = a - 1 + int(draw(rng) * (own.size - a + 1))
                    own[a - 1], own[pick] = own[pick], own[a - 1]
                    left -= load[own[a - 1]]
                value = left
                for b in range(table.shape[2]):
                    deviation = value * weight[i]
                    table[i, a, b, s] = max(deviation, 0.0) if upward_only[i] else abs(deviation)
                    value += load[pool[int(draw(rng) * pool.size)]]


@njit(cache=True, error_model="numpy")
def plan(penalty, most, widest):
    """Choose a pair for each node, departures and arrivals balancing and at most `most`, of least total penalty.

    A dynamic program over (departures so far, departures less arrivals so far); the difference stays within
    `widest`. Returns the total penalty (`inf` when there is no plan) and the pairs, shape (n, 2).
    """
    n, size = penalty.shape[0], penalty.shape[1]
    width = 2 * widest + 1
    layer = np.full((most + 1, width), np.inf)
    layer[0, widest] = 0.0
    choice = np.zeros((n, most + 1, width), np.int32)
    for i in range(n):
        following = np.full((most + 1, width), np.inf)
        for a in range(size):
            for b in range(size):
                extra = penalty[i, a, b]
                if extra >= NEVER:
                    continue
                tilt = a - b
                for c in range(most + 1 - a):
                    for t in range(max(0, -tilt), min(width, width - tilt)):
                        value = layer[c, t] + extra
                        if value < following[c + a, t + tilt]:
                            following[c + a, t + tilt] = value
                            choice[i, c + a, t + tilt] = a * size + b
        layer = following
    pairs = np.zeros((n, 2), np.int64)
    count = int(np.argmin(layer[:, widest]))
    best = layer[count, widest]
    if best == np.inf:
        return best, pairs
    t = widest
    for i in range(n - 1, -1, -1):
        a, b = choice[i, count, t] // size, choice[i, count, t] % size
        pairs[i, 0], pairs[i, 1] = a, b
        count -= a
        t -= a - b
    return best, pairs
