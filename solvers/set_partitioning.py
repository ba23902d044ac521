r"""Set partitioning by branch and bound: which sets of key groups the nodes hold, every key group once.

.. math::

    \min \sum_S c_S \lambda_S \quad (1) \; \sum_{S \ni k} \lambda_S = 1, \quad (2) \; \sum_{S \in N} \lambda_S = |N|
    \text{ for nodes } N \text{ that are alike}, \quad (3) \; \sum_S moved_{rS} \lambda_S \le 1

The columns of its linear program come as they are asked for. The multipliers are HiGHS's, the bound is not: any multipliers give
one, in arithmetic that is done here over all columns there are. A column whose reduced cost exceeds what is open is gone for good
[Baldacci2008].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.highs import without_callbacks
from keyshift.solvers.safe_bounds import EPSILON

SLACK_COST = 10.0
"""The linear program's cost of leaving a key group out, in units of the incumbent."""
RIGHT_SIDE = 1 + 1e-9
"""Of (3): what the check allows beyond a limit is a part of it."""


class SetColumns(NamedTuple):
    """Sets of key groups on nodes of a kind."""

    members: sp.csr_array
    """Shape (columns, p)."""
    cost: FloatArray
    kind: IntArray
    moved: FloatArray
    """Each column's share of the budgets (3), shape (columns, rows)."""

    def take(self, kept: np.ndarray) -> SetColumns:
        """Some of them."""
        return SetColumns(self.members[kept], self.cost[kept], self.kind[kept], self.moved[kept])


class CoverPrices(NamedTuple):
    """Multipliers of (1), (2) and (3)."""

    key_groups: FloatArray
    kinds: FloatArray
    budget: FloatArray


def half_sums(rows: FloatArray) -> FloatArray:
    """The sum of every subset of rows, shape (2^q, m): row b of the result sums the rows of b's bits."""
    made = np.zeros((1, rows.shape[1]))
    for row in rows:
        made = np.concatenate([made, made + row])
    return made


class Subsets(NamedTuple):
    """Subsets of some key groups, one bit for each of them."""

    bits: np.ndarray
    inside: FloatArray
    """Sums over the key groups of a subset, shape (subsets, rows)."""
    outside: FloatArray
    """Sums over those that it leaves out."""

    def sorted(self) -> Subsets:
        """By the first sum."""
        order = np.argsort(self.inside[:, 0], kind="stable")
        return Subsets(*(one[order] for one in self))


def subsets_of(
    part: IntArray, inside: FloatArray, limits: FloatArray, outside: FloatArray, room: FloatArray,
    allowed: np.ndarray, most: int,
) -> Subsets | None:  # fmt: skip
    """All subsets of a part whose sums, inside and outside, are within their limits; None where they are more than `most`.

    Sums are of what is not negative, shape (rows, key groups), so that no subset comes back once it is beyond a limit.
    """
    bits, held = np.zeros(1, dtype=np.uint64), np.zeros((1, len(inside)))
    left = np.zeros((1, len(outside)))
    for k in part.tolist():
        step, without = held + inside[:, k], left + outside[:, k]
        fits, stays = (step <= limits).all(axis=1) & allowed[k], (without <= room).all(axis=1)
        bits = np.concatenate([bits[stays], bits[fits] | np.uint64(1 << k)])
        held = np.concatenate([held[stays], step[fits]])
        left = np.concatenate([without[stays], left[fits]])
        if bits.size > most:
            return None
    return Subsets(bits, held, left)


def members_of(bits: np.ndarray, key_groups: int) -> FloatArray:
    """Subsets as rows of 0 and 1, shape (subsets, p)."""
    return np.asarray((bits[:, None] >> np.arange(key_groups, dtype=np.uint64)) & np.uint64(1), dtype=np.float64)


def placed(sets: FloatArray, kinds: IntArray, nodes: Sequence[IntArray]) -> IntArray:
    """The node of each key group where each set, a row of members, has one of the nodes of its kind; -1 for none."""
    found, free = np.full(sets.shape[1], -1, dtype=np.int64), [list(kind) for kind in nodes]
    for members, kind in zip(sets, kinds, strict=True):
        found[members > 0] = free[kind].pop()
    return found


def alike(marks: Iterable[bytes]) -> list[IntArray]:
    """The places of equal marks together."""
    places: dict[bytes, list[int]] = {}
    for place, mark in enumerate(marks):
        places.setdefault(mark, []).append(place)
    return [np.array(some) for some in places.values()]


