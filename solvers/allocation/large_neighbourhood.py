r"""Large neighbourhood search for dozens of key groups: those of a few nodes are shared out anew, exactly.

The worst node and some others, which are near the mean together, get sets of key groups that bring each of them near what they
have on average. Such sets are few. They are pairs of a subset of one half of the key groups and one of the other whose loads add
up to that within a distance, which sorting finds [Horowitz1974]; of a node with limits, those that bring and leave no more
than may move. A choice of such sets, one for each node, that holds every key group once is looked for key group by key
group. Now these nodes, now those, until it helps no more. No guarantee.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyshift.models import Budget
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import PLANNED, Instance
from keyshift.solvers.conductor import Incumbent
from keyshift.solvers.set_partitioning import Subsets, alike, members_of, placed, subsets_of

MOST_SUBSETS, MOST_SETS, MOST_PAIRS = 150_000, 10_000, 2e7
"""Of the halves; near the average; and pairs of a partial choice and a further set that are looked at."""
ROOM = 1e-9
"""Slack of a sum of shares above 1: the check has the last word."""


def even_out(found: Incumbent, instance: Instance, rng: np.random.Generator, tries: int, budget: Budget) -> None:
    """Share out the key groups of a few nodes, from the best assignment on, until so many tries in a row fail."""
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
        Those of which it is, not more than 64; the heaviest first.
    """

    def __init__(self, instance: Instance, place: IntArray, keys: IntArray, nodes: IntArray) -> None:
        it, rest = instance, np.ones(instance.key_groups, dtype=bool)
        self.instance, self.keys, self.nodes, rest[keys] = it, keys, nodes, False
        away = rest & (place != it.current)
        shares = []
        if it.problem.max_migrations is not None and it.max_moves < it.key_groups:
            shares.append(np.full(it.key_groups, 1.0 / max(it.max_moves, 1e-9)))
        if np.isfinite(it.max_cost):
            shares.append(np.minimum(it.cost / max(it.max_cost, 1e-300), 2.0))
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
        doubt, pairs, left = self.instance.doubt, list[tuple[Subsets, Subsets]](), MOST_SUBSETS
        for kind in self.kinds:
            halves = self._halves(int(kind[0]), target + distance + doubt, left)
            if halves is None:
                return None
            pairs.append(halves)
            left -= sum(half.bits.size for half in halves)
        while True:
            ranges = [self._ranges(c, *both, target, distance + doubt) for c, both in enumerate(pairs)]
            count = sum(int((high - low).sum()) for low, high in ranges)
            if count <= MOST_SETS:
                return joined([self._met(c, *both, *ranges[c], target) for c, both in enumerate(pairs)])
            if distance <= doubt:
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
