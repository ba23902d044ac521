r"""Collocated allocation as set partitioning: the sets of key groups that a node can carry, and what of its traffic is remote.

A set S on a node costs half of the traffic over its boundary, so that a choice of one set for each node costs what is remote.
What limits say of a node by itself - its loads in each window, resources, key groups that come and go - is said of its sets.
There are too many to list. Those that the linear program of set partitioning asks for are found near the ones it has, by
moves and swaps. Then all of less than some reduced cost are looked for, which proves a bound and in the end leaves few:

* key group by key group, in or out. What is decided costs at least what it costs by itself and, for every other key group,
  the cheaper of in and out; a multiplier of the load's limits adds what these take;
* where that leaves too many open: pairs of subsets of two halves whose loads add up, by a matrix product [Horowitz1974].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.tuning import Settings
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.set_partitioning import (
    RIGHT_SIDE,
    Cover,
    CoverPrices,
    SetColumns,
    Subsets,
    joined,
    members_of,
    subsets_of,
)  # fmt: skip


@dataclass(frozen=True)
class CollocationSetsSettings(Settings):
    """Tuning numbers of set partitioning for collocated allocation.

    Attributes
    ----------
    most_key_groups : int
        With more, sets are not tried: the bits of a machine's word.
    states, most_states : int
        So many partial sets of each kind of node may be open at once; with more halves are tried, then the second figure, and
        with still more the search is given up.
    most_subsets, most_cells : int
        Halves may have so many subsets over all kinds, and they may meet in so many pairs.
    most_columns : int
        So many sets of least reduced cost are kept of each kind of node.
    near, fresh : int
        So many sets are changed by moves and swaps, and so many of what is found join the linear program's in a round.
    rounds : int
        After so many of them, or where they gain next to nothing, all sets are asked for.
    tree_nodes : int
        Of a tree over the linear program's own sets, for its assignments.
    """

    most_key_groups: int = 60
    states: int = 40_000
    most_states: int = 200_000
    most_subsets: int = 1_200_000
    most_cells: int = 300_000_000
    most_columns: int = 100_000
    near: int = 40
    fresh: int = 200
    rounds: int = 40
    tree_nodes: int = 50


WIDENED = ("max_load_distance", "resource_capacity", "max_migration_cost")
"""Rules that sets may break by rounding."""
WIDER = 1e-9
"""Loads may be this share of the largest beyond a limit: the check has the last word."""
FIRST_SLOPES = np.array([-4, -2.5, -1.5, -1, -0.6, -0.3, -0.1, 0, 0.1, 0.3, 0.6, 1, 1.5, 2.5, 4])
SLOPES = np.array([-0.5, -0.25, -0.1, -0.03, 0, 0.03, 0.1, 0.25, 0.5])
"""Multipliers of the load that are tried, in units of the prices' own; then changes of the last."""
SAMPLE = 40
"""They are judged by so many partial sets."""
SWAPPED = 1_500
"""So many changes by moves and swaps are looked at in full."""
SINGLE = 1e-4
"""Reduced costs of pairs of halves are compared in single precision first, with this much room, in shares of all that is paid."""
BLOCK = 500_000
"""So many of them are computed at once."""
GAIN, SLACK, CLOSE = 1e-3, 0.3, 0.3
"""Shares: of the goal, what counts as a gain; of what is open, what sets may cost beyond the best, and where all are listed."""


