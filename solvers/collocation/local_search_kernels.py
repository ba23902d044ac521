"""The compiled local search: its moves, its sums, and the annealing over them.

A move writes the shifts it wants into a `Proposal` and returns how many they are: 0 when the draw leads nowhere. Loads and
sums follow a proposal at once, which takes no look at the neighbours; only an accepted one tells them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from keyshift.models.compiling import LEAF
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.random_kernels import uniform

TOLERANCE = 1e-12


class ShiftData(NamedTuple):
    """What a search never changes: the instance, as in `keyshift.solvers.collocation.arrays.Arrays`."""

    current: IntArray
    allowed: BoolArray
    remote_load: FloatArray
    remote: float
    """Load of the whole system were all traffic remote."""
    cost: float
    indptr: IntArray
    neighbour: IntArray
    weight: FloatArray
    first: IntArray
    second: IntArray
    upper_share: FloatArray
    upper_extra: FloatArray
    lower_share: FloatArray
    lower_extra: FloatArray
    max_moves: int
    move_cost: FloatArray
    use: FloatArray
    capacity: FloatArray
    shares: FloatArray
    """Cumulative shares of joining, relocating and swapping, then the share of joins that exchange."""


class ShiftState(NamedTuple):
    """Where a search stands."""

    a: IntArray
    """The assignment, shape (p,)."""
    load: FloatArray
    used: FloatArray
    on_node: FloatArray
    """Traffic of each key group with each node, shape (p, n)."""
    sums: FloatArray
    """Collocated traffic, moves, cost of the moves."""


class Proposal(NamedTuple):
    """What a move wants: key group ``who[s]`` on node ``where[s]``, up to three of them."""

    who: IntArray
    where: IntArray
    lost: FloatArray
    """Traffic with the node that it leaves, and `won` with the one that it comes to, after the shifts before."""
    won: FloatArray


@njit(**LEAF)
def integer(rng, below):
    """A random whole number in 0..below-1."""
    return int(uniform(rng) * below)


@njit(**LEAF)
def refresh(data, state):
    """Sum everything anew for the assignment."""
    a, load, used, on_node, sums = state
    load[:] = 0.0
    used[:] = 0.0
    on_node[:] = 0.0
    sums[:] = 0.0
    for k in range(a.size):
        load[a[k]] += data.remote_load[k]
        if a[k] != data.current[k]:
            sums[1] += 1
            sums[2] += data.move_cost[k]
        for r in range(used.shape[0]):
            used[r, a[k]] += data.use[r, k]
        for j in range(data.indptr[k], data.indptr[k + 1]):
            on_node[k, a[data.neighbour[j]]] += data.weight[j]
    for k in range(a.size):
        sums[0] += on_node[k, a[k]] / 2
        load[a[k]] -= data.cost * on_node[k, a[k]] / 2


@njit(**LEAF)
def between(k, other, data):
    """Traffic between two key groups, both ways: neighbours are sorted."""
    low, high = data.indptr[k], data.indptr[k + 1]
    while low < high:
        middle = (low + high) // 2
        if data.neighbour[middle] < other:
            low = middle + 1
        else:
            high = middle
    return data.weight[low] if low < data.indptr[k + 1] and data.neighbour[low] == other else 0.0


@njit(**LEAF)
def weigh(count, wanted, data, state):
    """Bring all but the neighbours up to date with the shifts of a proposal, in O(shifts x log(degree))."""
    for s in range(count):
        k, source, target = wanted.who[s], state.a[wanted.who[s]], wanted.where[s]
        wanted.lost[s], wanted.won[s] = state.on_node[k, source], state.on_node[k, target]
        for e in range(s):  # neighbours that have moved just before
            other = wanted.who[e]
            left, came = state.a[other], wanted.where[e]
            if left in (source, target) or came in (source, target):
                traffic = between(k, other, data)
                wanted.lost[s] += traffic * (int(came == source) - int(left == source))
                wanted.won[s] += traffic * (int(came == target) - int(left == target))
        add(s, 1.0, wanted, data, state)


@njit(**LEAF)
def add(s, sign, wanted, data, state):
    """Add a shift to loads and sums (sign = 1), or take it back (-1)."""
    _, load, used, _, sums = state
    k, target = wanted.who[s], wanted.where[s]
    source, lost, won = state.a[k], wanted.lost[s], wanted.won[s]
    sums[0] += sign * (won - lost)
    load[source] -= sign * (data.remote_load[k] - data.cost * lost)
    load[target] += sign * (data.remote_load[k] - data.cost * won)
    for r in range(used.shape[0]):
        used[r, source] -= sign * data.use[r, k]
        used[r, target] += sign * data.use[r, k]
    away = sign * (int(target != data.current[k]) - int(source != data.current[k]))
    sums[1] += away
    sums[2] += away * data.move_cost[k]


@njit(**LEAF)
def tell(count, wanted, data, state):
    """Carry out what was weighed: tell the neighbours."""
    for s in range(count):
        k, target = wanted.who[s], wanted.where[s]
        source = state.a[k]
        for j in range(data.indptr[k], data.indptr[k + 1]):
            state.on_node[data.neighbour[j], source] -= data.weight[j]
            state.on_node[data.neighbour[j], target] += data.weight[j]
        state.a[k] = target


@njit(**LEAF)
def violation(data, state):
    """By how much (7), (8), (9) are broken, summed over nodes."""
    load, used = state.load, state.used
    total = data.remote - data.cost * state.sums[0]
    excess = 0.0
    for i in range(load.size):
        over = load[i] - data.upper_share[i] * total - data.upper_extra[i]
        under = data.lower_share[i] * total + data.lower_extra[i] - load[i]
        excess += max(over, 0.0) + max(under, 0.0)
        for r in range(used.shape[0]):
            if used[r, i] > data.capacity[r, i] * (1 + 1e-9):
                excess += (used[r, i] - data.capacity[r, i]) / (1.0 + data.capacity[r, i])
    return excess


@njit(**LEAF)
def few_moves(data, sums):
    """Whether the limits of (2) are kept, on the number of moves and on their cost."""
    return sums[1] <= data.max_moves and sums[2] <= 1 + 1e-9


@njit(**LEAF)
def join(rng, wanted, data, a):
    """One end of a pair goes to the node of the other; now and then somebody there comes the other way."""
    e = integer(rng, data.first.size)
    k, other = (data.first[e], data.second[e]) if uniform(rng) < 0.5 else (data.second[e], data.first[e])
    wanted.who[0], wanted.where[0] = k, a[other]
    if uniform(rng) < data.shares[3]:
        m = integer(rng, a.size)
        if m != k and m != other and a[m] == a[other]:
            wanted.who[1], wanted.where[1] = m, a[k]
            return 2
    return 1


@njit(**LEAF)
def relocate(rng, wanted, a, nodes):
    """A key group goes to any node."""
    wanted.who[0], wanted.where[0] = integer(rng, a.size), integer(rng, nodes)
    return 1


@njit(**LEAF)
def swap(rng, wanted, a):
    """Two key groups exchange their nodes."""
    k, m = integer(rng, a.size), integer(rng, a.size)
    wanted.who[0], wanted.where[0], wanted.who[1], wanted.where[1] = k, a[m], m, a[k]
    return 2


@njit(**LEAF)
def go_back(rng, wanted, data, a):
    """A key group that has moved goes back to its current node."""
    k = a_mover(rng, data, a)
    wanted.who[0], wanted.where[0] = k, data.current[k]
    return int(k >= 0)


@njit(**LEAF)
def a_mover(rng, data, a):
    """A key group that has moved, looked for from a random place on; -1 when there is none."""
    p = a.size
    k = integer(rng, p)
    for _ in range(p):
        if a[k] != data.current[k]:
            return k
        k = k + 1 if k + 1 < p else 0
    return -1


@njit(**LEAF)
def make_room(rng, count, moves, wanted, data, a):
    """Where a move would be one too many, somebody else goes back as well."""
    k = a_mover(rng, data, a)
    if k < 0 or k == wanted.who[0] or (count == 2 and k == wanted.who[1]) or moves - 1 > data.max_moves:
        return 0
    wanted.who[count], wanted.where[count] = k, data.current[k]
    return count + 1


@njit(**LEAF)
def propose(rng, wanted, data, state):
    """Draw a move; how many shifts it takes, 0 when the draw leads nowhere or the move is not allowed."""
    a, shares, draw = state.a, data.shares, uniform(rng)
    if draw < shares[0] and data.first.size > 0:
        count = join(rng, wanted, data, a)
    elif draw < shares[1]:
        count = relocate(rng, wanted, a, data.upper_share.size)
    elif draw < shares[2]:
        count = swap(rng, wanted, a)
    else:
        count = go_back(rng, wanted, data, a)
    moves = state.sums[1]
    for s in range(count):
        k, target = wanted.who[s], wanted.where[s]
        if not data.allowed[k, target] or target == a[k]:
            return 0
        moves += int(target != data.current[k]) - int(a[k] != data.current[k])
    if moves > data.max_moves and count < 3:
        return make_room(rng, count, moves, wanted, data, a)
    return count


@njit(**LEAF)
def keep(best, a):
    """Note the assignment as the best."""
    for k in range(a.size):
        best[k] = a[k]


@njit(**LEAF)
def anneal(rng, steps, hot, cold, penalty, best, wanted, data, state):
    """Simulated annealing over joins, relocations, swaps and returns. Works on ``state.a`` and `best` in place.

    Returns the collocated share of `best` (-1 while none is feasible) and the share of steps spent infeasible.
    """
    sums = state.sums
    refresh(data, state)
    excess = violation(data, state)
    found, infeasible = -1.0, 0
    if excess <= TOLERANCE and few_moves(data, sums):
        found = sums[0]
        keep(best, state.a)
    heat, cooling = hot, (cold / hot) ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= cooling
        before, excess_before = sums[0], excess
        count = propose(rng, wanted, data, state)
        if count == 0:
            continue
        weigh(count, wanted, data, state)
        accepted = few_moves(data, sums)
        if accepted:
            excess = violation(data, state)
            gain = (sums[0] - before) - penalty * (excess - excess_before)
            accepted = gain >= 0 or uniform(rng) < np.exp(gain / heat)
        if accepted:
            tell(count, wanted, data, state)
        else:
            for s in range(count):
                add(s, -1.0, wanted, data, state)
            sums[0], excess = before, excess_before
        if excess > TOLERANCE:
            infeasible += 1
        elif sums[0] > found + TOLERANCE:
            found = sums[0]
            keep(best, state.a)
    return found, infeasible / max(steps, 1)
