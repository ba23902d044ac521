r"""Share out three nodes' key groups anew, exactly: the last step where many moves are allowed.

Near an even assignment hardly any single step of the annealing is small enough to help. Between three nodes there are
millions of ways at once: those of their key groups that have moved, up to eight, may each go to any of the three
(:math:`3^8` ways), and up to two that have not may go to another (some 7,000 ways). Both lists hold the load that the first
two nodes get; the third loses as much. The pair, one from each list, that leaves the least largest deviation is found by
a search in one list, sorted, for each entry of the other: Horowitz and Sahni (1974), *Computing Partitions*. No guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np

from keyshift.models.base.compiling import njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.rows import RuleRows, closing, put_if_kept, sum_rows

MOST_MOVED, MOST_STAYING = 8, 60
"""How many moved and how many unmoved key groups an exchange chooses from."""
NOTICED = 1e-12
"""A lower value counts when it is lower by more than rounding, in units of the mean."""


class Exchanges:
    """Exchanges between the worst node and two others, while they help.

    Parameters
    ----------
    instance : Instance
    seed : int or list of int
    place : ndarray, shape (p,)
        Within all limits and rules.
    rows : RuleRows, optional
        The rules: an exchange breaks none.
    """

    def __init__(
        self, instance: Instance, seed: int | list[int], place: IntArray, rows: RuleRows | None = None
    ) -> None:
        it = self.instance = instance
        self.rng = np.random.default_rng(seed)
        self.place = np.array(place)
        self.dev, self.used = it.deviations(self.place), it.used(self.place)
        self.rows = rows
        self.held = np.zeros(0 if rows is None else rows.most.size)
        if self.rows is not None:
            sum_rows(self.held, self.place, self.rows)

    @property
    def values(self) -> FloatArray:
        """How far each node is from the mean, shape (n,)."""
        return np.where(self.instance.draining, np.maximum(self.dev, 0.0), np.abs(self.dev))

    def improve(self, tries: int, expired: Callable[[], bool]) -> float:
        """Exchange until so many exchanges in a row were of no use; the largest value then."""
        failed = 0
        while failed < tries and not expired():
            failed = 0 if self.exchange(self._drawn()) else failed + 1
        return float(self.values.max())

    def _drawn(self) -> IntArray:
        """The worst node and two others, one of them often joined to it by a move."""
        it, n = self.instance, self.instance.nodes
        worst = int(np.argmax(self.values))
        others = self.rng.permutation(n)
        if self.rng.random() < 0.5:
            moved = self.place != it.current
            came, left = moved & (self.place == worst), moved & (it.current == worst)
            joined = np.concatenate([it.current[came], self.place[left]])
            if joined.size:
                others = np.concatenate([[self.rng.choice(joined)], others])
        others = others[np.sort(np.unique(others, return_index=True)[1])]
        return np.concatenate([[worst], others[others != worst][:2]])

    def exchange(self, nodes: IntArray) -> bool:
        """The best exchange between three nodes; whether there was one that helps."""
        it = self.instance
        movers = it.space.movers
        inside = movers[np.isin(self.place[movers], nodes)]
        away = self.place != it.current
        moved = self._some(inside[away[inside]], MOST_MOVED)
        staying = self._some(inside[~away[inside]], MOST_STAYING)
        spare_moves = it.max_moves - int(away.sum())
        spare_cost = it.max_cost - float(it.cost[away].sum())
        three = ThreeNodes(self.dev[nodes], it.weight[nodes], it.draining[nodes])
        some, digits = self._all_ways(moved, nodes)
        value, best = float(self.values[nodes].max()) - NOTICED, None
        for level in range(3):
            kept = np.flatnonzero(some[2] <= spare_moves - level)
            if not kept.size:
                break
            others, steps = self._fresh_ways(staying, nodes, level)
            value, a, b = nearest(_ways(some[:, kept]), _ways(others), three, value, spare_cost)
            if a >= 0:
                best = [
                    *zip(moved, nodes[digits(kept[a])], strict=True),
                    *((staying[u], nodes[t]) for u, t in steps(b)),
                ]
        return best is not None and self._carry_out(best)

    def _some(self, keys: IntArray, most: int) -> IntArray:
        return keys if keys.size <= most else np.sort(self.rng.choice(keys, most, replace=False))

    def _options(self, keys: IntArray, nodes: IntArray) -> FloatArray:
        """Changes by each key group on each of the three nodes: two loads, moves and cost, shape (4, keys, 3)."""
        it = self.instance
        here = self.place[keys][:, None] == nodes
        gone = it.current[keys][:, None] != nodes
        load = it.load[keys][:, None]
        first, second = (load * ((np.arange(3) == i) - 1.0 * here[:, i : i + 1]) for i in range(2))
        more = gone - 1.0 * (gone & here).any(axis=1, keepdims=True)
        closed = gone & ~here & ~it.space.enter[it.space.kind[keys][:, None], nodes]
        if self.rows is not None:
            breaks = np.empty(closed.shape, dtype=bool)
            closing(breaks, keys, nodes, self.held, self.place, self.rows)
            closed |= breaks
        return np.array([first, second, np.where(closed, np.inf, more), more * it.cost[keys][:, None]])

    def _all_ways(self, keys: IntArray, nodes: IntArray) -> tuple[FloatArray, Callable[[int], IntArray]]:
        """Every way to put key groups on the three, shape (4, ways), and how to read one."""
        options = self._options(keys, nodes)
        rows = [reduce(lambda sums, one: np.add.outer(sums, one).ravel(), row, np.zeros(1)) for row in options]
        return np.array(rows), lambda way: np.array(np.unravel_index(way, (3,) * keys.size), dtype=np.int64)

    def _fresh_ways(
        self, keys: IntArray, nodes: IntArray, level: int
    ) -> tuple[FloatArray, Callable[[int], list[tuple[int, int]]]]:
        """Every way to move 0, 1 or 2 key groups that have stayed, ascending by the first node's load; how to read one."""
        if level == 0:
            return np.zeros((4, 1)), lambda way: []
        options = self._options(keys, nodes)
        key, target = np.nonzero(np.isfinite(options[2]) & (self.place[keys][:, None] != nodes))
        single = options[:, key, target]
        if level == 1:
            order = np.argsort(single[0], kind="stable")
            return single[:, order], lambda way: [(key[order[way]], target[order[way]])]
        one, two = np.triu_indices(key.size, 1)
        apart = key[one] != key[two]
        one, two = one[apart], two[apart]
        both = single[:, one] + single[:, two]
        order = np.argsort(both[0], kind="stable")
        return both[:, order], lambda way: [(key[at[order[way]]], target[at[order[way]]]) for at in (one, two)]

    def _carry_out(self, steps: list[tuple[int, int]]) -> bool:
        """Put key groups on nodes if every capacity and every rule holds."""
        it = self.instance
        keys, targets = np.array(steps, dtype=np.int64).T
        place = self.place.copy()
        place[keys] = targets
        used = it.used(place)
        if (used > it.room).any():
            return False
        if self.rows is not None and not put_if_kept(keys, targets, self.held, self.place, self.rows):
            return False
        self.place, self.dev, self.used = place, it.deviations(place), used
        return True


