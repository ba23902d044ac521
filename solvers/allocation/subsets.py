r"""Allocation of up to twenty key groups that may move, exactly, by their subsets (`keyshift.solvers.subsets`).

Whether a distance d can be met is asked node by node: a node may take the sets of key groups with which its deviation is within
d, and what all nodes' sets take of the limit (2) is to be least. Only the deviations of sets are distances that an assignment can
have: bisection among them ends with the optimum. Of near sets there are few: questions begin with the nearest, which are quickly
answered, and go on with more of them until an assignment is made of them.
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
        self.reach, self.count = -np.inf, 128 * it.nodes
        self.near, self.values = list[IntArray](), np.empty(0)

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
        """The sets that hold a key group that may not run on a node, have no room there, or take more moves than there are."""
        it, every = self.instance, np.arange(len(self.costs))
        allowed = it.space.allowed[self.movers, i]
        refused = (every & self._bits(~allowed)) > 0
        for use, room in zip(it.use, it.room, strict=True):
            used = float(use[rest & (it.current == i)].sum())
            refused |= half_sums(use[self.movers][:, None])[:, 0] + used > self.rounded * room[i]
        refused |= self.costs[every ^ self.here[i]] > self.most  # what comes and what leaves are moves of their own
        return np.asarray(refused)

    def _widen(self, distance: float, high: float, budget: Budget) -> None:
        """List the nearest sets of each node, up to a distance at least, draining nodes' by what they are above the mean."""
        it = self.instance
        far = np.where(it.draining[:, None], np.maximum(self.away, 0.0), np.abs(self.away))
        open_ = far[far < high]
        while self.reach < distance:
            self.count *= 8
            some = self.count < open_.size
            self.reach = float(np.partition(open_, self.count)[self.count]) if some else high
        most = min(self.reach, it.total) + 2 * it.error_bound
        self.near = [np.flatnonzero(row <= most) for row in far]
        self.values = np.sort(np.concatenate([row[near] for row, near in zip(far, self.near, strict=True)]))
        budget.spend((far.size + 4 * open_.size) / 20)

    def between(self, low: float, high: float, budget: Budget) -> float:
        """The next distance to ask about: that of the nearest sets or the median of what is open; `high` where there is none."""
        low += 2 * self.instance.error_bound
        if self.reach <= low < high:
            self._widen(np.nextafter(low, np.inf), high, budget)
        return self.reach if self.reach < high else _median(self.values, low, high)

    def beyond(self, distance: float) -> float:
        """The least deviation of a set above a distance, as far as sets are listed: no assignment has one in between."""
        at = int(np.searchsorted(self.values, distance + self.instance.error_bound, side="right"))
        return float(self.values[at]) if at < self.values.size else self.reach

    def least_sides(self, best: IntArray, most_steps: float, budget: Budget) -> tuple[bool, IntArray]:
        """Of assignments within the distance of an optimum one with the least sum of both sides; whether that is proven.

        One of the sides is the distance. So of those with the other one as it may be the least is found by bisection.
        """
        it, kept = self.instance, ~self.instance.draining
        distance, error_bound, ended = it.distance(best), it.error_bound, [best]
        if self.reach < distance:
            self._widen(distance, distance, budget)
        for upper in (True, False):
            sides = [(1 if upper else -1) * self.away[i, self.near[i]] for i in range(it.nodes) if upper or kept[i]]
            values, low, high = np.sort(np.concatenate(sides)), -np.inf, distance
            while (target := _median(values, low, high)) < high:
                within = (-distance, target) if upper else (-target, distance)
                answered, place = self.within(*within, most_steps, budget)
                if not answered:
                    return False, best
                if place is None:
                    low = target + error_bound
                    continue
                deviations = it.deviations(place)
                high = float(deviations.max() if upper else -deviations[kept].min()) - 3 * error_bound
                ended.append(place)
        return True, min(ended, key=lambda place: it.problem.metrics(place)["deviation_sum"])

    def within(self, low: float, high: float, most_steps: float, budget: Budget) -> tuple[bool, IntArray | None]:
        """Whether the question could be answered in so many steps, and an assignment with deviations between two, if any."""
        it, error_bound = self.instance, self.instance.error_bound
        if self.reach < (most := max(-low, high)):
            self._widen(most, most, budget)
        sets = []
        for i, near in enumerate(self.near):
            away = self.away[i, near]
            fits = away <= min(high, it.total) + error_bound
            if not it.draining[i]:
                fits &= away >= low - error_bound
            bits = near[fits]
            cost = self.costs[bits & ~self.here[i]]
            sets.append(FittingSets(bits, cost, np.zeros(bits.size, dtype=np.int64)))
        budget.spend(self.values.size / 14)
        owed = self.here, self.costs
        answered, chosen = cheapest_cover(sets, len(self.costs), self.most, 0, most_steps, budget, owed)
        if chosen is None:
            return answered, None
        place = it.current.copy()
        for i, held in enumerate(chosen):
            place[self.movers[[k for k in range(self.movers.size) if held >> k & 1]]] = i
        return True, place


def _median(values: FloatArray, low: float, high: float) -> float:
    """The median of sorted values between two, the higher one where there are none."""
    some = values[np.searchsorted(values, low, side="right") : np.searchsorted(values, high)]
    return float(some[some.size // 2]) if some.size else high
