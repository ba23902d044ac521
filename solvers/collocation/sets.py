r"""Collocated allocation as set partitioning: the sets of key groups that a node can carry, and what of its traffic is remote.

A set S on a node costs half of the traffic over its boundary, so that a choice of one set for each node costs what is remote.
What limits say of a node by itself - its loads in each window, resources, key groups that come and go - is said of its sets.
There are too many to list. Those that the linear program of set partitioning asks for are found near the ones it has, by
moves and swaps. Then those of least reduced cost are looked for in all (`sets_above`), which proves a bound, and as soon as what
that leaves open is little enough to list every set of less, a tree over these ends it.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from keyshift.models import Budget
from keyshift.models.answer import STEP
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.collocation.sets_kernels import DONE, FULL, PAUSED, SetData, SetSearch, sets_above
from keyshift.solvers.set_partitioning import (
    RIGHT_SIDE,
    Cover,
    CoverPrices,
    SetColumns,
    alike,
    half_sums,
    joined,
    members_of,
    placed,
)
from keyshift.solvers.subsets import ENTRIES, FittingSets, cheapest_cover

MOST_COLUMNS = 10_000
"""The most sets of a better answer to be listed; up to twice as many for each kind of node."""
NEAR, FRESH, ROUNDS = 40, 200, 40
"""Sets that are varied by moves and swaps, and results that join the linear program in a round; after so many rounds, or when
they gain almost nothing, all sets are priced."""
WIDENED = ("max_load_distance", "resource_capacity", "max_migration_cost")
"""Rules that sets may break by rounding."""
WIDER = 1e-9
"""Loads may be this share of the largest beyond a limit: the check has the last word."""
CHUNK, FEW = 5_000, 4_096
"""So many nodes of a tree are looked at between two looks at the clock; there is room for so many sets at first."""
GAIN, CLOSE, FIRST, AGAIN = 1e-3, 0.3, 0.05, 0.7
"""Shares: of the goal, what counts as a gain; of what is open, what is one of the linear program; of the goal, what is open
when all sets are first asked for, and of what was open then, when they are asked for again."""


ASKED, VARIED, VISITED = 20_000, 10_000, 0.2
"""Steps of search that take as long as asking for all sets of a node, varying some, and, for each key group, a tree's node."""


