r"""Sets of key groups that bring a node near the mean, and covers by them: for dozens of key groups, exactly.

Within a small distance d of the mean few sets of key groups are left. They are pairs of a subset of one half of the key
groups and one of the other whose loads add up to the mean within d, which sorting finds [Horowitz1974]; of a node with
limits, those that bring and leave no more than may move. An assignment within d is a choice of such sets, one for each
node, that holds every key group once. All choices are looked at, key group by key group: where there is none, d is a bound.
Where some moves are costly, multipliers of the linear program over the sets say first what each set takes beyond the least.

The heaviest key groups alone often decide: beside them there is room for a few light ones, so that sets with the heaviest are
soon listed, those with the next, and so on while they are few. The least distance at which they find sets that do not meet is
a bound.

With more key groups, those of a few nodes are shared out around what these nodes have on average: now these, now those,
until all are near the mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp
from annotated_types import Gt, Lt

from keyshift.models import Budget
from keyshift.models.answer import Settings
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.incumbent import PLANNED, Incumbent
from keyshift.solvers.set_partitioning import Cover, SetColumns, Subsets, alike, members_of, placed, subsets_of

Bits = np.ndarray


@dataclass(frozen=True)
class NarrowSettings(Settings):
    """Tuning parameters of narrow sets.

    Attributes
    ----------
    most_key_groups : int
        The most key groups that are redistributed at once: the bits of a machine word.
    most_subsets, most_columns : int
        The most subsets of the halves, over all nodes that differ, and the most sets near the mean.
    first : int
        How many of the nearest sets are tried first; the number doubles each time.
    priced : int
        With more sets than this, the linear program prices what each uses of the limits.
    most_pairs : float
        The most pairs of sets, and of a partial cover and a further set, that are examined.
    few_subsets, few_columns, few_pairs : int, int, float
        The same three limits if the key groups of a few nodes are redistributed.
    heavy_subsets, heavy_columns, heavy_pairs : int, int, float
        The same three limits for sets with one of the heaviest key groups.
    block : int
        Pairs examined at once.
    least_free : int
        The least number of key groups of a few nodes that are redistributed at once.
    shrink : float
        Factor of the distance if too many sets are near the mean; a smaller one if there are many times too many.
    """

    most_key_groups: int = 64
    most_subsets: int = 4_000_000
    most_columns: int = 400_000
    first: int = 200
    priced: int = 2_000
    most_pairs: float = 1e9
    few_subsets: int = 150_000
    few_columns: int = 10_000
    few_pairs: float = 2e7
    heavy_subsets: int = 100_000
    heavy_columns: int = 30_000
    heavy_pairs: float = 1e8
    block: int = 1_000_000
    least_free: int = 24
    shrink: Annotated[float, Gt(0), Lt(1)] = 0.5


ROOM = 1e-9
"""Slack of a sum of shares above 1: the check has the last word."""


class NearMean(NamedTuple):
    """Sets of key groups, those next to the mean first."""

    bits: Bits
    kind: IntArray
    distance: FloatArray
    moved: FloatArray
    """Shares of the limits (2) that they take, shape (sets, rows)."""

    def take(self, kept: np.ndarray | slice) -> NearMean:
        """Some of them."""
        return NearMean(*(one[kept] for one in self))


def joined(parts: Sequence[NearMean]) -> NearMean:
    """All of them, those next to the mean first."""
    if not parts:
        return NearMean(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0)))
    whole = NearMean(*(np.concatenate(one) for one in zip(*parts, strict=True)))
    return whole.take(np.argsort(whole.distance, kind="stable"))


class Portion:
    """Some key groups on some nodes, which can be shared out anew while all else stays where it is.

    Parameters
    ----------
    instance : Instance
    place : ndarray, shape (p,)
        Where the other key groups are.
    keys, nodes : ndarray
        Those of which the part is, not more than 64; the heaviest first.
    free : ndarray, optional
        Others that go elsewhere, where that is not the part's concern.
    """

    def __init__(
        self, instance: Instance, place: IntArray, keys: IntArray, nodes: IntArray, free: IntArray | None = None
    ) -> None:
        it, rest = instance, np.ones(instance.key_groups, dtype=bool)
        self.instance, self.keys, self.nodes, rest[keys] = it, keys, nodes, False
        self.gone = np.zeros(0, dtype=np.int64) if free is None else free[rest[free]]
        rest[self.gone] = False
        away = rest & (place != it.current)
        shares = []
        if it.problem.max_migrations is not None and it.max_moves < it.key_groups:
            shares.append(np.full(it.key_groups, 1.0 / max(it.max_moves, 1e-9)))
        if np.isfinite(it.max_cost):
            shares.append(np.minimum(it.cost / max(it.max_cost, 1e-300), 2.0))
        moved = np.array(shares).reshape(len(shares), it.key_groups)
        self.moved, self.room = moved[:, keys], 1.0 + ROOM - moved[:, away].sum(axis=1)
        self.left = moved[:, self.gone]
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
            own = [self.fixed[i], it.weight[i], it.draining[i], *self.used[:, i], *it.room[:, i], *self.allowed[:, i]]
            marks.append(np.concatenate([own, here if len(self.moved) else []]).tobytes())
        return [self.nodes[kind] for kind in alike(marks)]

    def halves(self, i: int, high: float, most: int, heaviest: int = -1) -> list[Subsets] | None:
        """The subsets of both halves that node i can take with a deviation of `high` at most, beside a heaviest key group."""
        it, k = self.instance, self.keys
        here = it.current[k] == i
        inside = np.vstack([it.load[k] * it.weight[i], self.moved * ~here, it.use[:, k]])
        limits = np.concatenate([[high - self.fixed[i]], self.room, it.room[:, i] - self.used[:, i]])
        leaving, made = self.moved * here, []
        held = inside[:, max(heaviest, 0)] * (heaviest >= 0)
        left = leaving[:, : max(heaviest, 0)].sum(axis=1) + (self.left * (it.current[self.gone] == i)).sum(axis=1)
        for first in (heaviest + 1, heaviest + 2):
            half = np.arange(first, k.size, 2)
            found = subsets_of(half, inside, limits - held, leaving, self.room - left, self.allowed[:, i], most)
            if found is None:
                return None
            made.append(found)
        bit = np.uint64(1 << heaviest if heaviest >= 0 else 0)
        return [Subsets(made[0].bits | bit, made[0].inside + held, made[0].outside + left), made[1]]

    def heaviest(self, count: int, distance: float, settings: NarrowSettings) -> tuple[NearMean, int]:
        """Sets within a distance of the mean with one of the heaviest key groups; of how many of these they are all there."""
        it, found, total = self.instance, list[NearMean](), 0
        for key in range(count):
            own = []
            for c, kind in enumerate(self.kinds):
                i = int(kind[0])
                if not self.allowed[key, i]:
                    continue
                halves = self.halves(i, distance + it.doubt, settings.heavy_subsets, key)
                if halves is None:
                    return joined(found), key
                both = halves[0].sorted(), halves[1].sorted()
                low, high = self._ranges(c, *both, 0.0, distance + it.doubt)
                total += int((high - low).sum())
                if total > settings.heavy_columns:
                    return joined(found), key
                own.append(self._met(c, *both, low, high, 0.0))
            found += own
        return joined(found), count

    def near(self, distance: float, target: float, settings: NarrowSettings) -> tuple[NearMean, float] | None:
        """The sets within a distance of the target, a deviation, and the distance: less than asked for where they are too many.

        None where the halves have too many subsets, or too many sets are as near as rounding can tell: loads that are alike.
        """
        it, pairs, subsets = self.instance, list[tuple[Subsets, Subsets]](), 0
        for kind in self.kinds:
            halves = self.halves(int(kind[0]), target + distance + it.doubt, settings.most_subsets - subsets)
            if halves is None:
                return None
            pairs.append((halves[0].sorted(), halves[1].sorted()))
            subsets += halves[0].bits.size + halves[1].bits.size
        while True:
            ranges = [self._ranges(c, *both, target, distance + it.doubt) for c, both in enumerate(pairs)]
            columns = sum(int((high - low).sum()) for low, high in ranges)
            if columns <= settings.most_columns:
                break
            if distance <= it.doubt:
                return None
            distance *= NarrowSettings.now().shrink * min(1.0, 2 * settings.most_columns / columns)
        found = [self._met(c, *both, *ranges[c], target) for c, both in enumerate(pairs)]
        return joined(found), distance

    def _ranges(
        self, kind: int, first: Subsets, second: Subsets, target: float, reach: float
    ) -> tuple[IntArray, IntArray]:
        """For each subset of the first half, which of the second bring a node of a kind within reach of the target."""
        i = int(self.kinds[kind][0])
        least = -np.inf if self.instance.draining[i] else target - reach
        low = np.searchsorted(second.inside[:, 0], least - self.fixed[i] - first.inside[:, 0], side="left")
        high = np.searchsorted(second.inside[:, 0], target + reach - self.fixed[i] - first.inside[:, 0], side="right")
        return low, np.maximum(low, high)

    def _met(
        self, kind: int, first: Subsets, second: Subsets, low: IntArray, high: IntArray, target: float
    ) -> NearMean:
        """The sets of those pairs that keep the limits."""
        it, i, r = self.instance, int(self.kinds[kind][0]), len(self.moved)
        a = np.repeat(np.arange(low.size), high - low)
        b = np.arange(a.size) + np.repeat(high - np.cumsum(high - low), high - low)
        sums = first.inside[a] + second.inside[b]
        fits = (first.outside[a] + second.outside[b] <= self.room).all(axis=1)
        fits &= (sums[:, 1 : 1 + r] <= self.room).all(axis=1)
        fits &= (sums[:, 1 + r :] <= it.room[:, i] - self.used[:, i]).all(axis=1)
        off = sums[fits, 0] + self.fixed[i] - target
        bits = (first.bits[a] | second.bits[b])[fits]
        away = np.maximum(off, 0.0) if it.draining[i] else np.abs(off)
        return NearMean(bits, np.full(bits.size, kind), away, sums[fits, 1 : 1 + r])

    def placed(self, place: IntArray, cover: NearMean) -> IntArray:
        """The assignment with these sets."""
        made, found = place.copy(), placed(members_of(cover.bits, self.keys.size), cover.kind, self.kinds)
        made[self.keys[found >= 0]] = found[found >= 0]
        return made


class MovesCover(Cover):
    """The linear program over sets that cost what they take of the limits; what it cannot pay is no cover."""

    goal = 1.0  # type: ignore[assignment]

    def __init__(self, part: Portion) -> None:
        super().__init__(part.keys.size, part.sizes.astype(np.float64), 0, 1.0, 4.0)

    def beyond(self, near: NearMean, row: int, room: float, budget: Budget) -> FloatArray | None:
        """Use of a limit by each set beyond the least, as a share of what is left then; None where nothing is."""
        members = sp.csr_array(members_of(near.bits, self.key_groups))
        cost = np.minimum(near.moved[:, row] / max(room, 1e-300), 20.0)
        columns = SetColumns(members, cost, near.kind, np.zeros((cost.size, 0)))
        _, own, prices, _ = self.price(columns, -np.inf, budget)
        left = self.goal - own + 2 * self.rounding(prices)
        if left <= 0:
            return None
        return np.maximum(self.reduced(columns, prices), 0.0) / left


class Covers:
    """The search for a choice of sets that holds every key group once, or the heaviest ones, of which there are so many."""

    def __init__(self, part: Portion, most_pairs: float, budget: Budget, heaviest: int | None = None) -> None:
        self.part, self.most, self.budget, self.partly = part, most_pairs, budget, heaviest is not None
        self.full = np.uint64((1 << (part.keys.size if heaviest is None else heaviest)) - 1)
        self.pairs, self.ended = 0, True

    def search(self, near: NearMean, moved: FloatArray, room: FloatArray) -> NearMean | None:
        """The sets of a cover; None where there is none, or (`ended` is False) where it took too long."""
        p, sizes = self.part.keys.size, self.part.sizes
        lowest = np.where(near.bits == 0, p, lowest_bit(near.bits))
        groups = [np.flatnonzero(lowest == k) for k in range(p)]
        may_be_empty = np.bincount(near.kind[near.bits == 0], minlength=sizes.size) > 0
        nothing = np.zeros((1, sizes.size), np.int8), np.zeros((1, room.size)), np.zeros((1, 0), dtype=np.int64)
        stack: list[tuple[np.ndarray, ...]] = [(np.zeros(1, np.uint64), *nothing)]
        while stack:
            held = stack.pop()
            key = lowest_bit(~held[0])
            group = groups[key[0]]
            now = key == key[0]
            now[np.flatnonzero(now)[max(1, NarrowSettings.now().block // max(1, group.size)) :]] = False
            if not now.all():
                stack.append(tuple(one[~now] for one in held))
            self.pairs += int(now.sum()) * group.size
            if self.pairs > self.most or self.budget.expired:
                self.ended = False
                return None
            bits, used, spent, trail = (one[now] for one in held)
            i, j = np.nonzero((bits[:, None] & near.bits[group]) == 0)
            j = group[j]
            fits = (used[i, near.kind[j]] < sizes[near.kind[j]]) & (spent[i] + moved[j] <= room).all(axis=1)
            i, j = i[fits], j[fits]
            more, bits, path = used[i], bits[i] | near.bits[j], np.column_stack([trail[i], j])
            more[np.arange(i.size), near.kind[j]] += 1
            whole = bits & self.full == self.full
            done = np.flatnonzero(whole & (self.partly | (more == sizes) | may_be_empty).all(axis=1))
            if done.size:
                return near.take(path[done[near.distance[path[done]].max(axis=1).argmin()]])
            go = ~whole & (path.shape[1] < sizes.sum())
            if go.any():
                stack.append((bits[go], more[go], spent[i[go]] + moved[j[go]], path[go]))
        return None


def lowest_bit(bits: Bits) -> IntArray:
    """The place of the lowest bit of words that are not 0."""
    return np.log2(np.maximum(bits & (~bits + np.uint64(1)), np.uint64(1)).astype(np.float64)).astype(np.int64)


class NarrowSets:
    """The least distance by covers of sets near the mean, of all nodes or of a few.

    Parameters
    ----------
    found : Incumbent
        Is told every answer and bound, and says when to stop.
    instance : Instance
    seed : int
    settings : NarrowSettings, optional
    """

    def __init__(self, found: Incumbent, instance: Instance, seed: int, settings: NarrowSettings | None = None) -> None:
        self.found, self.instance, self.settings = found, instance, settings or NarrowSettings.now()
        own = self.settings
        self.few = replace(own, most_subsets=own.few_subsets, most_columns=own.few_columns, most_pairs=own.few_pairs)
        self.budget = found.budget
        self.rng = np.random.default_rng([seed, 64])
        self.heaviest = np.argsort(-instance.load, kind="stable")

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do, or no time of the part that `budget` is."""
        return self.found.done or self.budget.expired

    def prove(self) -> None:
        """Look at all covers of all nodes that are nearer than the best."""
        it, found, best = self.instance, self.found, self.found.best
        if best is None or it.key_groups > self.settings.most_key_groups:
            return
        part = Portion(it, best, self.heaviest, np.arange(it.nodes))

        def offered(cover: NearMean) -> float:
            found.offer(part.placed(best, cover), "narrow sets", PLANNED)
            return self._better

        while not self.over:
            near, before = part.near(self._better, 0.0, self.settings), found.objective
            search = Covers(part, self.settings.most_pairs, self.budget)
            if near is None or not self._covers(search, *near, offered, self._excluded):
                return
            if found.objective >= before:
                return

    def heaviest_first(self, tries: int) -> None:
        """How near the mean the nodes of the heaviest key groups can be; where they are, all else is evened out."""
        it, best = self.instance, self.found.best
        if best is None or self.over:
            return
        count, keys = self._heavy(self._better)
        part = Portion(it, best, keys, np.arange(it.nodes), np.arange(it.key_groups))
        near, count = part.heaviest(count, self._better, self.settings)
        if count == 0:
            return

        def offered(cover: NearMean) -> float:
            place = part.placed(best, cover)
            held = keys[members_of(cover.bits, keys.size).any(axis=0)]
            others = np.setdiff1d(np.arange(it.nodes), place[held])
            displaced = np.setdiff1d(np.flatnonzero(~np.isin(place, others)), held)
            for k in displaced[np.argsort(-it.load[displaced], kind="stable")]:
                free = others[it.space.allowed[k, others]]
                if free.size == 0:
                    break
                place[k] = free[it.deviations(place)[free].argmin()]
            self.even_out(tries, place, others)
            return float(np.nextafter(cover.distance.max(), -np.inf))

        search = Covers(part, self.settings.heavy_pairs, self.budget, count)
        self._covers(search, near, self._better, offered, self._excluded)

    def _heavy(self, distance: float) -> tuple[int, IntArray]:
        """How many of the heaviest key groups go into a word with all that a node can hold beside them, and all of these."""
        it, load = self.instance, self.instance.load[self.heaviest]
        room, most = (it.mean + distance + it.doubt) / it.weight.min(), self.settings.most_key_groups
        if load.size <= most:
            return load.size, self.heaviest
        lighter = np.searchsorted(-load, load - room)  # from there on there is room beside each
        counts = np.arange(1, load.size + 1)
        fitting = np.flatnonzero(counts + load.size - np.maximum(lighter, counts) <= most)
        count = int(fitting[-1]) + 1 if fitting.size else 0
        return count, np.concatenate([self.heaviest[:count], self.heaviest[max(lighter[count - 1], count) :]])

    @property
    def _better(self) -> float:
        """The distance of the next better answer, in units of the mean."""
        return self.found.objective / self.found.problem.scale - 0.9 * self.found.margin

    def _excluded(self, distance: float) -> None:
        self.found.raise_bound((distance - self.instance.doubt) * self.found.problem.scale, "narrow sets")

    def _covers(
        self, search: Covers, near: NearMean, distance: float,
        offered: Callable[[NearMean], float], excluded: Callable[[float], None],
    ) -> bool:  # fmt: skip
        """Covers of the nearest sets, then of more; whether all within the distance were looked at, which `offered` lowers."""
        size = self.settings.first
        while not self.budget.expired:
            some, whole = near.take(slice(size)), size >= near.bits.size
            cover = self._cover(search, some)
            if cover is not None:
                lower = offered(cover)
                if lower >= distance:
                    return False  # the check thinks otherwise
                distance = lower
                near = near.take(near.distance <= distance)
            elif not search.ended:
                return False
            else:
                excluded(distance if whole else float(near.distance[size]))
                if whole:
                    return True
                size *= 2
        return False

    def _cover(self, search: Covers, some: NearMean) -> NearMean | None:
        part, moved, room = search.part, some.moved, search.part.room
        if some.bits.size > self.settings.priced and not search.partly:
            for row in range(room.size):
                beyond = MovesCover(part).beyond(some, row, float(part.room[row]), self.budget)
                if beyond is None:
                    return None
                moved, room = np.column_stack([moved, beyond]), np.append(room, 1.0)
            kept = (moved <= room).all(axis=1)
            some, moved = some.take(kept), moved[kept]
        return search.search(some, moved, room)

    def even_out(self, tries: int, place: IntArray | None = None, among: IntArray | None = None) -> None:
        """Share out the key groups of the worst node and of a few others around what they have on average, while it helps.

        From the best, or another place; between all nodes, or some.
        """
        it, found = self.instance, self.found
        among = np.arange(it.nodes) if among is None else among
        among = among[~it.draining[among]]
        if found.best is None or among.size < 2:
            return
        now, failed = (found.best if place is None else place).copy(), 0
        while failed < tries and not self.over:
            dev = it.deviations(now)
            nodes = self._few(dev, among, 3 + failed % 3)
            target = float(dev[nodes].mean())
            free = self._free(now, np.isin(now, nodes), NarrowSettings.now().least_free + 4 * (failed % 4))
            part, made = Portion(it, now, free, nodes), list[IntArray]()
            farthest = float(np.abs(dev[nodes] - target).max())
            near = part.near(0.9 * farthest, target, self.few) if farthest > found.margin / 10 else None

            def first(cover: NearMean) -> float:
                made.append(part.placed(now, cover))  # noqa: B023 - called at once
                return -1.0

            if near is not None and near[0].bits.size:
                self._covers(Covers(part, self.few.most_pairs, self.budget), *near, first, lambda distance: None)
            failed = 0 if made else failed + 1
            if made:
                now = made[-1]
                found.offer(now, "evened out", PLANNED)

    def _free(self, place: IntArray, inside: np.ndarray, most: int) -> IntArray:
        """Key groups of a few nodes that may go elsewhere: those that have moved, and some that have not; the heaviest first."""
        rank = self.rng.random(place.size) + (place == self.instance.current) + 2.0 * ~inside
        chosen = np.argsort(rank, kind="stable")[: min(most, int(inside.sum()))]
        return self.heaviest[np.isin(self.heaviest, chosen)]

    def _few(self, dev: FloatArray, among: IntArray, count: int) -> IntArray:
        """The worst node and a few others that have about the mean together."""
        worst = int(among[np.argmax(np.abs(dev[among]))])
        others = [i for i in among.tolist() if i != worst]
        count = min(count - 1, len(others))
        chosen = np.array(list(itertools.combinations(others, count)), dtype=np.int64).reshape(-1, count)
        order = np.argsort(np.abs(dev[chosen].sum(axis=1) + dev[worst]), kind="stable")
        at = min(int(self.rng.geometric(0.3)) - 1, order.size - 1)
        return np.concatenate([[worst], chosen[order[at]]])
