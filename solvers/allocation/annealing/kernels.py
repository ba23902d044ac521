"""Numba kernels of the annealed search: see `keyshift.solvers.allocation.annealing.search`.

The kernels work on plain arrays. Loads are in units of the mean, so that a node's deviation is a fraction of it. An
assignment is a list of moves: ``moves[0, x]`` is the key group of slot x and ``moves[1, x]`` the node it goes to;
``moves[2:, x]`` are the next and the previous slot with that target, `first` its first one, and ``role[k]`` is the
slot of key group k, -1 when it stays. ``tally`` holds the slots in use and the migration cost.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from keyshift.solvers.random_kernels import uniform as draw

LEAF = {"cache": True, "error_model": "numpy", "_nrt": False}
"""Kernels that allocate nothing: without reference counts on their arrays a step takes a quarter of the time."""


@njit(**LEAF)
def node_value(i, dev, draining, used, room, bump):
    """How badly node i does: its deviation, upwards only when draining, and a jump when over a capacity."""
    v = dev[i] if draining[i] and dev[i] > 0 else (0.0 if draining[i] else abs(dev[i]))
    for r in range(used.shape[0]):
        if used[r, i] > room[r, i]:
            v += bump + (used[r, i] - room[r, i]) / (room[r, i] if room[r, i] > 0 else 1.0)
    return v


@njit(**LEAF)
def power(x, doublings):
    """x ** (2 ** doublings)."""
    for _ in range(doublings):
        x *= x
    return x


@njit(**LEAF)
def give(k, source, target, load, weight, use, dev, used):
    """Carry a key group's load and resources from one node to another."""
    dev[source] -= load[k] * weight[source]
    dev[target] += load[k] * weight[target]
    for r in range(used.shape[0]):
        used[r, source] -= use[r, k]
        used[r, target] += use[r, k]


@njit(**LEAF)
def put(x, k, target, load, weight, current, use, cost, moves, role, first, dev, used, tally):
    """Put move (k -> target) into slot x."""
    give(k, current[k], target, load, weight, use, dev, used)
    moves[0, x], moves[1, x], role[k] = k, target, x
    head = first[target]
    moves[2, x], moves[3, x] = head, -1
    if head >= 0:
        moves[3, head] = x
    first[target] = x
    tally[1] += cost[k]


@njit(**LEAF)
def take(x, load, weight, current, use, cost, moves, role, first, dev, used, tally):
    """Empty slot x (its key group goes back to its current node)."""
    k, target = moves[0, x], moves[1, x]
    give(k, target, current[k], load, weight, use, dev, used)
    role[k] = -1
    a, b = moves[2, x], moves[3, x]
    if a >= 0:
        moves[3, a] = b
    if b >= 0:
        moves[2, b] = a
    else:
        first[target] = a
    tally[1] -= cost[k]
    moves[0, x] = -1


@njit(**LEAF)
def extreme(rng, dev, rounds, sign):
    """The node of highest (sign = 1) or lowest (sign = -1) deviation among a few random ones."""
    n = dev.size
    best = int(draw(rng) * n)
    for _ in range(rounds):
        i = int(draw(rng) * n)
        if sign * dev[i] > sign * dev[best]:
            best = i
    return best


@njit(**LEAF)
def near(rng, i, wanted, load, order, starts, role):
    """A key group whose current node is i that has not moved, of about the wanted load; -1 when the draw fails."""
    low, high = starts[i], starts[i + 1]
    if low == high:
        return -1
    begin, end = low, high
    if draw(rng) < 0.5:
        at = low + int(draw(rng) * (high - low))
    else:
        while low < high:
            middle = (low + high) // 2
            if load[order[middle]] < wanted:
                low = middle + 1
            else:
                high = middle
        at = low + int(draw(rng) * 4) - 2
    if at < begin:
        at = begin
    if at >= end:
        at = end - 1
    k = order[at]
    return -1 if role[k] >= 0 else k


@njit(**LEAF)
def an_arrival(rng, moves, first, i):
    """One of the moves to node i, -1 when there is none."""
    x = first[i]
    if x < 0:
        return x
    for _ in range(int(draw(rng) * 4)):
        if moves[2, x] < 0:
            x = first[i]
        else:
            x = moves[2, x]
    return x


