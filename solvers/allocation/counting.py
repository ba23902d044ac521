r"""A lower bound by counting: how many departures and arrivals does a load distance d cost at least?

A node that lies :math:`e_i` above the mean can be brought within d by certain pairs (a, b) of departures and
arrivals only: a node slightly off needs a departure and an arrival, one far above needs three departures. With
:math:`D_i(a, b)` the least deviation that node i can reach by any a departures and b arrivals,

.. math:: count(d) = \min \sum_i a_i \quad \text{s.t.} \quad \sum_i a_i = \sum_i b_i, \quad D_i(a_i, b_i) \le d

is a relaxation of the number of moves: it only ignores that each arrival is the departure of another node. Every d with
count(d) > maxMigrations is impossible. count falls in steps at the values of D, so that the least possible d of the
relaxation is found exactly, by bisection over them.
Where it is too large for that, sums over the nodes say almost as much, and more than multipliers do; see `carried_away`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.compiling import generator, njit
from keyshift.models.base.compiling import uniform as draw
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.arrays import TINY

MOST_EXACT = 64
"""Up to this many moves departures and arrivals are balanced exactly; beyond, by a multiplier."""
SHARES = tuple(i / 16 for i in range(17))
"""The multipliers tried, between counting departures alone (0) and arrivals alone (1)."""


class CountBound:
    """The table D of one instance, made safe against rounding, and the bound it gives.

    Parameters
    ----------
    instance : Instance
    expired : callable, optional
        Once it is true, the bound uses what is known by then: nodes not looked at allow everything.

    Attributes
    ----------
    table : ndarray, shape (n, A + 1, A + 1)
        D[i, a, b] in units of the mean, less what rounding can have added.
    """

    def __init__(self, instance: Instance, expired: Callable[[], bool] = lambda: False) -> None:
        self.instance, self.expired = instance, expired
        self.exact = instance.max_moves <= MOST_EXACT
        size = int(math.sqrt(4_000_000 / instance.nodes))
        if self.exact and instance.max_moves + 1 > size:
            self.exact = False
        reach = instance.max_moves if self.exact else min(instance.max_moves, max(2, size - 1), 127)
        self.table = self._fill(reach)

    def _fill(self, reach: int) -> np.ndarray:
        """D up to `reach` departures and arrivals a node."""
        it = self.instance
        table = np.full((it.nodes, reach + 1, reach + 1), UNREACHABLE)
        order, starts = it.space.by_node
        excess, used = it.deviations(it.current) / it.weight, it.used(it.current)
        ascending = it.space.movers[np.argsort(it.load[it.space.movers], kind="stable")]
        singles = it.load[ascending]
        paired = it.key_groups <= 2_000  # pairs of arrivals are looked at
        ends = min(ascending.size, reach + int(np.diff(starts).max()) + it.space.barred)
        furthest = np.argsort(-np.abs(excess * it.weight), kind="stable")
        for at, i in enumerate(furthest.tolist()):
            if self.expired():
                table[furthest[at:]] = 0.0
                break
            own = np.sort(it.load[order[starts[i] : starts[i + 1]]])
            low, high = (
                it.load[side[it.space.may_enter(side, i)][:reach]]
                for side in (ascending[:ends], ascending[::-1][:ends])
            )
            least_distances(
                own,
                low,
                high,
                excess[i],
                it.weight[i],
                it.draining[i],
                singles,
                paired,
                20_000,
                table[i],
            )
            self._forced_by_resources(table[i], i, order[starts[i] : starts[i + 1]], used[:, i])
        return np.where(table < UNREACHABLE, np.maximum(table - it.error_bound, 0.0), np.inf)

    def _forced_by_resources(self, table: np.ndarray, i: int, own: np.ndarray, used: np.ndarray) -> None:
        """Too few departures leave the node over a capacity, whatever arrives."""
        it = self.instance
        for use, held, room in zip(it.use, used, it.room, strict=True):
            largest = np.concatenate([[0.0], np.cumsum(np.sort(use[own])[::-1])])[: table.shape[0]]
            stays = held * (1 - 1e-9) - largest * (1 + 1e-9)
            table[: stays.size][stays > room[i]] = UNREACHABLE

    def possible(self, distance: float) -> bool:
        """Whether the count does not rule a distance out."""
        most = self.instance.max_moves
        if self.exact:
            return bool(fewest_moves(self.table, distance, most) <= most)
        return all(least_weighted(self.table, distance, share) <= most * (1 + 1e-9) for share in SHARES)

    def bound(self) -> float:
        """The least distance that is not ruled out, in units of the mean; `inf` when none is."""
        if self.expired():
            return 0.0
        least = carried_away(self.instance)
        steps = np.unique(self.table[np.isfinite(self.table)])
        steps = np.unique(np.concatenate([[0.0, least], steps[steps > least]]))
        if not self.possible(float(steps[-1])):
            return math.inf if self.exact else float(steps[-1])
        low, high = int(np.searchsorted(steps, least)), steps.size - 1
        while low < high and not self.expired():
            middle = (low + high) // 2
            if self.possible(float(steps[middle])):
                high = middle
            else:
                low = middle + 1
        return float(steps[low])


def carried_away(it: Instance) -> float:
    r"""A load distance that no M moves go below, in one pass over the key groups.

    With :math:`e_i` the deviation of node i, :math:`T_i(k)` the k largest loads on it together and :math:`T(k)` those of all,
    node i needs so many departures as :math:`e_i - T_i(k)` is above d for k = 0, 1, ..., or so many arrivals as
    :math:`-e_i - T(k)` is; and M moves bring T(M) at most to nodes below the mean. So

    .. math:: d \ge v_{(M+1)}, \qquad d \ge u_{(M+1)}, \qquad \sum_i (-e_i - d)^+ \le T(M),

    v and u all these differences in descending order, loads on a node divided by its capacity. Draining nodes need no
    arrivals. What rounding can have added is taken off.
    """
    most, movers, dev = it.max_moves, it.space.movers, it.deviations(it.current)
    order = movers[np.lexsort((-it.load[movers], it.current[movers]))]
    node, sums = it.current[order], np.concatenate([[0.0], np.cumsum(it.load[order])])
    left = dev[node] - (sums[1:] - sums[np.searchsorted(node, node)]) * it.weight[node]
    largest = np.concatenate([[0.0], np.cumsum(np.sort(it.load[movers])[::-1][:most])])
    lowest = np.flatnonzero(~it.draining)[np.argsort(dev[~it.draining], kind="stable")]
    lacks, capacity = -dev[lowest], 1.0 / it.weight[lowest]
    together = (np.cumsum(lacks * capacity) - largest[-1]) / np.cumsum(capacity)
    least = max(0.0, _after(most, np.append(dev, left)), float(together.max(initial=0.0)))
    lacking = [lacks]
    while lacking[-1].max(initial=0.0) > least and len(lacking) < largest.size:
        lacking.append(lacks - largest[len(lacking)] / capacity)
    return max(0.0, max(least, _after(most, np.concatenate(lacking))) - it.error_bound)


def _after(most: int, values: FloatArray) -> float:
    """The largest of the values but for so many; 0 where there are no others."""
    return float(np.partition(values, values.size - 1 - most)[values.size - 1 - most]) if values.size > most else 0.0


def counted(problem: KeyGroupAllocation, counts: list[CountBound]) -> float:
    """(8) of the windows' own bounds, in units of the problem's mean; `inf` when a window has none."""
    lows = np.array([count.bound() * (count.instance.problem.scale / problem.scale) for count in counts])
    if np.isinf(lows).any():
        return math.inf
    return problem.planned.combined(lows) * (1 - 1e-12 * (lows.size - 1))


TOO_FEW = "the migrations allowed are too few to bring every node within its capacity"
"""What it means that the counts rule out every distance."""


# The compiled loops --------------------------------------------------------------------------------------------------


UNREACHABLE = 1e300


@njit(cache=True)
def nearest_sum(out, into, excess):
    """Least |excess - out[i] + into[j]| over two ascending arrays."""
    best, j, few = UNREACHABLE, 0, 32 * out.size < into.size
    for i in range(out.size):
        want = out[i] - excess
        if few:
            j = max(j, np.searchsorted(into, want) - 1)
        while j + 1 < into.size and abs(into[j + 1] - want) <= abs(into[j] - want):
            j += 1
        best = min(best, abs(into[j] - want))
    return best


@njit(cache=True)
def nearest_pair(out, singles, excess):
    """Least |excess - out[i] + singles[j] + singles[k]| over j < k, `singles` ascending; 0 once one is at most `EVEN`."""
    best, last = UNREACHABLE, singles.size - 1
    lowest, highest = (singles[0] + singles[1], singles[last - 1] + singles[last]) if last > 0 else (0.0, -1.0)
    for i in range(out.size if last > 0 else 0):
        want = out[(i + out.size // 2) % out.size] - excess  # the middle first: sums are dense there
        if want <= lowest or want >= highest:
            best = min(best, lowest - want if want <= lowest else want - highest)
            continue
        j, k = 0, last
        while j < k:
            over = singles[j] + singles[k] - want
            best = min(best, abs(over))
            if over > 0.0:
                k -= 1
            else:
                j += 1
        # A deviation too small to matter for a bound, in units of the mean.
        if best <= 1e-8:
            return 0.0
    return best


@njit(cache=True)
def subset_sums(values, count):
    """Ascending sums of every subset of `count` values, count 0 to 3."""
    size = values.size
    if count == 0:
        return np.zeros(1)
    if count == 1:
        return np.sort(values)
    total = size * (size - 1) // 2 if count == 2 else size * (size - 1) * (size - 2) // 6
    sums = np.empty(total)
    at = 0
    for i in range(size):
        for j in range(i + 1, size):
            if count == 2:
                sums[at] = values[i] + values[j]
                at += 1
            else:
                for l in range(j + 1, size):
                    sums[at] = values[i] + values[j] + values[l]
                    at += 1
    return np.sort(sums)


@njit(cache=True)
def least_distances(own, foreign_low, foreign_high, excess, weight, upward_only, singles, paired, most_sums, table):  # noqa: C901  # a compiled loop is one function
    """Fill table[a, b]: the least deviation of one node after a departures and b arrivals, others ignored.

    `own` ascending; `foreign_low`, `foreign_high` the smallest and the largest key groups elsewhere; `singles` the
    loads of all key groups, ascending (a relaxation: arrivals may then be anyone's), `paired` whether to look at their pairs.
    """
    size = own.size
    low_out, high_out, low_in, high_in = 0.0, 0.0, 0.0, 0.0
    for a in range(table.shape[0]):
        if a > size:
            table[a, :] = UNREACHABLE
            continue
        if a > 0:
            low_out += own[a - 1]
            high_out += own[size - a]
        low_in, high_in = 0.0, 0.0
        for b in range(table.shape[1]):
            if b > 0:
                if b > foreign_low.size:
                    table[a, b:] = UNREACHABLE
                    break
                low_in += foreign_low[b - 1]
                high_in += foreign_high[b - 1]
            least = excess - high_out + low_in
            most = excess - low_out + high_in
            table[a, b] = max(0.0, least * weight)
            if not upward_only:
                table[a, b] = max(table[a, b], -most * weight)
    if upward_only:
        return
    for a in range(min(4, table.shape[0], size + 1)):
        combinations = 1.0
        for step in range(a):
            combinations *= (size - step) / (step + 1)
        if combinations > most_sums:
            break
        out = subset_sums(own, a)
        table[a, 0] = max(table[a, 0], nearest_sum(out, np.zeros(1), excess) * weight)
        if table.shape[1] > 1 and table[a, 1] < UNREACHABLE:
            table[a, 1] = max(table[a, 1], nearest_sum(out, singles, excess) * weight)
        if a < 3 and table.shape[1] > 2 and paired and table[a, 2] == 0.0:
            table[a, 2] = max(table[a, 2], nearest_pair(out, singles, excess) * weight)


@njit(cache=True)
def fewest_moves(table, distance, most):
    """Fewest departures in all, when departures and arrivals must balance; above `most` when there are too many.

    A dynamic program over the excess, from -most to most, of departures over arrivals; of the pairs of a node that change
    it alike, only the one of fewest departures counts.
    """
    width = 2 * most + 1
    none = 1 << 40
    layer = np.full(width, none)
    layer[most] = 0
    reach_out, reach_in = table.shape[1] - 1, table.shape[2] - 1
    fewest = np.empty(reach_out + reach_in + 1, np.int64)
    for i in range(table.shape[0]):
        fewest[:] = none
        for a in range(reach_out, -1, -1):
            for b in range(reach_in + 1):
                if table[i, a, b] <= distance:
                    fewest[a - b + reach_in] = a
        following = np.full(width, none)
        for at in range(fewest.size):
            if fewest[at] > most:
                continue
            tilt = at - reach_in
            for t in range(max(0, -tilt), min(width, width - tilt)):
                if layer[t] + fewest[at] < following[t + tilt]:
                    following[t + tilt] = layer[t] + fewest[at]
        layer = following
    return layer[most]


@njit(cache=True)
def least_weighted(table, distance, share):
    """Sum over the nodes of the least share * departures + (1 - share) * arrivals.

    Departures beyond the table cost at least their number, arrivals likewise: both edges are left open.
    """
    total = 0.0
    last_a, last_b = table.shape[1] - 1, table.shape[2] - 1
    for i in range(table.shape[0]):
        best = min(share * (last_a + 1), (1 - share) * (last_b + 1))
        for a in range(last_a + 1):
            if share * a >= best:
                break
            for b in range(last_b + 1):
                if table[i, a, b] <= distance:
                    best = min(best, share * a + (1 - share) * b)
                    break
        total += best
    return total


# Plan counts: how "milp" finds answers where few counts are possible, as where nodes drain ----------------------------


SAMPLES, NEAREST = 400, 10
"""Samples for every node and pair of counts; of the nearest so many where fewer are within the distance."""


@dataclass
class CountPlanner:
    r"""Plans for one instance at any target distance.

    The pair counts are not only a bound. For a target distance d, let :math:`P_i(a, b)` be the share of random departures and
    arrivals, a and b of them, that bring node i within d. The plan with the largest :math:`\prod_i P_i(a_i, b_i)` within the
    migration limit leaves the most ways to choose the key groups; a dynamic program finds it. The search then chooses them by
    moves that keep the counts. No guarantee.

    Parameters
    ----------
    instance : Instance
    counts : CountBound
    seed : int

    Attributes
    ----------
    useful : bool
        Whether there is anything to plan, and not too much.
    """

    instance: Instance
    counts: CountBound
    seed: int

    def __post_init__(self) -> None:
        it = self.instance
        self.size = min(self.counts.table.shape[1], self._needed() + 4)
        self.most = min(it.max_moves, it.nodes * (self.size - 1))
        self.widest = min(self.most, 4 * self.size)
        states = it.nodes * self.size**2 * (2 * self.widest + 1) * (self.most + 1)
        self.useful = self.most > 0 and it.nodes > 1 and states <= 50_000_000
        if not self.useful:
            return
        self.excess = it.deviations(it.current) / it.weight
        self.samples = np.empty((it.nodes, self.size, self.size, SAMPLES), np.float32)
        order, starts = it.space.by_node
        sample_distances(
            generator(self.seed, 0),
            it.load,
            it.space.movers,
            order,
            starts,
            self.excess,
            it.weight,
            it.draining,
            self.samples,
        )
        self.rank = self._alternating()

    def _needed(self) -> int:
        """Departures or arrivals that the furthest node needs with typical key groups."""
        it = self.instance
        typical = float(it.load.mean()) or 1.0
        return int(np.ceil(np.abs(it.deviations(it.current) / it.weight).max() / typical))

    def _alternating(self) -> IntArray:
        """Nodes in an order that keeps the running difference of departures and arrivals small."""
        ascending = np.argsort(self.excess, kind="stable")
        order = np.empty_like(ascending)
        order[0::2] = ascending[: (ascending.size + 1) // 2]
        order[1::2] = ascending[::-1][: ascending.size // 2]
        return order

    def pairs(self, distance: float, rng: np.random.Generator) -> IntArray | None:
        """Departures and arrivals of each node for a target distance, shape (n, 2); None when there is no plan."""
        penalty = -np.log(self._shares(distance))
        penalty += 0.5 * rng.random(penalty.shape) * (penalty > 0)  # another plan each time
        table = self.counts.table[:, : self.size, : self.size]
        penalty[table > distance] = NEVER
        quiet = self.instance.deviations(self.instance.current)
        quiet = np.where(self.instance.draining, np.maximum(quiet, 0.0), np.abs(quiet)) <= distance
        penalty[:, 0, 0] = np.where(quiet & (table[:, 0, 0] <= distance), 0.0, NEVER)
        total, chosen = plan(penalty[self.rank], self.most, self.widest)
        if not np.isfinite(total):
            return None
        pairs = np.empty_like(chosen)
        pairs[self.rank] = chosen
        return pairs

    def _shares(self, distance: float) -> FloatArray:
        """P: a share of the samples; where moves are many and few come so near, that of the nearest, thinned out."""
        share = (self.samples <= distance).mean(axis=3)
        if self.instance.max_moves < self.instance.nodes:
            return np.maximum(share, 1e-4)
        near = np.partition(self.samples, NEAREST - 1, axis=3)[..., NEAREST - 1].astype(np.float64)
        thinned = NEAREST / SAMPLES * distance / np.maximum(near, max(distance, TINY))
        return np.maximum(np.where(near <= distance, share, thinned), TINY)


# The compiled loops --------------------------------------------------------------------------------------------------

NEVER = 1e9


@njit(cache=True, error_model="numpy")
def sample_distances(rng, load, pool, order, starts, excess, weight, upward_only, table):
    """table[i, a, b] = deviations of node i after a random departures, and b random arrivals from the pool."""
    samples = table.shape[3]
    for i in range(table.shape[0]):
        own = order[starts[i] : starts[i + 1]].copy()
        for s in range(samples):
            left = excess[i]
            for a in range(table.shape[1]):
                if a > own.size:
                    table[i, a, :, s] = NEVER
                    continue
                if a > 0:
                    pick = a - 1 + int(draw(rng) * (own.size - a + 1))
                    own[a - 1], own[pick] = own[pick], own[a - 1]
                    left -= load[own[a - 1]]
                value = left
                for b in range(table.shape[2]):
                    deviation = value * weight[i]
                    table[i, a, b, s] = max(deviation, 0.0) if upward_only[i] else abs(deviation)
                    value += load[pool[int(draw(rng) * pool.size)]]


@njit(cache=True, error_model="numpy")
def plan(penalty, most, widest):
    """Choose a pair for each node, departures and arrivals balancing and at most `most`, of least total penalty.

    A dynamic program over (departures so far, departures less arrivals so far); the difference stays within
    `widest`. Returns the total penalty (`inf` when there is no plan) and the pairs, shape (n, 2).
    """
    n, size = penalty.shape[0], penalty.shape[1]
    width = 2 * widest + 1
    layer = np.full((most + 1, width), np.inf)
    layer[0, widest] = 0.0
    choice = np.zeros((n, most + 1, width), np.int32)
    for i in range(n):
        following = np.full((most + 1, width), np.inf)
        for a in range(size):
            for b in range(size):
                extra = penalty[i, a, b]
                if extra >= NEVER:
                    continue
                tilt = a - b
                for c in range(most + 1 - a):
                    for t in range(max(0, -tilt), min(width, width - tilt)):
                        value = layer[c, t] + extra
                        if value < following[c + a, t + tilt]:
                            following[c + a, t + tilt] = value
                            choice[i, c + a, t + tilt] = a * size + b
        layer = following
    pairs = np.zeros((n, 2), np.int64)
    count = int(np.argmin(layer[:, widest]))
    best = layer[count, widest]
    if best == np.inf:
        return best, pairs
    t = widest
    for i in range(n - 1, -1, -1):
        a, b = choice[i, count, t] // size, choice[i, count, t] % size
        pairs[i, 0], pairs[i, 1] = a, b
        count -= a
        t -= a - b
    return best, pairs
