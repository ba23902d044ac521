"""A first placement for MCLB without a compiled loop: the steepest moves and swaps, from different beginnings."""

from __future__ import annotations

import numpy as np

from keyshift.models.mclb.problem import Core
from keyshift.models.workload import IntArray


def descend(core: Core, seed: int, rounds: int = 200, start: IntArray | None = None) -> IntArray:
    """A good placement by the steepest move or swap, again and again from shaken ones; within the budget.

    It begins from a start, from the current nodes and from greedy placements. No compiled loop: it is for dozens of key groups.
    """
    rng = np.random.default_rng([seed, 5])
    order = np.argsort(-np.square(core.load).sum(axis=1), kind="stable")
    beginnings = [_filled(core, np.full(order.size, -1), order), _filled(core, core.current, order)]
    beginnings += [] if start is None else [start]
    found = [_steepest(core, placed) for placed in beginnings if core.moved(placed) <= core.budget]
    best = min(found, key=core.squares)
    for _ in range(rounds if core.nodes > 1 else 0):
        shaken = best.copy()
        some = rng.permutation(order.size)[: int(rng.integers(2, 6))]
        shaken[some] = rng.integers(0, core.nodes, some.size)
        back = rng.permutation(order.size)
        over = core.moved(shaken) - core.budget
        for k in back[(shaken[back] != core.current[back]) & (core.state[back] > 0)]:
            if over <= 0:
                break
            over -= core.state[k]
            shaken[k] = core.current[k]
        if core.moved(shaken) <= core.budget:
            best = min(best, _steepest(core, shaken), key=core.squares)
    return best


def _filled(core: Core, placed: IntArray, order: IntArray) -> IntArray:
    """Key groups without a node placed one after another where they add least, as long as the budget lasts."""
    placed, loads, left = placed.copy(), np.zeros((core.nodes, core.load.shape[1])), core.budget
    np.add.at(loads, placed[placed >= 0], core.load[placed >= 0])
    for k in order[placed[order] < 0]:
        rise = loads @ core.load[k]
        if core.state[k] > left:
            rise[np.arange(core.nodes) != core.current[k]] = np.inf
        placed[k] = int(rise.argmin())
        loads[placed[k]] += core.load[k]
        left -= core.state[k] * (placed[k] != core.current[k])
    return placed


def _steepest(core: Core, placed: IntArray) -> IntArray:
    """The best move or swap within the budget, until none lowers the sum of squares."""
    load, a, p = core.load, placed.copy(), placed.size
    each = np.arange(p)
    cost = np.where(core.current[:, None] == np.arange(core.nodes), 0.0, core.state[:, None])
    own, inner = np.square(load).sum(axis=1), load @ load.T
    apart = own[:, None] + own - 2 * inner
    while True:
        loads = np.zeros((core.nodes, load.shape[1]))
        np.add.at(loads, a, load)
        meets, left = load @ loads.T, core.budget - core.moved(a)
        here, paid = meets[each, a], cost[each, a]
        move = 2 * (meets - here[:, None] + own[:, None])
        move[(cost - paid[:, None] > left)] = np.inf
        move[each, a] = np.inf
        other, there = meets[:, a], cost[:, a]
        swap = 2 * (other + other.T - here[:, None] - here + apart)
        swap[(there + there.T - paid[:, None] - paid > left) | (a[:, None] == a)] = np.inf
        gain = -1e-9 * float(own.sum())
        if move.min() <= swap.min() and move.min() < gain:
            k, i = np.unravel_index(int(move.argmin()), move.shape)
            after = a.copy()
            after[k] = i
        elif swap.min() < gain:
            k, k2 = np.unravel_index(int(swap.argmin()), swap.shape)
            after = a.copy()
            after[k], after[k2] = a[k2], a[k]
        else:
            return a
        if core.moved(after) > core.budget:
            return a
        a = after