@njit(**LEAF)
def propose(rng, most, slots, keys, targets, load, weight, current, order, starts, moves, role, first, dev, tally):
    """Edit up to two slots: slots[s] gets keys[s] and targets[s], and is emptied by key -1.

    Returns how many are edited, 0 when the draw leads nowhere.
    """
    m = int(tally[0])
    u = draw(rng)
    if m == 0 or (m < most and u < 0.15):
        if m >= most:
            return 0
        g, t = extreme(rng, dev, int(draw(rng) * 4), 1.0), extreme(rng, dev, int(draw(rng) * 4), -1.0)
        if g == t:
            return 0
        k = near(rng, g, (dev[g] - dev[t]) / (weight[g] + weight[t]), load, order, starts, role)
        slots[0], keys[0], targets[0] = m, k, t
        return 1 if k >= 0 else 0
    u = draw(rng)
    x = int(draw(rng) * m)
    k, t = moves[0, x], moves[1, x]
    i = current[k]
    slots[0], keys[0], targets[0] = x, k, t
    if u < 0.25:  # two exchange their targets
        y = int(draw(rng) * m)
        if y == x:
            return 0
        slots[1], keys[1], targets[1] = y, moves[0, y], t
        targets[0] = moves[1, y]
        return 2
    if u < 0.50:  # another one of the same current node leaves
        wanted = load[k] + (dev[i] - dev[t]) / (weight[i] + weight[t])
        keys[0] = near(rng, i, wanted, load, order, starts, role)
        return 1 if keys[0] >= 0 else 0
    if u < 0.60:  # the same key group goes elsewhere
        targets[0] = extreme(rng, dev, int(draw(rng) * 3), -1.0)
        return 1
    if u < 0.70:  # another node's key group comes instead
        g = extreme(rng, dev, int(draw(rng) * 3), 1.0)
        keys[0] = near(rng, g, load[k] - dev[t] / weight[t], load, order, starts, role)
        return 1 if keys[0] >= 0 else 0
    if u < 0.74:  # it stays where it is, to make room for a move elsewhere
        g, s = extreme(rng, dev, int(draw(rng) * 4), 1.0), extreme(rng, dev, int(draw(rng) * 4), -1.0)
        keys[0] = near(rng, g, (dev[g] - dev[s]) / (weight[g] + weight[s]), load, order, starts, role)
        targets[0] = s
        return 1 if keys[0] >= 0 else 0
    if u < 0.76:
        keys[0] = -1
        return 1
    y = an_arrival(rng, moves, first, i)  # y comes to i, and x leaves it
    if u < 0.92 and y >= 0 and y != x:  # another node stands between them
        s = int(draw(rng) * dev.size)
        slots[1], keys[1], targets[1] = y, moves[0, y], s
        wanted = load[k] - dev[t] / weight[t]
        if draw(rng) < 0.5:
            wanted = load[moves[0, y]] + dev[s] / weight[s]
        keys[0] = near(rng, s, wanted, load, order, starts, role)
        return 2 if keys[0] >= 0 else 0
    if u < 0.96:  # nobody does
        if y < 0 or y == x:
            return 0
        slots[1], keys[1], targets[1] = y, moves[0, y], t
        keys[0] = -1
        return 2
    if m >= most:
        return 0
    # a node stands between the ends of x
    s = int(draw(rng) * dev.size)
    targets[0] = s
    keys[1] = near(rng, s, load[k] + dev[s] / weight[s], load, order, starts, role)
    slots[1], targets[1] = m, t
    return 2 if keys[1] >= 0 else 0


@njit(**LEAF)
def refresh(load, weight, draining, current, use, room, moves, role, dev, used, value, mean, bump, cost, tally):
    """Sum everything anew: rounding drifts."""
    dev[:] = -mean
    used[:] = 0.0
    tally[1] = 0.0
    for k in range(current.size):
        x = role[k]
        if x >= 0:
            tally[1] += cost[k]
        i = current[k] if x < 0 else moves[1, x]
        dev[i] += load[k] * weight[i]
        for r in range(used.shape[0]):
            used[r, i] += use[r, k]
    for i in range(dev.size):
        value[i] = node_value(i, dev, draining, used, room, bump)


@njit(**LEAF)
def carry(k, node, sign, count, nodes, change, extra, load, use):
    """Note that key group k comes to (sign = 1) or leaves (-1) a node; returns how many nodes are noted."""
    at = 0
    while at < count and nodes[at] != node:
        at += 1
    if at == count:
        nodes[at] = node
        change[at] = 0.0
        for r in range(use.shape[0]):
            extra[r, at] = 0.0
        count += 1
    change[at] += sign * load[k]
    for r in range(use.shape[0]):
        extra[r, at] += sign * use[r, k]
    return count


