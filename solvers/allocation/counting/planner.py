r"""Plan counts, then realise them: how "milp" finds answers where few counts are possible.

The pair counts of `keyshift.solvers.allocation.counting.bound` are not only a bound. For a target distance d, let
:math:`P_i(a, b)` be the share of random departures and arrivals, a and b of them, that bring node i within d, arrivals
drawn first from all key groups and later from the departures of earlier plans. The
plan with the largest :math:`\prod_i P_i(a_i, b_i)` within the migration limit leaves the most ways to choose
the key groups; a dynamic program finds it. An annealing that never changes the counts then chooses them. No guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from keyshift.models.answer import Settings
from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.search import data_of
from keyshift.solvers.allocation.annealing.state_kernels import give, goes_nowhere, node_value, power
from keyshift.solvers.allocation.arrays import TINY, Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.kernels import generator, overwrite
from keyshift.solvers.kernels import uniform as draw


@dataclass(frozen=True)
class PlannerSettings(Settings):
    """Tuning parameters of the planner.

    Attributes
    ----------
    samples : int
        Samples for every node and pair of counts.
    most_states : int
        The most steps of the dynamic program; larger instances are not planned.
    rarest : float
        Probability of a pair that the bound allows and no sample has reached.
    nearest : int
        Number of nearest samples used for the estimate if fewer are within the distance.
    """

    samples: int = 400
    most_states: int = 50_000_000
    rarest: float = 1e-4
    nearest: int = 10


@dataclass
class CountPlanner:
    """Plans for one instance at any target distance.

    Parameters
    ----------
    instance : Instance
    counts : CountBound
    seed : int
    settings : PlannerSettings

    Attributes
    ----------
    useful : bool
        Whether there is anything to plan, and not too much.
    """

    instance: Instance
    counts: CountBound
    seed: int
    settings: PlannerSettings = field(default_factory=PlannerSettings.now)

    def __post_init__(self) -> None:
        it = self.instance
        self.size = min(self.counts.table.shape[1], self._needed() + 4)
        self.most = min(it.max_moves, it.nodes * (self.size - 1))
        self.widest = min(self.most, 4 * self.size)
        states = it.nodes * self.size**2 * (2 * self.widest + 1) * (self.most + 1)
        self.useful = self.most > 0 and it.nodes > 1 and states <= self.settings.most_states
        if not self.useful:
            return
        self.excess = it.deviations(it.current) / it.weight
        self.samples = np.empty((it.nodes, self.size, self.size, self.settings.samples), np.float32)
        self.sample(it.space.movers, 0)
        self.rank = self._alternating()

    def sample(self, pool: IntArray, stream: int) -> None:
        """Estimate P anew, with arrivals from a pool of key groups."""
        it = self.instance
        order, starts = it.space.by_node
        sample_distances(
            generator(self.seed, stream),
            it.load,
            pool,
            order,
            starts,
            self.excess,
            it.weight,
            it.draining,
            self.samples,
        )

    def pool_of(self, pairs: IntArray) -> IntArray:
        """Whom a plan's departures can be: every node's key groups, as often as the node gives one away."""
        order, starts = self.instance.space.by_node
        size = np.diff(starts)
        share = np.repeat(pairs[:, 0] / np.maximum(size, 1), size)
        times = np.rint(share / share.max() * 20).astype(np.int64)
        return np.repeat(order, times)

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
        settings = self.settings
        share = (self.samples <= distance).mean(axis=3)
        if self.instance.max_moves < self.instance.nodes:
            return np.maximum(share, settings.rarest)
        near = np.partition(self.samples, settings.nearest - 1, axis=3)[..., settings.nearest - 1].astype(np.float64)
        thinned = settings.nearest / settings.samples * distance / np.maximum(near, max(distance, TINY))
        return np.maximum(np.where(near <= distance, share, thinned), TINY)

    def realise(self, pairs: IntArray, distance: float, iterations: int, stream: int) -> IntArray | None:
        """An assignment with these counts, as even as annealing gets it; None when they are no plan."""
        it = self.instance
        order, starts = it.space.by_node
        data = data_of(it, order, None)  # plans know no rules: polishing keeps them
        rng = generator(self.seed, stream)
        moves = int(pairs[:, 0].sum())
        keys, targets = np.empty(moves, np.int64), np.empty(moves, np.int64)
        if moves != pairs[:, 1].sum() or moves > it.max_moves or (pairs[:, 0] > np.diff(starts)).any():
            return None
        if not deal(rng, pairs, data, keys, targets) or moves == 0:
            return None
        plan = Realisation(
            keys, targets, keys.copy(), targets.copy(), np.full(it.key_groups, -1, np.int64),
            it.deviations(it.current), it.used(it.current), np.empty(it.nodes),
        )  # fmt: skip
        realise(rng, iterations, 3, 1.0, 0.01, max(distance, 1e-9), data, plan)
        assignment = it.current.copy()
        assignment[plan.best_keys] = plan.best_targets
        return assignment


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


@njit(cache=True, error_model="numpy")
def deal(rng, pairs, data, keys, targets):
    """Draw each node's departures at random and deal them to the arrivals; False when somebody would go nowhere."""
    m, s = 0, 0
    for i in range(pairs.shape[0]):
        own = data.order[data.starts[i] : data.starts[i + 1]].copy()
        for a in range(pairs[i, 0]):
            pick = a + int(draw(rng) * (own.size - a))
            own[a], own[pick] = own[pick], own[a]
            keys[m] = own[a]
            m += 1
        for _ in range(pairs[i, 1]):
            targets[s] = i
            s += 1
    for x in range(m - 1, 0, -1):
        y = int(draw(rng) * (x + 1))
        targets[x], targets[y] = targets[y], targets[x]
    for _ in range(20 * m):
        going_nowhere = 0
        for x in range(m):
            if goes_nowhere(keys[x], targets[x], data):
                y = int(draw(rng) * m)
                if not goes_nowhere(keys[x], targets[y], data) and not goes_nowhere(keys[y], targets[x], data):
                    targets[x], targets[y] = targets[y], targets[x]
                else:
                    going_nowhere += 1
        if going_nowhere == 0:
            return True
    return m == 0


