"""Numba kernels of the annealed descent: see `keyshift.solvers.allocation.search`.

The kernels work on plain arrays. Loads are in units of the mean, so that a node's deviation is a fraction of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def draw(rng):
    """Advance a xorshift64* generator; uniform in [0, 1)."""
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True)
def node_value(i, dev, draining, used, room, bump):
    """How badly node i does: its deviation, upwards only when draining, and a jump when over a capacity."""
    v = dev[i] if draining[i] and dev[i] > 0 else (0.0 if draining[i] else abs(dev[i]))
    for r in range(used.shape[0]):
        if used[r, i] > room[r, i]:
            v += bump + (used[r, i] - room[r, i]) / (room[r, i] + 1e-300 if room[r, i] > 0 else 1.0)
    return v


@njit(cache=True)
def power(x, doublings):
    """x ** (2 ** doublings)."""
    for _ in range(doublings):
        x *= x
    return x


@njit(cache=True)
def shift(k, target, load, weight, use, home, place, dev, used, slot, start, size, items, moved, moved_at, tally, cost):
    """Put key group k on a node and keep every list and sum in step; tally = [moves, migration cost]."""
    source = place[k]
    dev[source] -= load[k] * weight[source]
    dev[target] += load[k] * weight[target]
    for r in range(used.shape[0]):
        used[r, source] -= use[r, k]
        used[r, target] += use[r, k]
    last = start[source] + size[source] - 1
    other = items[last]
    items[slot[k]] = other
    slot[other] = slot[k]
    size[source] -= 1
    slot[k] = start[target] + size[target]
    items[slot[k]] = k
    size[target] += 1
    place[k] = target
    was, now = source != home[k], target != home[k]
    if now and not was:
        moved_at[k] = int(tally[0])
        moved[moved_at[k]] = k
        tally[0] += 1
        tally[1] += cost[k]
    elif was and not now:
        tally[0] -= 1
        other = moved[int(tally[0])]
        moved[moved_at[k]] = other
        moved_at[other] = moved_at[k]
        tally[1] -= cost[k]


@njit(cache=True)
def any_node(rng, dev, rounds, sign):
    """The node of highest (sign = 1) or lowest (sign = -1) deviation among a few random ones."""
    n = dev.size
    best = int(draw(rng) * n)
    for _ in range(rounds):
        i = int(draw(rng) * n)
        if sign * dev[i] > sign * dev[best]:
            best = i
    return best


@njit(cache=True)
def propose(rng, keys, targets, dev, home, place, start, size, items, moved, tally, max_moves):
    """Fill in up to four elementary moves; returns how many, 0 when the draw leads nowhere."""
    u = draw(rng)
    giver = any_node(rng, dev, int(draw(rng) * 4), 1.0)
    taker = any_node(rng, dev, int(draw(rng) * 4), -1.0)
    count = int(tally[0])
    steps = 0
    if u < 0.35 and count > 0:  # a key group goes home to make room for another's move
        k = moved[int(draw(rng) * count)]
        keys[0], targets[0] = k, home[k]
        steps = 1
        if draw(rng) < 0.1:
            return steps
    elif u < 0.45 and count > 0:  # a moved key group goes elsewhere
        k = moved[int(draw(rng) * count)]
        keys[0], targets[0] = k, taker
        return 1 if taker != place[k] else 0
    if size[giver] == 0 or giver == taker:
        return 0
    k = items[start[giver] + int(draw(rng) * size[giver])]
    if steps == 1 and k == keys[0]:
        return 0
    keys[steps], targets[steps] = k, taker
    if u >= 0.60 or (steps == 1 and draw(rng) < 0.3):  # and one of the taker's comes back, or goes on
        if size[taker] == 0:
            return 0
        back = items[start[taker] + int(draw(rng) * size[taker])]
        if steps == 1 and back == keys[0]:
            return 0
        keys[steps + 1] = back
        targets[steps + 1] = giver
        if u > 0.92:
            targets[steps + 1] = any_node(rng, dev, 2, -1.0)
            if targets[steps + 1] == taker:
                return 0
        return steps + 2
    return steps + 1


@njit(cache=True)
def recount(place, load, weight, use, mean, dev, used):
    """Sum every node anew, since rounding drifts."""
    dev[:] = -mean
    used[:] = 0.0
    for k in range(place.size):
        dev[place[k]] += load[k] * weight[place[k]]
        for r in range(used.shape[0]):
            used[r, place[k]] += use[r, k]


@njit(cache=True)
def anneal(
    rng, iterations, doublings, hot, cold, best, best_value, bump,
    load, weight, mean, draining, open_to_all, home, use, room, cost, max_moves, max_cost,
    place, dev, used, slot, start, size, limit, items, moved, moved_at, tally,
):  # fmt: skip
    """Anneal sum(value ** 2 ** doublings) from `place`; `best` keeps the assignment of least largest value.

    Returns the least largest value met (`best_value` when none was better).
    """
    n = dev.size
    keys, targets, back = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4, np.int64)
    value = np.empty(n)
    reference, total, above = 1.0, 0.0, 0
    cooling = (cold / hot) ** (1.0 / max(1, iterations))
    temperature = hot
    fresh = 0
    for _ in range(iterations):
        if fresh == 0:  # sum anew: rounding drifts, and the reference has moved
            reference = max(best_value, 1e-12)
            total, above = 0.0, 0
            recount(place, load, weight, use, mean, dev, used)
            for i in range(n):
                value[i] = node_value(i, dev, draining, used, room, bump)
                total += power(value[i] / reference, doublings)
                above += value[i] >= best_value
            fresh = 20000 + 4 * place.size
        fresh -= 1
        temperature *= cooling
        steps = propose(rng, keys, targets, dev, home, place, start, size, items, moved, tally, max_moves)
        done = 0
        legal = steps > 0
        after, over = total, above
        for s in range(steps):
            k, target = keys[s], targets[s]
            if place[k] == target or (target != home[k] and not open_to_all[target]) or size[target] >= limit[target]:
                legal = False
                break
            source = place[k]
            shift(
                k,
                target,
                load,
                weight,
                use,
                home,
                place,
                dev,
                used,
                slot,
                start,
                size,
                items,
                moved,
                moved_at,
                tally,
                cost,
            )
            back[s] = source
            done += 1
            for i in (source, target):
                old, new = value[i], node_value(i, dev, draining, used, room, bump)
                after += power(new / reference, doublings) - power(old / reference, doublings)
                over += int(new >= best_value) - int(old >= best_value)
                value[i] = new
        legal = legal and tally[0] <= max_moves and tally[1] <= max_cost
        if legal and after <= total * (1.0 - temperature * np.log(1.0 - draw(rng))):
            total, above = after, over
            if above == 0:
                best_value = value.max()
                best[:] = place
                fresh = 0
            continue
        for s in range(done - 1, -1, -1):
            k, source = keys[s], place[keys[s]]
            shift(
                k,
                back[s],
                load,
                weight,
                use,
                home,
                place,
                dev,
                used,
                slot,
                start,
                size,
                items,
                moved,
                moved_at,
                tally,
                cost,
            )
            value[source] = node_value(source, dev, draining, used, room, bump)
            value[back[s]] = node_value(back[s], dev, draining, used, room, bump)
    return best_value
