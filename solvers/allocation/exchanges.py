r"""Share out a few nodes' key groups anew, exactly: of three nodes the last step where many moves are allowed.

Near an even assignment hardly any single step of the annealing is small enough to help. Between three nodes there are
millions of ways at once: those of their key groups that have moved, up to eight, may each go to any of the three
(:math:`3^8` ways), and up to two that have not may go to another (some 7,000 ways). Both lists hold the load that the first
two nodes get; the third loses as much. The pair, one from each list, that leaves the least largest deviation is found by
a search in one list, sorted, for each entry of the other: Horowitz and Sahni (1974), *Computing Partitions*. No guarantee.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.base.compiling import njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.allocation.arrays import PLANNED, Instance
from keyshift.solvers.conductor import Incumbent
from keyshift.solvers.rows import RuleRows, closing, put_if_kept, sum_rows
from keyshift.solvers.set_partitioning import Subsets, alike, members_of, placed, subsets_of

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


# Large neighbourhood search for dozens of key groups: those of a few nodes are shared out anew, exactly ---------------


MOST_SUBSETS, MOST_SETS, MOST_PAIRS = 150_000, 10_000, 2e7
"""Of the halves; near the average; and pairs of a partial choice and a further set that are looked at."""
ROOM = 1e-9
"""Slack of a sum of shares above 1: the check has the last word."""


def even_out(found: Incumbent, instance: Instance, rng: np.random.Generator, tries: int, budget: Budget) -> None:
    """Share out the key groups of a few nodes exactly, from the best assignment on, until so many tries in a row fail.

    The worst node and some others, which are near the mean together, get sets of key groups that bring each of them near
    what they have on average. Such sets are few. They are pairs of a subset of one half of the key groups and one of the
    other whose loads add up to that within a distance, which sorting finds [Horowitz1974]; of a node with limits, those
    that bring and leave no more than may move. A choice of such sets, one for each node, that holds every key group once is
    looked for key group by key group. Now these nodes, now those. No guarantee.
    """
    kept = np.flatnonzero(~instance.draining)
    if found.best is None or kept.size < 2:
        return
    now, failed = found.best.copy(), 0
    while failed < tries and not found.done and not budget.expired:
        dev = instance.deviations(now)
        nodes = _worst_and_others(dev, kept, 3 + failed % 3, rng)
        target = float(dev[nodes].mean())
        farthest = float(np.abs(dev[nodes] - target).max())
        part = Subproblem(instance, now, _free(instance, now, nodes, 24 + 4 * (failed % 4), rng), nodes)
        sets = part.near(0.9 * farthest, target) if farthest > found.slack / instance.problem.scale / 10 else None
        chosen = None if sets is None else part.choice(sets, budget)
        failed = failed + 1 if chosen is None else 0
        if chosen is not None:
            now = part.placed(now, chosen)
            found.add_solution(now, "evened out", PLANNED)


def _worst_and_others(dev: FloatArray, among: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """The worst node and a few others that have about the mean together."""
    worst = int(among[np.argmax(np.abs(dev[among]))])
    others = [i for i in among.tolist() if i != worst]
    count = min(count - 1, len(others))
    chosen = np.array(list(itertools.combinations(others, count)), dtype=np.int64).reshape(-1, count)
    order = np.argsort(np.abs(dev[chosen].sum(axis=1) + dev[worst]), kind="stable")
    return np.concatenate([[worst], chosen[order[min(int(rng.geometric(0.3)) - 1, order.size - 1)]]])


def _free(instance: Instance, place: IntArray, nodes: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """Key groups of a few nodes that may go elsewhere: those that have moved, and some that have not; the heaviest first."""
    inside = np.isin(place, nodes)
    rank = rng.random(place.size) + (place == instance.current) + 2.0 * ~inside
    chosen = np.argsort(rank, kind="stable")[: min(most, int(inside.sum()))]
    return chosen[np.argsort(-instance.load[chosen], kind="stable")]


class CandidateSets(NamedTuple):
    """Sets of key groups, those next to the target first."""

    bits: np.ndarray
    kind: IntArray
    distance: FloatArray
    moved: FloatArray
    """Shares of the limits (2) that they take, shape (sets, rows)."""

    def take(self, kept: np.ndarray | slice) -> CandidateSets:
        """Some of them."""
        return CandidateSets(*(one[kept] for one in self))


def joined(parts: Sequence[CandidateSets]) -> CandidateSets:
    """All of them, those next to the target first."""
    whole = CandidateSets(*(np.concatenate(one) for one in zip(*parts, strict=True)))
    return whole.take(np.argsort(whole.distance, kind="stable"))


class Subproblem:
    """Some key groups on some nodes, which can be shared out anew while all else stays where it is.

    Parameters
    ----------
    instance : Instance
    place : ndarray, shape (p,)
        Where the other key groups are.
    keys, nodes : ndarray
        The key groups, at most 64 and the heaviest first, and the nodes among which they are shared out.
    """

    def __init__(self, instance: Instance, place: IntArray, keys: IntArray, nodes: IntArray) -> None:
        it, rest = instance, np.ones(instance.key_groups, dtype=bool)
        self.instance, self.keys, self.nodes, rest[keys] = it, keys, nodes, False
        away = rest & (place != it.current)
        shares = []
        if it.problem.max_migrations is not None and it.max_moves < it.key_groups:
            shares.append(np.full(it.key_groups, 1.0 / max(it.max_moves, 1e-9)))
        if np.isfinite(it.max_cost):
            shares.append(it.cost_share)
        moved = np.array(shares).reshape(len(shares), it.key_groups)
        self.moved, self.room = moved[:, keys], 1.0 + ROOM - moved[:, away].sum(axis=1)
        self.fixed = np.bincount(place[rest], it.load[rest], it.nodes) * it.weight - it.mean
        self.used = np.array([np.bincount(place[rest], row[rest], it.nodes) for row in it.use]).reshape(-1, it.nodes)
        self.allowed = it.space.allowed[keys]
        self.kinds = self._alike()
        self.sizes = np.array([kind.size for kind in self.kinds])

    def _alike(self) -> list[IntArray]:
        """Nodes that are the same to every set."""
        it, marks = self.instance, list[bytes]()
        for i in self.nodes.tolist():
            here = it.current[self.keys] == i
            own = [self.fixed[i], it.weight[i], *self.used[:, i], *it.room[:, i], *self.allowed[:, i]]
            marks.append(np.concatenate([own, here if len(self.moved) else []]).tobytes())
        return [self.nodes[kind] for kind in alike(marks)]

    def near(self, distance: float, target: float) -> CandidateSets | None:
        """The sets within a distance of the target, a deviation, or within less where they are too many.

        None where the halves have too many subsets, or too many sets are as near as rounding can tell: loads that are alike.
        """
        error_bound, pairs, left = self.instance.error_bound, list[tuple[Subsets, Subsets]](), MOST_SUBSETS
        for kind in self.kinds:
            halves = self._halves(int(kind[0]), target + distance + error_bound, left)
            if halves is None:
                return None
            pairs.append(halves)
            left -= sum(half.bits.size for half in halves)
        while True:
            ranges = [self._ranges(c, *both, target, distance + error_bound) for c, both in enumerate(pairs)]
            count = sum(int((high - low).sum()) for low, high in ranges)
            if count <= MOST_SETS:
                return joined([self._met(c, *both, *ranges[c], target) for c, both in enumerate(pairs)])
            if distance <= error_bound:
                return None
            distance *= min(0.5, MOST_SETS / count)

    def _halves(self, i: int, high: float, most: int) -> tuple[Subsets, Subsets] | None:
        """The subsets of both halves that node i can take with a deviation of `high` at most, the lightest first."""
        it, k, made = self.instance, self.keys, list[Subsets]()
        here = it.current[k] == i
        inside = np.vstack([it.load[k] * it.weight[i], self.moved * ~here, it.use[:, k]])
        limits = np.concatenate([[high - self.fixed[i]], self.room, it.room[:, i] - self.used[:, i]])
        for first in (0, 1):
            half = np.arange(first, k.size, 2)
            subsets = subsets_of(half, inside, limits, self.moved * here, self.room, self.allowed[:, i], most)
            if subsets is None:
                return None
            made.append(subsets.sorted())
        return made[0], made[1]

    def _ranges(
        self, kind: int, first: Subsets, second: Subsets, target: float, reach: float
    ) -> tuple[IntArray, IntArray]:
        """For each subset of the first half, which of the second bring a node of a kind within reach of the target."""
        missing = target - self.fixed[self.kinds[kind][0]] - first.inside[:, 0]
        low = np.searchsorted(second.inside[:, 0], missing - reach, "left")
        high = np.searchsorted(second.inside[:, 0], missing + reach, "right")
        return low, np.maximum(low, high)

    def _met(
        self, kind: int, first: Subsets, second: Subsets, low: IntArray, high: IntArray, target: float
    ) -> CandidateSets:
        """The sets of those pairs that keep the limits."""
        it, i, r = self.instance, int(self.kinds[kind][0]), len(self.moved)
        a = np.repeat(np.arange(low.size), high - low)
        b = np.arange(a.size) + np.repeat(high - np.cumsum(high - low), high - low)
        sums = first.inside[a] + second.inside[b]
        fits = (first.outside[a] + second.outside[b] <= self.room).all(axis=1)
        fits &= (sums[:, 1 : 1 + r] <= self.room).all(axis=1)
        fits &= (sums[:, 1 + r :] <= it.room[:, i] - self.used[:, i]).all(axis=1)
        bits, off = (first.bits[a] | second.bits[b])[fits], np.abs(sums[fits, 0] + self.fixed[i] - target)
        return CandidateSets(bits, np.full(bits.size, kind), off, sums[fits, 1 : 1 + r])

    def choice(self, near: CandidateSets, budget: Budget) -> CandidateSets | None:
        """Sets of which each node takes one and every key group is in one: from the nearest, then from more; None without any."""
        left, size = MOST_PAIRS, 200
        while near.bits.size:
            chosen, left = self._search(near.take(slice(size)), left, budget)
            if chosen is not None or left <= 0 or size >= near.bits.size:
                return chosen
            size *= 2
        return None

    def _search(self, near: CandidateSets, left: float, budget: Budget) -> tuple[CandidateSets | None, float]:
        """Depth first by the first key group that is in none yet, many partial choices at once; and the pairs that are left."""
        p, sizes = self.keys.size, self.sizes
        full = np.uint64((1 << p) - 1)
        lowest = np.where(near.bits == 0, p, lowest_bit(near.bits))
        groups = [np.flatnonzero(lowest == k) for k in range(p)]
        may_be_empty = np.bincount(near.kind[near.bits == 0], minlength=sizes.size) > 0
        begin = np.zeros((1, sizes.size), np.int8), np.zeros((1, self.room.size)), np.zeros((1, 0), dtype=np.int64)
        stack: list[tuple[np.ndarray, ...]] = [(np.zeros(1, np.uint64), *begin)]
        while stack:
            held = stack.pop()
            key = lowest_bit(~held[0])
            group = groups[key[0]]
            now = key == key[0]
            now[np.flatnonzero(now)[max(1, 1_000_000 // max(1, group.size)) :]] = False
            if not now.all():
                stack.append(tuple(one[~now] for one in held))
            left -= int(now.sum()) * group.size
            if left <= 0 or budget.expired:
                return None, 0.0
            bits, used, spent, trail = (one[now] for one in held)
            i, j = np.nonzero((bits[:, None] & near.bits[group]) == 0)
            j = group[j]
            fits = (used[i, near.kind[j]] < sizes[near.kind[j]]) & (spent[i] + near.moved[j] <= self.room).all(axis=1)
            i, j = i[fits], j[fits]
            more, bits, path = used[i], bits[i] | near.bits[j], np.column_stack([trail[i], j])
            more[np.arange(i.size), near.kind[j]] += 1
            done = np.flatnonzero((bits == full) & ((more == sizes) | may_be_empty).all(axis=1))
            if done.size:
                return near.take(path[done[near.distance[path[done]].max(axis=1).argmin()]]), left
            go = (bits != full) & (path.shape[1] < sizes.sum())
            if go.any():
                stack.append((bits[go], more[go], spent[i[go]] + near.moved[j[go]], path[go]))
        return None, left

    def placed(self, place: IntArray, chosen: CandidateSets) -> IntArray:
        """The assignment with these sets."""
        made, found = place.copy(), placed(members_of(chosen.bits, self.keys.size), chosen.kind, self.kinds)
        made[self.keys[found >= 0]] = found[found >= 0]
        return made


def lowest_bit(bits: np.ndarray) -> IntArray:
    """The place of the lowest bit of words that are not 0."""
    return np.log2(np.maximum(bits & (~bits + np.uint64(1)), np.uint64(1)).astype(np.float64)).astype(np.int64)