@njit(**LEAF)
def accept(steps, slots, keys, targets, load, weight, current, use, cost, moves, role, first, dev, used, tally):
    """Carry out the edits of the slots."""
    m = int(tally[0])
    for s in range(steps):
        if slots[s] < m:
            take(slots[s], load, weight, current, use, cost, moves, role, first, dev, used, tally)
    for s in range(steps):
        if keys[s] >= 0:
            put(slots[s], keys[s], targets[s], load, weight, current, use, cost, moves, role, first, dev, used, tally)
            if slots[s] == m:
                tally[0] += 1
    for s in range(steps):
        if keys[s] < 0:  # the last move fills the hole
            tally[0] -= 1
            last = int(tally[0])
            if slots[s] != last:
                k, t = moves[0, last], moves[1, last]
                take(last, load, weight, current, use, cost, moves, role, first, dev, used, tally)
                put(slots[s], k, t, load, weight, current, use, cost, moves, role, first, dev, used, tally)


@njit(cache=True, error_model="numpy")
def anneal(
    rng,
    iterations,
    doublings,
    hot,
    cold,
    best_moves,
    best_value,
    bump,
    load,
    weight,
    mean,
    draining,
    open_to_all,
    current,
    use,
    room,
    cost,
    order,
    starts,
    most,
    max_cost,
    moves,
    role,
    first,
    dev,
    used,
    value,
    tally,
):
    """Anneal sum((value / best_value) ** 2 ** doublings); `best_moves` keeps the moves of least largest value.

    Temperatures are in units of one node at the best value. Returns the least largest value met, `best_value` when
    none was better; ``best_moves[:, -1]`` then holds how many moves there are.
    """
    n = dev.size
    slots, keys, targets = np.empty(2, np.int64), np.empty(2, np.int64), np.empty(2, np.int64)
    nodes, change, extra = np.empty(8, np.int64), np.empty(8), np.empty((use.shape[0], 8))
    fresh = np.empty(8)
    resources = use.shape[0]
    refresh(load, weight, draining, current, use, room, moves, role, dev, used, value, mean, bump, cost, tally)
    inverse = 1.0 / max(best_value, 1e-9)  # small enough to tell, large enough for no power to overflow
    above = 0
    for i in range(n):
        above += value[i] >= best_value
    temperature, cooling = hot, (cold / hot) ** (1.0 / max(1, iterations))
    for _ in range(iterations):
        temperature *= cooling
        steps = propose(
            rng, most, slots, keys, targets, load, weight, current, order, starts, moves, role, first, dev, tally
        )  # fmt: skip
        count, spent, legal = 0, 0.0, steps > 0
        for s in range(steps):
            if slots[s] < tally[0]:
                k = moves[0, slots[s]]
                count = carry(k, current[k], 1.0, count, nodes, change, extra, load, use)
                count = carry(k, moves[1, slots[s]], -1.0, count, nodes, change, extra, load, use)
                spent -= cost[k]
            k = keys[s]
            if k >= 0:
                legal = legal and targets[s] != current[k] and open_to_all[targets[s]]
                count = carry(k, current[k], -1.0, count, nodes, change, extra, load, use)
                count = carry(k, targets[s], 1.0, count, nodes, change, extra, load, use)
                spent += cost[k]
        if not legal or (spent > 0.0 and tally[1] + spent > max_cost):
            continue
        rise = 0.0
        for c in range(count):
            i = nodes[c]
            v = dev[i] + change[c] * weight[i]
            v = max(v, 0.0) if draining[i] else abs(v)
            for r in range(resources):
                if used[r, i] + extra[r, c] > room[r, i]:
                    over = used[r, i] + extra[r, c] - room[r, i]
                    v += bump + over / (room[r, i] if room[r, i] > 0 else 1.0)
            fresh[c] = v
            rise += power(v * inverse, doublings) - power(value[i] * inverse, doublings)
        if rise > 0.0 and rise > -temperature * np.log(1.0 - draw(rng)):
            continue
        for c in range(count):
            above += int(fresh[c] >= best_value) - int(value[nodes[c]] >= best_value)
            value[nodes[c]] = fresh[c]
        accept(steps, slots, keys, targets, load, weight, current, use, cost, moves, role, first, dev, used, tally)
        if above == 0:
            best_value = value.max()
            m = int(tally[0])
            best_moves[:, :m] = moves[:2, :m]
            best_moves[:, -1] = m
            for i in range(n):
                above += value[i] >= best_value
    return best_value
