r"""Allocation of up to twenty key groups that may move, exactly, by their subsets (`keyshift.solvers.subsets`).

Whether a distance d can be met is asked node by node: a node may take the sets of key groups with which its deviation is within
d, and what all nodes' sets take of the limit (2) is to be least. Only the deviations of sets are distances that an assignment can
have: bisection among them ends with the optimum.
"""

from __future__ import annotations

import numpy as np

from keyshift.models import Budget
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import EPSILON, Instance
from keyshift.solvers.set_partitioning import half_sums
from keyshift.solvers.subsets import ENTRIES, FittingSets, cheapest_cover


class SubsetProgram:
    """Whether there is an assignment within a distance, for one target after another.

    Parameters
    ----------
    instance : Instance
    """

    def __init__(self, instance: Instance) -> None:
        it = self.instance = instance
        self.movers = it.space.movers
        rest = np.ones(it.key_groups, dtype=bool)
        rest[self.movers] = False
        places = it.current[rest]
        fixed = np.array([np.bincount(places, row[rest], it.nodes) for row in it.loads.T])
        sums = half_sums(it.loads[self.movers])
        self.away = np.zeros((it.nodes, len(sums)))
        for i in range(it.nodes):
            away = (sums + fixed[:, i]) * it.weight[i] - it.means
            self.away[i] = away[:, 0] if it.windows == 1 else (away if it.draining[i] else np.abs(away)).max(axis=1)
        by_cost = np.isfinite(it.max_cost)
        self.rounded = (
            1.0 + 4 * (it.key_groups + it.nodes) * EPSILON
        )  # sums may be added in another order than the check's
        self.most = self.rounded * it.max_cost if by_cost else float(it.max_moves)
        self.costs = half_sums((it.cost if by_cost else np.ones(it.key_groups))[self.movers][:, None])[:, 0]
        self.here = np.array([self._bits(it.current[self.movers] == i) for i in range(it.nodes)])
        for i in range(it.nodes):
            self.away[i, self._refused(i, rest)] = np.inf

    @staticmethod
    def suits(instance: Instance, entries: int = ENTRIES) -> bool:
        """Whether a table has at most so many entries, and what is limited is what it knows."""
        it, movers = instance, instance.space.movers.size
        most = it.problem.max_migrations
        both = np.isfinite(it.max_cost) and most is not None and most < movers
        other = it.problem.lowered.linear or it.problem.lowered.merged or it.problem.distance_floor
        worst = it.windows == 1 or it.problem.over == "max"
        return bool(it.nodes << min(movers, 60) <= entries and not both and not other and worst)

    def _bits(self, some: np.ndarray) -> int:
        return int(sum(1 << k for k in np.flatnonzero(some).tolist()))

    def _refused(self, i: int, rest: np.ndarray) -> np.ndarray:
        """The sets that hold a key group that may not run on a node, leave one that has to, or have no room there."""
        it, every = self.instance, np.arange(len(self.costs))
        allowed = it.space.allowed[self.movers, i]
        refused = (every & self._bits(~allowed)) > 0
        for use, room in zip(it.use, it.room, strict=True):
            used = float(use[rest & (it.current == i)].sum())
            refused |= half_sums(use[self.movers][:, None])[:, 0] + used > self.rounded * room[i]
        return np.asarray(refused)

    @property
    def distances(self) -> FloatArray:
        """How far each node is from the mean with each set, draining ones upwards only, shape (n, 2^q)."""
        return np.where(self.instance.draining[:, None], np.maximum(self.away, 0.0), np.abs(self.away))

    def between(self, low: float, high: float, values: FloatArray | None = None) -> float:
        """The median of the values between two, by default of distances; the higher one where there are none."""
        some = self.distances if values is None else values
        some = some[(some > low + 2 * self.instance.error_bound) & (some < high)]
        return float(np.partition(some, some.size // 2)[some.size // 2]) if some.size else high

    def beyond(self, distance: float) -> float:
        """The least deviation of a set above a distance: no assignment has one in between."""
        some = self.distances
        return float(some.min(initial=np.inf, where=some > distance + 2 * self.instance.error_bound))

    def least_sides(self, best: IntArray, most_steps: float, budget: Budget) -> tuple[bool, IntArray]:
        """Of assignments within the distance of an optimum one with the least sum of both sides; whether that is proven.

        One of the sides is the distance. So of those with the other one as it may be the least is found by bisection.
        """
        it, kept = self.instance, ~self.instance.draining
        distance, error_bound, ended = it.distance(best), it.error_bound, [best]
        for upper in (True, False):
            values, low, high = self.away if upper else -self.away[kept], -np.inf, distance
            while (target := self.between(low, high, values)) < high:
                within = (-distance, target) if upper else (-target, distance)
                answered, place = self.within(*within, most_steps, budget)
                if not answered:
                    return False, best
                if place is None:
                    low = target - error_bound
                    continue
                deviations = it.deviations(place)
                high = float(deviations.max() if upper else -deviations[kept].min()) - 3 * error_bound
                ended.append(place)
        return True, min(ended, key=lambda place: it.problem.metrics(place)["deviation_sum"])

    def within(self, low: float, high: float, most_steps: float, budget: Budget) -> tuple[bool, IntArray | None]:
        """Whether the question could be answered in so many steps, and an assignment with deviations between two, if any."""
        it, error_bound = self.instance, self.instance.error_bound
        sets = []
        for i in range(it.nodes):
            fits = self.away[i] <= min(high, it.total) + error_bound
            if not it.draining[i]:
                fits &= self.away[i] >= low - error_bound
            bits = np.flatnonzero(fits)
            cost = self.costs[bits & ~self.here[i]]
            sets.append(FittingSets(bits, cost, np.zeros(bits.size, dtype=np.int64)))
        budget.spend(self.away.size / 14)
        answered, chosen = cheapest_cover(sets, len(self.costs), self.most, 0, most_steps, budget)
        if chosen is None:
            return answered, None
        place = it.current.copy()
        for i, held in enumerate(chosen):
            place[self.movers[[k for k in range(self.movers.size) if held >> k & 1]]] = i
        return True, place
