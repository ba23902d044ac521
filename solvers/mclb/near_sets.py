r"""MCLB of dozens of key groups, exactly: all sets of a good placement lie near the mean, and such sets are few.

A node's set S deviates by :math:`d_S = \sum_{k \in S} y_k - mean`, a vector over the windows, and costs :math:`c_S = |d_S|^2`. In
a placement on n nodes that costs g at most no set costs more than :math:`g - (n - 1) \min_S c_S`. The sets within that are pairs
of a subset of one half of the key groups and of the other whose loads meet there, found in a grid [Horowitz1974]. A linear
program chooses among them, in a tree (`Cover`); where they are too many, it has the nearest, and what another set costs beside
the rest is a bound. Of up to two dozen key groups all sets are then looked at by the program's prices: what costs too much
at them is in no better placement, and the others are few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.answer import STEP
from keyshift.models.base.compiling import njit
from keyshift.models.mclb.problem import Core
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.set_partitioning import (
    RIGHT_SIDE,
    Cover,
    CoverPrices,
    SetColumns,
    Subsets,
    half_sums,
    joined,
    members_of,
    placed,
    subsets_of,
)

ROUNDING = 1e-9
"""Radii are this share larger than they have to be, and as much more of the largest load: far above what rounding moves."""


SHARES = 150_000, 1_500_000
"""About so many of the nearest sets are listed, one after another; where these are not enough the bound is what they say."""
FRESH, SMOOTHED = 100, 0.3
"""Columns that join at a round, of each kind of nodes; the share of the best prices so far in those of a round."""
SAMPLE = 2_000
"""Sets, and the subsets of a half, are counted from so many of these."""


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


class Listing(NamedTuple):
    """A half of the key groups, what limits its subsets, and about how many numbers these have."""

    part: IntArray
    inside: FloatArray
    most: FloatArray
    leaving: FloatArray
    numbers: float


class Half(NamedTuple):
    """The subsets of a half of the key groups, cell by cell of a grid."""

    bits: np.ndarray
    load: FloatArray
    """Their loads, of the first half what is missing to the mean, shape (subsets, m)."""
    along: FloatArray
    """In the next direction, by which they are sorted in a cell."""
    starts: IntArray
    """Where each cell begins."""


class Grid(NamedTuple):
    """Cells by the first direction and, of three and more, the second."""

    low: FloatArray
    width: float
    across: float
    columns: int


class NearSets(NamedTuple):
    """Sets in order of cost."""

    bits: np.ndarray
    cost: FloatArray
    kind: IntArray
    moved: FloatArray
    """State that comes."""

    def take(self, some: np.ndarray | slice) -> NearSets:
        """Some of them."""
        return NearSets(*(one[some] for one in self))


class NearMeanSets(Cover):
    """The optimum by the sets of key groups that are near the mean, or a bound.

    Parameters
    ----------
    core : Core
    best : ndarray
        A placement.
    margin : float
        By how much another must be better, in its sum of squares.
    most_numbers : int
        The most loads of subsets to list.

    Attributes
    ----------
    best, value : ndarray, float
        The best placement, and its sum of squares.
    lowest : float
        No placement's is below it, in squared units.
    visited : int
        Sets that were looked at.
    """

    def __init__(self, core: Core, best: IntArray, margin: float, most_numbers: int = 50_000_000) -> None:
        self.core, self.best, self.margin, self.value = core, best, margin, core.squares(best)
        self.unit = float(np.sqrt(np.square(core.load).sum() / core.load.shape[0])) or 1.0
        load = core.load / self.unit
        self.turned = np.linalg.eigh(load.T @ load)[1][:, ::-1]
        self.load = load @ self.turned  # sums differ most in the first direction
        self.mean = self.load.sum(axis=0) / core.nodes
        self.rounding_error = ROUNDING * float(np.linalg.norm(load.sum(axis=0)) + np.linalg.norm(self.mean))
        self.kinds, self.most_numbers = kinds_of(core), most_numbers
        sizes = np.array([kind.nodes.size for kind in self.kinds], dtype=np.float64)
        loads = core.nodes * float(np.square(load.sum(axis=0)).sum())
        super().__init__(
            core.load.shape[0], sizes, int(core.limited and core.budget > 0), self.value / self.unit**2, loads
        )

        self.pool: SetColumns | None = None
        self.center: CoverPrices | None = None
        self.priced, self.least_of_all = -np.inf, np.zeros(sizes.size)

    def after(self, other: NearMeanSets) -> NearMeanSets:
        """Go on with the columns and prices of another, whose placement was worse."""
        self.pool, self.center = other.pool, other.center
        self.priced, self.least_of_all = other.priced, other.least_of_all
        return self

    @staticmethod
    def suits(core: Core) -> bool:
        """Whether key groups are few enough."""
        # Of more the subsets of a half are too many, and so are the sets that are priced.
        return core.nodes > 1 and core.load.shape[0] <= 40

    @property
    def goal(self) -> float:
        """The largest cost of a better placement, in squared units."""
        return (self.value - self.margin) / self.unit**2

    @property
    def bound(self) -> float:
        """No placement's sum of squares is below it."""
        return max(0.0, min(self.lowest * self.unit**2 * (1 - ROUNDING), self.value - self.margin))

    def run(self, budget: Budget, most: float = math.inf) -> bool:
        """Search until the best is proven (True), the budget or `most` nodes of the tree end, or sets are too many.

        The linear program's columns are the sets that a better placement may have: each costs no more than the others leave of g.
        """
        if self.goal > 0 and self.lowest < self.goal and not budget.expired:
            self._covered(budget, most)
        if self.lowest >= self.goal:
            self.lowest = np.inf
        return bool(np.isinf(self.lowest)) or self.goal <= 0

    def _covered(self, budget: Budget, most: float) -> None:
        if self.pool is not None:
            return self._priced(budget, most)
        sides = self._sides(self.goal, budget)
        for share in SHARES if sides else ():
            found = self._near(sides, share, self.goal, budget) if self.goal > 0 else None
            if found is None or found[0].cost.size == 0:
                return
            near, reach = found
            others = (self.core.nodes - 1) * float(near.cost[0]) * (1 - ROUNDING)
            need = self._wider(np.sqrt(max(self.goal - others, 0.0)))
            members = sp.csr_array(members_of(near.bits, self.key_groups))
            moved = near.moved[:, None] / self.core.budget if self.rows else np.zeros((near.bits.size, 0))
            columns = SetColumns(members, near.cost, near.kind, moved)
            if reach >= need or reach >= np.sqrt(self.goal):
                return self.raise_to(self.cover(columns, budget, most))
            left = self.cover(columns, budget, min(most, self.visited + 20))
            another = (
                max(0.0, reach - self.rounding_error) ** 2 + others
            )  # what a set costs that is not listed, and the rest
            self.raise_to(min(left, another))
        if sides and 2.0 ** (self.key_groups + 1) <= self.most_numbers and not budget.expired:
            self.pool = columns.take(np.arange(min(SHARES[0], columns.cost.size)))
            self._priced(budget, most)

    def _priced(self, budget: Budget, most: float) -> None:
        """Generate columns out of all sets; then list those that prices leave open [Baldacci2008], and choose among them."""
        assert self.pool is not None
        first, second = np.array_split(np.arange(self.key_groups), 2)
        missing, there = half_sums(self.load[first]) - self.mean, half_sums(self.load[second])
        squares = np.square(missing).sum(axis=1)[:, None] + 2 * missing @ there.T + np.square(there).sum(axis=1)
        closed, gained = [self._closed(kind, first, second) for kind in self.kinds], True
        while True:
            relaxed, _, prices, program = self.price(self.pool, -np.inf, budget)
            prices = prices._replace(kinds=np.zeros(self.sizes.size))
            if self.center is not None and gained:  # else the program's own, which end it where no set is missing
                mixed = zip(self.center, prices, strict=True)
                prices = CoverPrices(*(SMOOTHED * a + (1 - SMOOTHED) * b for a, b in mixed))
            made, cheapest = [], np.empty(self.sizes.size)
            for c, reduced in enumerate(self._reduced(squares, closed, prices, first, second)):
                place = reduced.argmin(axis=1)
                each = reduced[np.arange(place.size), place]
                cheapest[c], best = each.min(), np.argsort(each)[:FRESH]
                best = best[np.isfinite(each[best])]
                made.append((best, place[best]))
            budget.spend(squares.size * self.sizes.size / 32)
            fresh = self._columns(made)
            self.pool = SetColumns(*(joined(*both) for both in zip(self.pool.take(program.taken), fresh, strict=True)))
            total = prices.key_groups.sum() - prices.budget.sum() * RIGHT_SIDE + self.sizes @ cheapest
            gained = total - self.rounding(prices) > self.priced
            if gained:
                self.center, self.least_of_all, self.priced = prices, cheapest, float(total) - self.rounding(prices)
                self.raise_to(self.priced)
            open_ = max(0.1 * (self.goal - relaxed), 1e-4 * self.goal)
            if self.priced >= self.goal or budget.expired or relaxed - self.priced <= open_:
                break
        assert self.center is not None  # the first round gains
        listed, left = list[tuple[IntArray, IntArray]](), self.most_numbers // 256
        for c, reduced in enumerate(self._reduced(squares, closed, self.center, first, second)):
            slack = self.goal - self.priced + 2 * self.rounding(self.center)
            low, high = np.nonzero(reduced <= self.least_of_all[c] + slack)
            listed.append((low, high))
            left -= low.size
            if left < 0 or budget.expired:
                return
        self.raise_to(math.inf if self.priced >= self.goal else self.cover(self._columns(listed), budget, most))

    def _columns(self, made: list[tuple[IntArray, IntArray]]) -> SetColumns:
        """Columns of each kind of node, from the subsets of both halves."""
        low = np.uint64((self.key_groups + 1) // 2)
        kind = np.repeat(np.arange(len(made)), [i.size for i, _ in made])
        bits = [i.astype(np.uint64) | j.astype(np.uint64) << low for i, j in made]
        moved = np.concatenate([self._comes(some, one) for some, one in zip(bits, self.kinds, strict=True)])
        members = members_of(np.concatenate(bits), self.key_groups)
        cost, rows = np.square(members @ self.load - self.mean).sum(axis=1), moved[:, None] / (self.core.budget or 1.0)
        return SetColumns(sp.csr_array(members), cost, kind, rows if self.rows else np.zeros((kind.size, 0)))

    def _closed(self, kind: NodeKind, first: IntArray, second: IntArray) -> np.ndarray | None:
        """Which sets move more than the budget to a node, or from it; None where there is no budget."""
        if not self.core.limited:
            return None
        entering, leaving = (
            np.add.outer(*(half_sums(state[part][:, None])[:, 0] for part in (first, second))) for state in kind[1:]
        )
        room = self.core.budget * (1 + 1e-9)
        return (entering > room) | (kind.leaving.sum() - leaving > room * (1 + 1e-9))

    def _reduced(
        self,
        squares: FloatArray,
        closed: list[np.ndarray | None],
        prices: CoverPrices,
        first: IntArray,
        second: IntArray,
    ) -> Iterator[FloatArray]:
        """The reduced costs of all sets on nodes of each kind."""
        for kind, out in zip(self.kinds, closed, strict=True):
            worth = prices.key_groups - (prices.budget[0] * kind.entering / self.core.budget if self.rows else 0.0)
            reduced = squares - half_sums(worth[first][:, None]) - half_sums(worth[second][:, None])[:, 0]
            if out is not None:
                reduced[out] = np.inf
            yield reduced

    @property
    def listing(self) -> float:
        """About the work of listing the subsets of all halves; infinite where they are too many."""
        numbers = [half.numbers for half in self._halves(max(self.goal, 0.0))]
        return STEP * sum(numbers) / 2 if sum(numbers) <= self.most_numbers else math.inf

    def _halves(self, most_cost: float) -> list[Listing]:
        """Of each kind of node the two halves of the key groups, and what a set near the mean has of either.

        That is no more load than the mean in any window, and no more state that moves than the budget.
        """
        room = self.core.budget * (1 + 1e-12) if self.core.limited else np.inf
        mean = self.core.load.sum(axis=0) / (self.core.nodes * self.unit)
        most = np.append(mean + self._wider(float(np.sqrt(most_cost))), room)
        order, rng = np.argsort(-self.load[:, 0], kind="stable"), np.random.default_rng(0)
        made = []
        for kind in self.kinds:
            inside = np.vstack([self.core.load.T / self.unit, kind.entering])
            for part in (order[::2], order[1::2]):
                drawn = rng.random((SAMPLE, part.size)) < 0.5
                fits = (drawn @ inside[:, part].T <= most).all(axis=1) & ((~drawn) @ kind.leaving[part] <= room)
                numbers = float(fits.mean()) * 2.0**part.size * (mean.size + 3)
                made.append(Listing(part, inside, most, kind.leaving[None], numbers))
        return made

    def _sides(self, most_cost: float, budget: Budget) -> list[tuple[Subsets, Subsets]]:
        """Of each kind of node, the subsets of either half that a set near the mean has; none where they are too many."""
        windows, left, sides = self.load.shape[1], self.most_numbers, list[Subsets]()
        for part, inside, most, leaving, numbers in self._halves(most_cost):
            budget.spend(numbers / 2)
            if numbers > (left if len(sides) % 2 else left / 2) or budget.expired:
                return []
            every = np.ones(self.key_groups, dtype=bool)
            found = subsets_of(part, inside, most, leaving, most[-1:], every, left // (windows + 3))
            if found is None:
                return []
            left -= found.bits.size * (windows + 3)
            sides.append(found._replace(inside=found.inside[:, :windows] @ self.turned))
        return list(zip(sides[::2], sides[1::2], strict=True))

    def _wider(self, reach: float) -> float:
        """By more than rounding can have moved a set."""
        return reach * (1 + ROUNDING) + self.rounding_error

    def _grids(self, sides: tuple[Subsets, Subsets], reach: float) -> tuple[Half, Half, Grid]:
        """Both halves in a grid whose cells are as wide as the reach, or wider."""
        loads = self.mean - sides[0].inside, sides[1].inside
        windows, cells = self.load.shape[1], 1_500  # at most, in each direction
        both = np.vstack([*loads, np.zeros(windows)])  # a kind of nodes may have no sets near the mean
        low, span = both.min(axis=0), np.ptp(both, axis=0)
        width = self._wider(max(reach, float(span[0]) / (cells if windows > 2 else cells**2)))
        across = self._wider(max(reach, float(span[1]) / cells)) if windows > 2 else np.inf
        columns = int(span[1] / across) + 1 if windows > 2 else 1
        grid, made = Grid(low, width, across, columns), []
        for side, load in zip(sides, loads, strict=True):
            cell = ((load[:, 0] - low[0]) / width).astype(np.int64) * columns
            if columns > 1:
                cell += ((load[:, 1] - low[1]) / across).astype(np.int64)
            order = np.lexsort((load[:, min(2, windows - 1)], cell))
            starts = np.searchsorted(cell[order], np.arange((int(span[0] / width) + 1) * columns + 1)).astype(np.int64)
            load = load[order]
            made.append(Half(side.bits[order], load, np.ascontiguousarray(load[:, min(2, windows - 1)]), starts))
        return made[0], made[1], grid

    def _guess(self, sides: list[tuple[Subsets, Subsets]], share: int) -> float:
        """Within which distance about so many sets are: from how many are within a larger one of some pairs."""
        some, rng = SAMPLE, np.random.default_rng(0)
        counted, pairs, total = [], 0.0, 0
        for first, second in sides:
            missing, there = (
                rng.choice(one.inside, min(one.bits.size, some)) if one.bits.size else one.inside
                for one in (first, second)
            )
            missing = self.mean - missing
            square = np.square(missing).sum(axis=1)[:, None] - 2 * missing @ there.T + np.square(there).sum(axis=1)
            least = min(some // 10, square.size)
            counted.append(np.partition(square, least - 1, axis=None)[:least] if least else square.ravel())
            pairs += float(first.bits.size) * second.bits.size / max(square.size, 1)
            total += first.bits.size * second.bits.size
        nearest = np.sort(np.concatenate(counted))[: some // 10]
        if total <= share:
            return float("inf")
        radius, within = float(np.sqrt(max(nearest[-1], 0.0))), nearest.size * pairs / len(sides)
        return radius * (share / within) ** (1 / self.load.shape[1])

    def _near(
        self, sides: list[tuple[Subsets, Subsets]], share: int, most_cost: float, budget: Budget
    ) -> tuple[NearSets, float] | None:
        """About so many of the sets nearest to the mean, all within a reach; None where time ends."""
        windows, farthest = self.load.shape[1], np.sqrt(most_cost)
        reach = min(self._guess(sides, share), farthest)
        while not budget.expired:
            grids = [self._grids(one, reach) for one in sides]
            budget.spend(sum(half.load.size for first, second, _ in grids for half in (first, second)))
            count, rng, nowhere = 0.0, np.random.default_rng(0), np.empty((2, 0), np.int64)
            for first, second, grid in grids:
                some = np.sort(rng.choice(first.bits.size, min(first.bits.size, SAMPLE), replace=False))
                found, _ = meet(first, second, grid, self._wider(reach), some, 0, nowhere)
                count += found * first.bits.size / max(some.size, 1)
            if count <= 2 * share:
                return self._listed(grids, reach, 4 * share, budget)
            reach *= max(0.1, min(0.9, (share / count) ** (1 / windows)))
            if reach <= self.rounding_error:  # loads that are alike
                break
        return None

    def _listed(
        self, grids: list[tuple[Half, Half, Grid]], reach: float, most: int, budget: Budget
    ) -> tuple[NearSets, float] | None:
        """All sets within a reach; None where time ends or they are far more than was thought."""
        made = []
        for c, (first, second, grid) in enumerate(grids):
            found, filled = np.empty((2, most), np.int64), 0
            for begin in range(0, first.bits.size, 5_000):
                some = np.arange(begin, min(begin + 5_000, first.bits.size))
                total, filled = meet(first, second, grid, self._wider(reach), some, filled, found)
                budget.spend(some.size)
                if filled < total or budget.expired:
                    return None
            i, j = found[:, :filled]
            bits = first.bits[i] | second.bits[j]
            comes = self._comes(bits, self.kinds[c])
            made.append(
                NearSets(bits, np.square(second.load[j] - first.load[i]).sum(axis=1), np.full(filled, c), comes)
            )
            most -= filled
        whole = NearSets(*(np.concatenate(one) for one in zip(*made, strict=True)))
        return whole.take(np.argsort(whole.cost, kind="stable")), reach

    def _comes(self, bits: np.ndarray, kind: NodeKind) -> FloatArray:
        """The state that sets bring to a node of a kind."""
        moved = np.zeros(bits.size)
        for k in np.flatnonzero(kind.entering):
            moved += np.where(bits >> np.uint64(k) & np.uint64(1), kind.entering[k], 0.0)
        return moved

    def add_solution(self, sets: FloatArray, kinds: IntArray) -> None:
        """Take over a placement where it is better and within the budget."""
        place = placed(sets, kinds, [kind.nodes for kind in self.kinds])
        if (place >= 0).all() and self.core.moved(place) <= self.core.budget:
            value = self.core.squares(place)
            if value < self.value:
                self.best, self.value = place, value


# The compiled loops --------------------------------------------------------------------------------------------------


@njit(cache=True)
def meet(first, second, grid, reach, some, filled, found):
    """Pairs of some subsets of the first half and all of the second that are within reach; how many, and how many are noted."""
    square, total, m, columns = reach * reach, filled, first.load.shape[1], grid.columns
    rows = (second.starts.size - 1) // columns
    for at in some:
        x, y = first.load[at, 0] - grid.low[0], first.along[at]
        begin_column, end_column = 0, 1
        if columns > 1:
            z = first.load[at, 1] - grid.low[1]
            begin_column = max(int((z - reach) / grid.across + 1) - 1, 0)
            end_column = min(int((z + reach) / grid.across + 1), columns)
        begin_row = max(int((x - reach) / grid.width + 1) - 1, 0)
        for row in range(begin_row, min(int((x + reach) / grid.width + 1), rows)):
            for column in range(begin_column, end_column):
                begin, end = second.starts[row * columns + column], second.starts[row * columns + column + 1]
                j = begin + np.searchsorted(second.along[begin:end], y - reach)
                while j < end and second.along[j] <= y + reach:
                    away = 0.0
                    for t in range(m):
                        off = second.load[j, t] - first.load[at, t]
                        away += off * off
                        if away > square:
                            break
                    if away <= square:
                        if filled < found.shape[1]:
                            found[0, filled], found[1, filled] = at, j
                            filled += 1
                        total += 1
                    j += 1
    return total, filled
