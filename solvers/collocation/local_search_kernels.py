"""The compiled loop of the local search."""

from __future__ import annotations

import numpy as np
from numba import njit

from keyshift.solvers.random_kernels import uniform

TOLERANCE = 1e-12


@njit(cache=True)
def anneal(
    a,
    best,
    current,
    allowed,
    remote_load,
    cost,
    indptr,
    neighbour,
    weight,
    first,
    second,
    upper_share,
    upper_extra,
    lower_share,
    lower_extra,
    max_moves,
    move_cost,
    use,
    capacity,
    rng,
    steps,
    hot,
    cold,
    penalty,
):
    """Simulated annealing over shifts, swaps and joins; see `local_search`. Works on `a` and `best` in place.

    Returns the collocated share of `best` (-1 while none is feasible) and the share of steps spent infeasible.
    """
    p, n, pairs = a.size, upper_share.size, first.size
    load = np.zeros(n)
    used = np.zeros((use.shape[0], n))
    on_node = np.zeros((p, n))  # traffic of each key group with each node
    sums = np.zeros(3)  # collocated traffic, moves, cost of the moves
    for k in range(p):
        load[a[k]] += remote_load[k]
        if a[k] != current[k]:
            sums[1] += 1
            sums[2] += move_cost[k]
        for r in range(use.shape[0]):
            used[r, a[k]] += use[r, k]
        for j in range(indptr[k], indptr[k + 1]):
            on_node[k, a[neighbour[j]]] += weight[j]
    for k in range(p):
        sums[0] += on_node[k, a[k]] / 2
        load[a[k]] -= cost * on_node[k, a[k]] / 2
    remote = remote_load.sum()
    excess = violation(
        load, remote - cost * sums[0], upper_share, upper_extra, lower_share, lower_extra, used, capacity
    )
    found, infeasible = -1.0, 0
    if excess <= TOLERANCE and sums[1] <= max_moves and sums[2] <= 1 + 1e-9:
        found = sums[0]
        best[:] = a
    who, back = np.empty(3, np.int64), np.empty(3, np.int64)
    cooling = (cold / hot) ** (1.0 / max(steps, 1))
    heat = hot
    for _ in range(steps):
        heat *= cooling
        before, excess_before = sums[0], excess
        count = propose(a, current, allowed, first, second, pairs, rng, who, back, max_moves, sums)
        if count == 0:
            continue
        for s in range(count):
            old = a[who[s]]
            shift(
                who[s],
                back[s],
                a,
                current,
                remote_load,
                cost,
                indptr,
                neighbour,
                weight,
                move_cost,
                use,
                load,
                used,
                on_node,
                sums,
            )
            back[s] = old
        ok = sums[1] <= max_moves and sums[2] <= 1 + 1e-9
        if ok:
            excess = violation(
                load, remote - cost * sums[0], upper_share, upper_extra, lower_share, lower_extra, used, capacity
            )
            gain = (sums[0] - before) - penalty * (excess - excess_before)
            ok = gain >= 0 or uniform(rng) < np.exp(gain / heat)
        if not ok:
            for s in range(count - 1, -1, -1):
                shift(
                    who[s],
                    back[s],
                    a,
                    current,
                    remote_load,
                    cost,
                    indptr,
                    neighbour,
                    weight,
                    move_cost,
                    use,
                    load,
                    used,
                    on_node,
                    sums,
                )
            sums[0], excess = before, excess_before
        if excess > TOLERANCE:
            infeasible += 1
        elif sums[0] > found + TOLERANCE:
            found = sums[0]
            best[:] = a
    return found, infeasible / max(steps, 1)


@njit(cache=True)
def shift(
    k, target, a, current, remote_load, cost, indptr, neighbour, weight, move_cost, use, load, used, on_node, sums
):
    """Move one key group and bring every sum up to date."""
    source = a[k]
    if source == target:
        return
    lost, won = on_node[k, source], on_node[k, target]
    sums[0] += won - lost
    load[source] -= remote_load[k] - cost * lost
    load[target] += remote_load[k] - cost * won
    for r in range(use.shape[0]):
        used[r, source] -= use[r, k]
        used[r, target] += use[r, k]
    sums[1] += int(target != current[k]) - int(source != current[k])
    sums[2] += move_cost[k] * (int(target != current[k]) - int(source != current[k]))
    for j in range(indptr[k], indptr[k + 1]):
        on_node[neighbour[j], source] -= weight[j]
        on_node[neighbour[j], target] += weight[j]
    a[k] = target


@njit(cache=True)
def violation(load, total, upper_share, upper_extra, lower_share, lower_extra, used, capacity):
    """By how much (7), (8), (9) are broken, summed over nodes."""
    excess = 0.0
    for i in range(load.size):
        over = load[i] - upper_share[i] * total - upper_extra[i]
        under = lower_share[i] * total + lower_extra[i] - load[i]
        excess += max(over, 0.0) + max(under, 0.0)
        for r in range(used.shape[0]):
            if used[r, i] > capacity[r, i] * (1 + 1e-9):
                excess += (used[r, i] - capacity[r, i]) / (1.0 + capacity[r, i])
    return excess


@njit(cache=True)
def propose(a, current, allowed, first, second, pairs, rng, who, where, max_moves, sums):
    """Write up to three shifts into `who`, `where`; return how many (0: nothing sensible was drawn)."""
    p, n = a.size, allowed.shape[1]
    draw, count = uniform(rng), 0
    if draw < 0.45 and pairs > 0:  # join a pair on the node of one end
        e = integer(rng, pairs)
        k, other = (first[e], second[e]) if uniform(rng) < 0.5 else (second[e], first[e])
        who[0], where[0], count = k, a[other], 1
        if uniform(rng) < 0.3:  # and send somebody the other way
            m = integer(rng, p)
            if m != k and m != other and a[m] == a[other]:
                who[1], where[1], count = m, a[k], 2
    elif draw < 0.65:  # shift
        who[0], where[0], count = integer(rng, p), integer(rng, n), 1
    elif draw < 0.8:  # swap
        k, m = integer(rng, p), integer(rng, p)
        who[0], where[0], who[1], where[1], count = k, a[m], m, a[k], 2
    else:  # go back to the current node
        k = a_mover(a, current, rng)
        if k < 0:
            return 0
        who[0], where[0], count = k, current[k], 1
    moves = sums[1]
    for s in range(count):
        k = who[s]
        if not allowed[k, where[s]] or where[s] == a[k]:
            return 0
        moves += int(where[s] != current[k]) - int(a[k] != current[k])
    if moves > max_moves and count < 3:  # somebody else must go back
        k = a_mover(a, current, rng)
        if k < 0 or k == who[0] or (count == 2 and k == who[1]) or moves - 1 > max_moves:
            return 0
        who[count], where[count] = k, current[k]
        count += 1
    return count


@njit(cache=True)
def a_mover(a, current, rng):
    """A key group that has moved, looked for from a random place on; -1 when there is none near."""
    p = a.size
    k = integer(rng, p)
    for _ in range(p):
        if a[k] != current[k]:
            return k
        k = k + 1 if k + 1 < p else 0
    return -1


@njit(cache=True)
def integer(rng, below):
    """A random whole number in 0..below-1."""
    return int(uniform(rng) * below)
