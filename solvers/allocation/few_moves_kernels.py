"""Numba kernels of the search over few moves: see `keyshift.solvers.allocation.few_moves`."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit

HOME, AWAY, TAKEN = 0, 1, 2
"""Of a key group: not moved, left for a node that is settled later, moved."""
NEVER = 1 << 20
"""More moves than there are."""


@njit(cache=True)
def moves_to_spare(needs, order, claimed, after, left, away):
    """How many more moves may settle the node before `after`, at most; negative where those from there on need too many."""
    out, into, both = 0, 0, 0
    for at in range(after, order.size):
        i = order[at]
        c = min(claimed[i], needs.shape[2] - 1)
        out += needs[0, i, c]
        into += needs[1, i, c]
        both += needs[2, i, c]
    if left + away < into:
        return -1
    return min(left + away, 2 * left + away - both) if left >= out else -1


@njit(cache=True)
def touched(i, q, candidates, down, up, state):
    """How many moves at least bring node i, settled after the nodes of rank up to q, into its range: 0 to 3, 3 for three or more.

    `down` and `up` are how far its deviation may fall or rise, `state` says who has moved.
    """
    lists, starts, deltas, _, home, _ = candidates
    if down <= 0.0 <= up:
        return 0
    first, last = starts[i], starts[i + 1]
    open_ = np.empty(last - first)
    size = 0
    for at in range(first, last):
        k = lists[at]
        if (state[k] == AWAY) if home[0, k] <= q else (state[k] == HOME):
            open_[size] = deltas[at]
            size += 1
    least = 3
    j = size - 1
    for a in range(size):
        if down <= open_[a] <= up:
            return 1
        while j > a and open_[a] + open_[j] > up:
            j -= 1
        if j > a and open_[a] + open_[j] >= down:
            least = 2
    return least


@njit(cache=True)
def within_moves(table, candidates, nodes, order, q, now, numbers, left, away, layer):
    """Whether `left` moves may do for the nodes settled after rank q, and the moves under way: departures balance arrivals.

    `layer` holds two rows of 2 left + away + 1 numbers at least.
    """
    _, draining, doubt = nodes
    state, _, claimed = now
    reach = numbers[order.size] + doubt
    width = 2 * left + away + 1
    here, there = 0, 1
    layer[here, :width] = NEVER
    layer[here, left] = 0
    for at in range(q + 1, order.size):
        i = order[at]
        down = -1e300 if draining[i] else -reach - numbers[i]
        least = touched(i, q, candidates, down, reach - numbers[i], state)
        layer[there, :width] = NEVER
        gone = claimed[i]
        for x in range(min(left + 1, table.shape[1] - gone)):
            for y in range(min(left + away + 1, table.shape[2])):
                if x + y >= least and table[i, gone + x, y] <= reach:
                    for t in range(max(0, x - y), min(width, width + x - y)):
                        if layer[here, t] + x < layer[there, t + y - x]:
                            layer[there, t + y - x] = layer[here, t] + x
        here, there = there, here
    return layer[here, left + away] <= left


@njit(cache=True)
def settle_nodes(candidates, nodes, counted, order, stack, before, counts, now, numbers, best, end):
    """Go on with the search: 0 when it has ended, 1 at the `end` of its branches, 2 when `best` is nearer than anything before.

    A level of the stack is a node's rank, the next candidate to look at (-1: settle the node first), and the key group that led
    there (-1: the node before was settled); `before` has what a choice changes as it was.
    """
    lists, starts, deltas, twin, home, cost = candidates
    weight, draining, doubt = nodes
    state, place, claimed = now
    table, needs = counted
    n = order.size
    layer = np.empty((2, 3 * needs.shape[2] + 3), np.int64)
    at_distance, at_cost = n, n + 1
    depth, left, away = counts[0], counts[1], counts[2]
    while depth >= 0:
        if counts[3] >= end:
            counts[0], counts[1], counts[2] = depth, left, away
            return 1
        counts[3] += 1
        q = stack[0, depth]
        i = order[q]
        dev, reach = numbers[i], numbers[at_distance] + doubt
        first, last = starts[i], starts[i + 1]
        spare = moves_to_spare(needs, order, claimed, q + 1, left, away)
        down = -1e300 if draining[i] else -reach
        at = stack[1, depth]
        if at == -1:
            if spare >= 0 and last > first:
                # Below this none is enough, even with the largest for each further move.
                want = down - dev - max(spare - 1, 0) * max(deltas[last - 1], 0.0)
                at = first + np.searchsorted(deltas[first:last], want)
                if stack[2, depth] >= 0 and depth > 0:
                    at = max(at, stack[1, depth - 1])
            else:
                at = last
            stack[1, depth] = at
            if spare >= 0 and down <= dev <= reach:
                if q + 1 < n and not within_moves(table, candidates, nodes, order, q, now, numbers, left, away, layer):
                    pass
                elif q + 1 < n:
                    depth += 1
                    stack[0, depth], stack[1, depth], stack[2, depth] = q + 1, -1, -1
                    continue
                if away == 0:
                    worst = 0.0
                    for j in range(n):
                        worst = max(worst, numbers[j] if draining[j] else abs(numbers[j]))
                    if worst < numbers[at_distance]:
                        best[:] = place
                        numbers[at_distance] = worst
                        counts[0], counts[1], counts[2] = depth, left, away
                        return 2
        chosen = -1
        if spare >= 1:
            while at < last:
                delta = deltas[at]
                if dev + delta + (spare - 1) * min(delta, 0.0) > reach:
                    at = last
                    break
                k = lists[at]
                at += 1
                here, other = home[0, k], twin[k]
                if state[k] == HOME:
                    able = here >= q and left > 0 and cost[k] <= numbers[at_cost] and (here > q or q + 1 < n)
                else:
                    able = state[k] == AWAY and here < q
                if able and not (other >= 0 and state[other] == state[k]):
                    chosen = k
                    break
        stack[1, depth] = at
        if chosen >= 0:
            k, here, source = chosen, home[0, chosen], home[1, chosen]
            before[0, depth], before[1, depth], before[2, depth] = numbers[i], numbers[source], numbers[at_cost]
            numbers[i] += deltas[at - 1]
            if state[k] == HOME:
                left -= 1
                numbers[at_cost] -= cost[k]
                if here == q:
                    state[k] = AWAY
                    away += 1
                    claimed[i] += 1
                else:
                    state[k] = TAKEN
                    place[k] = i
                    claimed[source] += 1
                    numbers[source] -= deltas[at - 1] / weight[i] * weight[source]
            else:
                state[k] = TAKEN
                place[k] = i
                away -= 1
            depth += 1
            stack[0, depth], stack[1, depth], stack[2, depth] = q, -1, k
            continue
        k = stack[2, depth]
        depth -= 1
        if k >= 0:  # undo what led here
            source = home[1, k]
            numbers[source], numbers[i], numbers[at_cost] = before[1, depth], before[0, depth], before[2, depth]
            if home[0, k] < q:
                state[k], place[k] = AWAY, source
                away += 1
            else:
                away -= state[k] == AWAY
                state[k], place[k] = HOME, source
                left += 1
                claimed[source] -= 1
    counts[0] = depth
    return 0
