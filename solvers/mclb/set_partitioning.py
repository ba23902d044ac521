r"""MCLB as set partitioning: every set of key groups that a node may hold in a better placement, then the best cover.

A set S on a node costs :math:`c_S = \sum_t (\sum_{k \in S} y_{tk} - mean_t)^2`, and a placement is a choice of n sets that
hold every key group once. Where a placement of cost U is known, no better one holds a set of more than U less the least
that the other nodes must cost. Few sets are left: they are the pairs of a half of the key groups and of the other whose
sums lie within a ball, which two k-d trees find [Horowitz1974] [Bentley1975].

With a budget, nodes that hold state differ: a set on one of them moves what it holds of others, and both this and what it
leaves behind are within the budget.

The cover is branch and bound on the linear program

.. math::

    \min \sum_S c_S \lambda_S \quad (1) \; \sum_{S \ni k} \lambda_S = 1, \quad (2) \; \sum_{S \in N} \lambda_S = |N|
    \text{ for equal nodes } N, \quad (3) \; \sum_S moved_S \lambda_S \le B,

whose columns come as they are asked for. Its multipliers are HiGHS's, its bound is not: any multipliers give one, in
arithmetic that is done here over all columns there are; and each column whose reduced cost exceeds what is still open is gone
for good [Baldacci2008].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from keyshift.models import Budget
from keyshift.models.mclb.problem import Core
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.safe_bounds import EPSILON


@dataclass(frozen=True)
class PartitioningSettings:
    """Tuning numbers of set partitioning.

    Attributes
    ----------
    most_subsets : int
        Where the two halves have more subsets than these, over all nodes that differ, nothing is listed.
    most_columns : int
        Where more sets than these lie within the ball, it is made smaller, and what is beyond it is looked at by price.
    most_cells : int
        Where there are so many sets, all their reduced costs can be looked at.
    batch : int
        SetColumns that a round takes into the linear program, at most.
    """

    most_subsets: int = 600_000
    most_columns: int = 1_000_000
    most_cells: int = 600_000_000
    batch: int = 300


DEFAULTS = PartitioningSettings()
"""The settings of every run that is not handed others."""
RADIUS_DOUBT = 1e-9
"""Radii are this share larger than they have to be, and as much more of the largest load: far above what rounding moves."""
SAMPLE = 256
"""Sets are counted from so many subsets of the first half."""
SHRINK, LEAST_SHARE = 0.75, 0.01
"""Where there are too many sets the radius is multiplied by the first, down to the second."""
BLOCK = 2_000_000
"""So many reduced costs are computed at once."""
FEW_NODES = 20
"""Nodes of a tree over the nearest sets alone, which is there for its placements."""
MOST_KEY_GROUPS = 44
"""The subsets of a half of these fit in memory."""
SLACK_COST = 10.0
"""What leaving a key group out costs the linear program, in units of the incumbent."""


class SetColumns(NamedTuple):
    """Sets of key groups on nodes of a kind."""

    members: sp.csr_array
    """Shape (columns, p)."""
    cost: FloatArray
    kind: IntArray
    moved: FloatArray
    """State that comes to the node, in units of the budget."""

    def take(self, kept: np.ndarray) -> SetColumns:
        """Some of them."""
        return SetColumns(self.members[kept], self.cost[kept], self.kind[kept], self.moved[kept])


class CoverPrices(NamedTuple):
    """Multipliers of (1), (2) and (3)."""

    key_groups: FloatArray
    kinds: FloatArray
    budget: float


def half_sums(rows: FloatArray) -> FloatArray:
    """The sum of every subset of rows, shape (2^q, m): row b of the result sums the rows of b's bits."""
    made = np.zeros((1, rows.shape[1]))
    for row in rows:
        made = np.concatenate([made, made + row])
    return made


