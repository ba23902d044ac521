"""Compiled depth-first search for MCLB: one key group after another, largest first, pruned by water-filling."""

from __future__ import annotations

import numpy as np
from numba import njit

from keyshift.models.workload import BoolArray, FloatArray, IntArray

F = FloatArray
Z = IntArray


@njit(cache=True)
def level_squares(heights: F, rest: float) -> float:
    """Least sum of (height + added)^2 over added >= 0 that sum to rest: fill the lowest to a common level."""
    n = heights.size
    ordered = np.sort(heights)
    below, level = 0.0, 0.0
    filled = 0
    for j in range(n):
        below += ordered[j]
        filled = j + 1
        level = (below + rest) / filled
        if j + 1 == n or level <= ordered[j + 1]:
            break
    total = filled * level * level
    for j in range(filled, n):
        total += ordered[j] * ordered[j]
    return total


@njit(cache=True)
def completion_bound(sums: F, rest: F) -> float:
    """Least sum of squares when the load still to place may be split at will, window by window. sums is (n, m)."""
    total = 0.0
    for t in range(rest.size):
        total += level_squares(sums[:, t], rest[t])
    return total


@njit(cache=True, nogil=True)
def explore(
    load: F, rest: F, state: F, current: Z, free: BoolArray, budget: float, limit: float,
    choice: Z, tried: BoolArray, sums: F, count: Z, frame: F, best: Z, max_nodes: int, margin: float,
) -> tuple[float, int]:  # fmt: skip
    """Search on from where it stopped last, for at most so many tree nodes.

    Parameters
    ----------
    load : (p, m), in the order of placing; rest : (p + 1, m), load still to place at each depth
    state, current : (p,); free : (n,), interchangeable nodes
    budget, limit : state that may move; sum of squares to be below
    choice, tried, sums, count : the search's own state: node at each depth (-1 open), tried (p, n), loads, key groups
    frame : [depth, state moved]; best : where a better placement is left; margin : how much better it must be

    Returns
    -------
    limit, nodes
        The limit now (lower when something better was found), and the tree nodes visited.
        frame[0] is -1 when the tree is exhausted.
    """
    p, m = load.shape
    depth, spent = int(frame[0]), frame[1]
    visited = 0
    while depth >= 0 and visited < max_nodes:
        i = choice[depth]
        if i >= 0:  # come back from below: undo
            for t in range(m):
                sums[i, t] -= load[depth, t]
            count[i] -= 1
            if i != current[depth]:
                spent -= state[depth]
            choice[depth] = -1
        i = _next_node(load[depth], sums, tried[depth], count, free, spent, budget, state[depth], current[depth])
        if i < 0:
            tried[depth] = False
            depth -= 1
            continue
        tried[depth, i] = True
        visited += 1
        choice[depth] = i
        count[i] += 1
        for t in range(m):
            sums[i, t] += load[depth, t]
        if i != current[depth]:
            spent += state[depth]
        lower = completion_bound(sums, rest[depth + 1])
        if lower >= limit:
            continue
        if depth == p - 1:
            best[:] = choice
            limit = lower - margin
            continue
        depth += 1
    frame[0], frame[1] = depth, spent
    return limit, visited


@njit(cache=True)
def _next_node(
    own: F,
    sums: F,
    tried: BoolArray,
    count: Z,
    free: BoolArray,
    spent: float,
    budget: float,
    cost: float,
    own_node: int,
) -> int:
    """The untried node where the key group adds least; of empty interchangeable nodes only the first counts."""
    best, least = -1, np.inf
    seen_empty = False
    for i in range(sums.shape[0]):
        if free[i] and count[i] == 0:
            if seen_empty:
                continue
            seen_empty = True
        if tried[i] or (i != own_node and spent + cost > budget):
            continue
        rise = 0.0
        for t in range(own.size):
            rise += own[t] * sums[i, t]
        if rise < least:
            best, least = i, rise
    return best
