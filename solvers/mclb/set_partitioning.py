r"""MCLB as set partitioning: every set of key groups that a node may hold in a better placement, then the best cover.

A set S on a node costs :math:`c_S = \sum_t (\sum_{k \in S} y_{tk} - mean_t)^2`, and a placement is a choice of n sets that
hold every key group once. Where a placement of cost U is known, no better one holds a set of more than U less the least
that the other nodes must cost. Few sets are left: they are the pairs of a half of the key groups and of the other whose
sums lie within a ball, which two k-d trees find [Horowitz1974] [Bentley1975].

With a budget, nodes that hold state differ: a set on one of them moves what it holds of others, and both this and what it
leaves behind are within the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp
from annotated_types import Gt, Lt
from scipy.spatial import cKDTree

from keyshift.models import Budget
from keyshift.models.answer import Settings
from keyshift.models.mclb.problem import Core
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.set_partitioning import Cover, CoverPrices, SetColumns, half_sums, joined, placed


@dataclass(frozen=True)
class PartitioningSettings(Settings):
    """Tuning parameters of set partitioning.

    Attributes
    ----------
    most_subsets : int
        If the two halves have more subsets than this, over all nodes that differ, no sets are listed.
    most_columns : int
        If the ball has more sets than this, it is made smaller, and the sets outside it are priced.
    most_cells : int
        Up to this many sets all reduced costs are computed.
    batch : int
        The most columns that a round adds to the linear program.
    sample : int
        Number of subsets of the first half from which the number of sets is estimated.
    shrink : float
        Factor of the radius if there are too many sets.
    least_share : float
        The least radius, as a share of the first.
    block : int
        Reduced costs computed at once.
    piece : int
        Pairs of subsets compared at once.
    nearest_share : float
        The largest share of the time left for the search for the nearest sets.
    few_nodes : int
        Nodes of a tree over the nearest sets alone, whose purpose is to find placements.
    most_key_groups : int
        The most key groups: the subsets of half of them must fit in memory.
    """

    most_subsets: int = 600_000
    most_columns: int = 1_000_000
    most_cells: int = 600_000_000
    batch: int = 300
    sample: int = 256
    shrink: Annotated[float, Gt(0), Lt(1)] = 0.75
    least_share: float = 0.01
    block: int = 2_000_000
    piece: int = 10_000_000
    nearest_share: float = 0.3
    few_nodes: int = 20
    most_key_groups: int = 44


SUBSET = 10
"""Steps of effort that putting a subset into a k-d tree counts, or looking for what is near it; products of as many are one."""

RADIUS_DOUBT = 1e-9
"""Radii are this share larger than they have to be, and as much more of the largest load: far above what rounding moves."""


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

    def __init__(self, core: Core, kind: NodeKind, unit: float, most: int, budget: Budget) -> None:
        """Where the halves have more subsets than `most`, only their `size` is known."""
        p = core.load.shape[0]
        self.half, self.kind = p // 2, kind
        self.limit = core.budget * (1 + 1e-12) if core.limited else np.inf
        self.least_here = float(kind.leaving.sum()) - self.limit
        self.sides, self.trees = [], []
        parts, fitting = (slice(self.half), slice(self.half, p)), []
        for part in parts:
            state = half_sums(np.c_[kind.entering[part], kind.leaving[part]])
            fits = (state[:, 0] <= self.limit) & (kind.leaving[part].sum() - state[:, 1] <= self.limit)
            fitting.append((np.flatnonzero(fits), state[fits]))
            budget.spend(fits.size)
        self.size = sum(bits.size for bits, _ in fitting)
        if self.size > most:
            return
        budget.spend(SUBSET * self.size)
        mean = core.load.sum(axis=0) / (core.nodes * unit)
        for part, sign, (bits, state) in zip(parts, (-1.0, 1.0), fitting, strict=True):
            load = (sign * half_sums(core.load[part] / unit) + (mean if sign < 0 else 0.0))[bits]
            self.sides.append((bits, load, state))
            self.trees.append(cKDTree(load))

    def _pieces(self) -> list[IntArray]:
        """The first half's subsets in pieces between which one can look at the clock: with many windows a tree prunes little."""
        first, other = self.trees[0].indices, len(self.sides[1][0])
        pieces = math.ceil(len(first) * other / PartitioningSettings.now().piece)
        return np.array_split(first, min(pieces, len(first)))

    def least(self, budget: Budget) -> float | None:
        """The least distance of a set's loads from the mean, the budget aside; None where time ends."""
        found, load = math.inf, self.sides[0][1]
        for piece in self._pieces():
            found = min(found, float(self.trees[1].query(load[piece])[0].min()))
            budget.spend(SUBSET * piece.size)
            if budget.expired:
                return None
        return found

    def count(self, radius: float) -> float:
        """About how many sets are within a radius of the mean, the budget aside: by a sample."""
        load = self.sides[0][1]
        some = load[:: max(1, len(load) // PartitioningSettings.now().sample)]
        found = self.trees[1].query_ball_point(some, radius, return_length=True).sum()
        return float(found) * len(load) / len(some)

    def within(self, radius: float, budget: Budget) -> tuple[IntArray, FloatArray, FloatArray] | None:
        """Bits, costs and moved state of the sets within a radius of the mean; None where time ends."""
        pieces, made = self._pieces(), []
        for piece in pieces:
            tree = self.trees[0] if len(pieces) == 1 else cKDTree(self.sides[0][1][piece])
            found = tree.sparse_distance_matrix(self.trees[1], radius, output_type="ndarray")
            made.append((found["i"] if len(pieces) == 1 else piece[found["i"]], found["j"]))
            budget.spend(SUBSET * (piece.size + found.size))
            if budget.expired:
                return None
        return self._of(*(np.concatenate(each) for each in zip(*made, strict=True)))

    def priced(
        self, kind: int, prices: CoverPrices, most: float, count: int, budget: Budget
    ) -> tuple[IntArray, FloatArray, FloatArray] | None:
        """The same of the sets whose reduced cost is at most so much; None where they are more than `count`, or time ends."""
        (low, load, state), (high, other, more) = self.sides
        p, price = prices.key_groups.size, float(prices.budget.sum()) / self.limit if prices.budget.size else 0.0
        worth = (
            half_sums(prices.key_groups[: self.half, None])[low, 0],
            half_sums(prices.key_groups[self.half : p, None])[high, 0],
        )
        here = np.square(load).sum(axis=1) - worth[0] + price * state[:, 0] - prices.kinds[kind]
        there = np.square(other).sum(axis=1) - worth[1] + price * more[:, 0]
        right = np.vstack([-2 * other.T, np.ones(len(other)), there])
        left = np.column_stack([load, here, np.ones(len(load))])
        step, found, rows = max(1, PartitioningSettings.now().block // len(other)), 0, list[IntArray]()
        columns = list[IntArray]()
        for begin in range(0, len(left), step):
            i, j = np.nonzero(left[begin : begin + step] @ right <= most)
            budget.spend(step * len(other) / SUBSET)
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


class SetPartitioning(Cover):
    """Branch and bound over the sets that better placements are made of.

    Attributes
    ----------
    best, value : ndarray, float
        The best placement and its sum of squares.
    """

    def __init__(self, core: Core, best: IntArray, margin: float, settings: PartitioningSettings | None = None) -> None:
        settings = settings or PartitioningSettings.now()
        self.core, self.best, self.margin, self.settings, self.value = core, best, margin, settings, core.squares(best)
        self.unit = float(np.sqrt(np.square(core.load).sum() / core.load.shape[0])) or 1.0
        self.kinds = kinds_of(core)
        sizes = np.array([kind.nodes.size for kind in self.kinds], dtype=np.float64)
        loads = float(np.square(core.load.sum(axis=0)).sum()) / self.unit**2
        limited = int(core.limited and core.budget > 0)
        super().__init__(core.load.shape[0], sizes, limited, self.value / self.unit**2, core.nodes * loads)
        self.doubt, self.batch = RADIUS_DOUBT * float(np.sqrt(loads)), settings.batch

    @property
    def bound(self) -> float:
        """No placement's sum of squares is below it."""
        return self.lowest * self.unit**2 * (1 - RADIUS_DOUBT)

    @property
    def goal(self) -> float:
        """The largest sum of squares of a better placement, in squared units."""
        return (self.value - self.margin) / self.unit**2

    def run(self, budget: Budget) -> bool:
        """Search until the best is proven (True) or the budget ends."""
        sets = self._sets(budget)
        if not sets:
            return False
        for most in (self.settings.most_columns // 5, self.settings.most_columns):  # the first may find a smaller ball
            near = self._nearest(sets, most, budget.part(PartitioningSettings.now().nearest_share))
            if near is None:
                return False
            columns, beyond = near
            if beyond is None:
                return self.cover(columns, budget)
            self.cover(columns, budget, self.visited + PartitioningSettings.now().few_nodes)
            self.raise_to(beyond)
        cells = sum(len(found.sides[0][0]) * len(found.sides[1][0]) for found in sets)
        while cells <= self.settings.most_cells and not budget.expired:
            _, bound, prices, _ = self.price(columns, 0.0, budget)
            open_ = 1.1 * max(self.goal - bound, 0.0) + 1e-6 * self.scale + 4 * self.rounding(prices)
            made = [found.priced(c, prices, open_, self.settings.most_columns, budget) for c, found in enumerate(sets)]
            if any(one is None for one in made):
                return False
            found = self._columns([one for one in made if one is not None])
            least = np.minimum(self.least(found, prices), 0.0)
            bound += float(self.sizes @ least) - self.rounding(prices)
            self.raise_to(bound)
            if bound >= self.goal or open_ >= self.goal - bound + self.rounding(prices):
                return bound >= self.goal or self.cover(found, budget)
            new = found.take(np.argsort(self.reduced(found, prices), kind="stable")[: 10 * self.settings.batch])
            columns = SetColumns(*(joined(old, more) for old, more in zip(columns, new, strict=True)))
        return False

    def _sets(self, budget: Budget) -> list[Sets]:
        """The sets that nodes of each kind can hold; an empty list where there are too many."""
        sets, left = list[Sets](), self.settings.most_subsets
        for kind in self.kinds if self.core.load.shape[0] <= self.settings.most_key_groups else ():
            sets.append(Sets(self.core, kind, self.unit, left, budget))
            left -= sets[-1].size
            if budget.expired or left < 0:
                return []
        return sets

    def _nearest(self, sets: list[Sets], count: int, budget: Budget) -> tuple[SetColumns, float | None] | None:
        """The sets of better placements; where they are too many the nearest, and what a placement with another costs.

        None where even those that are alike are too many, or time ends.
        """
        nearest = [found.least(budget) for found in sets]
        if None in nearest:
            return None
        least = np.maximum(0.0, np.array(nearest, dtype=np.float64) * (1 - RADIUS_DOUBT) - self.doubt)
        rest = float(self.sizes @ np.square(least))
        self.raise_to(rest)
        most = np.sqrt(np.maximum(self.goal - rest + np.square(least), 0.0)) * (1 + RADIUS_DOUBT) + self.doubt
        share, beyond = 1.0, None
        while sum(found.count(share * radius) for found, radius in zip(sets, most, strict=True)) > count:
            if share < PartitioningSettings.now().least_share:
                return None
            share *= PartitioningSettings.now().shrink
        if share < 1.0:
            surface = np.maximum(share * most - self.doubt, 0.0) * (1 - RADIUS_DOUBT)
            beyond = float((np.square(surface) - np.square(least)).min() + rest)
        made = [found.within(share * radius, budget) for found, radius in zip(sets, most, strict=True)]
        kept = [one for one in made if one is not None]
        return (self._columns(kept), beyond) if len(kept) == len(made) else None

    def _columns(self, made: list[tuple[IntArray, FloatArray, FloatArray]]) -> SetColumns:
        """Sets as columns, those of one kind after those of another."""
        bits = np.concatenate([one[0] for one in made])
        members = sp.csr_array(((bits[:, None] >> np.arange(self.core.load.shape[0])) & 1).astype(np.float64))
        kind = np.repeat(np.arange(len(made)), [one[0].size for one in made])
        spent = np.concatenate([one[2] for one in made])[:, None]
        moved = spent / self.core.budget if self.rows else np.zeros((bits.size, 0))
        return SetColumns(members, np.concatenate([one[1] for one in made]), kind, moved)

    def offer(self, sets: FloatArray, kinds: IntArray) -> None:
        """Take over a placement where it is better and within the budget."""
        found = placed(sets, kinds, [kind.nodes for kind in self.kinds])
        within = (found >= 0).all() and self.core.moved(found) <= self.core.budget
        if within and (value := self.core.squares(found)) < self.value:
            self.best, self.value = found, value
