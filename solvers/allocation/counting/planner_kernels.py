"""Numba kernels that plan pair counts and realise them: see `keyshift.solvers.allocation.counting.planner`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.annealing.state_kernels import give, goes_nowhere, node_value, power
from keyshift.solvers.random_kernels import uniform as draw

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
    choice = np.zeros((n, most + 1, width), np.int16)
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
        plan.best_keys[:] = keys
        plan.best_targets[:] = targets
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
            plan.best_keys[:] = keys
            plan.best_targets[:] = targets
            total, above = 0.0, 0
            for node in range(value.size):
                total += power(value[node] / distance, doublings)
                above += value[node] >= best
    return best