def _ways(rows: FloatArray) -> Ways:
    return Ways(*(np.ascontiguousarray(row) for row in rows[[0, 1, 3]]))


# Joining the two halves of an exchange, compiled ----------------------------------------------------------------------


class Ways(NamedTuple):
    """Ways to share out some key groups: the load that the first node and the second get, and what all cost more."""

    first: FloatArray
    second: FloatArray
    cost: FloatArray


class ThreeNodes(NamedTuple):
    """Three nodes: their deviations, weights, and which are draining, shape (3,) each."""

    dev: FloatArray
    weight: FloatArray
    draining: BoolArray


@njit(cache=True, error_model="numpy")
def nearest(some, others, three, value, spare):
    """The way of `some` and that of `others`, ascending by `first`, that together leave the least largest value.

    Nothing with a value of at least `value` or a cost above `spare` counts; returns the value and the two places, -1 for none.
    """
    one, two = -1, -1
    dev, weight = three.dev, three.weight
    for a in range(some.first.size):
        base = dev[0] + some.first[a] * weight[0]
        most = (value - base) / weight[0]
        least = -np.inf if three.draining[0] else (-value - base) / weight[0]
        b = int(np.searchsorted(others.first, least))
        while b < others.first.size and others.first[b] <= most:
            first, second = some.first[a] + others.first[b], some.second[a] + others.second[b]
            worst = 0.0
            for i in range(3):
                load = first if i == 0 else second if i == 1 else -first - second
                v = dev[i] + load * weight[i]
                worst = max(worst, v if three.draining[i] else abs(v))
            if worst < value and some.cost[a] + others.cost[b] <= spare:
                value, one, two = worst, a, b
            b += 1
    return value, one, two