class NodeSets:
    """The sets that nodes of a kind can carry."""

    def __init__(
        self, data: Arrays, nodes: IntArray, allowed: BoolArray, remote: tuple[float, float], traffic: FloatArray
    ) -> None:
        i = int(nodes[0])
        self.data, self.nodes, self.allowed = data, nodes, allowed[:, i]
        self.traffic, self.degree, self.split = traffic, traffic.sum(axis=1) / 2, traffic / 2
        self.coming, going = data.current != i, data.current == i
        totals = data.total_remote[:, None] - data.serialisation[:, None] * (1.0 - np.array(remote))
        wider = WIDER * data.total_remote
        share, most, low_share, least = data.bands[:, :, i]
        self.upper = (share[:, None] * totals).max(axis=1) + most + wider
        self.lower = (low_share[:, None] * totals).min(axis=1) + least - wider
        moved = np.vstack([np.full(data.key_groups, 1.0 / max(data.max_moves, 1)), data.cost_share])
        self.moved, self.leaving = moved * self.coming, moved * going
        self.room = np.full(2, 1.0 + WIDER if data.max_moves > 0 else 0.0)
        capacity = data.room[:, i] * (1 + 1e-8) + 1e-300
        self.inside = np.vstack([data.load, data.remote_load, data.use, self.moved])
        self.limits = np.concatenate([self.upper, np.full(data.windows, np.inf), capacity, self.room])
        self.remote = slice(data.windows, 2 * data.windows)

    def fits(self, members: FloatArray) -> BoolArray:
        """Which sets keep all limits."""
        d = self.data
        sums = members @ self.inside.T
        fits = (sums <= self.limits).all(axis=1) & (sums[:, self.remote] >= self.lower).all(axis=1)
        fits &= ((1.0 - members) @ self.leaving.T <= self.room).all(axis=1) & (members <= self.allowed).all(axis=1)
        if d.serialisation.any():
            talk = np.einsum("cp,cp->c", members @ self.traffic, members) / 2
            load = sums[:, self.remote] - talk[:, None] * d.serialisation
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
        most = self.upper[0] if not self.data.serialisation.any() else np.inf
        reduced[(after > most) | (after < self.lower[0]) | (one[:, None] > one)] = np.inf
        # So many changes by moves and swaps are looked at in full.
        best = np.argsort(reduced, axis=None)[:1_500]
        of, a, b = np.unravel_index(best, reduced.shape)
        made, row = members[of], np.arange(best.size)
        made[row, a] = 1.0 - members[of, a]
        made[row, b] = 1.0 - members[of, b]
        return made[np.isfinite(reduced.ravel()[best]) & self.fits(made)][:count]

    def below(
        self, prices: CoverPrices, most: float, count: int, budget: Budget, whole: bool = False
    ) -> tuple[FloatArray, float]:
        """The sets of at most this reduced cost, `count` of the least, and up to where they are all there.

        Where `whole` are wanted and there are more than twice as many, the search ends.
        """
        pay = self.pay(prices)
        # What rounding may change in the worth of a set, in shares of all that is added up.
        error_bound = 1e-12 * float(np.abs(pay).sum() + self.degree.sum())
        data = self._data(-self.degree - pay)
        state, said, visited = self._begun(data, -most - error_bound, min(FEW, 2 * count)), PAUSED, 0
        budget.spend(ASKED)
        while said != DONE and not budget.expired:
            said = sets_above(CHUNK, data, state)
            budget.spend(VISITED * self.data.key_groups * (state.at[3] - visited))
            visited = int(state.at[3])
            if said == FULL and (more := min(state.found.size, 2 * count - state.found.size)):
                state = state._replace(
                    found=np.concatenate([state.found, np.zeros(more, np.uint64)]),
                    found_value=np.concatenate([state.found_value, np.zeros(more)]),
                )
            elif said == FULL and whole:
                break
            elif said == FULL:
                kept = np.argpartition(-state.found_value, count)[: count + 1]
                state.wanted[0] = state.found_value[kept[count]]
                most = -float(state.wanted[0]) - error_bound
                state.found[:count], state.found_value[:count] = (
                    state.found[kept[:count]],
                    state.found_value[kept[:count]],
                )
                state.at[2] = count
        made = members_of(state.found[: state.at[2]], self.data.key_groups)
        made = made[self.fits(made)]
        return made[self.cost(made) + made @ pay <= most], most if said == DONE else -np.inf

    def _data(self, own: FloatArray) -> SetData:
        """What the search reads, limits in units of themselves."""
        d, positive = self.data, self.limits > 0
        rows = np.isfinite(self.limits) & positive & self.inside.any(axis=1)
        rows[0] = True
        with np.errstate(over="ignore"):  # infinitely above its limit
            use = self.inside[rows] / np.where(positive, self.limits, 1.0)[rows, None]
        first = 0.0 if d.serialisation.any() or self.limits[0] <= 0 else max(0.0, float(self.lower[0] / self.limits[0]))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            gain = np.where(
                use[:, None] > 0, self.split / use[:, None], np.inf
            )  # next to no use is worth as much as none
        gain[:, self.split <= 0] = -1.0
        neighbours = np.argsort(-gain, axis=2, kind="stable")
        neighbours[np.take_along_axis(gain, neighbours, 2) < 0] = -1
        # Where more than this share of the pairs talk, worth decides who is next, else talk.
        lean = 1.0 if (self.traffic > 0).mean() > 0.5 else 2.0
        return SetData(
            own, self.traffic, self.split, neighbours, use, np.concatenate([[first - 2 * WIDER], self.lower]),
            np.ascontiguousarray(self.inside[self.remote]), self.leaving, self.room, lean,
        )  # fmt: skip

    def _begun(self, data: SetData, wanted: float, most: int) -> SetSearch:
        """Nothing decided but what cannot be in any set."""
        rows, p = self.data.key_groups + 1, self.data.key_groups
        worth, open_ = np.zeros((rows, p)), np.zeros((rows, p), dtype=np.bool_)
        worth[0], open_[0] = data.own, self.allowed & (self.inside <= self.limits[:, None]).all(axis=0)
        left_out, listed = np.zeros((rows, 2)), np.arange(p)
        left_out[0] = self.leaving[:, ~open_[0]].sum(axis=1)
        return SetSearch(
            worth, np.repeat(data.split.sum(axis=1)[None], rows, axis=0), open_, np.full((rows, len(data.use)), 1.0 + WIDER),
            np.zeros((rows, len(data.weight))), left_out, np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.uint64),
            np.array([0, 1, 0, 0]), np.array([wanted]), np.zeros(most, np.uint64), np.zeros(most),
            np.repeat(listed[None], rows, axis=0), np.full(rows, p), np.zeros(p), np.zeros(p),
        )  # fmt: skip


