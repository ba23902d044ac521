r"""Collocated allocation as set partitioning: every set of key groups that a node can carry, and what of its traffic is remote.

A set S on a node costs half of the traffic over its boundary, so that a choice of one set for each node costs what is remote.
It is a subset of one half of the key groups and one of the other, whose sums add up, and so does its traffic but for what runs
between the two: a matrix product tells the reduced costs of all pairs [Horowitz1974]. What limits say of a node by itself - its
loads in each window, resources, key groups that come and go - is said of its sets, before the halves meet where it can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.tuning import Settings
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.set_partitioning import Cover, CoverPrices, SetColumns, joined


@dataclass(frozen=True)
class CollocationSetsSettings(Settings):
    """Tuning numbers of set partitioning for collocated allocation.

    Attributes
    ----------
    most_key_groups : int
        With more, sets are not tried.
    most_subsets, most_cells : int
        Where a half has more subsets than the first, or the halves of all nodes meet in more pairs than the second, neither.
    most_columns : int
        So many sets of least reduced cost are kept of each kind of node.
    fresh : int
        So many of them join the linear program's columns in a round.
    """

    most_key_groups: int = 60
    most_subsets: int = 60_000
    most_cells: int = 400_000_000
    most_columns: int = 100_000
    fresh: int = 4_000


WIDENED = ("max_load_distance", "resource_capacity", "max_migration_cost")
"""Rules that sets may break by rounding."""
WIDER = 1e-9
"""Loads may be this share of the largest beyond a limit: the check has the last word."""
SAMPLE = 64
"""Reduced costs are judged by so many subsets of the first half."""
FAR = 0.3
"""While a round's columns may lower the bound by this share of what is open, they alone are asked for."""
BLOCK = 1_500_000
"""So many reduced costs are computed at once."""


class Half(NamedTuple):
    """Subsets of a half of the key groups that one node can carry."""

    members: FloatArray
    """Shape (subsets, p)."""
    sums: FloatArray
    """Loads y, remote loads Y in each window, resources, then what (3) counts."""
    cost: FloatArray