class Realisation(NamedTuple):
    """A plan being realised: who migrates where, and what that does to the nodes."""

    keys: IntArray
    targets: IntArray
    best_keys: IntArray
    best_targets: IntArray
    role: IntArray
    """Where in `keys` each key group stands, -1 when it stays, shape (p,)."""
    dev: FloatArray
    used: FloatArray
    value: FloatArray


@njit(**LEAF)
def exchange(k, other, i, j, data, plan):
    """Key group k goes from node i to node j, and another one from j to i."""
    give(k, i, j, plan.dev, plan.used, data)
    give(other, j, i, plan.dev, plan.used, data)


@njit(**LEAF)
def settle_in(distance, doublings, data, plan):
    """Carry out all migrations; the migration cost, and the sum to be annealed."""
    paid, total = 0.0, 0.0
    for x in range(plan.keys.size):
        k = plan.keys[x]
        plan.role[k] = x
        give(k, data.current[k], plan.targets[x], plan.dev, plan.used, data)
        paid += data.cost[k]
    for i in range(plan.value.size):
        plan.value[i] = node_value(i, 0, plan.dev, plan.used, data)
        total += power(plan.value[i] / distance, doublings)
    return paid, total


@njit(**LEAF)
def replace(rng, x, data, plan):
    """Draw another key group of the same node to leave in the stead of the one in slot x; -1 if it leaves already, or may not."""
    i = data.current[plan.keys[x]]
    other = data.order[data.starts[i] + int(draw(rng) * (data.starts[i + 1] - data.starts[i]))]
    return -1 if plan.role[other] >= 0 or goes_nowhere(other, plan.targets[x], data) else other


@njit(**LEAF)
def swap_targets(rng, x, data, plan):
    """Draw a slot whose target may be exchanged for that of slot x; -1 if one would go nowhere, or nothing would change."""
    y = int(draw(rng) * plan.keys.size)
    i, j = plan.targets[x], plan.targets[y]
    return -1 if i == j or goes_nowhere(plan.keys[x], j, data) or goes_nowhere(plan.keys[y], i, data) else y


@njit(cache=True, error_model="numpy")
def realise(rng, iterations, doublings, hot, cold, distance, data, plan):
    """Anneal which key groups make the planned departures and where each goes; counts never change.

    Two moves: another key group of the same node leaves in its stead (`replace`); two leaving key groups exchange
    their targets (`swap_targets`). Returns the least largest value met, with its moves in ``plan.best_keys`` and
    ``plan.best_targets``.
    """
    keys, targets, dev, used, value = plan.keys, plan.targets, plan.dev, plan.used, plan.value
    paid, total = settle_in(distance, doublings, data, plan)
    best, above = np.inf, value.size
    if paid <= data.max_cost:
        best, above = value.max(), 1
        overwrite(plan.best_keys, keys)
        overwrite(plan.best_targets, targets)
    temperature, cooling = hot, (cold / hot) ** (1.0 / max(1, iterations))
    for _ in range(iterations):
        temperature *= cooling
        x = int(draw(rng) * keys.size)
        k, y, spent = keys[x], x, paid
        replaced = draw(rng) < 0.5
        if replaced:
            other = replace(rng, x, data, plan)
            if other < 0:
                continue
            i, j = targets[x], data.current[k]
            spent = paid + data.cost[other] - data.cost[k]
            if spent > data.max_cost and spent > paid:
                continue
        else:
            y = swap_targets(rng, x, data, plan)
            if y < 0:
                continue
            other, i, j = keys[y], targets[x], targets[y]
        exchange(k, other, i, j, data, plan)
        new_i, new_j = node_value(i, 0, dev, used, data), node_value(j, 0, dev, used, data)
        after = total + (
            power(new_i / distance, doublings) - power(value[i] / distance, doublings)
            + power(new_j / distance, doublings) - power(value[j] / distance, doublings)
        )  # fmt: skip
        if after > total * (1.0 - temperature * np.log(1.0 - draw(rng))):
            exchange(other, k, i, j, data, plan)
            continue
        above += int(new_i >= best) - int(value[i] >= best) + int(new_j >= best) - int(value[j] >= best)
        value[i], value[j], total, paid = new_i, new_j, after, spent
        if replaced:
            keys[x], plan.role[k], plan.role[other] = other, -1, x
        else:
            targets[x], targets[y] = j, i
        if above == 0 and paid <= data.max_cost:
            best = value.max()
            overwrite(plan.best_keys, keys)
            overwrite(plan.best_targets, targets)
            total, above = 0.0, 0
            for node in range(value.size):
                total += power(value[node] / distance, doublings)
                above += value[node] >= best
    return best