class NodeSets:
    """The sets that nodes of a kind can carry."""

    def __init__(
        self, data: Arrays, nodes: IntArray, allowed: BoolArray, remote: tuple[float, float], traffic: FloatArray
    ) -> None:
        i = int(nodes[0])
        self.data, self.nodes, self.allowed = data, nodes, allowed[:, i]
        self.traffic, self.degree = traffic, traffic.sum(axis=1) / 2
        self.coming, going = data.current != i, data.current == i
        totals = data.total_remote[:, None] - data.cost[:, None] * (1.0 - np.array(remote))
        wider = WIDER * data.total_remote
        self.upper = (data.upper_share[i] * totals).max(axis=1) + data.upper_extra[:, i] + wider
        self.lower = (data.lower_share[i] * totals).min(axis=1) + data.lower_extra[:, i] - wider
        moved = np.vstack([np.full(data.key_groups, 1.0 / max(data.max_moves, 1)), data.move_cost])
        self.moved, self.leaving = moved * self.coming, moved * going
        self.room = np.full(2, 1.0 + WIDER if data.max_moves > 0 else 0.0)
        capacity = data.capacity[:, i] * (1 + 1e-8) + 1e-300
        self.inside = np.vstack([data.load, data.remote_load, data.use, self.moved])
        self.limits = np.concatenate([self.upper, np.full(data.windows, np.inf), capacity, self.room])
        self.remote = slice(data.windows, 2 * data.windows)

    def fits(self, members: FloatArray) -> BoolArray:
        """Which sets keep all limits."""
        d = self.data
        sums = members @ self.inside.T
        fits = (sums <= self.limits).all(axis=1) & (sums[:, self.remote] >= self.lower).all(axis=1)
        fits &= ((1.0 - members) @ self.leaving.T <= self.room).all(axis=1) & (members <= self.allowed).all(axis=1)
        if d.cost.any():
            talk = np.einsum("cp,cp->c", members @ self.traffic, members) / 2
            load = sums[:, self.remote] - talk[:, None] * d.cost
            fits &= ((load <= self.upper) & (load >= self.lower)).all(axis=1)
        return np.asarray(fits)

    def cost(self, members: FloatArray) -> FloatArray:
        """Half of the traffic over the boundary."""
        return np.asarray(members @ self.degree - np.einsum("cp,cp->c", members @ self.traffic, members) / 2)

    def pay(self, prices: CoverPrices) -> FloatArray:
        """The cost of a set for each key group, traffic aside."""
        return np.asarray(prices.budget @ self.moved - prices.key_groups)

    def near(self, prices: CoverPrices, members: FloatArray, count: int) -> FloatArray:
        """Sets of little reduced cost, one or two key groups more or less than some."""
        load, sign, pay = self.inside[self.remote][0], 1.0 - 2.0 * members, self.pay(prices)
        change = sign * (self.degree - members @ self.traffic + pay)
        reduced = (self.cost(members) + members @ pay)[:, None, None] + change[:, :, None] + change[:, None, :]
        reduced -= sign[:, :, None] * sign[:, None, :] * self.traffic
        heavier = sign * load
        after = (members @ load)[:, None, None] + heavier[:, :, None] + heavier[:, None, :]
        one = np.arange(load.size)
        reduced[:, one, one] -= change
        after[:, one, one] -= heavier
        most = self.upper[0] if not self.data.cost.any() else np.inf
        reduced[(after > most) | (after < self.lower[0]) | (one[:, None] > one)] = np.inf
        best = np.argsort(reduced, axis=None)[:SWAPPED]
        of, a, b = np.unravel_index(best, reduced.shape)
        made, row = members[of], np.arange(best.size)
        made[row, a] = 1.0 - members[of, a]
        made[row, b] = 1.0 - members[of, b]
        return made[np.isfinite(reduced.ravel()[best]) & self.fits(made)][:count]

    def all_below(
        self, prices: CoverPrices, most: float, states: int, whole: bool, budget: Budget
    ) -> tuple[FloatArray, float] | None:
        """The sets of at most this reduced cost, and up to where they are all there; None if not all are and `whole` are wanted.

        Key groups are decided one after another, the heavy ones first; with too many partial sets the most promising go on.
        """
        order = np.argsort(-self.inside[self.remote][0], kind="stable")
        traffic, pay = self.traffic[np.ix_(order, order)], self.pay(prices)[order]
        inside, leaving, allowed = self.inside[:, order], self.leaving[:, order], self.allowed[order]
        part = Partial.nothing(order.size, len(inside))
        decided, rest, slope = np.zeros(order.size), inside[self.remote].sum(axis=1), None
        for g in range(order.size):
            half = part.talk[:, 0] / 2
            rest = rest - inside[self.remote, g]
            held, left = part.inside + inside[:, g], part.outside + leaving[:, g]
            fits = (held <= self.limits).all(axis=1) & allowed[g]
            stays = (left <= self.room).all(axis=1)
            stays &= (part.inside[:, self.remote] + rest >= self.lower).all(axis=1)
            more = traffic[g, g + 1 :]
            part = Partial(
                np.concatenate([part.bits[stays], part.bits[fits] | np.uint64(1 << int(order[g]))]),
                np.concatenate([(part.value + half)[stays], (part.value - half)[fits] + decided[0] + pay[g]]),
                np.concatenate([(part.ahead - half)[stays], (part.ahead - half)[fits] + more.sum() / 2]),
                np.concatenate([part.talk[stays, 1:], part.talk[fits, 1:] + more]),
                np.concatenate([part.inside[stays], held[fits]]), np.concatenate([left[stays], part.outside[fits]]),
            )  # fmt: skip
            decided = decided[1:] + more / 2
            worth = decided + pay[g + 1 :] - part.talk
            slope = self._slope(part, worth, inside[:, g + 1 :], slope, float(np.abs(pay).mean()))
            floor = self._floor(part, worth, inside[:, g + 1 :], slope)
            open_ = np.flatnonzero(floor <= most)
            if open_.size > states:
                if whole:
                    return None
                taken = self._priced_in(worth[open_], inside[:, g + 1 :], slope) < 0
                apart = np.einsum("cp,cp->c", taken @ traffic[g + 1 :, g + 1 :], ~taken) / 2
                rank = np.argpartition(floor[open_] + apart, states)
                most = min(most, float(floor[open_[rank[states:]]].min()))
                open_ = open_[rank[:states]]
            part = part.take(open_)
            if budget.expired:
                return np.zeros((0, order.size)), -np.inf
        made = members_of(part.bits, order.size)
        return made[self.fits(made)], most

    def _priced_in(self, worth: FloatArray, inside: FloatArray, slope: float) -> FloatArray:
        """The extra cost of further key groups in a set, with a multiplier of the load's limits."""
        return worth - slope * inside[self.data.windows if slope > 0 else 0]

    def _floor(self, part: Partial, worth: FloatArray, inside: FloatArray, slope: float) -> FloatArray:
        """No set that completes a partial one has less reduced cost."""
        k = self.data.windows
        missing = self.lower[0] - part.inside[:, k] if slope > 0 else self.upper[0] - part.inside[:, 0]
        further = np.minimum(self._priced_in(worth, inside, slope), 0.0).sum(axis=1)
        return np.asarray(part.value + part.ahead + further + (slope * missing if slope else 0.0))

    def _slope(self, part: Partial, worth: FloatArray, inside: FloatArray, last: float | None, price: float) -> float:
        """The multiplier of the load's limits that raises floors most: those of the lower one are positive."""
        if worth.size == 0:
            return 0.0
        some = slice(None, None, 1 + worth.shape[0] // SAMPLE)
        unit = price / (float(self.data.remote_load[0].mean()) or 1.0)
        tried = unit * FIRST_SLOPES if last is None else last + unit * SLOPES
        return float(max(tried, key=lambda slope: self._floor(part.take(some), worth[some], inside, slope).mean()))

    @cached_property
    def halves(self) -> list[Subsets]:
        """Subsets of two halves of the key groups that a node can carry, by load; none where they are too many."""
        order, most = (
            np.argsort(-self.inside[self.remote][0], kind="stable"),
            CollocationSetsSettings.now().most_subsets,
        )
        made = [
            subsets_of(part, self.inside, self.limits, self.leaving, self.room, self.allowed, most)
            for part in (order[::2], order[1::2])
        ]
        return [] if made[0] is None or made[1] is None else [one.sorted() for one in made if one is not None]

    def window(self) -> tuple[IntArray, IntArray]:
        """Which subsets of the second half each of the first can meet, by their loads."""
        a, b = (one.inside[:, 0] for one in self.halves)
        least = -np.inf if self.data.cost.any() else self.lower[0]
        low = np.searchsorted(b, least - a, side="left")
        return low, np.maximum(low, np.searchsorted(b, self.upper[0] - a, side="right"))

    def pairs_below(self, prices: CoverPrices, most: float, count: int, budget: Budget) -> tuple[FloatArray, float]:
        """The same by pairs of halves, at most `count` of them."""
        (a, b), pay, p = self.halves, self.pay(prices), self.data.key_groups
        second = members_of(b.bits, p)
        used = second.any(axis=0)
        there = self.cost(second) + second @ pay
        right = np.vstack([second[:, used].T, np.ones(len(there)), there]).astype(np.float32)
        lows, highs = self.window()
        doubt = SINGLE * max(1.0, float(np.abs(pay).sum()))
        kept, worth, size, begin = [np.zeros((2, 0), dtype=np.int64)], [np.zeros(0)], 0, 0
        while begin < len(lows):
            if budget.expired:
                return np.zeros((0, p)), -np.inf
            end = min(begin + 4096, len(lows))
            while end - begin > 1 and (end - begin) * int(highs[begin] - lows[end - 1]) > BLOCK:
                end = (begin + end + 1) // 2
            first = members_of(a.bits[begin:end], p)
            low, high = int(lows[end - 1]), int(highs[begin])
            left = np.column_stack(
                [-(first @ self.traffic)[:, used], self.cost(first) + first @ pay, np.ones(len(first))]
            )
            reduced = left.astype(np.float32) @ right[:, low:high]
            i, j = np.nonzero(reduced <= most + doubt)
            kept.append(np.vstack([i + begin, j + low]))
            worth.append(reduced[i, j].astype(np.float64) - doubt)
            begin, size = end, size + i.size
            if size > 2 * count:
                pairs, values = np.concatenate(kept, axis=1), np.concatenate(worth)
                rank = np.argpartition(values, count)
                most = min(most, float(values[rank[count:]].min()))
                kept, worth, size = [pairs[:, rank[:count]]], [values[rank[:count]]], count
        i, j = np.concatenate(kept, axis=1)
        made = members_of(a.bits[i] | b.bits[j], p)
        return made[self.fits(made) & (self.cost(made) + made @ pay <= most)], most


class Partial(NamedTuple):
    """Sets of which some key groups are decided."""

    bits: np.ndarray
    value: FloatArray
    """Reduced cost of what is decided by itself."""
    ahead: FloatArray
    """Half of the traffic from what is in to what is not decided."""
    talk: FloatArray
    """Traffic of each key group that is not decided with what is in."""
    inside: FloatArray
    outside: FloatArray

    @classmethod
    def nothing(cls, key_groups: int, rows: int) -> Partial:
        """Nothing decided."""
        zero = np.zeros(1)
        return cls(np.zeros(1, np.uint64), zero, zero, np.zeros((1, key_groups)), np.zeros((1, rows)), np.zeros((1, 2)))

    def take(self, kept: IntArray | slice) -> Partial:
        """Some of them."""
        return Partial(*(one[kept] for one in self))


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
        super().__init__(data.key_groups, sizes, 2, self.value / data.key_groups, 4.0)
        self.proven, self.trust = -np.inf, 0.5

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
        traffic = np.zeros((self.key_groups, self.key_groups))
        traffic[self.data.first, self.data.second] = self.data.mean_traffic
        traffic += traffic.T
        remote = (self.lowest, self.goal)
        self.sets = [NodeSets(self.data, group, self.open_to, remote, traffic) for group in self.groups]
        self.center = self._first_prices(traffic)
        if not self._begin(budget):
            return False
        while not budget.expired:
            prices = self._generate(budget)
            if self.goal - self.relaxed > GAIN * self.goal and not budget.expired:
                self.cover(self.columns, budget, self.visited + self.settings.tree_nodes)
            done = self._prove(prices, budget)
            if done is not None:
                return done
        return False

    def _first_prices(self, traffic: FloatArray) -> CoverPrices:
        """Half of the traffic of each key group that is remote in the best."""
        apart = np.ones_like(traffic) if self.best is None else self.best[:, None] != self.best
        return CoverPrices((traffic * apart).sum(axis=1) / 2, np.zeros(self.sizes.size), np.zeros(2))

    def _begin(self, budget: Budget) -> bool:
        """The first columns: the best's own, otherwise some of little reduced cost; whether there are any."""
        if self.best is None:
            found = [one.all_below(self.center, np.inf, self.settings.fresh, False, budget) for one in self.sets]
            made = [one[0] for one in found if one is not None]
        else:
            made = [np.array([self.best == i for i in group], dtype=np.float64) for group in self.groups]
        self.columns = self._columns(made)
        return self.columns.cost.size > 0

    def _generate(self, budget: Budget) -> CoverPrices:
        """Columns near those that the linear program likes, until they gain next to nothing; its multipliers."""
        for _ in range(self.settings.rounds):
            self.relaxed, _, prices, _ = self.price(self.columns, -np.inf, budget)
            reduced, made = self.reduced(self.columns, prices), []
            for c, one in enumerate(self.sets):
                at = np.flatnonzero(self.columns.kind == c)
                start = self.columns.members[at[np.argsort(reduced[at])[: self.settings.near]]].toarray()
                near = one.near(prices, start, self.settings.near) if at.size else start
                made.append(np.unique(np.concatenate([near, one.near(prices, near, self.settings.near)]), axis=0))
            fresh = self._columns(made)
            gain = float(self.sizes @ np.minimum(self.least(fresh, prices), 0.0))
            if budget.expired or gain > -max(GAIN * self.goal, CLOSE * (self.goal - self.relaxed)):
                break
            self._join(fresh.take(self.reduced(fresh, prices) < 0))
        return prices

    def _prove(self, prices: CoverPrices, budget: Budget) -> bool | None:
        """A bound by all sets that cost less than the columns there are; the end, proven or not, or None to go on."""
        prices = prices._replace(kinds=np.zeros(self.sizes.size))
        share = self.trust if np.isfinite(self.proven) else 0.0
        prices = CoverPrices(*(share * a + (1 - share) * b for a, b in zip(self.center, prices, strict=True)))
        doubt = self.rounding(prices)
        known = self.least(self.columns, prices)
        slack = SLACK * max(self.goal - self.relaxed, 1e-3 * self.goal) / self.sizes.sum()
        found = self._below(prices, known + slack + doubt, budget)
        if found is None or budget.expired:
            return False
        fresh, level = found
        least = np.minimum(np.minimum(self.least(fresh, prices), known), level)
        bound = prices.key_groups.sum() - prices.budget.sum() * RIGHT_SIDE + float(self.sizes @ least) - doubt
        helped = bool((self.least(fresh, prices) < known - doubt).any())
        if bound > self.proven:
            self.proven, self.center, self.cheapest = bound, prices, least
            self.raise_to(bound)
        if bound >= self.goal:
            return True
        self._join(fresh)
        if self.relaxed - self.proven <= CLOSE * (self.goal - self.relaxed) or not (helped or self.trust):
            most = self.cheapest + max(self.goal - self.proven, 0.0) + 2 * doubt
            every = self._below(self.center, most, budget)
            if every is not None and (every[1] >= most).all():
                return self.cover(every[0], budget)
            if not (helped or self.trust):
                return False
        self.trust = self.trust if helped else 0.0 if self.trust < 0.2 else self.trust / 2
        return None

    def _below(self, prices: CoverPrices, most: FloatArray, budget: Budget) -> tuple[SetColumns, FloatArray] | None:
        """The sets of each kind of at most so much reduced cost, and up to where they are all there."""
        made, level, tuned = [], most.copy(), self.settings
        for c, one in enumerate(self.sets):
            found = one.all_below(prices, float(most[c]), tuned.states, True, budget)
            if found is None and self._pairs_fit:
                found = one.pairs_below(prices, float(most[c]), tuned.most_columns, budget)
            if found is None:
                found = one.all_below(prices, float(most[c]), tuned.most_states, True, budget)
            if found is None or budget.expired:
                return None
            made.append(found[0])
            level[c] = found[1]
        return self._columns(made), level

    @cached_property
    def _pairs_fit(self) -> bool:
        """Whether there are few enough subsets and pairs of halves."""
        cells = subsets = 0
        for one in self.sets:
            if not one.halves:
                return False
            low, high = one.window()
            cells, subsets = cells + int((high - low).sum()), subsets + sum(half.bits.size for half in one.halves)
            if subsets > self.settings.most_subsets or cells > self.settings.most_cells:
                return False
        return True

    def _join(self, fresh: SetColumns) -> None:
        """Add columns to the linear program's."""
        self.columns = SetColumns(*(joined(x, y) for x, y in zip(self.columns, fresh, strict=True)))

    def _columns(self, made: list[FloatArray]) -> SetColumns:
        kind = np.repeat(np.arange(len(made)), [len(members) for members in made])
        cost = np.concatenate([one.cost(members) for one, members in zip(self.sets, made, strict=True)])
        moved = np.concatenate([members @ one.moved.T for one, members in zip(self.sets, made, strict=True)])
        return SetColumns(sp.csr_array(np.concatenate(made)), cost, kind, moved)

    def offer(self, sets: FloatArray, kinds: IntArray) -> None:
        found = np.full(self.key_groups, -1, dtype=np.int64)
        free = [list(group) for group in self.groups]
        for members, kind in zip(sets, kinds, strict=True):
            found[members > 0] = free[kind].pop()
        better = (found >= 0).all() and self._remote(found) < self.value
        if better and kept(self.problem, found, WIDENED):
            self.best, self.value = found, self._remote(found)