class NodeKind(NamedTuple):
    """Nodes that are alike."""

    nodes: IntArray
    entering: FloatArray
    """State that each key group brings when it comes, shape (p,)."""
    leaving: FloatArray
    """State that it moves when it leaves, shape (p,)."""


def kinds_of(core: Core) -> list[NodeKind]:
    """Equal nodes together, shape of `NodeKind`."""
    p = core.current.size
    alike = core.interchangeable
    if not core.limited:
        return [NodeKind(np.arange(core.nodes), np.zeros(p), np.zeros(p))]
    made = [NodeKind(np.flatnonzero(alike), core.state, np.zeros(p))] if alike.any() else []
    for i in np.flatnonzero(~alike):
        here = core.current == i
        made.append(NodeKind(np.array([i]), np.where(here, 0.0, core.state), np.where(here, core.state, 0.0)))
    return made


class Sets:
    """The sets of key groups that nodes of a kind can hold within the budget, as pairs of two halves."""

    def __init__(self, core: Core, kind: NodeKind, unit: float) -> None:
        p = core.load.shape[0]
        self.half, self.kind = p // 2, kind
        self.limit = core.budget * (1 + 1e-12) if core.limited else np.inf
        self.least_here = float(kind.leaving.sum()) - self.limit
        self.sides, self.trees = [], []
        mean = core.load.sum(axis=0) / (core.nodes * unit)
        for part, sign in ((slice(self.half), -1.0), (slice(self.half, p), 1.0)):
            load = sign * half_sums(core.load[part] / unit) + (mean if sign < 0 else 0.0)
            state = half_sums(np.c_[kind.entering[part], kind.leaving[part]])
            fits = (state[:, 0] <= self.limit) & (kind.leaving[part].sum() - state[:, 1] <= self.limit)
            self.sides.append((np.flatnonzero(fits), load[fits], state[fits]))
            self.trees.append(cKDTree(load[fits]))

    def least(self) -> float:
        """The least distance of a set's loads from the mean, the budget aside."""
        return float(self.trees[1].query(self.sides[0][1])[0].min())

    @property
    def size(self) -> int:
        """How many subsets the halves have."""
        return sum(len(side[0]) for side in self.sides)

    def count(self, radius: float) -> float:
        """About how many sets are within a radius of the mean, the budget aside: by a sample."""
        load = self.sides[0][1]
        some = load[:: max(1, len(load) // SAMPLE)]
        found = self.trees[1].query_ball_point(some, radius, return_length=True).sum()
        return float(found) * len(load) / len(some)

    def within(self, radius: float) -> tuple[IntArray, FloatArray, FloatArray]:
        """Bits, costs and moved state of the sets within a radius of the mean."""
        found = self.trees[0].sparse_distance_matrix(self.trees[1], radius, output_type="ndarray")
        return self._of(found["i"], found["j"])

    def priced(
        self, kind: int, prices: CoverPrices, most: float, count: int, budget: Budget
    ) -> tuple[IntArray, FloatArray, FloatArray] | None:
        """The same of the sets whose reduced cost is at most so much; None where they are more than `count`, or time ends."""
        (low, load, state), (high, other, more) = self.sides
        p, unit = prices.key_groups.size, self.limit if 0 < self.limit < np.inf else 1.0
        worth = (
            half_sums(prices.key_groups[: self.half, None])[low, 0],
            half_sums(prices.key_groups[self.half : p, None])[high, 0],
        )
        here = np.square(load).sum(axis=1) - worth[0] + prices.budget * state[:, 0] / unit - prices.kinds[kind]
        there = np.square(other).sum(axis=1) - worth[1] + prices.budget * more[:, 0] / unit
        right = np.vstack([-2 * other.T, np.ones(len(other)), there])
        left = np.column_stack([load, here, np.ones(len(load))])
        step, found, rows = max(1, BLOCK // len(other)), 0, list[IntArray]()
        columns = list[IntArray]()
        for begin in range(0, len(left), step):
            i, j = np.nonzero(left[begin : begin + step] @ right <= most)
            found += i.size
            if found > count or budget.expired:
                return None
            rows.append(i + begin)
            columns.append(j)
        return self._of(np.concatenate(rows), np.concatenate(columns))

    def _of(self, i: IntArray, j: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Bits, costs and moved state of pairs of subsets, as far as they are within the budget."""
        (low, load, state), (high, other, more) = self.sides
        moved = state[i] + more[j]
        fits = (moved[:, 0] <= self.limit) & (moved[:, 1] >= self.least_here)
        i, j = i[fits], j[fits]
        return low[i] | (high[j] << self.half), np.square(load[i] - other[j]).sum(axis=1), moved[fits, 0]


def _joined(first: Any, second: Any) -> Any:
    """Two arrays, or sparse matrices, one below the other."""
    return sp.csr_array(sp.vstack([first, second])) if sp.issparse(first) else np.concatenate([first, second])


class SetPartitioning:
    """Branch and bound over the sets that better placements are made of.

    Attributes
    ----------
    best, value : ndarray, float
        The best placement and its sum of squares.
    bound : float
        No placement's sum of squares is below it.
    """

    def __init__(self, core: Core, best: IntArray, margin: float, settings: PartitioningSettings = DEFAULTS) -> None:
        self.core, self.best, self.margin, self.settings = core, best, margin, settings
        self.value, self.bound, self.visited = core.squares(best), 0.0, 0
        self.unit = float(np.sqrt(np.square(core.load).sum() / core.load.shape[0])) or 1.0
        self.kinds = kinds_of(core)
        self.sizes = np.array([kind.nodes.size for kind in self.kinds], dtype=np.float64)
        self.doubt = RADIUS_DOUBT * float(np.sqrt(np.square(core.load.sum(axis=0)).sum())) / self.unit
        self.scale = self.value / self.unit**2

    @property
    def goal(self) -> float:
        """What a better placement's sum of squares is at most, in squared units."""
        return (self.value - self.margin) / self.unit**2

    def run(self, budget: Budget) -> bool:
        """Search until the best is proven (True) or the budget ends."""
        sets = self._sets(budget)
        if not sets:
            return False
        for most in (self.settings.most_columns // 5, self.settings.most_columns):  # the first may find a smaller ball
            near = self._nearest(sets, most)
            if near is None:
                return False
            columns, beyond = near
            if beyond is None:
                return self._cover(columns, budget)
            self._cover(columns, budget, self.visited + FEW_NODES)
            self._raise(beyond)
        cells = sum(len(found.sides[0][0]) * len(found.sides[1][0]) for found in sets)
        while cells <= self.settings.most_cells and not budget.expired:
            bound, prices, _ = self._price(columns, 0.0, budget)
            open_ = 1.1 * max(self.goal - bound, 0.0) + 1e-6 * self.scale + 4 * self._rounding(prices)
            made = [found.priced(c, prices, open_, self.settings.most_columns, budget) for c, found in enumerate(sets)]
            if any(one is None for one in made):
                return False
            found = self._columns([one for one in made if one is not None])
            least = np.minimum(self._least(found, prices), 0.0)
            bound += float(self.sizes @ least) - self._rounding(prices)
            self._raise(bound)
            if bound >= self.goal or open_ >= self.goal - bound + self._rounding(prices):
                return bound >= self.goal or self._cover(found, budget)
            new = found.take(np.argsort(self._reduced(found, prices), kind="stable")[: 10 * self.settings.batch])
            columns = SetColumns(*(_joined(old, more) for old, more in zip(columns, new, strict=True)))
        return False

    def _raise(self, bound: float) -> None:
        """Take over a bound in squared units."""
        self.bound = max(self.bound, min(bound, self.goal) * self.unit**2 * (1 - RADIUS_DOUBT))

    def _sets(self, budget: Budget) -> list[Sets]:
        """What nodes of each kind can hold; nothing where there are too many key groups."""
        sets: list[Sets] = []
        for kind in self.kinds if self.core.load.shape[0] <= MOST_KEY_GROUPS else ():
            sets.append(Sets(self.core, kind, self.unit))
            if budget.expired or sum(found.size for found in sets) > self.settings.most_subsets:
                return []
        return sets

    def _nearest(self, sets: list[Sets], count: int) -> tuple[SetColumns, float | None] | None:
        """The sets of better placements; where they are too many the nearest, and what a placement with another costs.

        None where even those that are alike are too many.
        """
        least = np.array([max(0.0, found.least() * (1 - RADIUS_DOUBT) - self.doubt) for found in sets])
        rest = float(self.sizes @ np.square(least))
        self._raise(rest)
        most = np.sqrt(np.maximum(self.goal - rest + np.square(least), 0.0)) * (1 + RADIUS_DOUBT) + self.doubt
        share, beyond = 1.0, None
        while sum(found.count(share * radius) for found, radius in zip(sets, most, strict=True)) > count:
            if share < LEAST_SHARE:
                return None
            share *= SHRINK
        if share < 1.0:
            surface = np.maximum(share * most - self.doubt, 0.0) * (1 - RADIUS_DOUBT)
            beyond = float((np.square(surface) - np.square(least)).min() + rest)
        return self._columns([found.within(share * radius) for found, radius in zip(sets, most, strict=True)]), beyond

    def _columns(self, made: list[tuple[IntArray, FloatArray, FloatArray]]) -> SetColumns:
        """Sets as columns, those of one kind after those of another."""
        bits = np.concatenate([one[0] for one in made])
        members = sp.csr_array(((bits[:, None] >> np.arange(self.core.load.shape[0])) & 1).astype(np.float64))
        kind = np.repeat(np.arange(len(made)), [one[0].size for one in made])
        moved = np.concatenate([one[2] for one in made]) / (self.core.budget if 0 < self.core.budget < np.inf else 1.0)
        return SetColumns(members, np.concatenate([one[1] for one in made]), kind, moved)

    # The cover --------------------------------------------------------------------------------------------------

    def _cover(self, columns: SetColumns, budget: Budget, most: float = math.inf) -> bool:
        """Branch and bound over columns that hold every better placement, depth first; whether it came to its end.

        With `most` tree nodes it may be any columns, and proves nothing.
        """
        open_nodes = [(self.bound / self.unit**2, columns)]
        ended = np.inf  # the least bound of what was given up
        while open_nodes:
            known, columns = open_nodes.pop()
            if budget.expired or self.visited >= most:
                ended = min(ended, known)
                continue
            self.visited += 1
            columns = columns.take(columns.cost <= self.goal)
            bound, prices, master = self._price(columns, known, budget)
            if bound >= self.goal:
                continue
            columns = columns.take(self._reduced(columns, prices) <= self.goal - bound + self._rounding(prices))
            children = self._branch(columns, master)
            open_nodes += [(bound, child) for child in children]
        if math.isinf(most):
            self._raise(ended)
        return bool(np.isinf(ended))

    def _price(self, columns: SetColumns, known: float, budget: Budget) -> tuple[float, CoverPrices, CoverProgram]:
        """The linear program's bound, the multipliers that give it, and the program itself."""
        master, best = CoverProgram(self.core.load.shape[0], self.sizes, self.scale), known
        master.add(columns, np.argsort(columns.cost, kind="stable")[: self.settings.batch])
        kept = CoverPrices(np.zeros(columns.members.shape[1]), np.zeros(self.sizes.size), 0.0)
        first = True
        while True:
            prices = master.solve()
            bound = self._bound(columns, prices)
            if bound > best or first:
                best, kept, first = max(best, bound), self._shifted(columns, prices), False
            if best >= self.goal or budget.expired:
                return best, kept, master
            reduced = self._reduced(columns, prices)
            batch = min(self.settings.batch, reduced.size - 1)
            order = np.argpartition(reduced, batch)[: batch + 1]
            order = np.sort(order[reduced[order] < -1e-9 * self.scale])
            if not master.add(columns, order):
                return best, kept, master

    def _reduced(self, columns: SetColumns, prices: CoverPrices) -> FloatArray:
        worth = columns.members @ prices.key_groups
        return np.asarray(columns.cost - worth + prices.budget * columns.moved - prices.kinds[columns.kind])

    def _least(self, columns: SetColumns, prices: CoverPrices) -> FloatArray:
        """The least reduced cost of each kind's columns."""
        least = np.full(self.sizes.size, np.inf)
        np.minimum.at(least, columns.kind, self._reduced(columns, prices))
        return least

    def _shifted(self, columns: SetColumns, prices: CoverPrices) -> CoverPrices:
        """The same with (2)'s multipliers such that no reduced cost is negative."""
        least = self._least(columns, prices)
        return prices._replace(kinds=prices.kinds + np.where(np.isfinite(least), least, 0.0))

    def _bound(self, columns: SetColumns, prices: CoverPrices) -> float:
        """What any multipliers prove."""
        least = self._least(columns, prices)
        if not np.isfinite(least).all():
            return np.inf
        total = prices.key_groups.sum() + self.sizes @ (prices.kinds + least) - prices.budget * self.most_moved
        return float(total) - self._rounding(prices)

    @property
    def most_moved(self) -> float:
        """The budget in its own units."""
        return 1.0 + 1e-9 if self.core.budget > 0 else 0.0

    def _rounding(self, prices: CoverPrices) -> float:
        """What rounding can have added to a bound or a reduced cost."""
        sizes = (
            np.abs(prices.key_groups).sum() + self.sizes @ np.abs(prices.kinds) + 2 * abs(prices.budget) + self.scale
        )
        loads = np.square(self.core.load.sum(axis=0)).sum() / self.unit**2
        return float(EPSILON * 8 * (self.core.load.shape[0] + 8) * (sizes + self.core.nodes * loads))

    def _branch(self, columns: SetColumns, master: CoverProgram) -> list[SetColumns]:
        """What the linear program has half of, left out and taken; nothing where it is a placement."""
        shares, members, kind = master.solution()
        if master.left_out() < 1e-6 and (np.abs(shares - np.rint(shares)) < 1e-6).all():
            taken = np.rint(shares).astype(int)
            if self._offer(np.repeat(np.arange(shares.size), taken), members, kind):
                columns = columns.take(columns.cost <= self.goal)
            # go on: leave one of its columns out, or hold it
        apart = (members.T * shares) @ members
        np.fill_diagonal(apart, 0.0)
        apart = np.triu(apart)
        of_kind = np.zeros((members.shape[1], self.sizes.size))
        np.add.at(of_kind.T, kind, members * shares[:, None])
        half_apart, half_kind = np.abs(apart - 0.5), np.abs(of_kind - 0.5)
        dense = columns.members
        if self.sizes.size > 1 and half_kind.min() <= min(half_apart.min(), 0.5 - 1e-6):
            k, c = np.unravel_index(int(half_kind.argmin()), half_kind.shape)
            has = dense[:, [int(k)]].toarray()[:, 0] > 0
            on = columns.kind == c
            inside = np.where(has, on, ~on | (self.sizes[c] > 1))
            return [columns.take(~(has & on)), columns.take(inside)]
        if half_apart.min() < 0.5 - 1e-6:
            k, other = np.unravel_index(int(half_apart.argmin()), half_apart.shape)
            both = dense[:, [int(k), int(other)]].toarray() > 0
            return [columns.take(~both.all(axis=1)), columns.take(both[:, 0] == both[:, 1])]
        return self._on_one_column(columns, shares, members, kind)

    def _on_one_column(
        self, columns: SetColumns, shares: FloatArray, members: FloatArray, kind: IntArray
    ) -> list[SetColumns]:
        """Where the linear program is a placement, which may be beyond the budget by rounding: one of its sets, or not."""
        for at in np.flatnonzero(shares > 0.5):
            same = (columns.kind == kind[at]) & (columns.members @ (2 * members[at] - 1) == members[at].sum())
            meets = (columns.members @ members[at]) > 0
            rest = same | ~meets if self.sizes[kind[at]] > 1 else same | (~meets & (columns.kind != kind[at]))
            if members[at].any() and not rest.all():
                return [columns.take(~same), columns.take(rest)]
        return []

    def _offer(self, taken: IntArray, members: FloatArray, kind: IntArray) -> bool:
        """Take over a placement where it is better and within the budget."""
        found = np.full(members.shape[1], -1, dtype=np.int64)
        free = [list(one.nodes) for one in self.kinds]
        for at in taken:
            found[members[at] > 0] = free[kind[at]].pop()
        if (found < 0).any() or self.core.moved(found) > self.core.budget:
            return False
        value = self.core.squares(found)
        if value < self.value:
            self.best, self.value = found, value
        return True


class CoverProgram:
    """The linear program over the columns met so far."""

    def __init__(self, key_groups: int, sizes: FloatArray, scale: float) -> None:
        self.p, self.kinds = key_groups, sizes.size
        rows = key_groups + self.kinds + 1
        self.taken = np.zeros(0, dtype=np.int64)
        self.members, self.kind = np.zeros((0, key_groups)), np.zeros(0, dtype=np.int64)
        self.scale = scale
        self.highs = highspy.Highs()
        self.highs.silent()
        lower = np.concatenate([np.ones(key_groups), sizes, [-np.inf]])
        upper = np.concatenate([np.ones(key_groups), sizes, [1.0]])
        self.highs.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), np.empty(0, np.int32), np.empty(0))
        spare = key_groups + self.kinds
        self._add(np.full(spare, SLACK_COST), sp.csr_array(sp.eye_array(spare, rows)))
        self._add(np.full(self.kinds, SLACK_COST), sp.csr_array(-sp.eye_array(self.kinds, rows, k=key_groups)))
        self.spare = spare + self.kinds

    def _add(self, cost: FloatArray, rows: sp.csr_array) -> None:
        self.highs.addCols(
            cost.size, cost, np.zeros(cost.size), np.full(cost.size, np.inf), rows.nnz,
            rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32), rows.data.astype(np.float64),
        )  # fmt: skip

    def add(self, columns: SetColumns, at: IntArray) -> bool:
        """Take columns in; whether any was not there already."""
        at = np.setdiff1d(at, self.taken)
        if at.size == 0:
            return False
        new = columns.take(at)
        place = sp.csr_array((np.ones(at.size), (np.arange(at.size), new.kind)), shape=(at.size, self.kinds))
        rows = sp.csr_array(sp.hstack([new.members, place, sp.csr_array(new.moved[:, None])]))
        self._add(new.cost / (self.scale or 1.0), rows)
        self.taken = np.concatenate([self.taken, at])
        self.members = np.concatenate([self.members, new.members.toarray()])
        self.kind = np.concatenate([self.kind, new.kind])
        return True

    def solve(self) -> CoverPrices:
        """The multipliers of the program."""
        self.highs.run()
        dual = np.array(self.highs.getSolution().row_dual) * (self.scale or 1.0)
        return CoverPrices(dual[: self.p], dual[self.p : -1], max(0.0, -float(dual[-1])))

    def solution(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """The columns in use: shares, members and kinds."""
        shares = np.array(self.highs.getSolution().col_value)[self.spare :]
        used = np.flatnonzero(shares > 1e-9)
        return shares[used], self.members[used], self.kind[used]

    def left_out(self) -> float:
        """How much of the rows no column covers."""
        return float(np.array(self.highs.getSolution().col_value)[: self.spare].sum())
