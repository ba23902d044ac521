"""The compiled local search: its sums, and the annealing over them; its moves are in `move_kernels`.

Loads and sums follow a proposal at once, which takes no look at the neighbours; only an accepted one tells them.
"""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.solvers.collocation.move_kernels import propose
from keyshift.solvers.kernels import overwrite, uniform
from keyshift.solvers.rows import shift, sum_rows

TOLERANCE, ROUNDED = 1e-12, 1e-9


@njit(**LEAF)
def refresh(data, state):
    """Sum everything anew for the assignment."""
    a, load, used, on_node, together, sums, _, movers, place, away, held, broken = state
    load[:] = 0.0
    used[:] = 0.0
    on_node[:] = 0.0
    together[:] = 0.0
    sums[:] = 0.0
    state.excess[:] = 0.0
    away[0] = 0
    rows = together.size
    for k in range(a.size):
        for s in range(load.shape[0]):
            load[s, a[k]] += data.remote_load[s, k]
        if a[k] != data.current[k]:
            movers[away[0]], place[k] = k, away[0]
            away[0] += 1
            sums[0] += 1
            sums[1] += data.move_cost[k]
        for r in range(used.shape[0]):
            used[r, a[k]] += data.use[r, k]
        for j in range(data.indptr[k], data.indptr[k + 1]):
            for t in range(rows):
                on_node[t, k, a[data.neighbour[j]]] += data.weight[t, j]
    for k in range(a.size):
        for t in range(rows):
            together[t] += on_node[t, k, a[k]] / 2
        for s in range(load.shape[0]):
            load[s, a[k]] -= data.cost[s] * on_node[min(s, rows - 1), k, a[k]] / 2
    for i in range(load.shape[1]):
        settle(i, data, state)
    broken[0] = sum_rows(held, a, data)