def joined(first: Any, second: Any) -> Any:
    """Two arrays, or sparse matrices, one below the other."""
    return sp.csr_array(sp.vstack([first, second])) if sp.issparse(first) else np.concatenate([first, second])


class Cover:
    """Branch and bound over the sets that better answers are made of; subclasses say what these are.

    Attributes
    ----------
    sizes : ndarray
        How many nodes there are of each kind.
    rows : int
        How many rows (3) there are.
    lowest : float
        No cover costs less, as far as is known.
    magnitude : float
        Of the sums that costs were computed from.
    """

    def __init__(self, key_groups: int, sizes: FloatArray, rows: int, scale: float, magnitude: float) -> None:
        self.key_groups, self.sizes, self.rows = key_groups, sizes, rows
        self.scale, self.magnitude, self.batch = scale, magnitude, 300
        self.lowest, self.visited = 0.0, 0

    @property
    def goal(self) -> float:
        """The largest cost of a better cover."""
        raise NotImplementedError

    def add_solution(self, sets: np.ndarray, kinds: IntArray) -> None:
        """Take over a cover, members and kinds of its sets, where it is an answer and a better one."""
        raise NotImplementedError

    def cover(self, columns: SetColumns, budget: Budget, most: float = math.inf) -> float:
        """Branch and bound over columns, depth first, for `most` tree nodes; a bound on what is left, infinite where nothing is.

        It bounds placements of these columns alone: `lowest` rises where they hold every better placement.
        """
        open_nodes = [(self.lowest, columns)]
        ended = math.inf  # the least bound of what was given up
        while open_nodes:
            known, columns = open_nodes.pop()
            if budget.expired or self.visited >= most:
                ended = min(ended, known)
                continue
            self.visited += 1
            columns = columns.take(columns.cost <= self.goal)
            bound, own, prices, master = self.price(columns, known, budget)
            if bound >= self.goal:
                continue
            columns = columns.take(self.reduced(columns, prices) <= self.goal - own + self.rounding(prices))
            children = self._branch(columns, master)
            open_nodes += [(bound, child) for child in children]
        return ended

    def price(
        self, columns: SetColumns, known: float, budget: Budget
    ) -> tuple[float, float, CoverPrices, CoverProgram]:
        """The best bound, that of the multipliers that come with it, and the linear program itself."""
        program = CoverProgram(self.key_groups, self.sizes, self.rows, self.scale)
        program.add(columns, np.argsort(columns.cost, kind="stable")[: self.batch])
        own, kept = -np.inf, CoverPrices(np.zeros(self.key_groups), np.zeros(self.sizes.size), np.zeros(self.rows))
        while True:
            prices = program.solve()
            # Steps of search that take as long as the linear program with further columns, and what decides which these
            # are.
            budget.spend(30_000 + columns.cost.size)
            bound = self._bound(columns, prices)
            if bound > own:
                own, kept = bound, self._shifted(columns, prices)
            if max(own, known) >= self.goal or budget.expired:
                return max(own, known), own, kept, program
            reduced = self.reduced(columns, prices)
            batch = min(self.batch, reduced.size - 1)
            order = np.argpartition(reduced, batch)[: batch + 1]
            order = np.sort(order[reduced[order] < -1e-9 * self.scale])
            if not program.add(columns, order):
                return max(own, known), own, kept, program

    def reduced(self, columns: SetColumns, prices: CoverPrices) -> FloatArray:
        worth = columns.members @ prices.key_groups
        return np.asarray(columns.cost - worth + columns.moved @ prices.budget - prices.kinds[columns.kind])

    def least(self, columns: SetColumns, prices: CoverPrices) -> FloatArray:
        """The least reduced cost of each kind's columns."""
        least = np.full(self.sizes.size, np.inf)
        np.minimum.at(least, columns.kind, self.reduced(columns, prices))
        return least

    def _shifted(self, columns: SetColumns, prices: CoverPrices) -> CoverPrices:
        """The same with (2)'s multipliers such that no reduced cost is negative."""
        least = self.least(columns, prices)
        return prices._replace(kinds=prices.kinds + np.where(np.isfinite(least), least, 0.0))

    def _bound(self, columns: SetColumns, prices: CoverPrices) -> float:
        """A lower bound from any multipliers."""
        least = np.minimum(
            self.least(columns, prices), SLACK_COST * self.scale - prices.kinds
        )  # of nodes without any set
        total = prices.key_groups.sum() + self.sizes @ (prices.kinds + least) - prices.budget.sum() * RIGHT_SIDE
        return float(total) - self.rounding(prices)

    def rounding(self, prices: CoverPrices) -> float:
        """The most that rounding can have added to a bound or a reduced cost."""
        sizes = (
            np.abs(prices.key_groups).sum() + self.sizes @ np.abs(prices.kinds) + 2 * prices.budget.sum() + self.scale
        )
        return float(EPSILON * 8 * (self.key_groups + 8) * (sizes + self.magnitude))

    def raise_to(self, bound: float) -> None:
        """Take over a bound."""
        self.lowest = max(self.lowest, min(bound, self.goal))

    def _branch(self, columns: SetColumns, master: CoverProgram) -> list[SetColumns]:
        """Branches on what the linear program splits most evenly: without it and with it; none for a placement."""
        shares, members, kind = master.solution()
        if master.left_out() < 1e-6 and (np.abs(shares - np.rint(shares)) < 1e-6).all():
            taken = np.rint(shares).astype(int)
            at = np.repeat(np.arange(shares.size), taken)
            self.add_solution(members[at], kind[at])
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


