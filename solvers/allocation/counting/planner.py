r"""Plan counts, then realise them: how "milp" finds answers where few counts are possible.

The pair counts of `keyshift.solvers.allocation.counting.bound` are not only a bound. For a target distance d, let
:math:`P_i(a, b)` be the share of random departures and arrivals, a and b of them, that bring node i within d, arrivals
drawn first from all key groups and later from the departures of earlier plans. The
plan with the largest :math:`\prod_i P_i(a_i, b_i)` within the migration limit leaves the most ways to choose
the key groups; a dynamic program finds it. An annealing that never changes the counts then chooses them. No guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from keyshift.models.answer import Settings
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.search import data_of, generator
from keyshift.solvers.allocation.arrays import TINY, Instance
from keyshift.solvers.allocation.counting import planner_kernels as kernels
from keyshift.solvers.allocation.counting.bound import CountBound


@dataclass(frozen=True)
class PlannerSettings(Settings):
    """Tuning numbers of the planner.

    Attributes
    ----------
    samples : int
        Samples of every node and pair.
    most_states : int
        Steps of the dynamic program at most; beyond, nothing is planned.
    rarest : float
        A pair that no sample has reached but that the bound allows counts as this likely.
    nearest : int
        Samples from which the share is judged where fewer come so near.
    """

    samples: int = 400
    most_states: int = 50_000_000
    rarest: float = 1e-4
    nearest: int = 10


@dataclass
class CountPlanner:
    """Plans for one instance at any target distance.

    Parameters
    ----------
    instance : Instance
    counts : CountBound
    seed : int
    settings : PlannerSettings

    Attributes
    ----------
    useful : bool
        Whether there is anything to plan, and not too much.
    """

    instance: Instance
    counts: CountBound
    seed: int
    settings: PlannerSettings = field(default_factory=PlannerSettings.now)

    def __post_init__(self) -> None:
        it = self.instance
        self.size = min(self.counts.table.shape[1], self._needed() + 4)
        self.most = min(it.max_moves, it.nodes * (self.size - 1))
        self.widest = min(self.most, 4 * self.size)
        states = it.nodes * self.size**2 * (2 * self.widest + 1) * (self.most + 1)
        self.useful = self.most > 0 and it.nodes > 1 and states <= self.settings.most_states
        if not self.useful:
            return
        self.excess = it.deviations(it.current) / it.weight
        self.samples = np.empty((it.nodes, self.size, self.size, self.settings.samples), np.float32)
        self.sample(it.space.movers, 0)
        self.rank = self._alternating()

    def sample(self, pool: IntArray, stream: int) -> None:
        """Estimate P anew, with arrivals from a pool of key groups."""
        it = self.instance
        order, starts = it.space.by_node
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
        order, starts = self.instance.space.by_node
        size = np.diff(starts)
        share = np.repeat(pairs[:, 0] / np.maximum(size, 1), size)
        times = np.rint(share / share.max() * 20).astype(np.int64)
        return np.repeat(order, times)

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
        penalty[table > distance] = kernels.NEVER
        quiet = self.instance.deviations(self.instance.current)
        quiet = np.where(self.instance.draining, np.maximum(quiet, 0.0), np.abs(quiet)) <= distance
        penalty[:, 0, 0] = np.where(quiet & (table[:, 0, 0] <= distance), 0.0, kernels.NEVER)
        total, chosen = kernels.plan(penalty[self.rank], self.most, self.widest)
        if not np.isfinite(total):
            return None
        pairs = np.empty_like(chosen)
        pairs[self.rank] = chosen
        return pairs

    def _shares(self, distance: float) -> FloatArray:
        """P: a share of the samples; where moves are many and few come so near, that of the nearest, thinned out."""
        settings = self.settings
        share = (self.samples <= distance).mean(axis=3)
        if self.instance.max_moves < self.instance.nodes:
            return np.maximum(share, settings.rarest)
        near = np.partition(self.samples, settings.nearest - 1, axis=3)[..., settings.nearest - 1].astype(np.float64)
        thinned = settings.nearest / settings.samples * distance / np.maximum(near, max(distance, TINY))
        return np.maximum(np.where(near <= distance, share, thinned), TINY)

    def realise(self, pairs: IntArray, distance: float, iterations: int, stream: int) -> IntArray | None:
        """An assignment with these counts, as even as annealing gets it; None when they are no plan."""
        it = self.instance
        order, starts = it.space.by_node
        data = data_of(it, order, None)  # plans know no rules: polishing keeps them
        rng = generator(self.seed, stream)
        moves = int(pairs[:, 0].sum())
        keys, targets = np.empty(moves, np.int64), np.empty(moves, np.int64)
        if moves != pairs[:, 1].sum() or moves > it.max_moves or (pairs[:, 0] > np.diff(starts)).any():
            return None
        if not kernels.deal(rng, pairs, data, keys, targets) or moves == 0:
            return None
        plan = kernels.Realisation(
            keys, targets, keys.copy(), targets.copy(), np.full(it.key_groups, -1, np.int64),
            it.deviations(it.current), it.used(it.current), np.empty(it.nodes),
        )  # fmt: skip
        kernels.realise(rng, iterations, 3, 1.0, 0.01, max(distance, 1e-9), data, plan)
        assignment = it.current.copy()
        assignment[plan.best_keys] = plan.best_targets
        return assignment
