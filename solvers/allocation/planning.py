r"""Plan counts, then realise them: how "milp" finds most of its answers.

The pair counts of `keyshift.solvers.allocation.counts` are not only a bound. For a target distance d, let
:math:`P_i(a, b)` be the share of random departures and arrivals, a and b of them, that bring node i within d. The
plan with the largest :math:`\prod_i P_i(a_i, b_i)` within the migration limit leaves the most ways to choose
the key groups; a dynamic program finds it. An annealing that never changes the counts then chooses them. No guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation import plan_kernels as kernels
from keyshift.solvers.allocation.counts import CountBound
from keyshift.solvers.allocation.instance import Instance
from keyshift.solvers.allocation.search import generator

SAMPLES, FEWEST_SAMPLES = 400, 60
"""Samples of every node and pair, and the fewest that a large instance is left with."""
MOST_SAMPLES = 60_000_000
"""Samples in all; beyond, pairs of many departures or arrivals are left out."""
MOST_STATES = 200_000_000
"""Steps of the dynamic program at most; beyond, two multipliers take its place."""
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
        largest = max(2, int((MOST_SAMPLES / (FEWEST_SAMPLES * it.nodes)) ** 0.5))
        self.size = min(self.counts.table.shape[1], self._needed() + 4, largest)
        samples = int(np.clip(MOST_SAMPLES / (it.nodes * self.size**2), FEWEST_SAMPLES, SAMPLES))
        self.excess = it.deviations(it.home) / it.weight
        self.samples = np.empty((it.nodes, self.size, self.size, samples), np.float32)
        self.sample(np.arange(it.key_groups), 0)
        self.most = min(it.max_moves, it.nodes * (self.size - 1))
        self.widest = min(self.most, 4 * self.size)
        states = it.nodes * self.size**2 * (2 * self.widest + 1) * (self.most + 1)
        self.exact = states <= MOST_STATES
        self.rank = self._alternating()

    def sample(self, pool: IntArray, stream: int) -> None:
        """Estimate P anew, with arrivals from a pool of key groups."""
        it = self.instance
        order, starts = it.by_node
        kernels.sample_distances(
            generator(self.seed, stream),
            it.load,
            pool,
            order,
            starts,
            self.excess,
            it.weight,
            it.draining,
            self.samples,
        )

    def pool_of(self, pairs: IntArray) -> IntArray:
        """Whom a plan's departures can be: every node's key groups, as often as the node gives one away."""
        order, starts = self.instance.by_node
        size = np.diff(starts)
        share = np.repeat(pairs[:, 0] / np.maximum(size, 1), size)
        times = np.rint(share / share.max() * 20).astype(np.int64)
        return np.repeat(order, times)

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

    def pairs(self, distance: float, rng: np.random.Generator) -> IntArray | None:
        """Departures and arrivals of each node for a target distance, shape (n, 2); None when there is no plan."""
        share = (self.samples <= distance).mean(axis=3)
        penalty = -np.log(np.maximum(share, RAREST))
        penalty += 0.5 * rng.random(penalty.shape) * (penalty > 0)  # another plan each time
        table = self.counts.table[:, : self.size, : self.size]
        penalty[table > distance] = kernels.NEVER
        quiet = self.instance.deviations(self.instance.home)
        quiet = np.where(self.instance.draining, np.maximum(quiet, 0.0), np.abs(quiet)) <= distance
        penalty[:, 0, 0] = np.where(quiet & (table[:, 0, 0] <= distance), 0.0, kernels.NEVER)
        if not self.exact:
            return plan_by_multipliers(penalty, self.most)
        total, chosen = kernels.plan(penalty[self.rank], self.most, self.widest)
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
            rng, iterations, 3, 1.0, 0.01, max(distance, 1e-9), 1.0 + it.distance(it.home), keys, targets,
            order, starts, it.load, it.weight, it.draining, it.home, it.use, it.room, it.cost, it.max_cost,
            it.deviations(it.home), it.used(it.home), best_keys, best_targets,
        )  # fmt: skip
        assignment = it.home.copy()
        assignment[best_keys] = best_targets
        return assignment


def plan_by_multipliers(penalty: FloatArray, most: int) -> IntArray | None:
    """Choose a pair for each node as the dynamic program does, for instances too large for it.

    Multipliers on the number of departures and on departures less arrivals make the nodes independent; single
    nodes then change their pair until departures and arrivals balance. Near the least penalty, not at it.

    Parameters
    ----------
    penalty : ndarray, shape (n, A, A)
        Of a departures and b arrivals; `NEVER` forbids.
    most : int
        Departures in all at most.

    Returns
    -------
    ndarray of int, shape (n, 2), or None
    """
    nodes, size, _ = penalty.shape
    flat = penalty.reshape(nodes, -1)
    departures, arrivals = (side.ravel() for side in np.divmod(np.arange(size * size), size))
    tilt = departures - arrivals
    rows = np.arange(nodes)
    if (flat.min(axis=1) >= kernels.NEVER).any():
        return None

    def chosen(price: float, balance: float) -> IntArray:
        return np.argmin(flat + (price * departures + balance * tilt), axis=1)

    def balanced(price: float) -> IntArray:
        low, high = -20.0, 20.0
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if tilt[chosen(price, middle)].sum() > 0 else (low, middle)
        return _evened(chosen(price, high), flat, tilt, price * departures, rows)

    low, high, best = 0.0, 16.0, None
    for _ in range(12):
        price = (low + high) / 2 if best is not None or low > 0 else 0.0
        pick = balanced(price)
        if tilt[pick].sum() == 0 and departures[pick].sum() <= most:
            best, high = pick, price
            if price == 0.0:
                break
        else:
            low = max(price, 1e-3)
    return None if best is None else np.stack([departures[best], arrivals[best]], axis=1)


def _evened(pick: IntArray, flat: FloatArray, tilt: IntArray, price: FloatArray, rows: IntArray) -> IntArray:
    """Change single nodes' pairs, the cheapest first, until departures and arrivals balance."""
    pick = pick.copy()
    cost = np.where(flat < kernels.NEVER, flat + price, np.inf)
    while (off := int(tilt[pick].sum())) != 0:
        change = tilt[None, :] - tilt[pick][:, None]
        helps = (np.sign(change) == -np.sign(off)) & (np.abs(change) <= abs(off))
        extra = np.where(helps, (cost - cost[rows, pick][:, None]) / np.maximum(np.abs(change), 1), np.inf)
        pair = np.argmin(extra, axis=1)
        least = extra[rows, pair]
        if not np.isfinite(least).any():
            break
        for node in np.argsort(least, kind="stable"):
            step = int(change[node, pair[node]])
            if not np.isfinite(least[node]) or abs(step) > abs(off):
                break
            pick[node] = pair[node]
            off += step
            if off == 0:
                break
    return pick
