"""Readj's loops, compiled: keys by index, n nodes."""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit


@njit(cache=True)
def move_back(listed, load, home, at, used, limit, kept):
    """Send keys back to their hash while it has room; how many went."""
    count = 0
    for k in listed:
        h = home[k]
        if kept[h] and used[h] + load[k] <= limit[h]:
            used[at[k]] -= load[k]
            used[h] += load[k]
            at[k] = h
            count += 1
    return count


@njit(cache=True)
def vacate(stranded, load, at, used, capacity, kept):
    """Send keys to the least loaded node."""
    for k in stranded:
        best = -1
        for d in range(used.size):
            if kept[d] and (best < 0 or used[d] / capacity[d] < used[best] / capacity[best]):
                best = d
        used[at[k]] -= load[k]
        used[best] += load[k]
        at[k] = best


@njit(cache=True)
def _cost(k, to, state, current):
    """State moved by a plan that puts key k there."""
    return state[k] if to != current[k] else 0.0


@njit(cache=True)
def one_round(tracked, load, state, current, at, used, limit, capacity, kept):
    """Make the best move or swap that relieves the most overloaded node; whether there was one."""
    i = -1
    for d in range(used.size):
        if kept[d] and used[d] > limit[d] and (i < 0 or used[d] / capacity[d] > used[i] / capacity[i]):
            i = d
    if i < 0:
        return False
    height = used[i] / capacity[i]
    best_height, best_cost, best_key, best_to, best_swap = height * (1 - 1e-12), np.inf, -1, -1, -1
    for k in tracked:
        if at[k] != i:
            continue
        for j in range(used.size):
            if not kept[j] or j == i:
                continue
            after = max((used[i] - load[k]) / capacity[i], (used[j] + load[k]) / capacity[j])
            cost = _cost(k, j, state, current) - _cost(k, i, state, current)
            if after < best_height or (after == best_height and cost < best_cost):
                best_height, best_cost, best_key, best_to, best_swap = after, cost, k, j, -1
        for other in tracked:
            j = at[other]
            if j == i or load[other] >= load[k]:
                continue
            change = load[k] - load[other]
            after = max((used[i] - change) / capacity[i], (used[j] + change) / capacity[j])
            cost = _cost(k, j, state, current) - _cost(k, i, state, current)
            cost += _cost(other, i, state, current) - _cost(other, j, state, current)
            if after < best_height or (after == best_height and cost < best_cost):
                best_height, best_cost, best_key, best_to, best_swap = after, cost, k, j, other
    if best_key < 0:
        return False
    change = load[best_key]
    at[best_key] = best_to
    if best_swap >= 0:
        change -= load[best_swap]
        at[best_swap] = i
    used[i] -= change
    used[best_to] += change
    return True
