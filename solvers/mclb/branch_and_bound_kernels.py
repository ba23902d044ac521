"""Compiled depth-first search for MCLB: one key group after another, largest first, pruned by water-filling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyshift.models.compiling import LEAF, njit
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.rows import RuleRows, row_at

ROUNDED = 1e-9
"""Rows are kept up to this, in units of their heaviest weight."""


class TreeData(NamedTuple):
    """The data that the search never changes; key groups in the order of placing."""

    load: FloatArray
    """Shape (p, m)."""
    rest: FloatArray
    """Load still to place at each depth, shape (p + 1, m)."""
    stake: FloatArray
    """State that a key group moves on each node, infinite where it may not run, shape (p, n)."""
    free: BoolArray
    """Interchangeable nodes, shape (n,)."""
    budget: float
    """State that may move."""
    margin: float
    """How much better a placement must be."""


class TreeRules(NamedTuple):
    """The rows of rules, on key groups that are placed already, and what the others may still add to them."""

    rows: RuleRows
    item: IntArray
    """The item of each depth, as rows know it."""
    low: FloatArray
    """The least that is added from each depth on, shape (p + 1, rows)."""
    high: FloatArray
    held: FloatArray
    """Of each row, by the key groups that are placed."""


class TreeState(NamedTuple):
    """Where the search stands."""

    choice: IntArray
    """Node at each depth, -1 while it is open."""
    tried: BoolArray
    """Shape (p, n)."""
    sums: FloatArray
    """Load of each node so far, shape (n, m)."""
    held: IntArray
    """Key groups of each node so far."""
    order: IntArray
    """Nodes by load in each window, as last sorted, shape (m, n)."""
    frame: FloatArray
    """The depth, -1 when the tree is exhausted, and the state moved."""
    best: IntArray
    """Where a better placement is left."""


@njit(**LEAF)
def sort_nodes(order, heights):
    """Sort nodes by height, from an order that is nearly right: by insertion."""
    for j in range(1, order.size):
        i = order[j]
        at = j
        while at > 0 and heights[order[at - 1]] > heights[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@njit(**LEAF)
def level_squares(heights, rest, order):
    """Least sum of (height + added)^2 over added >= 0 that sum to rest: fill the lowest to a common level."""
    n = heights.size
    sort_nodes(order, heights)
    below, level = 0.0, 0.0
    filled = 0
    for j in range(n):
        below += heights[order[j]]
        filled = j + 1
        level = (below + rest) / filled
        if j + 1 == n or level <= heights[order[j + 1]]:
            break
    total = filled * level * level
    for j in range(filled, n):
        total += heights[order[j]] * heights[order[j]]
    return total


@njit(**LEAF)
def completion_bound(sums, rest, order):
    """Least sum of squares when the load still to place may be split at will, window by window."""
    total = 0.0
    for t in range(rest.size):
        total += level_squares(sums[:, t], rest[t], order[t])
    return total


@njit(**LEAF)
def place(depth, node, sign, spent, data, state):
    """Put the key group of a depth on a node (sign = 1) or take it off (-1); the state moved then."""
    for t in range(data.rest.shape[1]):
        state.sums[node, t] += sign * data.load[depth, t]
    state.held[node] += sign
    return spent + sign * data.stake[depth, node]


@njit(**LEAF)
def weigh(rules, depth, node, sign):
    """The same in the rows of rules; whether those that the key group has a part in can still be kept."""
    if rules is None:
        return True
    rows, k, kept = rules.rows, rules.item[depth], True
    for x in range(rows.starts[k], rows.starts[k + 1]):
        row = row_at(rows.family[x], k, node, rows)
        if row >= 0:
            rules.held[row] += sign * rows.weight[x]
    if sign < 0:
        return True
    for x in range(rows.starts[k], rows.starts[k + 1]):
        f = rows.family[x]
        end = rows.offset[f + 1] if f + 1 < rows.offset.size else rows.most.size
        for row in range(rows.offset[f], max(end, rows.offset[f] + 1)):
            held = rules.held[row]
            kept = kept and held + rules.low[depth + 1, row] <= rows.most[row] + ROUNDED
            kept = kept and held + rules.high[depth + 1, row] >= rows.least[row] - ROUNDED
    return kept


@njit(**LEAF)
def next_node(depth, spent, data, state):
    """The untried node where the key group adds least; of empty interchangeable nodes only the first counts."""
    sums, tried = state.sums, state.tried
    best, least = -1, np.inf
    seen_empty = False
    for i in range(sums.shape[0]):
        if data.free[i] and state.held[i] == 0:
            if seen_empty:
                continue
            seen_empty = True
        stake = data.stake[depth, i]
        if tried[depth, i] or stake == np.inf or (stake > 0.0 and spent + stake > data.budget):
            continue
        rise = 0.0
        for t in range(sums.shape[1]):
            rise += data.load[depth, t] * sums[i, t]
        if rise < least:
            best, least = i, rise
    return best


@njit(nogil=True, **LEAF)
def explore(limit, most_nodes, data, state, rules):
    """Search on from where it stopped last, for at most this many tree nodes.

    Parameters
    ----------
    limit : float
        The sum of squares to be below.
    most_nodes : int
    data : TreeData
    state : TreeState
    rules : TreeRules or None

    Returns
    -------
    limit, nodes
        The limit now (lower when something better was found), and the tree nodes visited.
    """
    choice = state.choice
    depth, spent = int(state.frame[0]), state.frame[1]
    visited = 0
    while depth >= 0 and visited < most_nodes:
        if choice[depth] >= 0:  # come back from below: undo
            spent = place(depth, choice[depth], -1, spent, data, state)
            weigh(rules, depth, choice[depth], -1)
            choice[depth] = -1
        i = next_node(depth, spent, data, state)
        if i < 0:
            for j in range(state.held.size):
                state.tried[depth, j] = False
            depth -= 1
            continue
        state.tried[depth, i] = True
        visited += 1
        choice[depth] = i
        spent = place(depth, i, 1, spent, data, state)
        if not weigh(rules, depth, i, 1):
            continue
        lower = completion_bound(state.sums, data.rest[depth + 1], state.order)
        if lower >= limit:
            continue
        if depth == choice.size - 1:
            for k in range(choice.size):
                state.best[k] = choice[k]
            limit = lower - data.margin
            continue
        depth += 1
    state.frame[0], state.frame[1] = depth, spent
    return limit, visited