class ColumnProgram:
    """A linear program in HiGHS that goes on with columns >= 0 as they come, after `spare` ones that make any rows possible."""

    def __init__(self, lower: FloatArray, upper: FloatArray, cost: FloatArray, spare: sp.csr_array) -> None:
        self.highs, self.spare, rows = without_callbacks(highspy.Highs()), cost.size, lower.size
        self.highs.silent()
        self.highs.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), np.empty(0, np.int32), np.empty(0))
        self.add_columns(cost, spare)

    def add_columns(self, cost: FloatArray, columns: sp.csr_array) -> None:
        """Add columns, each a row of the matrix given."""
        self.highs.addCols(
            cost.size, cost, np.zeros(cost.size), np.full(cost.size, np.inf), columns.nnz,
            columns.indptr[:-1].astype(np.int32), columns.indices.astype(np.int32), columns.data.astype(np.float64),
        )  # fmt: skip

    def run(self) -> FloatArray:
        """Solve it; the multipliers of its rows."""
        self.highs.run()
        return np.array(self.highs.getSolution().row_dual)

    @property
    def shares(self) -> FloatArray:
        """What the solution takes of each column, the spare ones first."""
        return np.maximum(self.highs.getSolution().col_value, 0.0)


class CoverProgram(ColumnProgram):
    """The linear program over the columns met so far."""

    def __init__(self, key_groups: int, sizes: FloatArray, limits: int, scale: float) -> None:
        self.p, self.kinds = key_groups, sizes.size
        rows = key_groups + self.kinds + limits
        self.taken = np.zeros(0, dtype=np.int64)
        self.members, self.kind = np.zeros((0, key_groups)), np.zeros(0, dtype=np.int64)
        self.scale = scale
        lower = np.concatenate([np.ones(key_groups), sizes, np.full(limits, -np.inf)])
        upper = np.concatenate([np.ones(key_groups), sizes, np.ones(limits)])
        less, more = sp.eye_array(key_groups + self.kinds, rows), -sp.eye_array(self.kinds, rows, k=key_groups)
        spare = sp.csr_array(sp.vstack([less, more]))
        super().__init__(lower, upper, np.full(spare.shape[0], SLACK_COST), spare)

    def add(self, columns: SetColumns, at: IntArray) -> bool:
        """Take columns in; whether any was not there already."""
        at = np.setdiff1d(at, self.taken)
        if at.size == 0:
            return False
        new = columns.take(at)
        place = sp.csr_array((np.ones(at.size), (np.arange(at.size), new.kind)), shape=(at.size, self.kinds))
        rows = sp.csr_array(sp.hstack([new.members, place, sp.csr_array(new.moved)]))
        self.add_columns(new.cost / (self.scale or 1.0), rows)
        self.taken = np.concatenate([self.taken, at])
        self.members = np.concatenate([self.members, new.members.toarray()])
        self.kind = np.concatenate([self.kind, new.kind])
        return True

    def solve(self) -> CoverPrices:
        """The multipliers of the program."""
        dual = self.run() * (self.scale or 1.0)
        at = self.p + self.kinds
        return CoverPrices(dual[: self.p], dual[self.p : at], np.maximum(-dual[at:], 0.0))

    def solution(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """The columns in use: shares, members and kinds."""
        shares = self.shares[self.spare :]
        used = np.flatnonzero(shares > 1e-9)
        return shares[used], self.members[used], self.kind[used]

    def left_out(self) -> float:
        """How much of the rows no column covers."""
        return float(self.shares[: self.spare].sum())
