"""Numba kernels that plan pair counts and realise them: see `keyshift.solvers.allocation.counting.planner`."""

from __future__ import annotations

import numpy as np
from numba import njit

from keyshift.solvers.allocation.annealing.kernels import give, node_value, power
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
def deal(rng, pairs, order, starts, current, keys, targets):
    """Draw each node's departures at random and deal them to the arrivals; False when somebody would go nowhere."""
    m, s = 0, 0
    for i in range(pairs.shape[0]):
        own = order[starts[i] : starts[i + 1]].copy()
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
        at_home = 0
        for x in range(m):
            if targets[x] == current[keys[x]]:
                y = int(draw(rng) * m)
                if targets[y] != current[keys[x]] and targets[x] != current[keys[y]]:
                    targets[x], targets[y] = targets[y], targets[x]
                else:
                    at_home += 1
        if at_home == 0:
            return True
    return m == 0


@njit(cache=True, error_model="numpy")
def realise(
    rng,
    iterations,
    doublings,
    hot,
    cold,
    distance,
    bump,
    keys,
    targets,
    order,
    starts,
    load,
    weight,
    draining,
    current,
    use,
    room,
    cost,
    max_cost,
    dev,
    used,
    best_keys,
    best_targets,
):
    """Anneal which key groups make the planned departures and where each goes; counts never change.

    Two exchanges: another key group of the same node leaves in its stead; two leaving key groups swap targets.
    Returns the least largest value met, with its moves in `best_keys`, `best_targets`.
    """
    n, m = dev.size, keys.size
    role = np.full(load.size, -1, np.int64)
    value = np.empty(n)
    paid = 0.0
    for x in range(m):
        role[keys[x]] = x
        give(keys[x], current[keys[x]], targets[x], load, weight, use, dev, used)
        paid += cost[keys[x]]
    best, above, total = np.inf, n, 0.0
    for i in range(n):
        value[i] = node_value(i, dev, draining, used, room, bump)
        total += power(value[i] / distance, doublings)
    if paid <= max_cost:
        best, above = value.max(), 1
        best_keys[:] = keys
        best_targets[:] = targets
    temperature, cooling = hot, (cold / hot) ** (1.0 / max(1, iterations))
    for _ in range(iterations):
        temperature *= cooling
        x = int(draw(rng) * m)
        k = keys[x]
        replace = draw(rng) < 0.5
        if replace:
            i = current[k]
            other = order[starts[i] + int(draw(rng) * (starts[i + 1] - starts[i]))]
            if role[other] >= 0:
                continue
            i, j, y = current[k], targets[x], x
            spent = paid + cost[other] - cost[k]
            if spent > max_cost and spent > paid:
                continue
            give(k, j, i, load, weight, use, dev, used)
            give(other, i, j, load, weight, use, dev, used)
        else:
            y = int(draw(rng) * m)
            other = keys[y]
            i, j = targets[x], targets[y]
            if i == j or j == current[k] or i == current[other]:
                continue
            spent = paid
            give(k, i, j, load, weight, use, dev, used)
            give(other, j, i, load, weight, use, dev, used)
        new_i, new_j = node_value(i, dev, draining, used, room, bump), node_value(j, dev, draining, used, room, bump)
        after = total + (
            power(new_i / distance, doublings) - power(value[i] / distance, doublings)
            + power(new_j / distance, doublings) - power(value[j] / distance, doublings)
        )  # fmt: skip
        if after <= total * (1.0 - temperature * np.log(1.0 - draw(rng))):
            above += int(new_i >= best) - int(value[i] >= best) + int(new_j >= best) - int(value[j] >= best)
            value[i], value[j], total, paid = new_i, new_j, after, spent
            if replace:
                keys[x], role[k], role[other] = other, -1, x
            else:
                targets[x], targets[y] = j, i
            if above == 0 and paid <= max_cost:
                best = value.max()
                best_keys[:] = keys
                best_targets[:] = targets
                total, above = 0.0, 0
                for node in range(n):
                    total += power(value[node] / distance, doublings)
                    above += value[node] >= best
        elif replace:
            give(other, j, i, load, weight, use, dev, used)
            give(k, i, j, load, weight, use, dev, used)
        else:
            give(k, j, i, load, weight, use, dev, used)
            give(other, i, j, load, weight, use, dev, used)
    return best