class CollocationSets(Cover):
    """Branch and bound over sets; `best` is the best assignment and `lowest` a bound on the share of traffic that is remote."""

    def __init__(
        self, problem: CollocatedAllocation, data: Arrays, best: IntArray | None, closer: float, open_to: BoolArray,
    ) -> None:  # fmt: skip
        self.problem, self.data, self.best, self.closer = problem, data, best, closer
        self.value = 1.0 + 2 * closer if best is None else self._remote(best)
        self.limited = data.max_moves < data.key_groups or bool(data.cost_share.any())
        self.open_to = open_to if self.limited else data.allowed
        self.groups = self._alike()
        sizes = np.array([group.size for group in self.groups], dtype=np.float64)
        super().__init__(data.key_groups, sizes, 2, self.value / data.key_groups, 4.0)
        self.proven, self.trust, self.tried = -np.inf, 0.5, FIRST * self.goal

    @staticmethod
    def suits(problem: CollocatedAllocation, data: Arrays) -> bool:
        """Whether it is one sum of traffic that is to be least, of few enough key groups."""
        # The most key groups for which sets are tried: the bits of a machine word.
        return (
            not problem.combines and len(data.traffic) == 1 and data.traffic.size > 0 and data.max_moves > 0
            and problem.saved > 0 and 2 <= data.key_groups <= 60 and data.nodes > 1
        )  # fmt: skip

    @staticmethod
    def tabled(data: Arrays, work: float) -> bool:
        """Whether all sets are so few that the best choice is found within so much work, and limits are of sets alone."""
        entries = data.nodes * (_counted_moves(data) + 1) << min(data.key_groups, 60)
        few = entries <= min(ENTRIES, work / (STEP / 2))
        return few and not data.serialisation.any() and not data.cost_share.any()

    def _remote(self, assignment: IntArray) -> float:
        return max(0.0, 1.0 - self.data.collocated(assignment))

    @property
    def goal(self) -> float:
        return self.value - self.closer

    def _alike(self) -> list[IntArray]:
        """Nodes that are the same to every set."""
        d, marks = self.data, list[bytes]()
        for i in range(d.nodes):
            own = [self.open_to[:, i], d.bands[:, :, i], d.room[:, i]]
            own += [d.current == i] if self.limited else []
            marks.append(b"|".join(np.ascontiguousarray(x).tobytes() for x in own))
        return alike(marks)

    def run(self, budget: Budget) -> bool:
        """Search until the best is proven (True), or the budget ends, or there are too many sets."""
        if self.goal < self.lowest:
            return True
        traffic = np.zeros((self.key_groups, self.key_groups))
        traffic[self.data.first, self.data.second] = self.data.mean_traffic
        traffic += traffic.T
        remote = (self.lowest, self.goal)
        self.sets = [NodeSets(self.data, group, self.open_to, remote, traffic) for group in self.groups]
        if self._by_subsets(budget):
            return True
        self.center = self._first_prices(traffic)
        if not self._begin(budget):
            return False
        while not budget.expired:
            done = self._prove(self._generate(budget), budget)
            if done is not None:
                return done
        return False

    def _by_subsets(self, budget: Budget) -> bool:
        """Choose among all sets at once where they are few and limits are of sets; whether that proved the best."""
        data = self.data
        if not self.tabled(data, budget.remaining):
            return False
        subsets, most_moves = 1 << data.key_groups, _counted_moves(data)
        load, sets, kinds = half_sums(data.remote_load.T), dict[int, FittingSets](), np.zeros(data.nodes, np.int64)
        for number, kind in enumerate(self.sets):
            kinds[kind.nodes] = number
            bits = np.flatnonzero(((load >= kind.lower) & (load <= kind.upper)).all(axis=1))
            members = members_of(bits.astype(np.uint64), self.key_groups)
            fits = kind.fits(members)
            bits, members = bits[fits], members[fits]
            moves = np.rint(members @ kind.coming).astype(np.int64) * (most_moves > 0)
            sets |= dict.fromkeys(kind.nodes.tolist(), FittingSets(bits, kind.cost(members), moves))
            budget.spend(subsets)
        most = self.goal + 1e-12
        answered, chosen = cheapest_cover([sets[i] for i in range(data.nodes)], subsets, most, most_moves, 3e8, budget)
        if chosen is not None:
            before = self.value
            self.add_solution(members_of(np.array(chosen, dtype=np.uint64), self.key_groups), kinds)
            answered = self.value < before  # what the check refuses by rounding is no answer
        if answered:
            self.raise_to(np.inf)
        return answered

    def _first_prices(self, traffic: FloatArray) -> CoverPrices:
        """Half of the traffic of each key group that is remote in the best."""
        apart = np.ones_like(traffic) if self.best is None else self.best[:, None] != self.best
        return CoverPrices((traffic * apart).sum(axis=1) / 2, np.zeros(self.sizes.size), np.zeros(2))

    def _begin(self, budget: Budget) -> bool:
        """The first columns: the best's own, otherwise some of little reduced cost; whether there are any."""
        if self.best is None:
            found = [one.below(self.center, np.inf, FRESH, budget) for one in self.sets]
            made = [one[0] for one in found]
        else:
            made = [np.array([self.best == i for i in group], dtype=np.float64) for group in self.groups]
        self.columns = self._columns(made)
        return self.columns.cost.size > 0

    def _generate(self, budget: Budget) -> CoverPrices:
        """Columns near those that the linear program likes, until they gain next to nothing; its multipliers."""
        for _ in range(ROUNDS):
            self.relaxed, _, prices, _ = self.price(self.columns, -np.inf, budget)
            reduced, made = self.reduced(self.columns, prices), []
            for c, one in enumerate(self.sets):
                budget.spend(2 * VARIED)
                at = np.flatnonzero(self.columns.kind == c)
                start = self.columns.members[at[np.argsort(reduced[at])[:NEAR]]].toarray()
                near = one.near(prices, start, NEAR) if at.size else start
                made.append(np.unique(np.concatenate([near, one.near(prices, near, NEAR)]), axis=0))
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
        error_bound = self.rounding(prices)
        known = self.least(self.columns, prices)
        slack = max(self.goal - self.relaxed, GAIN * self.goal)
        fresh, level = self._below(prices, known + slack + error_bound, FRESH, budget)
        if budget.expired:
            return False
        least = np.minimum(np.minimum(self.least(fresh, prices), known), level)
        bound = prices.key_groups.sum() - prices.budget.sum() * RIGHT_SIDE + float(self.sizes @ least) - error_bound
        helped = bool((self.least(fresh, prices) < known - error_bound).any())
        if bound > self.proven:
            self.proven, self.center, self.cheapest = bound, prices, least
            self.raise_to(bound)
        if bound >= self.goal:
            return True
        self._join(fresh)
        stuck = not (helped or self.trust)
        if self.goal - self.proven <= self.tried or stuck:
            self.tried = AGAIN * (self.goal - self.proven)
            most = self.cheapest + max(self.goal - self.proven, 0.0) + 2 * error_bound
            every, level = self._below(self.center, most, MOST_COLUMNS, budget, whole=True)
            if (level >= most).all():
                return self._end(every, budget)
            if stuck:
                return False
        self.trust = self.trust if helped else 0.0 if self.trust < 0.2 else self.trust / 2
        return None

    def _end(self, columns: SetColumns, budget: Budget) -> bool:
        """Whether the columns, of which all better assignments are made, were looked at to the end."""
        left = self.cover(columns, budget)
        self.raise_to(left)
        return math.isinf(left)

    def _below(
        self, prices: CoverPrices, most: FloatArray, count: int, budget: Budget, whole: bool = False
    ) -> tuple[SetColumns, FloatArray]:
        """The sets of each kind of at most so much reduced cost, and up to where they are all there."""
        found, missing = [], False
        for one, up_to in zip(self.sets, most, strict=True):
            found.append(one.below(prices, -np.inf if missing else float(up_to), count, budget, whole))
            missing = whole and found[-1][1] < up_to
        return self._columns([made for made, _ in found]), np.array([level for _, level in found])

    def _join(self, fresh: SetColumns) -> None:
        """Add columns to the linear program's."""
        self.columns = SetColumns(*(joined(x, y) for x, y in zip(self.columns, fresh, strict=True)))

    def _columns(self, made: list[FloatArray]) -> SetColumns:
        kind = np.repeat(np.arange(len(made)), [len(members) for members in made])
        cost = np.concatenate([one.cost(members) for one, members in zip(self.sets, made, strict=True)])
        moved = np.concatenate([members @ one.moved.T for one, members in zip(self.sets, made, strict=True)])
        return SetColumns(sp.csr_array(np.concatenate(made)), cost, kind, moved)

    def add_solution(self, sets: FloatArray, kinds: IntArray) -> None:
        found = placed(sets, kinds, self.groups)
        better = (found >= 0).all() and self._remote(found) < self.value
        if better and kept(self.problem, found, WIDENED):
            self.best, self.value = found, self._remote(found)


def _counted_moves(data: Arrays) -> int:
    """How many moves there may be, 0 where all key groups may move and none has to be counted."""
    return data.max_moves if data.max_moves < data.key_groups else 0