@njit(**LEAF)
def between(k, other, data):
    """Where the traffic between two key groups stands, -1 where there is none: neighbours are sorted."""
    low, high = data.indptr[k], data.indptr[k + 1]
    while low < high:
        middle = (low + high) // 2
        if data.neighbour[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low if low < data.indptr[k + 1] and data.neighbour[low] == other else -1


@njit(**LEAF)
def weigh(count, wanted, data, state):
    """Bring all but the neighbours up to date with the shifts of a proposal, in O(shifts x log(degree))."""
    for s in range(count):
        k, source, target = wanted.who[s], state.a[wanted.who[s]], wanted.where[s]
        for t in range(state.together.size):
            wanted.lost[t, s], wanted.won[t, s] = state.on_node[t, k, source], state.on_node[t, k, target]
        for e in range(s):  # neighbours that have moved just before
            other = wanted.who[e]
            before, after = state.a[other], wanted.where[e]
            if before in (source, target) or after in (source, target):
                j = between(k, other, data)
                for t in range(state.together.size if j >= 0 else 0):
                    wanted.lost[t, s] += data.weight[t, j] * (int(after == source) - int(before == source))
                    wanted.won[t, s] += data.weight[t, j] * (int(after == target) - int(before == target))
        add(s, 1.0, wanted, data, state)


@njit(**LEAF)
def add(s, sign, wanted, data, state):
    """Add a shift to loads and sums (sign = 1), or take it back (-1)."""
    load, used, together, sums = state.load, state.used, state.together, state.sums
    k, target = wanted.who[s], wanted.where[s]
    source = state.a[k]
    for t in range(together.size):
        together[t] += sign * (wanted.won[t, s] - wanted.lost[t, s])
    for w in range(load.shape[0]):
        t = min(w, together.size - 1)
        load[w, source] -= sign * (data.remote_load[w, k] - data.cost[w] * wanted.lost[t, s])
        load[w, target] += sign * (data.remote_load[w, k] - data.cost[w] * wanted.won[t, s])
    for r in range(used.shape[0]):
        used[r, source] -= sign * data.use[r, k]
        used[r, target] += sign * data.use[r, k]
    if sign > 0:
        state.broken[0] += shift(state.held, k, source, target, data)
    else:
        state.broken[0] += shift(state.held, k, target, source, data)
    away = sign * (int(target != data.current[k]) - int(source != data.current[k]))
    sums[0] += away
    sums[1] += away * data.move_cost[k]


@njit(**LEAF)
def tell(count, wanted, data, state):
    """Carry out what was weighed: tell the neighbours."""
    for s in range(count):
        k, target = wanted.who[s], wanted.where[s]
        source = state.a[k]
        for j in range(data.indptr[k], data.indptr[k + 1]):
            for t in range(state.together.size):
                state.on_node[t, data.neighbour[j], source] -= data.weight[t, j]
                state.on_node[t, data.neighbour[j], target] += data.weight[t, j]
        state.a[k] = target
        enlist(k, source, data, state)


@njit(**LEAF)
def enlist(k, source, data, state):
    """Keep the list of the key groups that have moved."""
    moved, before = state.a[k] != data.current[k], source != data.current[k]
    if moved and not before:
        state.movers[state.away[0]], state.place[k] = k, state.away[0]
        state.away[0] += 1
    elif before and not moved:
        state.away[0] -= 1
        last = state.movers[state.away[0]]
        state.movers[state.place[k]], state.place[last] = last, state.place[k]


@njit(**LEAF)
def settle(i, data, state):
    """Note by how much node i breaks (7), (8), (9), in all windows together."""
    load, used, sums = state.load, state.used, state.sums
    excess = 0.0
    for s in range(load.shape[0]):
        total = data.remote[s] - data.cost[s] * state.together[min(s, state.together.size - 1)]
        over = load[s, i] - data.upper_share[i] * total - data.upper_extra[s, i]
        under = data.lower_share[i] * total + data.lower_extra[s, i] - load[s, i]
        excess += max(over, 0.0) + max(under, 0.0)
    for r in range(used.shape[0]):
        if used[r, i] > data.capacity[r, i] * (1 + 1e-9):
            excess += (used[r, i] - data.capacity[r, i]) / (1.0 + data.capacity[r, i])
    sums[2] += int(excess > 0) - int(state.excess[i] > 0)
    sums[3] = sums[3] + excess - state.excess[i] if sums[2] > 0 else 0.0
    state.excess[i] = excess


@njit(**LEAF)
def violation(count, wanted, before, data, state):
    """By how much (7), (8), (9) are broken after a proposal, summed over nodes; `before` keeps what was broken until then."""
    overwrite(before.sums, state.sums)
    if data.fixed:  # only the proposal's own nodes change
        for s in range(count):
            source, target = state.a[wanted.who[s]], wanted.where[s]
            before.excess[2 * s] = state.excess[source]
            settle(source, data, state)
            before.excess[2 * s + 1] = state.excess[target]
            settle(target, data, state)
    else:
        overwrite(before.excess, state.excess)
        for i in range(state.excess.size):
            settle(i, data, state)
    return state.sums[3]


@njit(**LEAF)
def restore(count, wanted, before, data, state):
    """Restore the excess that was there before a proposal that `violation` has seen."""
    state.sums[2], state.sums[3] = before.sums[2], before.sums[3]
    if data.fixed:
        for s in range(count - 1, -1, -1):  # of a node that stands twice, the first is as it was
            state.excess[wanted.where[s]] = before.excess[2 * s + 1]
            state.excess[state.a[wanted.who[s]]] = before.excess[2 * s]
    else:
        for i in range(state.excess.size):
            state.excess[i] = before.excess[i]


@njit(**LEAF)
def worth(level, blend, goal, together):
    """The worth of the collocated traffic: itself where one row stands for all windows, else less (15) with t = level."""
    if together.size == 1:
        return together[0]
    value, worst, mean = 0.0, -np.inf, 0.0
    for t in range(together.size):
        remote = goal.apart[t] - together[t]
        worst = max(worst, remote)
        value += goal.most[t] * max(remote - level, 0.0)
        mean += remote / together.size
    return -(1.0 - blend) * (worst if goal.worst else value + level) - blend * mean


@njit(**LEAF)
def few_moves(data, sums):
    """Whether the limits of (2) are kept, on the number of moves and on their cost."""
    return sums[0] <= data.max_moves and sums[1] <= 1 + 1e-9


@njit(**LEAF)
def anneal(rng, schedule, best, wanted, before, data, state):
    """Simulated annealing over joins, relocations, swaps and returns. Works on ``state.a`` and `best` in place.

    `schedule` holds steps, first and last temperature, the penalty of what is broken, and t of (15); `before` has room for
    collocated traffic and excesses. Returns what `best` is worth (-inf while none is feasible) and the share of steps spent
    infeasible.
    """
    steps, hot, cold, penalty, level = int(schedule[0]), schedule[1], schedule[2], schedule[3], schedule[4]
    goal, together, sums = data.goal, state.together, state.sums
    refresh(data, state)
    excess = sums[3] + state.broken[0]
    value, found, infeasible = worth(level, goal.blend, goal, together), -np.inf, 0
    if excess <= TOLERANCE and few_moves(data, sums):
        found = worth(level, 0.0, goal, together)
        overwrite(best, state.a)
    heat, cooling = hot, (cold / hot) ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= cooling
        count = propose(rng, wanted, data, state)
        if count == 0:
            continue
        value_before, excess_before = value, excess
        overwrite(before.together, together)
        weigh(count, wanted, data, state)
        few = accepted = few_moves(data, sums)
        if few:
            excess = violation(count, wanted, before, data, state) + state.broken[0]
            value = worth(level, goal.blend, goal, together)
            gain = (value - value_before) - penalty * (excess - excess_before)
            accepted = gain >= 0 or uniform(rng) < np.exp(gain / heat)
        if accepted:
            tell(count, wanted, data, state)
        else:
            for s in range(count):
                add(s, -1.0, wanted, data, state)
            overwrite(together, before.together)
            if few:
                restore(count, wanted, before, data, state)
            value, excess = value_before, excess_before
        state.broken[0] = state.broken[0] if state.broken[0] > ROUNDED else 0.0
        if excess > TOLERANCE:
            infeasible += 1
        elif accepted and (goal.blend > 0 or value > found + TOLERANCE):
            plain = worth(level, 0.0, goal, together)
            if plain > found + TOLERANCE:
                found = plain
                overwrite(best, state.a)
    return found, infeasible / max(steps, 1)