class NodeSets:
    """The sets that nodes of a kind can carry, as pairs of subsets of two halves."""

    def __init__(self, data: Arrays, nodes: IntArray, allowed: BoolArray, remote: tuple[float, float]) -> None:
        i = int(nodes[0])
        self.data, self.nodes, self.allowed = data, nodes, allowed[:, i]
        self.coming, self.going = data.current != i, data.current == i
        totals = data.total_remote[:, None] - data.cost[:, None] * (1.0 - np.array(remote))
        wider = WIDER * data.total_remote
        self.upper = (data.upper_share[i] * totals).max(axis=1) + data.upper_extra[:, i] + wider
        self.lower = (data.lower_share[i] * totals).min(axis=1) + data.lower_extra[:, i] - wider
        self.moved = np.vstack([np.full(data.key_groups, 1.0 / max(data.max_moves, 1)), data.move_cost])
        self.room = 1.0 + WIDER if data.max_moves > 0 else 0.0
        self.capacity = data.capacity[:, i] * (1 + 1e-8) + 1e-300
        self.halves: list[Half] = []

    def build(self, most: int, order: IntArray) -> int:
        """Make the subsets of both halves; how many pairs they make, -1 where a half has too many."""
        cut = order.size // 2
        for part in (order[:cut], order[cut:]):
            half = self._half(part, most)
            if half is None:
                return -1
            self.halves.append(half)
        return len(self.halves[0].cost) * len(self.halves[1].cost)

    def _half(self, part: IntArray, most: int) -> Half | None:
        """All subsets of a part within the limits that grow with a set, one key group after another."""
        d, k, r = self.data, self.data.windows, len(self.data.use)
        taken, sums, left = np.zeros((1, d.key_groups)), np.zeros((1, 2 * k + r + 2)), np.zeros((1, 2))
        for g in part.tolist():
            with_it, without = taken.copy(), left + (self.moved[:, g] if self.going[g] else 0.0)
            with_it[:, g] = 1.0
            step = np.concatenate([d.load[:, g], d.remote_load[:, g], d.use[:, g], self.moved[:, g] * self.coming[g]])
            fits = (sums + step <= self._most(k)).all(axis=1) & self.allowed[g]
            stays = (without <= self.room).all(axis=1)
            taken = np.concatenate([taken[stays], with_it[fits]])
            sums = np.concatenate([sums[stays], sums[fits] + step])
            left = np.concatenate([without[stays], left[fits]])
            if len(taken) > most:
                return None
        inside = np.square(taken[:, d.first] * taken[:, d.second]) @ d.mean_traffic if d.first.size else 0.0
        cost = taken @ self._degrees() / 2 - inside
        order = np.argsort(sums[:, 0], kind="stable")
        return Half(taken[order], np.column_stack([sums, left])[order], cost[order])

    def _most(self, windows: int) -> FloatArray:
        """Limits of what a set sums up to."""
        return np.concatenate([self.upper, np.full(windows, np.inf), self.capacity, np.full(2, self.room)])

    def _degrees(self) -> FloatArray:
        d = self.data
        ends = np.bincount(d.first, d.mean_traffic, d.key_groups) + np.bincount(d.second, d.mean_traffic, d.key_groups)
        return np.asarray(ends)

    def priced(
        self, kind: int, prices: CoverPrices, most: float, count: int, budget: Budget
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Members, costs and what (3) counts of the sets whose reduced cost is least, and up to where they are all there."""
        a, b = self.halves
        d, k = self.data, self.data.windows
        if len(a.cost) * len(b.cost) == 0:
            return np.zeros((0, d.key_groups)), np.zeros(0), np.zeros((0, 2)), np.inf
        coming = slice(2 * k + len(d.use), 2 * k + len(d.use) + 2)
        here = a.cost - a.members @ prices.key_groups + a.sums[:, coming] @ prices.budget - prices.kinds[kind]
        there = b.cost - b.members @ prices.key_groups + b.sums[:, coming] @ prices.budget
        traffic = sp.csr_array((d.mean_traffic, (d.first, d.second)), shape=(d.key_groups,) * 2)
        used = b.members.any(axis=0)
        left = np.column_stack([-((traffic + traffic.T) @ a.members.T).T[:, used], here, np.ones(len(here))])
        right = np.vstack([b.members[:, used].T, np.ones(len(there)), there])
        step = max(1, BLOCK // max(1, len(there)))
        if np.isinf(most) and count < len(left) * len(
            there
        ):  # what is least is asked for, not all: about as many as are kept
            sample = (left[:: max(1, len(left) // SAMPLE)] @ right).ravel()
            most = float(np.quantile(sample, min(1.0, 4 * count / (len(left) * len(there)))))
        kept = [np.zeros((2, 0), dtype=np.int64)]
        worth, size = [np.zeros(0)], 0
        plain = not d.cost.any()
        for begin in range(0, len(left), step):
            if budget.expired:
                return np.zeros((0, d.key_groups)), np.zeros(0), np.zeros((0, 2)), -np.inf
            rows = a.sums[begin : begin + step]
            least = self.lower[0] - rows[-1, 0] if plain else -np.inf
            low, high = np.searchsorted(b.sums[:, 0], [least, self.upper[0] - rows[0, 0]], side="left")
            high = int(np.searchsorted(b.sums[:, 0], self.upper[0] - rows[0, 0], side="right"))
            reduced = left[begin : begin + step] @ right[:, low:high]
            i, j = np.nonzero(reduced <= most)
            value = reduced[i, j]
            i, j = i + begin, j + low
            fits = self._fits(i, j)
            kept.append(np.vstack([i[fits], j[fits]]))
            worth.append(value[fits])
            size += int(fits.sum())
            if size > 2 * count:
                pairs, values = np.concatenate(kept, axis=1), np.concatenate(worth)
                order = np.argpartition(values, count)[:count]
                kept, worth, size = [pairs[:, order]], [values[order]], count
                most = float(worth[0].max())
        i, j = np.concatenate(kept, axis=1)
        cross = np.einsum("cp,cp->c", left[i][:, :-2], b.members[j][:, used])
        return a.members[i] + b.members[j], a.cost[i] + b.cost[j] + cross, a.sums[i, coming] + b.sums[j, coming], most

    def _fits(self, i: IntArray, j: IntArray) -> BoolArray:
        """Which pairs of subsets keep all limits."""
        a, b = self.halves
        d, k = self.data, self.data.windows
        sums = a.sums[i] + b.sums[j]
        fits = (sums[:, : 2 * k + len(d.use) + 2] <= self._most(k)).all(axis=1)
        fits &= (sums[:, -2:] <= self.room).all(axis=1) & (sums[:, k : 2 * k] >= self.lower).all(axis=1)
        if d.cost.any() and fits.any():
            at = np.flatnonzero(fits)
            members = a.members[i[at]] + b.members[j[at]]
            inside = (members[:, d.first] * members[:, d.second]) @ d.mean_traffic
            load = sums[at, k : 2 * k] - inside[:, None] * d.cost
            fits[at] = ((load <= self.upper) & (load >= self.lower)).all(axis=1)
        return np.asarray(fits)


class CollocationSets(Cover):
    """Branch and bound over sets; `best` is the best assignment and `lowest` a bound on the share of traffic that is remote."""

    def __init__(
        self, problem: CollocatedAllocation, data: Arrays, best: IntArray | None, closer: float, open_to: BoolArray,
        settings: CollocationSetsSettings | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.data, self.best, self.closer, self.settings = (
            problem,
            data,
            best,
            closer,
            settings or CollocationSetsSettings.now(),
        )
        self.value = 1.0 + 2 * closer if best is None else self._remote(best)
        self.limited = data.max_moves < data.key_groups or bool(data.move_cost.any())
        self.open_to = open_to if self.limited else data.allowed
        self.groups = self._alike()
        sizes = np.array([group.size for group in self.groups], dtype=np.float64)
        super().__init__(data.key_groups, sizes, 2, 1.0, 4.0)

    @staticmethod
    def suits(problem: CollocatedAllocation, data: Arrays) -> bool:
        """Whether it is one sum of traffic that is to be least, of few enough key groups."""
        return (
            not problem.combines and len(data.traffic) == 1 and data.traffic.size > 0 and data.max_moves > 0
            and problem.saved > 0 and 2 <= data.key_groups <= CollocationSetsSettings.now().most_key_groups and data.nodes > 1
        )  # fmt: skip

    def _remote(self, assignment: IntArray) -> float:
        return max(0.0, 1.0 - self.data.collocated(assignment))

    @property
    def goal(self) -> float:
        return self.value - self.closer

    def _alike(self) -> list[IntArray]:
        """Nodes that are the same to every set."""
        d = self.data
        marks: dict[bytes, list[int]] = {}
        for i in range(d.nodes):
            own = [self.open_to[:, i], d.upper_extra[:, i], d.lower_extra[:, i], d.capacity[:, i]]
            own += [d.upper_share[i : i + 1], d.lower_share[i : i + 1]]
            own += [d.current == i] if self.limited else []
            marks.setdefault(b"|".join(np.ascontiguousarray(x).tobytes() for x in own), []).append(i)
        return [np.array(group) for group in marks.values()]

    def run(self, budget: Budget) -> bool:
        """Search until the best is proven (True), or the budget ends, or there are too many sets."""
        if self.goal < self.lowest:
            return True
        sets = self._sets(budget)
        if not sets:
            return False
        apart = (
            np.ones(self.data.first.size) if self.best is None else np.not_equal(*(self.best[e] for e in self._ends))
        )
        share_apart = sum(np.bincount(e, apart * self.data.mean_traffic / 2, self.key_groups) for e in self._ends)
        prices = CoverPrices(np.asarray(share_apart, dtype=np.float64), np.zeros(self.sizes.size), np.zeros(2))
        columns: SetColumns | None = None
        open_, bound = np.inf, -np.inf
        while not budget.expired:
            made = [one.priced(c, prices, open_, self.settings.most_columns, budget) for c, one in enumerate(sets)]
            if budget.expired:
                return False
            found = self._columns(made)
            complete = min(one[3] for one in made)
            least = np.minimum(self.least(found, prices), 0.0) if columns is not None else np.zeros(self.sizes.size)
            if columns is not None:
                proven = bound + float(self.sizes @ np.where(np.isfinite(least), least, 0.0)) - self.rounding(prices)
                self.raise_to(proven)
                if proven >= self.goal:
                    return True
                if complete >= self.goal - proven + self.rounding(prices):
                    return self.cover(found, budget)
            fresh = found.take(np.argsort(self.reduced(found, prices), kind="stable")[: self.settings.fresh])
            columns = (
                fresh if columns is None else SetColumns(*(joined(x, y) for x, y in zip(columns, fresh, strict=True)))
            )
            _, bound, prices, _ = self.price(columns, 0.0, budget)
            far = float(self.sizes @ np.where(np.isfinite(least), least, 0.0)) < -FAR * max(self.goal - bound, 0.0)
            open_ = 0.0 if far else 1.1 * max(self.goal - bound, 0.0) + 1e-6 + 4 * self.rounding(prices)
        return False

    @property
    def _ends(self) -> tuple[IntArray, IntArray]:
        return self.data.first, self.data.second

    def _sets(self, budget: Budget) -> list[NodeSets]:
        """The sets that nodes of each kind can carry; an empty list where there are too many."""
        sets, cells = [], 0
        order = self._order()
        for group in self.groups:
            one = NodeSets(self.data, group, self.open_to, (self.lowest, self.goal))
            pairs = one.build(self.settings.most_subsets, order)
            cells += pairs
            if pairs < 0 or cells > self.settings.most_cells or budget.expired:
                return []
            sets.append(one)
        return sets

    def _order(self) -> IntArray:
        """The key groups, such that the heavy ones and those of each node fall into both halves."""
        order = np.lexsort((-self.data.remote_load[0], self.data.current))
        return np.concatenate([order[::2], order[1::2]])

    def _columns(self, made: list[tuple[FloatArray, FloatArray, FloatArray, float]]) -> SetColumns:
        kind = np.repeat(np.arange(len(made)), [len(one[1]) for one in made])
        members = sp.csr_array(np.concatenate([one[0] for one in made]))
        cost, moved = (np.concatenate([one[x] for one in made]) for x in (1, 2))
        return SetColumns(members, cost, kind, moved)

    def offer(self, sets: FloatArray, kinds: IntArray) -> None:
        found = np.full(self.key_groups, -1, dtype=np.int64)
        free = [list(group) for group in self.groups]
        for members, kind in zip(sets, kinds, strict=True):
            found[members > 0] = free[kind].pop()
        better = (found >= 0).all() and self._remote(found) < self.value
        if better and kept(self.problem, found, WIDENED):
            self.best, self.value = found, self._remote(found)
