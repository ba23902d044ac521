r"""Allocation of up to twenty key groups that may move, exactly: a dynamic program over their subsets.

Whether a distance d can be met is asked node by node. Node i may take the sets S whose deviation is within d; each takes
:math:`m_i(S)` of the limit (2). The least that the first i nodes take to hold just the key groups of T is

.. math:: f_i(T) = \min_{S \subseteq T} \; f_{i-1}(T \setminus S) + m_i(S),

and d can be met if what one half of the nodes takes for T and the other half for the rest [Horowitz1974] is within the limit for
some T. Within a small distance nodes may take few sets, and beside a large T few key groups are left: the shorter list is gone
through, so that a question takes at most :math:`n 3^p` steps and mostly far fewer. Only the deviations of sets are distances that
an assignment can have: bisection among them ends with the optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import EPSILON, Instance
from keyshift.solvers.set_partitioning import half_sums

ENTRIES, SOON = 2**23, 2**19
"""The most entries of tables with one for each node and set, and of those that are gone through before anything else."""


class FittingSets(NamedTuple):
    """The sets that a node may take."""

    bits: IntArray
    """A bit for each key group that may move, shape (sets,)."""
    cost: FloatArray
    """What each takes of the limit on moves, shape (sets,)."""


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
        self.rounded = 1.0 + 4 * it.key_groups * EPSILON  # sums may be added in another order than the check's
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
        return True, min(ended, key=lambda place: float(np.ptp(self._extremes(place))))

    def _extremes(self, place: IntArray) -> FloatArray:
        deviations = self.instance.deviations(place)
        return np.array([deviations.max(), deviations[~self.instance.draining].min()])

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
            sets.append(FittingSets(bits[cost <= self.most], cost[cost <= self.most]))
        budget.spend(self.away.size / 14)
        order = sorted(range(it.nodes), key=lambda i: sets[i].bits.size)
        halves = order[::2], order[1::2]
        tables = []
        for half in halves:
            made = self._tables([sets[i] for i in half], most_steps, budget)
            if made is None:
                return False, None
            tables.append(made)
        both = tables[0][-1] + tables[1][-1][::-1]
        taken = int(both.argmin())
        if both[taken] > self.most:
            return True, None
        place = it.current.copy()
        for half, table, taken_here in zip(halves, tables, (taken, both.size - 1 - taken), strict=True):
            held = taken_here
            for step in range(len(half) - 1, -1, -1):
                held = self._take(place, half[step], sets[half[step]], table[step], held)
        return True, place

    def _tables(self, sets: list[FittingSets], most_steps: float, budget: Budget) -> list[FloatArray] | None:
        """f after none of some nodes, after the first, and so on; None where it takes too many steps."""
        least = np.full(len(self.costs), np.inf)
        least[0] = 0.0
        made = [least]
        for some in sets:
            held, after = np.flatnonzero(made[-1] <= self.most), np.full(least.size, np.inf)
            if held.size * some.bits.size <= 2**17:  # sooner than a kernel is loaded
                first, second = np.nonzero((held[:, None] & some.bits) == 0)
                value = made[-1][held[first]] + some.cost[second]
                np.minimum.at(after, held[first] | some.bits[second], np.where(value <= self.most, value, np.inf))
                steps = 5.0 * held.size * some.bits.size
            else:
                cost = np.full(least.size, np.inf)
                cost[some.bits] = some.cost
                steps = extend(made[-1], some, cost, self.most, after, most_steps)
            budget.spend(min(steps, most_steps) / 70)
            if steps > most_steps or budget.expired:
                return None
            made.append(after)
        return made

    def _take(self, place: IntArray, i: int, sets: FittingSets, before: FloatArray, held: int) -> int:
        """Give a node the set with which f was least; what the nodes before it hold."""
        inside = (sets.bits & ~held) == 0
        bits = sets.bits[inside]
        chosen = int(bits[(before[held ^ bits] + sets.cost[inside]).argmin()])
        place[self.movers[[k for k in range(self.movers.size) if chosen >> k & 1]]] = i
        return held ^ chosen


@njit(cache=True, nogil=True)
def extend(before, sets, cost, most, after, most_steps):
    """f after one node more, into `after`; the steps that it took, more than `most_steps` where it was left.

    `cost` has an entry for each set, infinite for those that the node may not take.
    """
    full, steps = before.size - 1, 0
    for held in range(before.size):
        if before[held] > most:
            continue
        free, left = full ^ held, 1
        rest = free
        while rest > 0 and left < sets.bits.size:
            rest &= rest - 1
            left *= 2
        if left < sets.bits.size:
            some = free
            while True:
                value = before[held] + cost[some]
                if value <= most and value < after[held | some]:
                    after[held | some] = value
                if some == 0:
                    break
                some = (some - 1) & free
            steps += left
        else:
            for s in range(sets.bits.size):
                some = sets.bits[s]
                if some & held == 0:
                    value = before[held] + sets.cost[s]
                    if value <= most and value < after[held | some]:
                        after[held | some] = value
            steps += sets.bits.size
        if steps > most_steps:
            return steps
    return steps
